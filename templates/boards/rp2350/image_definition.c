/*
 * The block by which the boot ROM recognizes a secure program for the Cortex-M33.
 * Source: RP2350 Datasheet, 5.9.5.1 Minimum Arm IMAGE_DEF.
 */
#include <stdint.h>

__attribute__((section(".image_definition"), used)) static const uint32_t image_definition[] = {
    0xffffded3u, /* start of a block */
    0x10210142u, /* the image type, 1 word: RP2350, Arm, secure, executable */
    0x000001ffu, /* the last item; the items before it have 1 word */
    0x00000000u, /* the next block of the loop: this one */
    0xab123579u, /* end of the block */
};
