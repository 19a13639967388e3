/*
 * The buses of a core with the protocol OBI, one for code and one for data: a grant accepts a
 * request, and a valid response follows in a later cycle.
 */
#pragma once

#include "Vcore.h"
#include "machine.h"

struct ObiBuses {
    Bus code, data;

    /* Serve the requests before the rising edge of the clock. */
    void request(const Vcore &top, Machine &machine)
    {
        const bool fetches = top.instr_req_o && top.instr_gnt_i;
        if (top.data_req_o && top.data_gnt_i) {
            machine.access(data, top.data_addr_o, top.data_we_o, top.data_be_o, top.data_wdata_o);
        }
        if (fetches) {
            machine.fetch(code, top.instr_addr_o);
        }
    }

    /* Respond after the rising edge. */
    void respond(Vcore &top)
    {
        code.advance();
        data.advance();
        top.instr_rvalid_i = code.valid;
        top.instr_rdata_i = code.data;
        top.instr_gnt_i = code.grant;
        top.data_rvalid_i = data.valid;
        top.data_rdata_i = data.data;
        top.data_gnt_i = data.grant;
    }
};
