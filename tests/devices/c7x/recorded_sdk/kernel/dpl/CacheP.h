/* The part of TI's SDK that the C7x's side uses, as TI's public documents state it. */
#ifndef CACHEP_H
#define CACHEP_H

#include <stdint.h>

#define CacheP_TYPE_ALL 0xffffu

void CacheP_wb(void *address, uint32_t size, uint32_t type);
void CacheP_inv(void *address, uint32_t size, uint32_t type);

#endif
