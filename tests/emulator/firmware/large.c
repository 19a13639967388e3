/* BYTES of memory that is neither loaded nor cleared. */
#include "fw_hal.h"

static volatile uint8_t arena[BYTES] __attribute__((section(".bss.noinit")));

int main(void)
{
    return arena[0];
}
