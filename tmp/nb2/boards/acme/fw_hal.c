/*
 * Part of the board acme. Change: the registers of the UART that is your console;
 * clocks and pins in fw_hal_init; fw_hal_exit, if the run ends without a debugger
 * or emulator.
 */
/*
 * Board support for Arm's MPS2 board with the AN386 image (Cortex-M4F): the CMSDK UART 0 as
 * the console, and Arm semihosting to end the run.
 */
#include "fw_hal.h"

#define REGISTER32(address) (*(volatile uint32_t *)(uintptr_t)(address))

#define UART_BASE 0x40004000u
#define BAUD_DIVIDER 217u /* 25 MHz / 115200 baud */
#define UART_DATA REGISTER32(UART_BASE + 0x00u)
#define UART_STATE REGISTER32(UART_BASE + 0x04u)
#define UART_CONTROL REGISTER32(UART_BASE + 0x08u)
#define UART_BAUD_DIVIDER REGISTER32(UART_BASE + 0x10u)

#define STATE_TRANSMIT_FULL 0x1u
#define STATE_RECEIVE_FULL 0x2u
#define CONTROL_TRANSMIT_ENABLE 0x1u
#define CONTROL_RECEIVE_ENABLE 0x2u

/*
 * Cycle counter of the core's debug unit. The counter is 0 if the emulator does not have this unit.
 */
#define DEBUG_CONTROL REGISTER32(0xe000edfcu)
#define DEBUG_CONTROL_TRACE_ENABLE (1u << 24)
#define DWT_CONTROL REGISTER32(0xe0001000u)
#define DWT_CONTROL_COUNT_CYCLES 0x1u
#define DWT_CYCLES REGISTER32(0xe0001004u)

#define SEMIHOSTING_EXIT_EXTENDED 0x20u
#define SEMIHOSTING_APPLICATION_EXIT 0x20026u

void fw_hal_init(void)
{
    UART_BAUD_DIVIDER = BAUD_DIVIDER;
    UART_CONTROL = CONTROL_TRANSMIT_ENABLE | CONTROL_RECEIVE_ENABLE;
    DEBUG_CONTROL |= DEBUG_CONTROL_TRACE_ENABLE;
    DWT_CYCLES = 0;
    DWT_CONTROL |= DWT_CONTROL_COUNT_CYCLES;
}

void fw_hal_read(void *data, size_t bytes)
{
    uint8_t *to = data;
    while (bytes-- > 0) {
        while ((UART_STATE & STATE_RECEIVE_FULL) == 0) {
        }
        *to++ = (uint8_t)UART_DATA;
    }
}

void fw_hal_write(const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes-- > 0) {
        while ((UART_STATE & STATE_TRANSMIT_FULL) != 0) {
        }
        UART_DATA = *from++;
    }
}

uint64_t fw_hal_cycles(void)
{
    /* The counter has 32 bits, so it must be read at least once per 2^32 cycles. */
    static uint64_t cycles;
    cycles += (uint32_t)(DWT_CYCLES - (uint32_t)cycles);
    return cycles;
}

void fw_hal_exit(int32_t code)
{
    uint32_t parameters[2];
    parameters[0] = SEMIHOSTING_APPLICATION_EXIT;
    parameters[1] = code >= 0 && code <= 255 ? (uint32_t)code : 255u;
    register uint32_t operation __asm__("r0") = SEMIHOSTING_EXIT_EXTENDED;
    register const uint32_t *argument __asm__("r1") = parameters;
    for (;;) {
        __asm__ volatile("bkpt 0xab" : "+r"(operation) : "r"(argument) : "memory");
    }
}
