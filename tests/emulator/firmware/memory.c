/* Exits with 0 if .data and .bss begin as C promises, else with the number of the error. */
#include "fw_hal.h"

static volatile uint32_t initialized[5] = {1, 2, 3, 4, 5};
static volatile uint8_t odd_bytes[3] = {6, 7, 8};
static volatile uint32_t cleared[300];
static volatile uint8_t cleared_byte;
static volatile uint8_t arena[4096] __attribute__((section(".bss.noinit")));

int32_t counted(void);

__attribute__((noinline)) int32_t counted(void)
{
    for (uint32_t i = 0; i < 5; i++) {
        if (initialized[i] != i + 1) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (odd_bytes[i] != i + 6) {
            return 2;
        }
    }
    for (uint32_t i = 0; i < 300; i++) {
        if (cleared[i] != 0) {
            return 3;
        }
    }
    return cleared_byte == 0 ? 0 : 4;
}

/* Writes one byte of the arena, which no code has written before. */
int main(void)
{
    fw_hal_init();
    uint8_t untouched = arena[100];
    fw_hal_write(&untouched, 1);
    return counted();
}
