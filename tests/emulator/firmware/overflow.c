/* Prints the cycles of a loop that needs more than two periods of a counter of 24 bits. */
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
}

uint64_t counted(void);

__attribute__((noinline)) uint64_t counted(void)
{
    uint64_t first = fw_hal_cycles();
    for (uint32_t i = 12000000u; i != 0; i--) {
        __asm__ volatile("" : "+r"(i));
    }
    return fw_hal_cycles() - first;
}

int main(void)
{
    fw_hal_init();
    write_number(counted());
    return 0;
}
