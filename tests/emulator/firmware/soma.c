/*
 * Executes the console's commands on the accelerator. A command is a letter and 32-bit words in the
 * order of the structures of fw_soma.h. Offsets are in a buffer in L2.
 */
#include "fw_hal.h"
#include "fw_soma.h"

static uint32_t words[65536 / 4];
static uint8_t *const l2 = (uint8_t *)words;

int main(void);
void counted(uint8_t command);

static uint32_t read_word(void)
{
    uint8_t bytes[4];
    fw_hal_read(bytes, sizeof bytes);
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static fw_soma_copy read_copy(void)
{
    uint32_t values[4];
    for (int i = 0; i < 4; i++) {
        values[i] = read_word();
    }
    const fw_soma_copy copy = {values[0], values[1], values[2], values[3]};
    return copy;
}

static fw_soma_layer read_layer(void)
{
    uint32_t v[14];
    for (int i = 0; i < 14; i++) {
        v[i] = read_word();
    }
    const fw_soma_layer layer = {v[0], v[1], v[2],  v[3],  v[4],  v[5],  v[6],  v[7],
                                 v[8], v[9], v[10], v[11], v[12], v[13], 0};
    return layer;
}

static void transfer(uint8_t command)
{
    const fw_soma_copy copy = read_copy();
    const uint32_t offset = read_word();
    if (command == 'l') {
        fw_soma_load(&copy, l2 + offset);
    } else {
        fw_soma_store(&copy, l2 + offset);
    }
}

static void compute(uint8_t command)
{
    fw_soma_layer layer = read_layer();
    const uint32_t x = read_word();
    const uint32_t second = read_word(); /* the weights in L2, or the second input in L1 */
    const uint32_t y = read_word();
    if (command == 'c') {
        fw_soma_conv2d(&layer, x, l2 + second, y);
    } else if (command == 'd') {
        fw_soma_depthwise_conv2d(&layer, x, l2 + second, y);
    } else if (command == 'f') {
        fw_soma_dense(&layer, x, l2 + second, y);
    } else if (command == 'g') {
        layer.step = read_word();
        fw_soma_analog_conv2d(&layer, x, l2 + second, y);
    } else {
        fw_soma_add(&layer, x, second, y);
    }
}

static void write_cycles(void)
{
    const fw_soma_cycles cycles = fw_soma_read_cycles();
    for (int i = 0; i < 8; i++) {
        const uint8_t byte = (uint8_t)(cycles.compute >> 8 * i);
        fw_hal_write(&byte, 1);
    }
    for (int i = 0; i < 8; i++) {
        const uint8_t byte = (uint8_t)(cycles.transfer >> 8 * i);
        fw_hal_write(&byte, 1);
    }
}

__attribute__((noinline)) void counted(uint8_t command)
{
    if (command == 'l' || command == 's') {
        transfer(command);
    } else if (command == 'n') {
        write_cycles();
    } else if (command == 'i' || command == 'o') {
        const uint32_t offset = read_word();
        const uint32_t bytes = read_word();
        if (command == 'i') {
            fw_hal_read(l2 + offset, bytes);
        } else {
            fw_hal_write(l2 + offset, bytes);
        }
    } else {
        compute(command);
    }
}

int main(void)
{
    fw_hal_init();
    for (;;) {
        uint8_t command;
        fw_hal_read(&command, 1);
        if (command == 'q') {
            fw_hal_exit(0);
        }
        counted(command);
    }
}
