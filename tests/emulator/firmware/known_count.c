/* `counted` is written in assembly, so that the number of its instructions is known. */
#include "fw_hal.h"

void counted(void);

#if defined(__riscv)
/* 1 + 1000 * 3 + 2, with 2-byte and 4-byte instructions. */
__asm__(".section .text.counted, \"ax\"\n"
        ".globl counted\n"
        ".type counted, @function\n"
        "counted:\n"
        "    li t0, 1000\n"
        "1:  lui t1, 0x12345\n"
        "    addi t0, t0, -1\n"
        "    bnez t0, 1b\n"
        "    nop\n"
        "    ret\n"
        ".size counted, . - counted\n"
        ".text\n");
#elif defined(__aarch64__)
/* 1 + 1000 * 3 + 2. */
__asm__(".section .text.counted, \"ax\"\n"
        ".globl counted\n"
        ".type counted, %function\n"
        "counted:\n"
        "    mov w0, #1000\n"
        "1:  add w1, w1, #1\n"
        "    subs w0, w0, #1\n"
        "    b.ne 1b\n"
        "    nop\n"
        "    ret\n"
        ".size counted, . - counted\n"
        ".text\n");
#else
/* 1 + 1000 * 4 + 2; of an IT block's instructions both count, executed or skipped. */
__asm__(".section .text.counted, \"ax\"\n"
        ".syntax unified\n"
        ".thumb\n"
        ".globl counted\n"
        ".type counted, %function\n"
        "counted:\n"
        "    movw r0, #1000\n"
        "1:  subs r0, r0, #1\n"
        "    it eq\n"
        "    moveq r1, #1\n"
        "    bne 1b\n"
        "    nop\n"
        "    bx lr\n"
        ".size counted, . - counted\n"
        ".text\n");
#endif

/* Called twice, so the count is twice that of one call. */
int main(void)
{
    fw_hal_init();
    counted();
    fw_hal_write("between\n", 8);
    counted();
    return 0;
}
