/*
 * Counts the instructions that one function of a firmware executes, including its callees, and the
 * instructions of the parts that it calls. This is a hook that unicorn calls when it enters a
 * block. A block is straight-line code up to a jump. The same hook in Python is a hundred times
 * slower.
 *
 * Built without a C library; the caller passes unicorn's functions as pointers.
 */
#include <stddef.h>
#include <stdint.h>

typedef int (*register_reader)(void *engine, int register_id, void *value);
typedef int (*engine_stopper)(void *engine);

typedef struct {
    uint32_t bytes;        /* the block's size when it was last decoded */
    uint32_t instructions; /* ... and the number of instructions in it */
    uint64_t counted;      /* instructions executed on behalf of the counted function */
} block;

/* A call that has not returned yet. */
typedef struct {
    uint32_t inside; /* 1 during the call, else 0 */
    uint32_t return_address;
    uint32_t stack_pointer; /* at entry: a nested call returns with another value */
} call;

/*
 * A call that the counted function makes in each run. If several parts call one function,
 * successive calls belong to successive parts. _Part in block_counter.py has the same members.
 */
typedef struct {
    uint64_t counted; /* instructions executed in it, callees included */
    uint32_t function;
    uint32_t calls;
} part;

/* _Counter in block_counter.py has the same members. */
typedef struct {
    register_reader read_register;
    engine_stopper stop;
    const uint8_t *code; /* a copy of the code from code_start to code_end */
    block *blocks;       /* one per halfword, because an instruction can begin at each halfword */
    part *parts;
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

uint32_t count_instructions(const counter *self, uint32_t start, uint32_t end)
{
    uint32_t instructions = 0;
    while (start < end && start < self->code_end) {
        start += instruction_bytes(self, start);
        instructions++;
    }
    return instructions;
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
        return; /* not code of this firmware: unicorn reports the fault */
    }
    block *entered = &self->blocks[(address - self->code_start) / 2];
    if (entered->bytes != bytes) {
        entered->bytes = bytes;
        entered->instructions = count_instructions(self, address, address + bytes);
    }
    follow_calls(self, engine, address);
    if (self->counted_call.inside) {
        entered->counted += entered->instructions;
    }
    if (self->part_call.inside) {
        self->parts[self->current_part].counted += entered->instructions;
    }
    self->last_block = address;
    self->executed += entered->instructions;
    if (self->executed > self->budget) {
        self->stop(engine);
    }
}

/*
 * Must be called when the firmware ends the run at the instruction at `address`. Subtracts the rest
 * of the last block, which is not executed.
 */
void leave_block(counter *self, uint32_t address)
{
    block *left = &self->blocks[(self->last_block - self->code_start) / 2];
    if (address < self->last_block || address >= self->last_block + left->bytes) {
        return;
    }
    uint32_t rest = left->instructions - count_instructions(self, self->last_block, address) - 1;
    if (self->counted_call.inside) {
        left->counted -= rest;
    }
    if (self->part_call.inside) {
        self->parts[self->current_part].counted -= rest;
    }
    self->executed -= rest;
    self->counted_call.inside = 0;
    self->part_call.inside = 0;
}
