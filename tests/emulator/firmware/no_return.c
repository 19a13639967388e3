/* `counted` ends with a call that does not return, before a literal and a deeper function. */
#include "fw_hal.h"

void counted(void);

__asm__(".section .text.counted, \"ax\"\n"
        ".syntax unified\n"
        ".thumb\n"
        ".globl counted\n"
        ".type counted, %function\n"
        ".balign 4\n"
        "counted:\n"
        "    push {r4, lr}\n"
        "    ldr r0, literal\n"
        "    bl stopping\n"
        "    .balign 4\n"
        "literal:\n"
        "    .word 0xb500b5ff\n" /* as code: push {r0-r7, lr}, push {lr} */
        ".size counted, . - counted\n"
        ".type deeper, %function\n"
        "deeper:\n"
        "    sub sp, #64\n"
        "    add sp, #64\n"
        "    bx lr\n"
        ".size deeper, . - deeper\n"
        ".type stopping, %function\n"
        "stopping:\n"
        "    push {r4, r5, r6, lr}\n"
        "    b .\n"
        ".size stopping, . - stopping\n"
        ".text\n");

int main(void)
{
    counted();
    return 0;
}
