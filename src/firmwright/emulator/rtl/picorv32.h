/*
 * PicoRV32: one bus for code and data, whose memory responds in the cycle of the request. An
 * instruction retires when the core starts the next instruction.
 */
#include "Vcore.h"
#include "Vcore___024root.h"
#include "machine.h"

#define CORE(signal) top.rootp->picorv32__DOT__##signal

enum Stall { DATA, FETCH, OTHER, STALLS };
const char *const STALL_NAMES[STALLS] = {"data", "fetch", "other"};

/* Values of cpu_state. */
constexpr uint32_t STATE_FETCH = 0x40u, STATE_STORE = 0x02u, STATE_LOAD = 0x01u;

/* `csrw mtvec, …` without the number of the register. */
constexpr uint32_t SET_TRAP_VECTOR = 0x30501073u, WITHOUT_REGISTER = 0xfff07fffu;

struct Core {
    Vcore top;
    Bus bus;

    /* The first address is PROGADDR_RESET, where the machine jumps to the entry. */
    void start(uint32_t)
    {
    }

    void drive(bool clock, bool reset)
    {
        top.resetn = !reset;
        top.clk = clock;
        top.eval();
    }

    bool request(Machine &machine)
    {
        if (top.trap) {
            machine.end("stop", 0); /* the core does not report the cause */
        }
        return top.trap;
    }

    void respond(Machine &machine)
    {
        if (top.mem_valid && !bus.active) {
            if (top.mem_instr) {
                machine.fetch(bus, top.mem_addr);
            } else {
                const bool write = top.mem_wstrb != 0;
                const uint32_t lanes = write ? top.mem_wstrb : WHOLE_WORD;
                machine.access(bus, top.mem_addr, write, lanes, top.mem_wdata);
            }
        }
        bus.advance();
        top.mem_ready = bus.valid;
        top.mem_rdata = bus.data;
        top.pcpi_ready =
            top.pcpi_valid && (top.pcpi_insn & WITHOUT_REGISTER) == SET_TRAP_VECTOR;
    }

    Cycle observe() const
    {
        const uint32_t state = CORE(cpu_state);
        const Stall stall = state == STATE_FETCH                         ? FETCH
                            : state == STATE_STORE || state == STATE_LOAD ? DATA
                                                                          : OTHER;
        const bool retires = CORE(launch_next_insn) && CORE(dbg_valid_insn);
        return {retires, false, CORE(dbg_insn_addr), stall};
    }

    uint32_t read_register(uint32_t number) const
    {
        return CORE(cpuregs)[number];
    }
};
