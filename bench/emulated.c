/* bench/emulated.c: a plugin of qemu-user that counts the instructions that a program executes and prints them when it
 * ends. Built by emulated.py; declares what it needs of the interface (version 1), whose header few systems have. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
enum { ADD_U64 };
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int op, void *at, uint64_t n);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *ctx);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

static uint64_t count;

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &count, qemu_plugin_tb_n_insns(block));
}

static void ended(plugin_id id, void *ctx) {
    (void)id, (void)ctx;
    fprintf(stderr, "instructions %" PRIu64 "\n", count);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
