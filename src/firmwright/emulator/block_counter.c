/*
 * Counts the instructions that one function of a firmware executes, callees included, and those
 * of the parts that it calls: a hook that unicorn calls whenever it enters a block, which is
 * straight-line code up to a jump.
 * In Python the same hook would be a hundred times as slow.
 *
 * Built without a C library; unicorn's functions come in as pointers.
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

/* A call that is under way. */
typedef struct {
    uint32_t inside; /* 1 while it is */
    uint32_t return_address;
    uint32_t stack_pointer; /* at entry, which tells an inner call's return from the outer one's */
} call;

/*
 * A call that the counted function makes each time. Several parts may call one function: these
 * take turns. Mirrored by _Part in block_counter.py.
 */
typedef struct {
    uint64_t counted; /* instructions executed in it, callees included */
    uint32_t function;
    uint32_t calls;
} part;

/* Mirrored by _Counter in block_counter.py. */
typedef struct {
    register_reader read_register;
    engine_stopper stop;
    const uint8_t *code; /* a copy of the code from code_start to code_end */
    block *blocks;       /* one for every address that can hold an instruction: each halfword */
    part *parts;
    uint64_t budget;     /* stop after about that many instructions, counted or not */
    uint64_t executed;   /* instructions since start-up */
    uint32_t code_start;
    uint32_t code_end;
    uint32_t function; /* address of the counted function */
    int32_t thumb;     /* 1: Thumb-2, 0: RISC-V with compressed instructions */
    int32_t link_register;
    int32_t stack_register;
    uint32_t part_count;
    uint32_t current_part; /* index of the one whose call is under way */
    call counted_call;
    call part_call;
    uint32_t last_block;
} counter;

/* Both instruction sets say in the first halfword whether a second one follows. */
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
 * To be called when the firmware ends the run at the instruction at `address`: takes back the
 * rest of the last block, which is not executed any more.
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
