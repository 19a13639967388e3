/* `counted` executes an atomic instruction, which a core without the extension A does not have. */
#include "fw_hal.h"

static volatile uint32_t variable;

void counted(void);

__attribute__((noinline)) void counted(void)
{
    /* amoadd.w zero, zero, (a0) */
    register volatile uint32_t *address __asm__("a0") = &variable;
    __asm__ volatile(".word 0x0005202f" : : "r"(address) : "memory");
}

int main(void)
{
    fw_hal_init();
    counted();
    return 0;
}
