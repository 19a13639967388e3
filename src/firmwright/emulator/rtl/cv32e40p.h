/* CV32E40P: an instruction retires when it leaves the decode stage. */
#include "Vcore___024root.h"
#include "obi.h"

#define CORE(signal) top.rootp->cv32e40p_top__DOT__core_i__DOT__##signal
#define DECODE(signal) CORE(id_stage_i__DOT__##signal)

enum Stall { LOAD_USE, JUMP_REGISTER, FETCH, OTHER, STALLS };
const char *const STALL_NAMES[STALLS] = {"load_use", "jump_register", "fetch", "other"};

struct Core {
    Vcore top;
    ObiBuses buses;

    void start(uint32_t entry)
    {
        top.boot_addr_i = entry;
        top.mtvec_addr_i = entry;
        top.fetch_enable_i = 1;
        top.pulp_clock_en_i = 1;
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
            machine.end("trap", CORE(csr_cause));
        }
        return CORE(csr_save_cause);
    }

    void respond(Machine &)
    {
        buses.respond(top);
    }

    Cycle observe() const
    {
        const Stall stall = find_stall();
        return {static_cast<bool>(DECODE(minstret)), stall == FETCH, CORE(pc_id), stall};
    }

    uint32_t read_register(uint32_t number) const
    {
        return DECODE(register_file_i__DOT__mem)[number];
    }

  private:
    Stall find_stall() const
    {
        if (!CORE(instr_valid_id) || DECODE(branch_taken_ex)) {
            return FETCH; /* the decode stage is empty, or its instruction is after a taken branch */
        }
        if (DECODE(load_stall)) {
            return LOAD_USE;
        }
        return DECODE(jr_stall) ? JUMP_REGISTER : OTHER;
    }
};
