/* Ibex: an instruction retires when it leaves the decode stage. */
#include "Vcore___024root.h"
#include "obi.h"

#define CORE(signal) top.rootp->ibex_top__DOT__u_ibex_core__DOT__##signal

enum Stall { DATA, FETCH, OTHER, STALLS };
const char *const STALL_NAMES[STALLS] = {"data", "fetch", "other"};

constexpr uint32_t ON = 5, CAUSE_BITS = 0x1fu; /* IbexMuBiOn; the lower bits of exc_cause_t */

struct Core {
    Vcore top;
    ObiBuses buses;

    /* The first address is 0x80 after boot_addr_i, where the machine jumps to the entry. */
    void start(uint32_t)
    {
        top.fetch_enable_i = ON;
        top.scan_rst_ni = 1;
        drive(false, false); /* the reset needs an edge, because the reset stops the clock */
    }

    void drive(bool clock, bool reset)
    {
        top.rst_ni = !reset;
        top.clk_i = clock;
        top.eval();
    }

    bool request(Machine &machine)
    {
        buses.request(top, machine);
        if (CORE(csr_save_cause)) {
            machine.end("trap", CORE(exc_cause) & CAUSE_BITS);
        }
        return CORE(csr_save_cause);
    }

    void respond(Machine &)
    {
        buses.respond(top);
    }

    Cycle observe() const
    {
        const bool empty = !CORE(instr_valid_id);
        const Stall stall = empty ? FETCH : CORE(perf_dside_wait) ? DATA : OTHER;
        return {static_cast<bool>(CORE(instr_id_done)), empty, CORE(pc_id), stall};
    }

    uint32_t read_register(uint32_t number) const
    {
        return top.rootp
            ->ibex_top__DOT__gen_regfile_fpga__DOT__register_file_i__DOT__mem[number];
    }
};
