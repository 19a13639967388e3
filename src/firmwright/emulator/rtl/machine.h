/*
 * The machine around a core: memories, and the devices of QEMU's machine `virt` that firmware uses,
 * a 16550 UART and the SiFive test finisher. The clock is two words after the finisher.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

constexpr uint32_t FINISHER = 0x00100000u, CLOCK = 0x00100008u, UART = 0x10000000u;
constexpr uint32_t PASS = 0x5555u, FAIL = 0x3333u;
constexpr uint32_t DATA_READY = 0x01u, TRANSMITTER_EMPTY = 0x60u;
constexpr uint32_t WHOLE_WORD = 0xfu; /* all lanes of a bus */

struct Memory {
    uint32_t origin, wait_states, line;
    std::vector<uint8_t> bytes;
};

/* One bus of the core. The bus stores its last line from a memory with wait states. */
struct Bus {
    uint32_t left = 0, data = 0, line = 0;
    const Memory *of_line = nullptr;
    bool active = false, valid = false, grant = true;

    /* Accept the access to the bytes from `first` to `last`, which may be in several lines. */
    void accept(const Memory *memory, uint32_t first, uint32_t last, bool write)
    {
        active = true;
        left = 0;
        if (memory == nullptr || memory->wait_states == 0) {
            return;
        }
        const uint32_t from = first / memory->line, to = last / memory->line;
        const bool is_stored = !write && memory == of_line && from == line;
        left = (to - from + !is_stored) * memory->wait_states;
        if (!write) {
            of_line = memory;
            line = to;
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

struct Machine {
    std::vector<Memory> memories;
    std::vector<uint8_t> input;
    std::ofstream console;
    size_t read = 0;
    uint32_t entry = 0;
    uint64_t cycles = 0;
    bool started = false; /* the core has fetched the first instruction of the firmware */
    std::string ended;    /* the reason for the end, and its number */

    void end(const char *reason, uint32_t number)
    {
        ended = std::string(reason) + " " + std::to_string(number);
    }

    Memory *find(uint32_t address)
    {
        for (Memory &memory : memories) {
            if (address - memory.origin < memory.bytes.size()) {
                return &memory;
            }
        }
        return nullptr;
    }

    /* The core also fetches ahead after the last instruction of a memory. */
    void fetch(Bus &bus, uint32_t address)
    {
        started = started || (address ^ entry) < 4;
        const Memory *memory = started ? find(address) : nullptr;
        bus.accept(memory, address & ~3u, address | 3u, false);
        bus.data = !started ? jump_to_entry(address) : memory == nullptr ? 0 : load(*memory, address);
    }

    /*
     * The last word of a memory may have fewer than 4 bytes. PicoRV32 reads whole words, so only
     * other accesses to the missing bytes are faults.
     */
    void access(Bus &bus, uint32_t address, bool write, uint32_t lanes, uint32_t value)
    {
        const uint32_t word = address & ~3u;
        const uint32_t first = word + static_cast<uint32_t>(__builtin_ctz(lanes));
        const uint32_t last = word + 31u - static_cast<uint32_t>(__builtin_clz(lanes));
        Memory *memory = find(first);
        bus.accept(memory, first, last, write);
        if (memory == nullptr) {
            if (write) {
                write_device(first, lanes, value);
            } else {
                bus.data = read_device(first, lanes);
            }
        } else if (find(last) != memory && (write || lanes != WHOLE_WORD)) {
            end("access", last);
        } else if (write) {
            for (uint32_t lane = 0; lane < 4; lane++) {
                if (lanes >> lane & 1u) {
                    memory->bytes[word - memory->origin + lane] =
                        static_cast<uint8_t>(value >> 8 * lane);
                }
            }
        } else {
            bus.data = load(*memory, word);
        }
    }

  private:
    /* A core whose first address is fixed executes `lui t0, …` and `jr …(t0)` there. */
    uint32_t jump_to_entry(uint32_t address) const
    {
        return address & 4u ? entry << 20 | 0x00028067u : ((entry + 0x800u) & 0xfffff000u) | 0x2b7u;
    }

    static uint32_t load(const Memory &memory, uint32_t address)
    {
        uint32_t value = 0;
        const size_t at = (address & ~3u) - memory.origin;
        memcpy(&value, &memory.bytes[at], std::min<size_t>(4, memory.bytes.size() - at));
        return value;
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
};

/* One cycle of the core. Without a retired instruction, the cycle is a stall of a kind. */
struct Cycle {
    bool retires;
    bool empty; /* no instruction waits, so the cycle counts for the last retired instruction */
    uint32_t address;
    size_t stall;
};
