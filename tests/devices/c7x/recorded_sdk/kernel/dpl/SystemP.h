/* What the C7x's side uses of TI's SDK, by the names and types of its public documents. */
#ifndef SYSTEMP_H
#define SYSTEMP_H

#define SystemP_SUCCESS 0
#define SystemP_WAIT_FOREVER 0xffffffffu

#endif
