/* Reads or writes one byte near 0x80410000. The console has the distance, and 'w' for a write. */
#include "fw_hal.h"

int32_t counted(volatile uint8_t *byte, int32_t writes);

__attribute__((noinline)) int32_t counted(volatile uint8_t *byte, int32_t writes)
{
    if (writes) {
        *byte = 7;
    }
    return *byte;
}

int main(void)
{
    uint8_t given[2];

    fw_hal_init();
    fw_hal_read(given, sizeof given);
    return counted((volatile uint8_t *)0x80410000u + given[0], given[1] == 'w');
}
