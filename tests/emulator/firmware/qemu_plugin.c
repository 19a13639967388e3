/*
 * A QEMU plugin that counts how often each instruction is executed, and writes lines of
 * "<address> <count>" to the file that the environment variable COUNTS names. The functions
 * of QEMU are declared here, version 1 of its plugin interface; Debian packages no header.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*callback)(uint64_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction,
                                            void (*callback)(unsigned int, void *), int flags,
                                            void *data);

int qemu_plugin_version = 1;

typedef struct instruction_count {
    struct instruction_count *next;
    uint64_t address;
    uint64_t executed;
} instruction_count;

static instruction_count *all;

static void on_executed(unsigned int processor, void *data)
{
    (void)processor;
    ((instruction_count *)data)->executed++;
}

static void on_translated(uint64_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        instruction_count *count = calloc(1, sizeof *count);
        count->address = qemu_plugin_insn_vaddr(instruction);
        count->next = all;
        all = count;
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_executed, 0, count);
    }
}

int qemu_plugin_install(uint64_t id, const void *information, int argc, char **argv)
{
    (void)information, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
    return 0;
}

__attribute__((destructor)) static void write_counts(void)
{
    FILE *file = fopen(getenv("COUNTS"), "w");
    for (const instruction_count *count = all; count != NULL; count = count->next) {
        fprintf(file, "%llx %llu\n", (unsigned long long)count->address,
                (unsigned long long)count->executed);
    }
    fclose(file);
}
