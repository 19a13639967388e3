/* Prints the cycles between two readings of the clock, and around a job of 80 cycles. */
#include "fw_hal.h"
#include "fw_soma.h"

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
    static const uint32_t source[40] = {1, 2, 3};
    const fw_soma_copy copy = {0, 1, 160, 160};
    uint64_t first = fw_hal_cycles();
    uint64_t second = fw_hal_cycles();
    fw_soma_load(&copy, source);
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
