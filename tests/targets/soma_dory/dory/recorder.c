/* Prints every call of DORY's functions with its parameters; L2 addresses are told from `l2`. */
#include <stdio.h>

#include "dory.h"

extern uint8_t l2[];

uint32_t dory_dma_allocate(void)
{
    printf("allocate\n");
    return 7;
}

void dory_dma_memcpy_async_digital(DMA_copy copy)
{
    printf("copy ext=%u loc=%u planes=%u*%u rows=%u*%u bytes=%u dir=%u hwc=%u channel=%u\n",
           copy.ext - (unsigned int)(uintptr_t)l2, copy.loc, copy.number_of_2d_copies,
           copy.stride_2d, copy.number_of_1d_copies, copy.stride_1d, copy.length_1d_copy, copy.dir,
           copy.hwc_to_chw, copy.dma_channel);
}

void dory_dma_barrier_digital(DMA_copy copy)
{
    printf("copied dir=%u\n", copy.dir);
}

void dory_cores_barrier_digital(void)
{
    printf("barrier\n");
}

static int32_t job(const char *name, const void *input, const void *second_l2, const void *second,
                   void *output, const Layer_parameters *p)
{
    const long from = second_l2 == NULL ? -1 : (long)((const uint8_t *)second_l2 - l2);
    printf("%s x=%lu l2=%ld second=%lu y=%lu c=%d k=%d cx=%d cy=%d fx=%d fy=%d ox=%d oy=%d "
           "relu=%d shift=%d padding=%#x dilation=%d stride=%d\n",
           name, (unsigned long)(uintptr_t)input, from, (unsigned long)(uintptr_t)second,
           (unsigned long)(uintptr_t)output, p->c, p->k, p->cx, p->cy, p->fx, p->fy, p->ox, p->oy,
           p->activation_function, p->output_shift, (unsigned int)p->padding, p->dilation,
           p->stride);
    return 0;
}

#define JOB(function, name)                                                                        \
    int32_t function(const void *input_l2, const void *input, const void *second_l2,               \
                     const void *second, void *output, Layer_parameters *layer)                    \
    {                                                                                              \
        (void)input_l2;                                                                            \
        return job(name, input, second_l2, second, output, layer);                                 \
    }

JOB(digital_conv_2d, "conv")
JOB(digital_depthwise_conv_2d, "depthwise")
JOB(digital_fully_connected, "dense")
JOB(digital_element_wise_sum, "sum")
