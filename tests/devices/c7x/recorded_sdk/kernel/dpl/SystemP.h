/* The part of TI's SDK that the C7x's side uses, as TI's public documents state it. */
#ifndef SYSTEMP_H
#define SYSTEMP_H

#define SystemP_SUCCESS 0
#define SystemP_WAIT_FOREVER 0xffffffffu

#endif
