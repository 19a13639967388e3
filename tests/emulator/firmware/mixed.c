/* `counted` does a bit of everything: branches, recursion, 64-bit and floating-point arithmetic,
   console output. */
#include "fw_hal.h"

#define OWN_SYMBOL __attribute__((noinline))

static volatile float seed = 1.25f;
static volatile int32_t table[64];

int32_t counted(int32_t n);

OWN_SYMBOL static int32_t integers(int32_t n)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t value = table[i & 63];
        sum = value > sum ? value : sum + 1;
        sum = (sum & 3) == 0 ? sum - value : sum ^ 5;
        table[i & 63] = sum / (i + 1);
        sum += (int32_t)(((int64_t)sum * 123457 + i) >> 7);
    }
    return sum;
}

OWN_SYMBOL static int32_t recursion(int32_t n)
{
    return n <= 1 ? 1 : recursion(n - 1) + integers(n) + recursion(n - 2);
}

OWN_SYMBOL static float floats(int32_t n)
{
    float sum = seed;
    for (int32_t i = 0; i < n; i++) {
        sum = sum * 0.99f + (float)i / (sum + 1.0f);
        if (sum > 100.0f) {
            sum -= 50.0f;
        }
    }
    return sum;
}

/* The only caller of `counted`: its inner and its outer call return to the same address. */
OWN_SYMBOL static int32_t relay(int32_t n)
{
    return counted(n) + 1;
}

/* Calls itself by way of relay; the instructions of the inner call count once. */
OWN_SYMBOL int32_t counted(int32_t n)
{
    fw_hal_write("counted\n", 8);
    int32_t inner = n > 8 ? relay(n / 2) : 0;
    return inner + recursion(n) + (int32_t)floats(n * 20);
}

int main(void)
{
    fw_hal_init();
    volatile int32_t sum = relay(10);
    sum += relay(7);
    return 0;
}
