/*
 * Counts the instructions that one function of a firmware executes, including its callees, and the
 * instructions of the parts that it calls. Adds up their clock cycles if the caller passes the cycles
 * of each instruction. Unicorn calls this hook when it enters a block. A block is straight-line code
 * up to a jump. A hook in Python is a hundred times slower.
 *
 * The build uses no C library. The caller passes unicorn's functions as pointers.
 */
#include <stddef.h>
#include <stdint.h>

typedef int (*register_reader)(void *engine, int register_id, void *value);
typedef int (*engine_stopper)(void *engine);

/* Instructions, and the clock cycles that they need. */
typedef struct {
    uint64_t instructions;
    uint64_t cycles;
} amount;

typedef struct {
    uint32_t bytes; /* the block's size when it was last decoded */
    amount once;    /* one execution of the block, without waits for the memory */
    amount counted; /* all executions for the counted function */
} block;

/* A call that has not returned yet. */
typedef struct {
    uint32_t inside; /* 1 during the call, else 0 */
    uint32_t return_address;
    uint32_t stack_pointer; /* at entry; a nested call has a different value */
} call;

/*
 * A call that the counted function makes in each run. If several parts call one function,
 * successive calls belong to successive parts. _Part in block_counter.py has the same members.
 */
typedef struct {
    amount counted; /* executed in its calls, callees included */
    uint32_t function;
    uint32_t calls;
} part;

/* The time model of a processor. _Timing in block_counter.py has the same members. */
typedef struct {
    const uint16_t *cycles; /* one per halfword of the code; NULL: count no cycles */
    uint32_t refill;        /* additional cycles of a branch that jumps */
    uint32_t misaligned;    /* further cycles if the target is a long instruction that is not at a word */
    uint32_t line;          /* bytes of code that the memory provides with one access */
    uint32_t wait_states;   /* cycles before the memory provides a line */
} timing;

/* _Counter in block_counter.py has the same members. */
typedef struct {
    register_reader read_register;
    engine_stopper stop;
    const uint8_t *code; /* a copy of the code from code_start to code_end */
    block *blocks;       /* one per halfword, because an instruction can begin at each halfword */
    part *parts;
    timing time;
    uint64_t budget;     /* stop after about this number of instructions, counted or not */
    uint64_t executed;   /* instructions since start-up */
    uint32_t code_start;
    uint32_t code_end;
    uint32_t function; /* address of the counted function */
    int32_t thumb;     /* 1: Thumb-2, 0: RISC-V with compressed instructions */
    int32_t link_register;
    int32_t stack_register;
    uint32_t part_count;
    uint32_t current_part; /* index of the part whose call has not returned yet */
    call counted_call;
    call part_call;
    uint32_t last_block;
    uint32_t last_line; /* the last line that the memory provided */
} counter;

/* In both instruction sets, the first halfword determines whether a second one follows. */
static uint32_t instruction_bytes(const counter *self, uint32_t address)
{
    const uint8_t *at = self->code + (address - self->code_start);
    if (self->thumb) {
        return (at[1] >> 3) >= 0x1d ? 4 : 2; /* Armv7-M ARM, A5.1 */
    }
    return (at[0] & 3) == 3 ? 4 : 2; /* RISC-V unprivileged ISA, 1.5 */
}

static amount measure_code(const counter *self, uint32_t start, uint32_t end)
{
    amount found = {0, 0};
    while (start < end && start < self->code_end) {
        if (self->time.cycles != NULL) {
            found.cycles += self->time.cycles[(start - self->code_start) / 2];
        }
        start += instruction_bytes(self, start);
        found.instructions++;
    }
    return found;
}

/* Add to the counts of a block, and to the counts of the part that runs. */
static void count(counter *self, block *executed, amount added)
{
    if (self->counted_call.inside) {
        executed->counted.instructions += added.instructions;
        executed->counted.cycles += added.cycles;
    }
    if (self->part_call.inside) {
        amount *all = &self->parts[self->current_part].counted;
        all->instructions += added.instructions;
        all->cycles += added.cycles;
    }
}

/* Count the refill of the pipeline if the last block did not continue into this block. */
static void count_jump(counter *self, uint32_t address)
{
    if (self->time.cycles == NULL || self->executed == 0) {
        return;
    }
    block *left = &self->blocks[(self->last_block - self->code_start) / 2];
    if (self->last_block + left->bytes != address) {
        amount refill = {0, self->time.refill};
        if ((address & 2) && instruction_bytes(self, address) == 4) {
            refill.cycles += self->time.misaligned;
        }
        count(self, left, refill);
    }
}

/* Return the cycles in which the processor waits for the lines of a block. */
static uint32_t count_waits(counter *self, uint32_t start, uint32_t end)
{
    if (self->time.wait_states == 0) {
        return 0;
    }
    const uint32_t first = start / self->time.line, last = (end - 1) / self->time.line;
    const uint32_t lines = last - first + (first != self->last_line);
    self->last_line = last;
    return lines * self->time.wait_states;
}

static uint32_t read_register(const counter *self, void *engine, int32_t id)
{
    uint32_t value = 0;
    self->read_register(engine, id, &value);
    return value;
}

static void enter_call(const counter *self, void *engine, call *entered)
{
    entered->inside = 1;
    entered->return_address = read_register(self, engine, self->link_register) & ~1u;
    entered->stack_pointer = read_register(self, engine, self->stack_register);
}

static void leave_call(const counter *self, void *engine, call *left, uint32_t address)
{
    if (left->inside && address == left->return_address &&
        read_register(self, engine, self->stack_register) == left->stack_pointer) {
        left->inside = 0;
    }
}

static void follow_calls(counter *self, void *engine, uint32_t address)
{
    leave_call(self, engine, &self->part_call, address);
    leave_call(self, engine, &self->counted_call, address);
    if (!self->counted_call.inside && address == self->function) {
        enter_call(self, engine, &self->counted_call);
    }
    if (!self->counted_call.inside || self->part_call.inside) {
        return;
    }
    part *next = NULL;
    for (uint32_t i = 0; i < self->part_count; i++) {
        part *each = &self->parts[i];
        if (each->function == address && (next == NULL || each->calls < next->calls)) {
            next = each;
        }
    }
    if (next != NULL) {
        next->calls++;
        self->current_part = (uint32_t)(next - self->parts);
        enter_call(self, engine, &self->part_call);
    }
}

/* A uc_cb_hookcode_t. */
void enter_block(void *engine, uint64_t block_address, uint32_t bytes, void *user_data)
{
    counter *self = user_data;
    uint32_t address = (uint32_t)block_address & ~1u;
    if (address < self->code_start || address >= self->code_end) {
        return; /* not code of this firmware; unicorn reports the fault */
    }
    block *entered = &self->blocks[(address - self->code_start) / 2];
    if (entered->bytes != bytes) {
        entered->bytes = bytes;
        entered->once = measure_code(self, address, address + bytes);
    }
    count_jump(self, address);
    follow_calls(self, engine, address);
    amount added = entered->once;
    added.cycles += count_waits(self, address, address + bytes);
    count(self, entered, added);
    self->last_block = address;
    self->executed += added.instructions;
    if (self->executed > self->budget) {
        self->stop(engine);
    }
}

/*
 * Subtracts the rest of the last block, which is not executed. The caller calls this function when
 * the firmware ends the run at the instruction at `address`.
 */
void leave_block(counter *self, uint32_t address)
{
    block *left = &self->blocks[(self->last_block - self->code_start) / 2];
    if (address < self->last_block || address >= self->last_block + left->bytes) {
        return;
    }
    const amount done = measure_code(self, self->last_block, address + 1);
    const amount rest = {done.instructions - left->once.instructions,
                         done.cycles - left->once.cycles}; /* negative, modulo 2^64 */
    count(self, left, rest);
    self->executed += rest.instructions;
    self->counted_call.inside = 0;
    self->part_call.inside = 0;
}
