/* api/signature.c: what a session says of itself: names, types and shapes of its inputs, outputs and variables,
 * initializers that can be overridden, and the model's own words. Read from the program and the model that the
 * session keeps. */
#include "api/api.h"

#include "base/mem.h"
#include "ir/dim_sign.h"

#include <stdio.h>
#include <string.h>

/* Inputs with a default, or those without, stand in the order of the model's inputs. */
static bool has_default(const nacre_session *s, size_t i) { return s->s->initials && s->s->initials[i]; }

size_t nacre_session_n(const nacre_session *s, nacre_side side) {
    if (side == NACRE_OUTPUT) return nacre_session_n_outputs(s);
    if (side == NACRE_VARIABLE) return (size_t)s->s->program->n_vars;
    if (side == NACRE_EVERY_INPUT) return nacre_session_n_inputs(s);
    size_t n = 0;
    for (size_t i = 0; i < nacre_session_n_inputs(s); i++) n += has_default(s, i) == (side == NACRE_OVERRIDABLE);
    return n;
}

static size_t input_at(const nacre_session *s, nacre_side side, size_t i) {
    size_t k = 0;
    if (side == NACRE_EVERY_INPUT) return i;
    for (;; k++)
        if (has_default(s, k) == (side == NACRE_OVERRIDABLE) && i-- == 0) return k;
}

static void print_type(nc_text *out, const nc_type *t) {
    if (!t) {
        nc_text_add(out, "?");
        return;
    }
    const char *elem = nc_dtype_name(t->elem);
    switch (t->kind) {
    case NC_T_TENSOR: nc_text_addf(out, "tensor(%s", elem); break;
    case NC_T_SPARSE: nc_text_addf(out, "sparse_tensor(%s", elem); break;
    case NC_T_MAP: nc_text_addf(out, "map(%s,", elem); break;
    case NC_T_SEQUENCE: nc_text_add(out, "seq("); break;
    case NC_T_OPTIONAL: nc_text_add(out, "optional("); break;
    case NC_T_TAPE: nc_text_add(out, "tape("); break;
    }
    if (t->kind == NC_T_MAP || t->kind == NC_T_SEQUENCE || t->kind == NC_T_OPTIONAL) print_type(out, t->of);
    nc_text_add(out, ")");
}

static bool named(const nc_dims *t, const nc_dim *d, bool *used) {
    int n = nc_dims_n_syms(t);
    memset(used, 0, (size_t)n * sizeof *used);
    nc_dim_mark(d, used);
    for (int i = 0; i < n; i++)
        if (used[i] && nc_dims_sym_is_fresh(t, i)) return false;
    return true;
}

static nc_code name_dim(const nc_dims *table, const nc_dim *d, char name[64]) {
    bool *used = nc_alloc_zero((size_t)nc_dims_n_syms(table) + 1, sizeof *used);
    if (!used) return NC_E_MEMORY;
    nc_text t = {0};
    int id = nc_dim_sym_id(d);
    if (id >= 0 && nc_dims_sym_sign(table, id)) {
        nc_text_add(&t, nc_dims_sym_sign(table, id));
    } else if (named(table, d, used)) {
        if (id >= 0)
            nc_text_add(&t, nc_dims_sym_name(table, id));
        else
            nc_dim_print(&t, d);
    }
    bool failed = t.failed;
    snprintf(name, 64, "%s", t.s ? t.s : "");
    nc_text_release(&t);
    nc_free(used);
    return failed ? NC_E_MEMORY : NC_OK;
}

enum { ROOM = sizeof((nacre_signature *)NULL)->dims / sizeof(int64_t) };

static int rank_of(const nc_type *t) { return t && (t->kind == NC_T_TENSOR || t->kind == NC_T_SPARSE) ? t->rank : -1; }

static nc_code fill(const nc_dims *table, const nc_type *type, nacre_signature *out) {
    nc_text t = {0};
    print_type(&t, type);
    bool failed = t.failed;
    snprintf(out->type, sizeof out->type, "%s", t.s ? t.s : "");
    nc_text_release(&t);
    if (failed) return NC_E_MEMORY;
    out->rank = rank_of(type) <= ROOM ? rank_of(type) : -1;
    for (int d = 0; d < out->rank; d++) {
        if (nc_dim_is_const(type->dims[d], &out->dims[d])) continue;
        out->dims[d] = -1;
        NC_TRY(name_dim(table, type->dims[d], out->dim_names[d]));
    }
    return NC_OK;
}

/* i is in range. */
static const nc_type *type_at(const nacre_session *s, nacre_side side, size_t i) {
    const nc_program *p = s->s->program;
    int slot = side == NACRE_VARIABLE ? p->vars[i]
               : side == NACRE_OUTPUT ? p->outputs[i]
                                      : p->inputs[input_at(s, side, i)];
    return nc_value_told(p->slots[slot].value);
}

nacre_code nacre_session_signature(const nacre_session *s, nacre_side side, size_t i, nacre_signature *out,
                                   nacre_error *err) {
    const nc_program *p = s->s->program;
    size_t n = nacre_session_n(s, side);
    nacre_signature sig = {.rank = -1};
    if (i >= n) return nc_api_fail(err, NC_E_ARGUMENT, "the session has %zu of these, none with index %zu", n, i);
    if (side == NACRE_VARIABLE)
        sig.name = p->graph->vars.v[i]->name;
    else if (side == NACRE_OUTPUT)
        sig.name = nacre_session_output_name(s, i);
    else
        sig.name = nacre_session_input_name(s, input_at(s, side, i));
    nc_code code = fill(p->model->dims, type_at(s, side, i), &sig);
    if (code != NC_OK) return nc_api_error(err, code, NULL);
    *out = sig;
    return NACRE_OK;
}

int nacre_session_dims(const nacre_session *s, nacre_side side, size_t i, int64_t *dims, int room) {
    const nc_type *t = i < nacre_session_n(s, side) ? type_at(s, side, i) : NULL;
    int rank = rank_of(t);
    for (int d = 0; d < rank && d < room; d++)
        if (!nc_dim_is_const(t->dims[d], &dims[d])) dims[d] = -1;
    return rank;
}

int nacre_session_dim_name(const nacre_session *s, nacre_side side, size_t i, int axis, char name[64]) {
    const nc_type *t = i < nacre_session_n(s, side) ? type_at(s, side, i) : NULL;
    int64_t size;
    name[0] = 0;
    if (axis < 0 || axis >= rank_of(t)) return 0;
    const nc_dim *d = t->dims[axis];
    if (!nc_dim_is_const(d, &size) && name_dim(s->s->program->model->dims, d, name) == NC_OK && name[0]) return 1;
    nc_text dump = {0};
    nc_dim_print(&dump, d);
    snprintf(name, 64, "%s", dump.s ? dump.s : "?");
    nc_text_release(&dump);
    return 0;
}

static const char *text(const char *s) { return s ? s : ""; }

void nacre_session_model_info(const nacre_session *s, nacre_model_info *out) {
    const nc_model *m = s->s->model;
    *out = (nacre_model_info){.producer_name = text(m->producer_name),
                              .producer_version = text(m->producer_version),
                              .domain = text(m->domain),
                              .description = text(m->doc),
                              .graph_name = text(m->main->name),
                              .graph_description = text(m->graph_doc),
                              .version = m->model_version,
                              .ir_version = m->ir_version,
                              .n_props = (size_t)m->props.n};
}

const char *nacre_session_prop(const nacre_session *s, size_t i, const char **value) {
    const nc_model *m = s->s->model;
    if (i >= (size_t)m->props.n) return NULL;
    if (value) *value = text(m->props.v[i].value);
    return m->props.v[i].key;
}
