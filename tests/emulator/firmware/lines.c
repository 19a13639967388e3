/* `counted` has 1000 iterations: it reads the flash, then it reads, writes and reads the RAM. */
#include "fw_hal.h"

void counted(void);

uint32_t words[2] = {1, 2};

__asm__(".section .text.counted, \"ax\"\n"
        ".globl counted\n"
        ".type counted, @function\n"
        "counted:\n"
        "    li t0, 1000\n"
        "    la t1, counted\n"
        "    la t2, words\n"
        "1:  lw a0, 0(t1)\n"
        "    lw a1, 0(t2)\n"
        "    sw a1, 4(t2)\n"
        "    lw a2, 0(t2)\n"
        "    addi t0, t0, -1\n"
        "    bnez t0, 1b\n"
        "    ret\n"
        ".size counted, . - counted\n"
        ".text\n");

int main(void)
{
    fw_hal_init();
    counted();
    return 0;
}
