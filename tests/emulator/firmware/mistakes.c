/* Causes the error that the console selects, before `counted` returns. */
#include "fw_hal.h"

typedef void (*function)(void);

static volatile uint32_t variable;

int32_t counted(int32_t mistake);

#define NOWHERE 0x70000000u

__attribute__((noinline)) static int32_t overflow(int32_t depth)
{
    volatile uint8_t large[500];
    large[0] = (uint8_t)depth;
    return depth == 0 ? 0 : overflow(depth + 1) + large[0];
}

__attribute__((noinline)) int32_t counted(int32_t mistake)
{
    fw_hal_write("begin\n", 6);
    switch (mistake) {
    case 'w':
        *(volatile uint32_t *)(uintptr_t)NOWHERE = 1;
        break;
    case 'b':
        *(volatile uint32_t *)(uintptr_t)(NOWHERE + 0x800u) = 1;
        break;
    case 'r':
        variable = *(volatile uint32_t *)(uintptr_t)NOWHERE;
        break;
    case 'f':
        *(volatile uint32_t *)(uintptr_t)&counted = 1;
        break;
    case 'j':
        ((function)(uintptr_t)(NOWHERE + 1u))();
        break;
    case 'v':
        ((function)(uintptr_t)&variable)();
        break;
    case 'i':
#if defined(__riscv)
        __asm__ volatile(".word 0xffffffff");
#elif defined(__arm__)
        __asm__ volatile("udf 0");
#endif
        break;
    case 'h':
#if defined(__riscv) || defined(__arm__)
        __asm__ volatile("wfi");
#endif
        break;
    case 's':
        return overflow(1);
    case 'c':
        fw_hal_read((void *)(uintptr_t)&variable, 4);
        break;
    case 'l':
        for (;;) {
            variable++;
        }
    case 'x':
        fw_hal_exit(42);
    case 'y':
        fw_hal_exit(256);
    default:
        break;
    }
    return 7;
}

int main(void)
{
    uint8_t mistake;

    fw_hal_init();
    fw_hal_read(&mistake, 1);
    return counted(mistake);
}
