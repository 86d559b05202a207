/* tests/fuzz/fuzz_node_one.h: what fuzzing does with one model of one node (fuzz_node_draw.h): it is saved as ONNX,
 * loaded, planned and run, on cpu and on guard, with bounded memory; where both run, their results have equal bits.
 * Shared by the fuzz target and the replay test. */
#ifndef NC_TESTS_FUZZ_NODE_ONE_H
#define NC_TESTS_FUZZ_NODE_ONE_H

#include "base/mem.h"
#include "infer/infer.h"
#include "onnx/save.h"
#include "ops/binding.h"
#include "tests/fuzz/fuzz_node_draw.h"

enum { FUZZ_MAX_OUT = 16 };

typedef struct fuzz_result {
    nacre_code code;
    nacre_error err;
    nacre_value *out[FUZZ_MAX_OUT];
    size_t n_out;
} fuzz_result;

static void fuzz_node_execute(nacre_session *s, fuzz_drawn *d, fuzz_result *r) {
    const char *in[FUZZ_MAX_IN], *out[FUZZ_MAX_OUT];
    nacre_run_options *o = NULL;
    for (int i = 0; i < d->n_fed; i++) in[i] = d->names[i];
    r->n_out = nacre_session_n_outputs(s);
    for (size_t i = 0; i < r->n_out; i++) out[i] = nacre_session_output_name(s, i);
    r->code = nacre_run_options_create(&o, &r->err);
    if (r->code == NACRE_OK) r->code = nacre_run(s, o, in, d->fed, (size_t)d->n_fed, out, r->n_out, r->out, &r->err);
    nacre_run_options_release(o);
}

static void fuzz_node_on(nacre_env *env, const char *device, const nc_text *bytes, bool level, fuzz_drawn *d,
                         fuzz_result *r) {
    nacre_model *m = NULL;
    nacre_session *s = NULL;
    nacre_options *o = NULL;
    r->code = nacre_options_create(&o, &r->err);
    if (r->code == NACRE_OK) r->code = nacre_options_set(o, "device", device, &r->err);
    if (r->code == NACRE_OK) r->code = nacre_options_set(o, "memory_limit", "67108864", &r->err);
    if (r->code == NACRE_OK) r->code = nacre_options_set(o, "level", level ? "all" : "off", &r->err);
    if (r->code == NACRE_OK) r->code = nacre_model_load_bytes(env, bytes->s, bytes->n, &m, &r->err);
    if (r->code == NACRE_OK) r->code = nacre_session_create(env, m, o, &s, &r->err);
    if (r->code == NACRE_OK) fuzz_node_execute(s, d, r);
    nacre_session_release(s);
    nacre_options_release(o);
}

static const char *fuzz_node_compare(const fuzz_result *a, const fuzz_result *b) {
    if (a->code != NACRE_OK || b->code != NACRE_OK) {
        bool short_of = a->code == NACRE_LIMIT || b->code == NACRE_LIMIT || a->code == NACRE_MEMORY;
        return (a->code == NACRE_OK) == (b->code == NACRE_OK) || short_of ? NULL : "it runs on one device alone";
    }
    for (size_t i = 0; i < a->n_out; i++) {
        nacre_value *x = a->out[i], *y = b->out[i];
        if (nacre_value_kind(x) != nacre_value_kind(y) || nacre_value_type(x) != nacre_value_type(y) ||
            nacre_value_count(x) != nacre_value_count(y) || nacre_value_bytes(x) != nacre_value_bytes(y))
            return "the devices give values of different types or sizes";
        if (nacre_value_bytes(x) && memcmp(nacre_value_data(x), nacre_value_data(y), nacre_value_bytes(x)) != 0)
            return "the devices give different bits";
    }
    return NULL;
}

static const char *fuzz_node_both(nacre_env *env, const nc_text *bytes, bool level, fuzz_drawn *d) {
    fuzz_result cpu = {0}, guard = {0};
    fuzz_node_on(env, "cpu", bytes, level, d, &cpu);
    fuzz_node_on(env, "guard", bytes, level, d, &guard);
    const char *wrong = NULL;
    if (cpu.code != NACRE_OK && !cpu.err.text[0]) wrong = "it failed without a message";
    if (!wrong) wrong = fuzz_node_compare(&cpu, &guard);
    if (wrong)
        fprintf(stderr, "%s of version %d: cpu: %d %s; guard: %d %s\n", d->card->name, d->version->since, cpu.code,
                cpu.err.text, guard.code, guard.err.text);
    for (size_t i = 0; i < FUZZ_MAX_OUT; i++) {
        nacre_value_release(cpu.out[i]);
        nacre_value_release(guard.out[i]);
    }
    return wrong;
}

/* Files say what outputs are: what inference finds, else a tensor, and then loading or planning tells what is wrong. */
static void fuzz_node_declare(nc_work *w, fuzz_drawn *d) {
    nc_graph *g = d->m->main;
    nc_code code = nc_node_check(w, g->first); /* as loading does: inference trusts it */
    if (code == NC_OK) code = nc_infer_model(w, d->m);
    for (int i = 0; i < g->outputs.n; i++)
        if (code != NC_OK || !g->outputs.v[i]->type)
            g->outputs.v[i]->type = nc_type_tensor(&d->m->arena, NC_FLOAT, -1, NULL);
    w->diag = (nc_diag){0};
}

/* NULL, or what went wrong. card NULL: one that the bytes name. */
__attribute__((unused)) static const char *fuzz_node_of(const nc_card *card, const uint8_t *data, size_t size) {
    static nacre_env *env;
    nacre_error err;
    if (!env && nacre_env_create(1, &env, &err) != NACRE_OK) return NULL;
    uint64_t live = nc_mem_live();
    const char *wrong = NULL;
    fuzz_drawn d;
    nc_work w;
    nc_text bytes = {0};
    nc_work_init(&w);
    bool drawn = fuzz_draw(&d, card, data, size, nc_ops_registry());
    if (drawn) fuzz_node_declare(&w, &d);
    if (drawn && nc_onnx_save(&w, d.m, &bytes) == NC_OK) wrong = fuzz_node_both(env, &bytes, fuzz_byte(&d) & 1, &d);
    fuzz_release(&d);
    nc_text_release(&bytes);
    nc_work_release(&w);
    if (!wrong && nc_mem_live() > live + 64) wrong = "memory was not given back";
    return wrong;
}

__attribute__((unused)) static const char *fuzz_node_one(const uint8_t *data, size_t size) {
    return fuzz_node_of(NULL, data, size);
}

#endif
