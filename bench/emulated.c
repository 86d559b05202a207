/* bench/emulated.c: a plugin of qemu-user that counts the instructions that a program executes, and with the argument
 * `caches` the lines that its loads and stores bring into a first and a second cache; it prints them when the program
 * ends. Built by emulated.py; declares what it needs of the interface (version 1), whose header few systems have. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD_U64 };
enum { NO_REGISTERS };
enum { READS_AND_WRITES = 3 };
typedef void on_memory(unsigned cpu, uint32_t info, uint64_t address, void *ctx);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t i);
extern unsigned qemu_plugin_mem_size_shift(uint32_t info);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int op, void *at, uint64_t n);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, on_memory *cb, int registers, int rw,
                                             void *ctx);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *ctx);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

/* Sizes of a Neoverse N1's, one core: 64 KiB of 4 ways, 1 MiB of 8. Each set holds its lines, the last used first;
 * nothing is fetched ahead. */
enum { LINE_SHIFT = 6, FIRST_SETS = 256, FIRST_WAYS = 4, SECOND_SETS = 2048, SECOND_WAYS = 8 };
static uint64_t first[FIRST_SETS * FIRST_WAYS], second[SECOND_SETS * SECOND_WAYS];
static uint64_t count, into_first, into_second;
static bool caches;

/* Whether the set held the line, which is its first afterwards. */
static bool used(uint64_t *set, unsigned ways, uint64_t line) {
    unsigned i = 0;
    while (i < ways - 1 && set[i] != line) i++;
    const bool held = set[i] == line;
    memmove(set + 1, set, i * sizeof *set);
    set[0] = line;
    return held;
}

static void touched(unsigned cpu, uint32_t info, uint64_t address, void *ctx) {
    (void)cpu, (void)ctx;
    const uint64_t last = (address + (UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1) >> LINE_SHIFT;
    for (uint64_t line = address >> LINE_SHIFT; line <= last; line++) {
        if (used(first + line % FIRST_SETS * FIRST_WAYS, FIRST_WAYS, line)) continue;
        into_first++;
        if (!used(second + line % SECOND_SETS * SECOND_WAYS, SECOND_WAYS, line)) into_second++;
    }
}

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    const size_t n = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &count, n);
    for (size_t i = 0; caches && i < n; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), touched, NO_REGISTERS, READS_AND_WRITES,
                                         NULL);
}

static void ended(plugin_id id, void *ctx) {
    (void)id, (void)ctx;
    fprintf(stderr, "instructions %" PRIu64 "\n", count);
    if (caches) fprintf(stderr, "first %" PRIu64 "\nsecond %" PRIu64 "\n", into_first, into_second);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) caches = caches || strncmp(argv[i], "caches", 6) == 0;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
