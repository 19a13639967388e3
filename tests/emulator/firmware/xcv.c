/*
 * Prints a checksum of each CORE-V instruction of xcv.h on random values. `counted` has a known
 * number of cycles. `moving` changes its stack pointer in a hardware loop, and `parts` sets the start
 * of a loop. Neither is ever called.
 */
#include "fw_hal.h"
#include "xcv.h"

#if defined(__riscv_xcvsimd) && defined(__riscv_xcvmem)
void counted(void);

__asm__(".section .text.counted, \"ax\"\n"
        ".globl counted\n"
        ".type counted, @function\n"
        ".option push\n"
        ".option norvc\n"
        ".balign 4\n"
        "counted:\n"
        "    mv t0, sp\n"
        "    li t1, 10\n"
        "    li a2, 4\n"
        "    .insn i 0x2b, 4, x14, t1, 5\n" /* cv.setup */
        "    cv.lw t2, (t0), 4\n"
        "    cv.lw t3, (t0), 4\n"
        "    cv.sdotsp.b a0, t2, t3\n"
        "    cv.sdotusp.b a1, t2, t3\n"
        "    cv.lw a3, a2(sp)\n"
        "    cv.mac a1, a3, a0\n"
        "    cv.addnr a1, a0, a2\n"
        "    cv.clip a1, a1, 8\n"
        "    cv.shuffle2.b a1, a0, a2\n"
        "    cv.pack a1, a0, a2\n"
        "    ret\n"
        ".size counted, . - counted\n"
        ".globl moving\n"
        ".type moving, @function\n"
        "moving:\n"
        "    .insn i 0x2b, 4, x14, a0, 4\n"
        "    addi sp, sp, -16\n"
        "    addi a1, a1, 1\n"
        "    addi a1, a1, 1\n"
        "    ret\n"
        ".size moving, . - moving\n"
        ".globl parts\n"
        ".type parts, @function\n"
        "parts:\n"
        "    .insn i 0x2b, 4, x0, zero, 4\n" /* cv.starti */
        "    ret\n"
        ".size parts, . - parts\n"
        ".option pop\n"
        ".text\n");
#else
static void counted(void)
{
}
#endif

static uint32_t state = 1;

static uint32_t draw(void)
{
    state = state * 1664525u + 1013904223u;
    return state ^ state >> 15;
}

static void print(uint32_t number)
{
    char text[] = "00000000\n";

    for (int32_t i = 7; i >= 0; --i, number >>= 4) {
        text[i] = "0123456789abcdef"[number & 15];
    }
    fw_hal_write(text, sizeof text - 1);
}

static uint32_t sums[8];

/* Add a result to a checksum that depends on the order. */
static void note(int32_t number, uint32_t result)
{
    sums[number] = sums[number] * 31 + result;
}

int main(void)
{
    uint8_t bytes[64], copy[64];

    fw_hal_init();
    for (int32_t round = 0; round < 400; ++round) {
        const uint32_t rows[4] = {draw(), draw(), draw(), draw()};
        const int32_t a = (int32_t)draw() >> (round & 15), b = (int32_t)draw() / 4;
        uint32_t columns[4];

        note(0, (uint32_t)xcv_add_products(a, rows[0], rows[1]));
        note(1, (uint32_t)xcv_add_mixed_products(a, rows[0], rows[1]));
        note(2, (uint32_t)xcv_add_product(b, a >> 16, b >> 16));
        note(3, (uint32_t)xcv_add_and_shift(a / 4, b, round & 31));
        note(4, (uint32_t)xcv_halve(a));
        note(5, (uint32_t)xcv_clip_signed(a >> 20));
        note(6, (uint32_t)xcv_clip_unsigned(a >> 20));
        xcv_transpose(rows, columns);
        for (int32_t i = 0; i < 4; ++i) {
            note(7, columns[i]);
        }
    }
    for (int32_t i = 0; i < 8; ++i) {
        print(sums[i]);
    }
    for (int32_t n = 0; n < 40; ++n) {
        for (int32_t i = 0; i < 64; ++i) {
            bytes[i] = (uint8_t)draw();
            copy[i] = 0;
        }
        xcv_copy(copy + n % 3, bytes + n % 5, n);
        for (int32_t i = 0; i < 64; i += 4) {
            note(0, xcv_load(copy + i));
        }
    }
    print(sums[0]);
    counted();
    return 0;
}
