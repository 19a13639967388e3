/*
 * Runs a firmware on the RTL of a core, in the machine of machine.h. `core.h` is the file of this
 * core. Counts the clock cycles and the retired instructions of one function and of the parts that
 * it calls. A cycle without a retired instruction is a stall. The stall counts for the waiting
 * instruction, or for the last retired instruction if none waits.
 *
 * The argument is a folder. The file `run.txt` describes the run: one keyword per line, then
 * hexadecimal numbers (simulation.py). `image.bin` has the segments, `input.bin` the console's input.
 * The program writes `console.bin` and `counts.txt`, and the counted instructions so far to stderr,
 * because some RTL prints to stdout.
 */
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "core.h"

namespace {

constexpr uint64_t PATIENCE = 1u << 20; /* cycles without a retired instruction: the core is stuck */
constexpr uint64_t REPORT = 1u << 16;   /* cycles between two reports */
constexpr uint32_t RETURN_ADDRESS = 1, STACK_POINTER = 2; /* numbers of registers */
constexpr uint32_t RESET_CYCLES = 4;

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
    Machine machine;
    Core core;
    std::vector<Part> parts;
    std::vector<Amount> code; /* one per halfword */
    uint32_t code_start = 0, function = 0;
    uint64_t budget = 0;

    uint32_t last = 0; /* the address of the last retired instruction */
    uint64_t retired = 0, last_retired = 0, counted = 0;
    uint64_t stalls[STALLS] = {};
    Call counted_call, part_call;
    size_t current_part = 0;

    void enter(Call &call) const
    {
        call = {true, core.read_register(RETURN_ADDRESS) & ~1u, core.read_register(STACK_POINTER)};
    }

    void leave(Call &call, uint32_t address) const
    {
        if (call.inside && address == call.return_address &&
            core.read_register(STACK_POINTER) == call.stack_pointer) {
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

    void count()
    {
        const Cycle cycle = core.observe();
        if (cycle.retires) {
            retired++;
            last = cycle.address;
            last_retired = machine.cycles;
            follow_calls(last);
        }
        if (!counted_call.inside) {
            return;
        }
        const uint32_t address = !cycle.retires && cycle.empty ? last : cycle.address;
        const size_t place = (address - code_start) / 2;
        counted += cycle.retires;
        stalls[cycle.stall] += !cycle.retires;
        if (place < code.size()) {
            code[place].cycles++;
            code[place].instructions += cycle.retires;
        }
        if (part_call.inside) {
            parts[current_part].counted.cycles++;
            parts[current_part].counted.instructions += cycle.retires;
        }
    }

    /* One clock cycle. All inputs are stable before the rising edge, and change after the edge. */
    void step()
    {
        const bool reset = machine.cycles <= RESET_CYCLES;
        core.drive(false, reset);
        if (!reset) {
            if (core.request(machine)) {
                last = core.observe().address; /* of the trap */
            } else if (machine.ended.empty()) {
                count();
            }
        }
        core.drive(true, reset);
        core.respond(machine);
        machine.cycles++;
    }

    void run()
    {
        core.start(machine.entry);
        while (machine.ended.empty()) {
            step();
            if (retired > budget) {
                machine.end("budget", 0);
            } else if (machine.cycles - last_retired > PATIENCE) {
                machine.end("stuck", 0);
            }
            if (machine.cycles % REPORT == 0) {
                std::cerr << counted << std::endl;
            }
        }
    }

    void read_run()
    {
        std::ifstream image(folder + "/image.bin", std::ios::binary);
        std::ifstream given(folder + "/input.bin", std::ios::binary);
        machine.input.assign(std::istreambuf_iterator<char>(given), {});
        machine.console.open(folder + "/console.bin", std::ios::binary);
        std::ifstream lines(folder + "/run.txt");
        std::string keyword;
        uint64_t size = 0;
        while (lines >> std::hex >> keyword) {
            if (keyword == "memory") {
                Memory memory{};
                uint32_t fill = 0;
                lines >> memory.origin >> size >> fill >> memory.wait_states >> memory.line;
                memory.bytes.assign(size, static_cast<uint8_t>(fill));
                machine.memories.push_back(memory);
            } else if (keyword == "segment") {
                uint32_t address = 0;
                lines >> address >> size;
                Memory *memory = machine.find(address); /* simulation.py checks that the segment fits */
                image.read(reinterpret_cast<char *>(&memory->bytes[address - memory->origin]),
                           static_cast<std::streamsize>(size));
            } else if (keyword == "code") {
                lines >> code_start >> size;
                code.resize(size / 2 + 1);
            } else if (keyword == "part") {
                parts.emplace_back();
                lines >> parts.back().function;
            } else if (keyword == "run") {
                lines >> machine.entry >> function >> budget;
            }
        }
    }

    void write_counts()
    {
        machine.console.close();
        std::ofstream counts(folder + "/counts.txt");
        counts << "end " << machine.ended << " " << last << "\n";
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
