/*
 * Part of the board acme. Change: add the interrupts of your chip after the core's
 * interrupts in the vector table, and switch on the hardware that your memories
 * need before C runs.
 */
/*
 * Start-up code: the vector table, the reset handler, and the handler of all exceptions. The reset
 * handler prepares memory for C. link.ld defines the first group of fw_... symbols.
 */
#include "fw_hal.h"

extern uint32_t fw_stack_bottom[], fw_stack_top[];
extern uint32_t fw_data_start[], fw_data_end[];
extern const uint32_t fw_data_load[];
extern uint32_t fw_bss_start[], fw_bss_end[];

int main(void);
FW_NORETURN void Reset_Handler(void);
FW_NORETURN void HardFault_Handler(void);

#define REGISTER32(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* Armv6-M has no FPU and does not record the cause of a fault. It reserves these addresses. */
#define COPROCESSOR_ACCESS REGISTER32(0xe000ed88u)
#define COPROCESSOR_ACCESS_FPU (0xfu << 20)
#define FAULT_STATUS REGISTER32(0xe000ed28u)
#define FAULT_STATUS_MEMORY_ADDRESS_VALID (1u << 7)
#define FAULT_STATUS_BUS_ADDRESS_VALID (1u << 15)
#define MEMORY_FAULT_ADDRESS REGISTER32(0xe000ed34u)
#define BUS_FAULT_ADDRESS REGISTER32(0xe000ed38u)

typedef union {
    uint32_t *stack_top;
    void (*handler)(void);
} vector;

/* The core reads the initial stack pointer and the address of the first instruction from here. */
__attribute__((section(".vectors"), used)) static const vector vectors[] = {
    {.stack_top = fw_stack_top},
    {.handler = Reset_Handler},
    {.handler = HardFault_Handler}, /* NMI */
    {.handler = HardFault_Handler},
    {.handler = HardFault_Handler}, /* memory management */
    {.handler = HardFault_Handler}, /* bus fault */
    {.handler = HardFault_Handler}, /* usage fault */
    {.handler = 0},
    {.handler = 0},
    {.handler = 0},
    {.handler = 0},
    {.handler = HardFault_Handler}, /* supervisor call */
    {.handler = HardFault_Handler}, /* debug monitor */
    {.handler = 0},
    {.handler = HardFault_Handler}, /* PendSV */
    {.handler = HardFault_Handler}, /* SysTick */
};

/*
 * This function is separate so that no FPU instruction in Reset_Handler precedes the FPU's start.
 */
__attribute__((noinline)) static FW_NORETURN void start(void)
{
    const uint32_t *from = fw_data_load;
    for (uint32_t *to = fw_data_start; to < fw_data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = fw_bss_start; to < fw_bss_end; to++) {
        *to = 0;
    }
    fw_hal_exit(main());
}

void Reset_Handler(void)
{
#if __ARM_ARCH >= 7
    COPROCESSOR_ACCESS |= COPROCESSOR_ACCESS_FPU;
    __asm__ volatile("dsb\n\tisb" : : : "memory");
#endif
    start();
}

static void write_hex(const char *label, uint32_t value)
{
    char text[10] = "0x";
    size_t length = 0;
    while (label[length] != '\0') {
        length++;
    }
    fw_hal_write(label, length);
    for (int digit = 0; digit < 8; digit++) {
        text[2 + digit] = "0123456789abcdef"[value >> (28 - 4 * digit) & 0xfu];
    }
    fw_hal_write(text, sizeof text);
}

/*
 * `frame` has the registers that the core pushed onto the stack at the exception: r0 to r3, r12,
 * lr, pc, xPSR.
 */
__attribute__((used)) static FW_NORETURN void report_fault(const uint32_t *frame)
{
    /*
     * A frame outside the stack shows that the stack overflowed. The core could not push the frame.
     */
    int overflow = frame < fw_stack_bottom || frame >= fw_stack_top;
    uint32_t status = 0;
    uint32_t address = overflow ? (uint32_t)(uintptr_t)frame : 0;
#if __ARM_ARCH >= 7
    status = FAULT_STATUS;
    if ((status & FAULT_STATUS_BUS_ADDRESS_VALID) != 0) {
        address = BUS_FAULT_ADDRESS;
    } else if ((status & FAULT_STATUS_MEMORY_ADDRESS_VALID) != 0) {
        address = MEMORY_FAULT_ADDRESS;
    }
#endif
    write_hex("\n@trap cause=", status);
    write_hex(" pc=", overflow ? 0 : frame[6]);
    write_hex(" address=", address);
    fw_hal_write("\n", 1);
    fw_hal_exit(FW_EXIT_TRAP);
}

/*
 * Every exception ends the run. The function is naked, because it needs the stack pointer at the
 * exception. After a stack overflow, it resets the stack pointer. A Cortex-M0+ supports all of
 * these instructions.
 */
__attribute__((naked)) void HardFault_Handler(void)
{
    __asm__ volatile("mov r0, sp\n\t"
                     "ldr r1, =fw_stack_bottom\n\t"
                     "ldr r2, =fw_stack_top\n\t"
                     "cmp r0, r1\n\t"
                     "blo 1f\n\t"
                     "cmp r0, r2\n\t"
                     "blo 2f\n"
                     "1:\n\t"
                     "mov sp, r2\n"
                     "2:\n\t"
                     "ldr r3, =%c0\n\t"
                     "bx r3"
                     :
                     : "i"(report_fault));
}
