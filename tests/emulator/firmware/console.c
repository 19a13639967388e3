/* Echoes: reads a 32-bit length and that many bytes, writes them back, exits with the last. */
#include "fw_hal.h"

int32_t counted(const uint8_t *data, uint32_t bytes);

__attribute__((noinline)) int32_t counted(const uint8_t *data, uint32_t bytes)
{
    return bytes > 0 ? data[bytes - 1] : 0;
}

int main(void)
{
    static uint8_t data[50000];
    uint8_t length[4];

    fw_hal_init();
    fw_hal_read(length, sizeof length);
    uint32_t bytes = length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16;
    fw_hal_read(data, bytes);
    fw_hal_write(data, bytes);
    fw_hal_exit(counted(data, bytes));
}
