/*
 * A QEMU plugin that counts the instructions that one function of a program executes, including its
 * callees, and the instructions of the parts that it calls. block_counter.c counts for unicorn.
 *
 * Its arguments are function=<address>, part=<address> for each part, and output=<file>. Each
 * process of the program writes lines "block <address> <instructions>" and "part <index>
 * <instructions>" to <file>.<process number>. The counts of a second process belong to the call
 * that started it. QEMU's functions are declared here, because distributions do not package QEMU's
 * header. PLUGIN_VERSION is defined before this text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*callback)(uint64_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
                                          void (*callback)(unsigned int, void *), int flags,
                                          void *data);
void qemu_plugin_register_vcpu_syscall_ret_cb(uint64_t id,
                                              void (*callback)(uint64_t, unsigned int, int64_t,
                                                               int64_t));
void qemu_plugin_register_atexit_cb(uint64_t id, void (*callback)(uint64_t, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction);

int qemu_plugin_version = PLUGIN_VERSION;

/* A block of QEMU: straight-line code up to a jump. */
typedef struct block {
    struct block *next;
    uint64_t address, end;
    uint64_t instructions;
    uint64_t counted; /* instructions executed for the counted function */
} block;

/*
 * A function, and its call that has not returned yet. If several parts call one function,
 * successive calls belong to successive parts.
 */
typedef struct {
    uint64_t function;
    uint64_t return_address;
    uint64_t counted;
    uint64_t calls;
    int depth;
} call;

static block *blocks;
static call counted_call;
static call *parts;
static int part_count;
static call *part; /* the part whose call has not returned yet */
static uint64_t last_end;
static char *output;
static pid_t process;

/*
 * The block before a function's first block ended with the call, so the function returns to the end
 * of that block. A call from the same address during a call is nested.
 */
static int follow_call(call *called, uint64_t address)
{
    if (called->depth > 0 && address == called->return_address) {
        called->depth--;
    }
    if (address == called->function) {
        if (called->depth == 0) {
            called->return_address = last_end;
        }
        if (called->return_address == last_end) {
            called->depth++;
        }
    }
    return called->depth > 0;
}

/*
 * Return the part whose function begins with this block: the part with the fewest calls, or NULL.
 */
static call *find_part(uint64_t address)
{
    call *next = NULL;

    for (int i = 0; i < part_count; i++) {
        if (parts[i].function == address && (next == NULL || parts[i].calls < next->calls)) {
            next = &parts[i];
        }
    }
    return next;
}

static void enter_block(unsigned int processor, void *data)
{
    block *entered = data;

    (void)processor;
    if (part != NULL && !follow_call(part, entered->address)) {
        part = NULL;
    }
    if (follow_call(&counted_call, entered->address)) {
        if (part == NULL && (part = find_part(entered->address)) != NULL) {
            part->calls++;
            follow_call(part, entered->address);
        }
        entered->counted += entered->instructions;
        if (part != NULL) {
            part->counted += entered->instructions;
        }
    }
    last_end = entered->end;
}

static void translate_block(uint64_t id, struct qemu_plugin_tb *translated)
{
    block *added = calloc(1, sizeof *added);
    const size_t count = qemu_plugin_tb_n_insns(translated);
    const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(translated, count - 1);

    (void)id;
    added->address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(translated, 0));
    added->end = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last);
    added->instructions = count;
    added->next = blocks;
    blocks = added;
    qemu_plugin_register_vcpu_tb_exec_cb(translated, enter_block, 0, added);
}

/* A process that a system call creates must not count the instructions of its parent. */
static void clear_counts(uint64_t id, unsigned int processor, int64_t number, int64_t result)
{
    (void)id, (void)processor, (void)number, (void)result;
    if (process == getpid()) {
        return;
    }
    process = getpid();
    for (block *at = blocks; at != NULL; at = at->next) {
        at->counted = 0;
    }
    for (int i = 0; i < part_count; i++) {
        parts[i].counted = 0;
    }
}

static void write_counts(uint64_t id, void *data)
{
    char name[4096];
    FILE *file;

    (void)id, (void)data;
    snprintf(name, sizeof name, "%s.%d", output, (int)process);
    file = fopen(name, "w");
    for (const block *at = blocks; at != NULL; at = at->next) {
        if (at->counted) {
            fprintf(file, "block %llu %llu\n", (unsigned long long)at->address,
                    (unsigned long long)at->counted);
        }
    }
    for (int i = 0; i < part_count; i++) {
        fprintf(file, "part %d %llu\n", i, (unsigned long long)parts[i].counted);
    }
    fclose(file);
}

int qemu_plugin_install(uint64_t id, const void *information, int argc, char **argv)
{
    (void)information;
    parts = calloc((size_t)argc, sizeof *parts);
    for (int i = 0; i < argc; i++) {
        const char *value = strchr(argv[i], '=') + 1;

        switch (argv[i][0]) {
        case 'f':
            counted_call.function = strtoull(value, NULL, 0);
            break;
        case 'p':
            parts[part_count++].function = strtoull(value, NULL, 0);
            break;
        default:
            output = strcpy(malloc(strlen(value) + 1), value);
        }
    }
    process = getpid();
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate_block);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, clear_counts);
    qemu_plugin_register_atexit_cb(id, write_counts, NULL);
    return 0;
}
