/* Prints how many bytes of stack a function has changed, with and without calls of all kinds. */
#include "fw_hal.h"

#define UNUSED 0x5a5aa5a5u

typedef float (*operation)(float, float);

float counted(int32_t kind, float x);
int32_t run_again(int32_t depth);
int32_t run_large(uint32_t length);

__attribute__((noinline)) static float divide(float x, float y)
{
    volatile float parts[24] = {x, y};
    return (float)((double)parts[0] / (double)parts[1]);
}

__attribute__((noinline)) static float add(float x, float y)
{
    return x + y;
}

static const operation operations[2] = {add, divide};

__attribute__((noinline)) static float choose(int32_t kind, float x)
{
    volatile int32_t kept[8] = {kind};

    switch (kind) {
    case 0: return operations[kept[0] & 1](x, 3.0f);
    case 1: return operations[kept[0] & 1](x, 5.0f) * x;
    case 2: kept[7] = 9; return x * 7.0f + (float)kept[7];
    case 3: return divide(x, 11.0f) + (float)kept[5];
    case 4: return divide(x, x) + divide(1.0f, x);
    case 5: return x * x * x;
    default: return 0.0f;
    }
}

/* The deepest: choose, divide, and the library's division of doubles. */
__attribute__((noinline)) float counted(int32_t kind, float x)
{
    return choose(kind, x) + choose(kind + 1, x);
}

__attribute__((noinline)) int32_t run_again(int32_t depth)
{
    return depth > 0 ? 1 + run_again(depth / 2) * run_again(depth / 3) : 0;
}

__attribute__((noinline)) int32_t run_large(uint32_t length)
{
    volatile uint8_t bytes[length];
    bytes[length - 1] = 3;
    return bytes[length - 1];
}

static void write_number(uint32_t number)
{
    char digits[10];
    uint32_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10u);
        number /= 10u;
    } while (number != 0);
    fw_hal_write(&digits[first], sizeof digits - first);
    fw_hal_write("\n", 1);
}

extern uint32_t fw_stack_bottom[];

int main(void)
{
    uint32_t top;
    volatile float x = 2.5f;

    fw_hal_init();
#if defined(__riscv)
    __asm__ volatile("mv %0, sp" : "=r"(top));
#else
    __asm__ volatile("mov %0, sp" : "=r"(top));
#endif
    for (volatile uint32_t *word = fw_stack_bottom; word < (uint32_t *)(uintptr_t)top; ++word) {
        *word = UNUSED;
    }
    for (int32_t kind = 0; kind < 6; ++kind) {
        x += counted(kind, x);
    }
    {
        const volatile uint32_t *word = fw_stack_bottom;
        while (*word == UNUSED) {
            ++word;
        }
        write_number(top - (uint32_t)(uintptr_t)word);
    }
    write_number((uint32_t)(run_again(5) + run_large((uint32_t)x % 4u + 1u)) & 0u);
    return 0;
}
