/* The part of DORY's interface for DIANA that fw_soma.c calls, declared anew for tests. */
#ifndef DORY_H
#define DORY_H

#include <stdint.h>

typedef struct {
    int c, k, cx, cy, fx, fy, ox, oy;
    int activation_function, output_shift, padding, dilation, stride, ox_unroll;
} Layer_parameters;

typedef struct {
    unsigned int ext, loc, hwc_to_chw;
    unsigned short stride_2d, number_of_2d_copies, stride_1d, number_of_1d_copies, length_1d_copy;
    unsigned int dir, dma_channel;
} DMA_copy;

uint32_t dory_dma_allocate(void);
void dory_dma_memcpy_async_digital(DMA_copy copy);
void dory_dma_barrier_digital(DMA_copy copy);
void dory_cores_barrier_digital(void);

int32_t digital_conv_2d(const void *input_l2, const void *input, const void *weights_l2,
                        const void *weights, void *output, Layer_parameters *layer);
int32_t digital_depthwise_conv_2d(const void *input_l2, const void *input, const void *weights_l2,
                                  const void *weights, void *output, Layer_parameters *layer);
int32_t digital_fully_connected(const void *input_l2, const void *input, const void *weights_l2,
                                const void *weights, void *output, Layer_parameters *layer);
int32_t digital_element_wise_sum(const void *input_l2, const void *input, const void *second_l2,
                                 const void *second, void *output, Layer_parameters *layer);

#endif
