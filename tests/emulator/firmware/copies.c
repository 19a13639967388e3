/* Copies, clears and moves buffers that are larger than the stack. */
#include "fw_hal.h"

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *left, const void *right, size_t bytes);

#define BYTES 40000u

static uint8_t from[BYTES];
static uint8_t to[BYTES];

void counted(void);

__attribute__((noinline)) void counted(void)
{
    memset(from, 3, sizeof from);
    from[0] = 1;
    from[BYTES - 1u] = 2;
    memcpy(to, from, sizeof to);
    memmove(&to[1], &to[0], BYTES - 1u);
}

int main(void)
{
    fw_hal_init();
    counted();
    return to[1] == 1 && to[2] == 3 && to[BYTES - 2u] == 3 && to[BYTES - 1u] == 3 &&
           memcmp(&from[1], &to[2], BYTES - 2u) == 0 ? 0 : 1;
}
