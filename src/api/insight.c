/* api/insight.c: where time and memory go: profile, trim, plan. */
#include "api/api.h"

#include "base/mem.h"
#include "plan/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- profile ---- */

static nacre_code need_profile(const nacre_session *s, nacre_error *err) {
    if (s->s->profile) return NACRE_OK;
    return nc_api_fail(err, NC_E_ARGUMENT, "the session was made without the option profile=on");
}

nacre_code nacre_session_profile(nacre_session *s, char **trace, nacre_error *err) {
    nacre_code code = need_profile(s, err);
    if (code != NACRE_OK) return code;
    nc_text t = {0};
    nc_profile_trace(s->s->profile, &t);
    return nc_api_text(&t, trace, err);
}

_Static_assert(sizeof(nacre_profile_op) == sizeof(nc_profile_op) &&
                   offsetof(nacre_profile_op, bytes) == offsetof(nc_profile_op, bytes),
               "the rows are handed out as they are");

nacre_code nacre_session_profile_ops(nacre_session *s, nacre_profile_op **rows, size_t *n, nacre_error *err) {
    nacre_code code = need_profile(s, err);
    if (code != NACRE_OK) return code;
    nc_profile_op *v;
    if (nc_profile_ops(s->s->profile, &v, n) != NC_OK) return nc_api_error(err, NC_E_MEMORY, NULL);
    *rows = (nacre_profile_op *)(void *)v;
    return NACRE_OK;
}

void nacre_session_profile_reset(nacre_session *s) {
    if (s->s->profile) nc_profile_reset(s->s->profile);
}

void nacre_session_trim(nacre_session *s) { nc_session_trim(s->s); }

/* ---- plan ---- */

typedef struct sizes {
    int64_t *values;
    bool *known;
} sizes;

static nc_code set_dim(nc_work *w, const nc_program *p, const sizes *z, const char *name, int64_t v) {
    nc_text all = {0};
    for (int i = 0; i < p->n_syms; i++) {
        if (!p->input_syms[i]) continue;
        const char *s = nc_dims_sym_name(p->model->dims, i);
        if (strcmp(s, name) == 0) {
            nc_text_release(&all);
            if (v < 0) NC_FAIL(w, NC_E_ARGUMENT, "dim '%s' is %lld", name, (long long)v);
            z->values[i] = v;
            return NC_OK;
        }
        nc_text_addf(&all, "%s%s", all.n ? ", " : "", s);
    }
    nc_code code =
        nc_fail(w, NC_E_ARGUMENT, "the model's inputs have no dim '%s'; there are: %s", name, all.s ? all.s : "none");
    nc_text_release(&all);
    return code;
}

static int earlier_first(const void *a, const void *b) {
    const nacre_plan_row *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Behind the rows, so that they are freed together. */
static void fill_steps(const nc_program *p, nacre_plan_step *steps) {
    for (int i = 0; i < p->n_instrs; i++)
        snprintf(steps[i].op, sizeof steps[i].op, "%s", p->instrs[i].node->card->name);
}

static nc_code fill_plan(nc_work *w, const nc_program *p, const nc_prediction *r, nacre_plan *out) {
    size_t bytes = ((size_t)r->slots.n + 1) * sizeof *out->rows;
    nacre_plan_row *rows = nc_alloc_zero(1, bytes + (size_t)p->n_instrs * sizeof *out->steps);
    NC_NEED(w, rows);
    fill_steps(p, (nacre_plan_step *)(void *)((char *)rows + bytes));
    out->steps = (const nacre_plan_step *)(const void *)((const char *)rows + bytes);
    for (int i = 0; i < r->slots.n; i++) {
        const nc_predicted_slot *s = &r->slots.v[i];
        rows[i] = (nacre_plan_row){.place = s->place,
                                   .segment = s->seg,
                                   .first = s->first,
                                   .last = s->last,
                                   .offset = s->offset,
                                   .bytes = s->bytes};
        snprintf(rows[i].name, sizeof rows[i].name, "%s", s->name);
        snprintf(rows[i].op, sizeof rows[i].op, "%s", s->op);
    }
    if (r->slots.n) qsort(rows, (size_t)r->slots.n, sizeof *rows, earlier_first);
    out->rows = rows, out->n_rows = (size_t)r->slots.n, out->n_unknown = (size_t)r->n_unknown;
    for (int k = 0; k < 2; k++) {
        out->bytes_frame[k] = r->frame[k], out->bytes_constants[k] = r->consts[k], out->bytes_packed[k] = r->packed[k];
        out->bytes_state[k] = r->state[k], out->bytes_outputs[k] = r->outputs[k];
    }
    return NC_OK;
}

static nc_code predict(nc_work *w, const nc_program *p, const char *const *names, const int64_t *dims, size_t n,
                       nacre_plan *out) {
    size_t n_syms = (size_t)nc_dims_n_syms(p->model->dims) + 1;
    sizes z = {nc_arena_array(&w->scratch, n_syms, sizeof *z.values),
               nc_arena_array(&w->scratch, n_syms, sizeof *z.known)};
    NC_NEED(w, z.values);
    NC_NEED(w, z.known);
    for (int i = 0; i < p->n_syms; i++) z.values[i] = 1, z.known[i] = p->input_syms[i];
    for (size_t i = 0; i < n; i++) NC_TRY(set_dim(w, p, &z, names[i], dims[i]));
    nc_prediction r;
    NC_TRY(nc_predict(w, &w->scratch, p, z.values, z.known, &r));
    return fill_plan(w, p, &r, out);
}

nacre_code nacre_session_plan(nacre_session *s, const char *const *dim_names, const int64_t *dims, size_t n,
                              nacre_plan *out, nacre_error *err) {
    nacre_plan got;
    nacre_code read = nc_api_read_struct(err, "nacre_plan", out, &got, sizeof got);
    if (read != NACRE_OK) return read;
    size_t bytes = out->size < sizeof got ? out->size : sizeof got;
    nc_work w;
    nc_work_init(&w);
    got = (nacre_plan){.size = bytes, .n_steps = (size_t)s->s->program->n_instrs};
    nc_code code = predict(&w, s->s->program, dim_names, dims, n, &got);
    if (code == NC_OK) memcpy(out, &got, bytes);
    return nc_api_end(&w, code, err);
}
