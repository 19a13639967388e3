/*
 * The second boot stage. The boot ROM copies it from the flash to RAM, checks its checksum, and
 * calls it. It maps the flash for reads by the serial command 03h, which every flash chip supports,
 * and starts the program whose vector table follows.
 * Sources: RP2040 Datasheet, 2.8.1.3.1 (checksum), 4.10.13 (registers of the SSI).
 */
    .syntax unified
    .cpu cortex-m0plus
    .thumb

    .section .boot2, "ax", %progbits
    .balign 256
boot2:
    ldr     r3, ssi
    movs    r0, #0
    str     r0, [r3, #0x08]     /* SSIENR: off during the set-up */
    str     r0, [r3, #0x04]     /* CTRLR1: one data frame per transfer */
    movs    r0, #4
    str     r0, [r3, #0x14]     /* BAUDR: a quarter of the system clock */
    ldr     r0, control
    str     r0, [r3, #0x00]     /* CTRLR0 */
    ldr     r0, read_command
    movs    r1, #0xf4
    str     r0, [r3, r1]        /* SPI_CTRLR0 */
    movs    r0, #1
    str     r0, [r3, #0x08]     /* SSIENR */
    ldr     r0, vectors
    ldr     r1, vector_table_offset
    str     r0, [r1]
    ldr     r1, [r0, #0]
    msr     msp, r1
    ldr     r1, [r0, #4]
    bx      r1

    .hword  0                   /* the words are at multiples of 4 bytes */
ssi:                 .word 0x18000000
control:             .word 0x001f0300 /* frames of 32 bits; send the command, then read */
read_command:        .word 0x03000218 /* command 03h of 8 bits, address of 24 bits, serial */
vectors:             .word 0x10000100
vector_table_offset: .word 0xe000ed08

    /* CRC-32 of the 252 bytes before it: polynomial 0x04c11db7, first value 0xffffffff, no
       reflection, no final inversion. A test computes it from the linked firmware. */
    .org    boot2 + 252, 0
    .word   0x510d4f57
