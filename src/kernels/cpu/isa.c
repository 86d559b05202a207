/* cpu/isa.c: the table of instruction sets compiled in and the choice among them. Names no instruction itself:
 * isa.list says what exists, base/cpu.h what this processor can do. */
#include "kernels/cpu/isa.h"

#include "base/cpu.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ISA_ANY(row) row
#ifdef __aarch64__
#define ISA_AARCH64(row) row
#else
#define ISA_AARCH64(row)
#endif
#ifdef __x86_64__
#define ISA_X86_64(row) row
#else
#define ISA_X86_64(row)
#endif

/* One test per row of isa.list. */
#define HAS_portable(cpu) true
#define HAS_neon(cpu)     (cpu)->neon
#define HAS_avx2(cpu)     ((cpu)->avx2_fma && (cpu)->f16c)

#define EXTERN(table, id)      extern const struct nck_##table##_table nck_##table##_##id;
#define ISA(name, arch, flags) ISA_##arch(NCK_ISA_TABLES(EXTERN, name))
#include "kernels/cpu/isa.list"
#undef ISA

static const nck_isa table[] = {
#define FIELD(table, id) .table = &nck_##table##_##id,
#define ROW(id) {.name = #id, NCK_ISA_TABLES(FIELD, id)},
#define ISA(name, arch, flags) ISA_##arch(ROW(name))
#include "kernels/cpu/isa.list"
#undef ISA
#undef ROW
};
enum { N_ISA = sizeof table / sizeof table[0] };

static bool usable(const nck_isa *isa) {
    const nc_cpu *cpu = nc_cpu_get();
    (void)cpu;
#define TRY(id) \
    if (strcmp(isa->name, #id) == 0) return HAS_##id(cpu);
#define ISA(name, arch, flags) ISA_##arch(TRY(name))
#include "kernels/cpu/isa.list"
#undef ISA
#undef TRY
    return false;
}

static const nck_isa *find(const char *name) {
    for (int i = 0; i < N_ISA; i++)
        if (strcmp(table[i].name, name) == 0 && usable(&table[i])) return &table[i];
    return NULL;
}

static const nck_isa *choose(void) {
    const char *name = getenv("NACRE_ISA");
    if (name != NULL && name[0] != '\0') {
        const nck_isa *isa = find(name);
        if (isa != NULL) return isa;
        nc_log(NC_LOG_WARNING, "NACRE_ISA=%s: not known or not usable on this processor, ignored", name);
    }
    const nck_isa *best = &table[0];
    for (int i = 1; i < N_ISA; i++)
        if (usable(&table[i])) best = &table[i];
    return best;
}

/* Two threads may both choose at first use; they choose the same. */
static _Atomic(const nck_isa *) current;

const nck_isa *nck_isa_get(void) {
    const nck_isa *isa = atomic_load_explicit(&current, memory_order_relaxed);
    if (isa == NULL) {
        isa = choose();
        atomic_store_explicit(&current, isa, memory_order_relaxed);
    }
    return isa;
}

const nck_isa *nck_isa_at(int i) {
    for (int k = 0; k < N_ISA; k++)
        if (usable(&table[k]) && i-- == 0) return &table[k];
    return NULL;
}

bool nck_isa_set_for_test(const char *name) {
    const nck_isa *isa = name != NULL ? find(name) : choose();
    if (isa == NULL) return false;
    atomic_store_explicit(&current, isa, memory_order_relaxed);
    return true;
}
