/*
 * A stand-in for the functions of TI's firmware that move data. A transfer is executed when the
 * program waits for it, or starts another. A call that TI's description rejects ends the program.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fw_c7x.h"
#include "fw_hal.h"

#define LINE 128

_Alignas(LINE) static uint8_t l2[1 << 18];
void *g_l2_mem_addr = l2;
uint32_t g_l2_mem_size = sizeof l2;

static uint8_t *target;
static const uint8_t *source;
static int size;
static unsigned count;

int tvm_dsp_dma_copy(int queue, void *to, const void *from, int bytes, int bypass_cache);
int tvm_dsp_dma_wait(int queue, int in_flight);

int tvm_dsp_dma_copy(int queue, void *to, const void *from, int bytes, int bypass_cache)
{
    if (queue != 0 || bypass_cache != 0 || bytes <= 0 || bytes % LINE != 0 || (uintptr_t)to % LINE != 0) {
        abort();
    }
    (void)tvm_dsp_dma_wait(queue, 0);
    memset(to, 0xa5, (size_t)bytes);
    target = to;
    source = from;
    size = bytes;
    count++;
    return 0;
}

int tvm_dsp_dma_wait(int queue, int in_flight)
{
    if (queue != 0 || in_flight != 0) {
        abort();
    }
    if (size > 0) {
        memcpy(target, source, (size_t)size);
        size = 0;
    }
    return 0;
}

void fw_dma_report(void)
{
    char text[64];

    (void)snprintf(text, sizeof text, "@count firmware_transfers %u\n", count);
    fw_hal_write(text, strlen(text));
}

void fw_stream_report(void)
{
}
