/* cpu/isa.c: the rows of isa.list that are compiled in and the choice among them, table by table. Names no instruction
 * itself: isa.list says what exists, base/cpu.h what this processor can do.
 *
 * An example: a processor with AVX-512 and without VNNI has the usable rows portable, avx2 and the parts of avx512. The
 * choice "avx512" takes each table from the last of them that has it: gemm from avx512, one that
 * has no such row from avx2. */
#include "kernels/cpu/isa.h"

#include "base/cpu.h"
#include "base/log.h"

#include <pthread.h>
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

/* One test and one reason per name in isa.list. */
#define HAS_portable(cpu) true
#define HAS_neon(cpu) (cpu)->neon
#define HAS_avx2(cpu) ((cpu)->avx2_fma && (cpu)->f16c)
#define HAS_avx512(cpu) (cpu)->avx512
#define HAS_neon_dot(cpu) ((cpu)->neon && (cpu)->dotprod)
#define HAS_neon_i8mm(cpu) ((cpu)->neon && (cpu)->dotprod && (cpu)->i8mm)
#define HAS_neon_bf16(cpu) ((cpu)->neon && (cpu)->bf16)
#define HAS_avx_vnni(cpu) ((cpu)->avx2_fma && (cpu)->f16c && (cpu)->avx_vnni)
#define HAS_avx512_vnni(cpu) (cpu)->avx512_vnni
#define HAS_avx512_amx(cpu) ((cpu)->avx512_vnni && (cpu)->amx)
#define NEEDS_portable ""
#define NEEDS_neon "Advanced SIMD"
#define NEEDS_avx2 "AVX2, FMA and F16C"
#define NEEDS_avx512 "AVX-512 F, DQ, BW and VL"
#define NEEDS_neon_dot "the dot product instructions"
#define NEEDS_neon_i8mm "the matrix instructions of 8-bit integers"
#define NEEDS_neon_bf16 "the matrix instructions of bfloat16"
#define NEEDS_avx_vnni "AVX-VNNI"
#define NEEDS_avx512_vnni "AVX-512 VNNI"
#define NEEDS_avx512_amx "AMX for 8-bit integers and bfloat16, which the system must allow"

#define EXTERN(table, id) extern const struct nck_##table##_table nck_##table##_##id;
#define ISA(name, arch, flags) ISA_##arch(NCK_ISA_TABLES(EXTERN, name))
#define PART(name, arch, flags, only) ISA_##arch(EXTERN(only, name))
#define ALSO(name, arch, only) PART(name, arch, "", only)
#include "kernels/cpu/isa.list"
#undef ALSO
#undef ISA
#undef PART

typedef struct isa_row {
    const char *needs;
    bool (*has)(const nc_cpu *cpu);
    nck_isa has_tables; /* name, and the tables that the row has */
} isa_row;

/* Rows of another architecture leave theirs unused. */
#define HAS_FN(id) \
    __attribute__((unused)) static bool isa_has_##id(const nc_cpu *cpu) { return (void)cpu, HAS_##id(cpu); }
HAS_FN(portable)
HAS_FN(neon)
HAS_FN(avx2)
HAS_FN(avx512)
HAS_FN(neon_dot)
HAS_FN(neon_i8mm)
HAS_FN(neon_bf16)
HAS_FN(avx_vnni)
HAS_FN(avx512_vnni)
HAS_FN(avx512_amx)

static const isa_row isa_rows[] = {
#define FIELD(table, id) .table = &nck_##table##_##id,
#define ROW(id, fields) {NEEDS_##id, isa_has_##id, {.name = #id, fields}},
#define ISA(name, arch, flags) ISA_##arch(ROW(name, NCK_ISA_TABLES(FIELD, name)))
#define PART(name, arch, flags, only) ISA_##arch(ROW(name, FIELD(only, name)))
#define ALSO(name, arch, only) PART(name, arch, "", only)
#include "kernels/cpu/isa.list"
#undef ALSO
#undef ISA
#undef PART
};
enum { N_ROWS = sizeof isa_rows / sizeof isa_rows[0] };

static bool isa_usable(const isa_row *row) { return row->has(nc_cpu_get()); }

static void isa_take(nck_isa *choice, const nck_isa *row) {
    choice->name = row->name;
#define TAKE(table, isa) \
    if (row->table != NULL) choice->table = row->table, choice->from.table = row->name;
    NCK_ISA_TABLES(TAKE, )
#undef TAKE
}

/* What the usable rows up to the last of this name give. False: there is none. */
static bool isa_up_to(const char *name, nck_isa *choice) {
    int last = -1;
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(isa_rows[i].has_tables.name, name) == 0 && isa_usable(&isa_rows[i])) last = i;
    for (int i = 0; i <= last; i++)
        if (isa_usable(&isa_rows[i])) isa_take(choice, &isa_rows[i].has_tables);
    return last >= 0;
}

static const char *isa_best_name(void) {
    const char *best = isa_rows[0].has_tables.name;
    for (int i = 1; i < N_ROWS; i++)
        if (isa_usable(&isa_rows[i])) best = isa_rows[i].has_tables.name;
    return best;
}

/* The table named `table` as the choice up to `name` has it. */
static bool isa_take_table(const char *table, const char *name, nck_isa *choice) {
    nck_isa other = {0};
    if (!isa_up_to(name, &other)) return false;
#define TAKE(t, isa) \
    if (strcmp(table, #t) == 0) return choice->t = other.t, choice->from.t = other.from.t, true;
    NCK_ISA_TABLES(TAKE, )
#undef TAKE
    return false;
}

/* spec: name, or name,table=name,...; the first name may be missing. */
static bool isa_parse(const char *spec, nck_isa *choice) {
    char text[256], *rest = NULL;
    if (strlen(spec) >= sizeof text) return false;
    strcpy(text, spec);
    char *word = strtok_r(text, ",", &rest);
    bool ok = true;
    if (word != NULL && strchr(word, '=') == NULL) {
        ok = isa_up_to(word, choice);
        word = strtok_r(NULL, ",", &rest);
    } else {
        ok = isa_up_to(isa_best_name(), choice);
    }
    for (; ok && word != NULL; word = strtok_r(NULL, ",", &rest)) {
        char *is = strchr(word, '=');
        if (is == NULL) return false;
        *is = '\0';
        ok = isa_take_table(word, is + 1, choice);
    }
    return ok;
}

static nck_isa isa_levels[N_ROWS + 1]; /* by usable name; the end has no name */
static nck_isa isa_chosen;
static _Atomic(const nck_isa *) isa_current;
static pthread_once_t isa_once = PTHREAD_ONCE_INIT;

static nck_isa isa_choose(void) {
    const char *spec = getenv("NACRE_ISA");
    nck_isa choice = {0};
    if (spec != NULL && spec[0] != '\0') {
        if (isa_parse(spec, &choice)) return choice;
        nc_log(NC_LOG_WARNING, "NACRE_ISA=%s: not known or not usable on this processor, ignored", spec);
        choice = (nck_isa){0};
    }
    (void)isa_up_to(isa_best_name(), &choice);
    return choice;
}

static void isa_fill(void) {
    int n = 0;
    for (int i = 0; i < N_ROWS; i++) {
        const char *name = isa_rows[i].has_tables.name;
        if (!isa_usable(&isa_rows[i]) || (n > 0 && strcmp(isa_levels[n - 1].name, name) == 0)) continue;
        (void)isa_up_to(name, &isa_levels[n++]);
    }
    isa_chosen = isa_choose();
    atomic_store_explicit(&isa_current, &isa_chosen, memory_order_release);
}

const nck_isa *nck_isa_get(void) {
    const nck_isa *isa = atomic_load_explicit(&isa_current, memory_order_acquire);
    if (isa != NULL) return isa;
    pthread_once(&isa_once, isa_fill);
    return &isa_chosen;
}

const nck_isa *nck_isa_at(int i) {
    (void)nck_isa_get();
    return i >= 0 && i < N_ROWS && isa_levels[i].name != NULL ? &isa_levels[i] : NULL;
}

bool nck_isa_set_for_test(const char *spec) {
    (void)nck_isa_get();
    nck_isa choice = {0};
    if (spec == NULL)
        choice = isa_choose();
    else if (!isa_parse(spec, &choice))
        return false;
    isa_chosen = choice;
    return true;
}

bool nck_isa_table_line(int i, nck_isa_line *line) {
    const nck_isa *isa = nck_isa_get();
#define LINE(table, id) {#table, isa->from.table},
    const nck_isa_line lines[] = {NCK_ISA_TABLES(LINE, )};
#undef LINE
    if (i < 0 || i >= (int)(sizeof lines / sizeof *lines)) return false;
    *line = lines[i];
    return true;
}

bool nck_isa_missing_line(int i, nck_isa_line *line) {
    for (int k = 0; k < N_ROWS; k++) {
        const char *name = isa_rows[k].has_tables.name;
        bool again = k > 0 && strcmp(isa_rows[k - 1].has_tables.name, name) == 0;
        if (again || isa_usable(&isa_rows[k]) || i-- > 0) continue;
        *line = (nck_isa_line){name, isa_rows[k].needs};
        return true;
    }
    return false;
}
