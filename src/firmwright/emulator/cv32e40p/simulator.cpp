/*
 * Runs a firmware on the RTL of CV32E40P with the memory map of QEMU's machine `virt`: memories, a
 * 16550 UART and the SiFive test finisher. Counts the clock cycles and the retired instructions of
 * one function and of the parts that it calls. An instruction retires when it leaves the decode
 * stage. A cycle without a retired instruction is a stall. The stall counts for the instruction in
 * this stage, or for the last retired instruction if the stage is empty.
 *
 * The argument is a folder. The file `run.txt` describes the run: one keyword per line, then
 * hexadecimal numbers (simulation.py). `image.bin` has the segments, `input.bin` the console's input.
 * The program writes `console.bin` and `counts.txt`, and the counted instructions so far to stdout.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "Vcv32e40p_top.h"
#include "Vcv32e40p_top___024root.h"
#include "verilated.h"

namespace {

constexpr uint32_t FINISHER = 0x00100000u, CLOCK = 0x00100008u, UART = 0x10000000u;
constexpr uint32_t PASS = 0x5555u, FAIL = 0x3333u;
constexpr uint32_t DATA_READY = 0x01u, TRANSMITTER_EMPTY = 0x60u;
constexpr uint64_t PATIENCE = 1u << 20;        /* cycles without a retired instruction, after which the core is stuck */
constexpr uint64_t REPORT = 1u << 16;          /* cycles between two reports */
constexpr uint32_t RETURN_ADDRESS = 1, STACK_POINTER = 2; /* numbers of registers */
constexpr uint32_t RESET_CYCLES = 4;

struct Memory {
    uint32_t origin, wait_states, line;
    std::vector<uint8_t> bytes;
};

/* One bus of the core. The bus stores its last line from a memory with wait states. */
struct Bus {
    uint32_t left = 0, data = 0, line = 0;
    const Memory *of_line = nullptr;
    bool active = false, valid = false, grant = true;

    void accept(const Memory *memory, uint32_t address, bool write)
    {
        active = true;
        left = 0;
        if (memory == nullptr || memory->wait_states == 0) {
            return;
        }
        const uint32_t wanted = address / memory->line;
        if (write || memory != of_line || wanted != line) {
            left = memory->wait_states;
        }
        if (!write) {
            of_line = memory;
            line = wanted;
        }
    }

    void advance()
    {
        valid = active && left == 0;
        active = active && !valid;
        left -= active ? 1 : 0;
        grant = !active;
    }
};

enum Stall { LOAD_USE, JUMP_REGISTER, FETCH, OTHER, STALLS };
const char *const STALL_NAMES[STALLS] = {"load_use", "jump_register", "fetch", "other"};

struct Amount {
    uint64_t cycles = 0, instructions = 0;
};

struct Call {
    bool inside = false;
    uint32_t return_address = 0, stack_pointer = 0;
};

struct Part {
    uint32_t function = 0;
    uint64_t calls = 0;
    Amount counted;
};

struct Simulation {
    std::string folder;
    std::vector<Memory> memories;
    std::vector<uint8_t> input;
    std::vector<Part> parts;
    std::vector<Amount> code; /* one per halfword */
    uint32_t code_start = 0, function = 0, entry = 0;
    uint64_t budget = 0;

    Vcv32e40p_top top;
    Bus fetch, access;
    std::ofstream console;
    size_t read = 0;
    std::string ended; /* the reason for the end, and its number */
    uint32_t last = 0; /* the address of the last retired instruction */
    uint64_t cycles = 0, retired = 0, last_retired = 0, counted = 0;
    uint64_t stalls[STALLS] = {};
    Call counted_call, part_call;
    size_t current_part = 0;

    Memory *find(uint32_t address)
    {
        for (Memory &memory : memories) {
            if (address - memory.origin < memory.bytes.size()) {
                return &memory;
            }
        }
        return nullptr;
    }

    static uint32_t load(const Memory &memory, uint32_t address)
    {
        uint32_t value = 0;
        const size_t at = (address & ~3u) - memory.origin;
        memcpy(&value, &memory.bytes[at], std::min<size_t>(4, memory.bytes.size() - at));
        return value;
    }

    void end(const char *reason, uint32_t number)
    {
        ended = std::string(reason) + " " + std::to_string(number);
    }

    uint32_t read_device(uint32_t address, uint32_t lanes)
    {
        const bool ready = read < input.size();
        if ((address & ~7u) == CLOCK) {
            return static_cast<uint32_t>(address & 4u ? cycles >> 32 : cycles);
        } else if ((address & ~7u) != UART) {
            end("access", address);
        } else if (address & 4u) { /* the line status is byte 5 */
            return (TRANSMITTER_EMPTY | (ready ? DATA_READY : 0)) << 8;
        } else if (lanes & 1u) {
            return ready ? input[read++] : 0;
        }
        return 0;
    }

    void write_device(uint32_t address, uint32_t lanes, uint32_t value)
    {
        if ((address & ~7u) == UART) {
            if (!(address & 4u) && lanes & 1u) {
                console.put(static_cast<char>(value));
            }
        } else if ((address & ~3u) != FINISHER) {
            end("access", address);
        } else if ((value & 0xffffu) == PASS) {
            end("exit", 0);
        } else if ((value & 0xffffu) == FAIL) {
            end("exit", value >> 16 & 0xffu);
        }
    }

    void serve_data()
    {
        const uint32_t address = top.data_addr_o, lanes = top.data_be_o;
        Memory *memory = find(address);
        access.accept(memory, address, top.data_we_o);
        if (memory == nullptr) {
            if (top.data_we_o) {
                write_device(address, lanes, top.data_wdata_o);
            } else {
                access.data = read_device(address, lanes);
            }
        } else if (top.data_we_o) {
            for (uint32_t lane = 0; lane < 4; lane++) {
                if (lanes >> lane & 1u) {
                    memory->bytes[(address & ~3u) - memory->origin + lane] =
                        static_cast<uint8_t>(top.data_wdata_o >> 8 * lane);
                }
            }
        } else {
            access.data = load(*memory, address);
        }
    }

    /* The core also fetches ahead after the last instruction of a memory. */
    void serve_fetch()
    {
        const Memory *memory = find(top.instr_addr_o);
        fetch.accept(memory, top.instr_addr_o, false);
        fetch.data = memory == nullptr ? 0 : load(*memory, top.instr_addr_o);
    }

    uint32_t read_register(uint32_t number) const
    {
        return top.rootp->cv32e40p_top__DOT__core_i__DOT__id_stage_i__DOT__register_file_i__DOT__mem
            [number];
    }

    void enter(Call &call) const
    {
        call = {true, read_register(RETURN_ADDRESS) & ~1u, read_register(STACK_POINTER)};
    }

    void leave(Call &call, uint32_t address) const
    {
        if (call.inside && address == call.return_address &&
            read_register(STACK_POINTER) == call.stack_pointer) {
            call.inside = false;
        }
    }

    /* If several parts call one function, successive calls belong to successive parts. */
    void follow_calls(uint32_t address)
    {
        leave(part_call, address);
        leave(counted_call, address);
        if (!counted_call.inside && address == function) {
            enter(counted_call);
        }
        if (!counted_call.inside || part_call.inside) {
            return;
        }
        Part *next = nullptr;
        for (Part &each : parts) {
            if (each.function == address && (next == nullptr || each.calls < next->calls)) {
                next = &each;
            }
        }
        if (next != nullptr) {
            next->calls++;
            current_part = static_cast<size_t>(next - parts.data());
            enter(part_call);
        }
    }

    Stall find_stall() const
    {
        const auto &core = *top.rootp;
        if (!core.cv32e40p_top__DOT__core_i__DOT__instr_valid_id ||
            core.cv32e40p_top__DOT__core_i__DOT__id_stage_i__DOT__branch_taken_ex) {
            return FETCH; /* the decode stage is empty, or its instruction is after a taken branch */
        }
        if (core.cv32e40p_top__DOT__core_i__DOT__id_stage_i__DOT__load_stall) {
            return LOAD_USE;
        }
        return core.cv32e40p_top__DOT__core_i__DOT__id_stage_i__DOT__jr_stall ? JUMP_REGISTER : OTHER;
    }

    void count()
    {
        const uint32_t address = top.rootp->cv32e40p_top__DOT__core_i__DOT__pc_id;
        const bool retires = top.rootp->cv32e40p_top__DOT__core_i__DOT__id_stage_i__DOT__minstret;
        if (retires) {
            retired++;
            last = address;
            last_retired = cycles;
            follow_calls(address);
        }
        if (!counted_call.inside) {
            return;
        }
        const Stall stall = find_stall();
        const size_t place = ((retires || stall != FETCH ? address : last) - code_start) / 2;
        counted += retires;
        stalls[stall] += !retires;
        if (place < code.size()) {
            code[place].cycles++;
            code[place].instructions += retires;
        }
        if (part_call.inside) {
            parts[current_part].counted.cycles++;
            parts[current_part].counted.instructions += retires;
        }
    }

    /* One clock cycle. All inputs are stable before the rising edge, and change after the edge. */
    void step()
    {
        top.clk_i = 0;
        top.eval();
        if (top.rst_ni) {
            const bool fetched = top.instr_req_o && top.instr_gnt_i;
            if (top.data_req_o && top.data_gnt_i) {
                serve_data();
            }
            if (fetched) {
                serve_fetch();
            }
            const auto &core = *top.rootp;
            if (core.cv32e40p_top__DOT__core_i__DOT__csr_save_cause) {
                last = core.cv32e40p_top__DOT__core_i__DOT__pc_id;
                end("trap", core.cv32e40p_top__DOT__core_i__DOT__csr_cause);
            }
            if (ended.empty()) {
                count();
            }
        }
        top.clk_i = 1;
        top.eval();
        fetch.advance();
        access.advance();
        top.instr_rvalid_i = fetch.valid;
        top.instr_rdata_i = fetch.data;
        top.instr_gnt_i = fetch.grant;
        top.data_rvalid_i = access.valid;
        top.data_rdata_i = access.data;
        top.data_gnt_i = access.grant;
        top.rst_ni = cycles >= RESET_CYCLES;
        cycles++;
    }

    void run()
    {
        top.boot_addr_i = entry;
        top.mtvec_addr_i = entry;
        top.fetch_enable_i = 1;
        top.pulp_clock_en_i = 1;
        while (ended.empty()) {
            step();
            if (retired > budget) {
                end("budget", 0);
            } else if (cycles - last_retired > PATIENCE) {
                end("stuck", 0);
            }
            if (cycles % REPORT == 0) {
                std::cout << counted << std::endl;
            }
        }
    }

    void read_run()
    {
        std::ifstream image(folder + "/image.bin", std::ios::binary);
        std::ifstream given(folder + "/input.bin", std::ios::binary);
        input.assign(std::istreambuf_iterator<char>(given), {});
        console.open(folder + "/console.bin", std::ios::binary);
        std::ifstream lines(folder + "/run.txt");
        std::string keyword;
        uint64_t size = 0;
        while (lines >> std::hex >> keyword) {
            if (keyword == "memory") {
                Memory memory{};
                uint32_t fill = 0;
                lines >> memory.origin >> size >> fill >> memory.wait_states >> memory.line;
                memory.bytes.assign(size, static_cast<uint8_t>(fill));
                memories.push_back(memory);
            } else if (keyword == "segment") {
                uint32_t address = 0;
                lines >> address >> size;
                Memory *memory = find(address); /* simulation.py checks that the segment fits */
                image.read(reinterpret_cast<char *>(&memory->bytes[address - memory->origin]),
                           static_cast<std::streamsize>(size));
            } else if (keyword == "code") {
                lines >> code_start >> size;
                code.resize(size / 2 + 1);
            } else if (keyword == "part") {
                parts.emplace_back();
                lines >> parts.back().function;
            } else if (keyword == "run") {
                lines >> entry >> function >> budget;
            }
        }
    }

    void write_counts()
    {
        console.close();
        std::ofstream counts(folder + "/counts.txt");
        counts << "end " << ended << " " << last << "\n";
        for (size_t place = 0; place < code.size(); place++) {
            if (code[place].cycles != 0) {
                counts << "code " << code_start + 2 * place << " " << code[place].cycles << " "
                       << code[place].instructions << "\n";
            }
        }
        for (const Part &part : parts) {
            counts << "part " << part.counted.cycles << " " << part.counted.instructions << "\n";
        }
        for (size_t kind = 0; kind < STALLS; kind++) {
            counts << "stall " << STALL_NAMES[kind] << " " << stalls[kind] << "\n";
        }
    }
};

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        return 2;
    }
    Simulation simulation;
    simulation.folder = argv[1];
    simulation.read_run();
    simulation.run();
    simulation.write_counts();
    return 0;
}
