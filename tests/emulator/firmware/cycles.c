/*
 * Prints the cycles between two readings of the board's clock, and with 100 instructions between
 * them. Armv7-M and later also change another bit of the control register in between.
 */
#include "fw_hal.h"

static void write_number(uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10u);
        number /= 10u;
    } while (number != 0);
    fw_hal_write(&digits[first], sizeof digits - first);
    fw_hal_write("\n", 1);
}

void counted(void);

__attribute__((noinline)) void counted(void)
{
    uint64_t first = fw_hal_cycles();
    uint64_t second = fw_hal_cycles();
    __asm__ volatile(".rept 100\n\tnop\n\t.endr" : : : "memory");
#if defined(__ARM_ARCH) && __ARM_ARCH >= 7
    *(volatile uint32_t *)0xe0001000u |= 0x1000u;
#endif
    uint64_t third = fw_hal_cycles();
    write_number(second - first);
    write_number(third - second);
}

int main(void)
{
    fw_hal_init();
    counted();
    return 0;
}
