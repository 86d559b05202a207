/* run/session.c: from a loaded model to something that runs: every stage once, in order, each with its dump. */
#include "run/session.h"

#include "autodiff/autodiff.h"
#include "base/file.h"
#include "base/mem.h"
#include "device/host_kept.h"
#include "infer/infer.h"
#include "ir/assume.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "onnx/save.h"
#include "run/pack_file.h"
#include "transform/mixed.h"
#include "transform/transform.h"

#include <string.h>

typedef struct maker {
    nc_work *w;
    nc_session *s;
    const nc_session_options *o;
} maker;

static void dump(maker *k, nc_dump_stage stage) {
    if (k->o->keep_dumps) nc_graph_print_typed(&k->s->dumps[stage], k->s->model);
}

static nc_code find_io(maker *k, const nc_tie *t, nc_value **in, int *i_out) {
    nc_graph *g = k->s->model->main;
    *in = NULL, *i_out = -1;
    for (int i = 0; i < g->inputs.n; i++)
        if (strcmp(g->inputs.v[i]->name, t->input) == 0) *in = g->inputs.v[i];
    for (int i = 0; i < g->outputs.n; i++)
        if (strcmp(g->output_names.v[i], t->output) == 0) *i_out = i;
    if (!*in)
        NC_FAIL(k->w, NC_E_ARGUMENT, "tie '%s' to '%s': the model has no input '%s'", t->input, t->output, t->input);
    if (*i_out < 0)
        NC_FAIL(k->w, NC_E_ARGUMENT, "tie '%s' to '%s': the model has no output '%s'", t->input, t->output, t->output);
    return NC_OK;
}

static nc_code tie(maker *k) {
    for (int i = 0; i < k->o->n_ties; i++) {
        nc_value *in;
        int i_out;
        NC_TRY(find_io(k, &k->o->ties[i], &in, &i_out));
        nc_value *last = k->s->model->main->outputs.v[i_out];
        if (last->origin != NC_FROM_NODE)
            NC_FAIL(k->w, NC_E_ARGUMENT, "tie to '%s': it is not computed by a node", k->o->ties[i].output);
        NC_TRY(nc_edit_make_variable(in));
        nc_edit_set_version(in->var, last);
        nc_edit_remove_output(k->s->model->main, i_out);
    }
    return NC_OK;
}

/* ---- initializers that are variables ---- */

static bool is_initializer(const nc_value *v) {
    return v->origin == NC_FROM_CONST || (v->origin == NC_FROM_INPUT && v->initial);
}

/* Values that decide sizes are asked for while planning: a Resize's scales. */
static bool decides_sizes(const nc_value *v) {
    for (int i = 0; i < v->uses.n; i++) {
        const nc_use *u = &v->uses.v[i];
        if (u->i < 32 && (u->node->card->host_in >> u->i & 1)) return true;
    }
    return false;
}

static bool is_weight(const nc_value *v) {
    const nc_literal *l = v->origin == NC_FROM_CONST ? v->lit : v->initial;
    return is_initializer(v) && l && nc_dtype_is_float(l->dtype) && v->uses.n > 0 && !decides_sizes(v);
}

static nc_code make_all_variables(maker *k, nc_value *const *v, int n) {
    nc_value **all = nc_arena_array(&k->w->scratch, (size_t)n + 1, sizeof(nc_value *));
    NC_NEED(k->w, all); /* the graph's own list shrinks meanwhile */
    memcpy(all, v, (size_t)n * sizeof(nc_value *));
    for (int i = 0; i < n; i++)
        if (is_weight(all[i])) NC_TRY(nc_edit_make_variable(all[i]));
    return NC_OK;
}

static nc_code make_variable(maker *k, const char *name) {
    nc_value *v = nc_graph_find(k->s->model->main, name);
    if (v && v->origin == NC_FROM_VARIABLE) return NC_OK;
    if (!v || !is_initializer(v)) NC_FAIL(k->w, NC_E_ARGUMENT, "variables: the model has no initializer '%s'", name);
    return nc_edit_make_variable(v);
}

static nc_code make_variables(maker *k) {
    nc_graph *g = k->s->model->main;
    for (int i = 0; i < k->o->n_variables; i++) {
        if (strcmp(k->o->variables[i], "*") != 0) {
            NC_TRY(make_variable(k, k->o->variables[i]));
            continue;
        }
        NC_TRY(make_all_variables(k, g->consts.v, g->consts.n));
        NC_TRY(make_all_variables(k, g->inputs.v, g->inputs.n));
    }
    return NC_OK;
}

/* A state holds tensors of numbers. */
static nc_code check_variables(maker *k) {
    const nc_graph *g = k->s->model->main;
    for (int i = 0; i < g->vars.n; i++) {
        const nc_type *t = g->vars.v[i]->first->type;
        k->w->at_node = g->vars.v[i]->name, k->w->at_op = "variable";
        if (!t || nc_type_is_host(t)) NC_FAIL(k->w, NC_E_UNSUPPORTED, "expected a tensor of numbers");
        if (t->rank < 0) NC_FAIL(k->w, NC_E_UNSUPPORTED, "expected a known rank: the model does not tell it");
    }
    k->w->at_node = k->w->at_op = NULL;
    return NC_OK;
}

/* Other values need no change: a symbol that a model declares gives way to what inference finds. */
static nc_code fix_dims(maker *k) {
    nc_model *m = k->s->model;
    for (int f = 0; f < k->o->n_fixed_dims; f++) {
        const nc_dim *name = nc_dim_sym(m->dims, k->o->fixed_dims[f].name);
        const nc_dim *value = nc_dim_const(m->dims, k->o->fixed_dims[f].value);
        NC_NEED(k->w, name);
        NC_NEED(k->w, value);
        for (int i = 0; i < m->main->inputs.n; i++) {
            const nc_type *t = m->main->inputs.v[i]->type;
            const nc_dim *dims[NC_MAX_RANK];
            if (!t || t->kind != NC_T_TENSOR || t->rank < 0) continue;
            for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d] == name ? value : t->dims[d];
            m->main->inputs.v[i]->type = nc_type_tensor(&m->arena, t->elem, t->rank, dims);
            NC_NEED(k->w, m->main->inputs.v[i]->type);
        }
    }
    return NC_OK;
}

/* The first dim of a symbol keeps it, those behind get new ones. */
static nc_code part_dims(maker *k, nc_value *in, bool *seen) {
    nc_model *m = k->s->model;
    const nc_type *t = in->type;
    const nc_dim *dims[NC_MAX_RANK];
    int twice = -1;
    if (!t || t->kind != NC_T_TENSOR) return NC_OK;
    for (int d = 0; d < t->rank; d++) {
        int sym = nc_dim_sym_id(t->dims[d]);
        dims[d] = t->dims[d];
        if (sym >= 0 && seen[sym]) NC_NEED(k->w, dims[twice = d] = nc_dim_fresh(m->dims, in->name));
        if (sym >= 0) seen[sym] = true;
    }
    if (twice < 0) return NC_OK;
    NC_NEED(k->w, in->type = nc_type_tensor(&m->arena, t->elem, t->rank, dims));
    return nc_assume(k->w, m, NC_ASSUME_SYMBOL, "axis %d of input '%s' is called as another one", twice, in->name);
}

static nc_code part_symbols(maker *k) {
    nc_model *m = k->s->model;
    bool *seen = nc_arena_array(&k->w->scratch, (size_t)nc_dims_n_syms(m->dims) + 1, sizeof *seen);
    NC_NEED(k->w, seen);
    for (int i = 0; i < m->main->inputs.n; i++) NC_TRY(part_dims(k, m->main->inputs.v[i], seen));
    return NC_OK;
}

static bool is_all(const char *name) { return strcmp(name, "*") == 0; }

static nc_code mark_recompute(maker *k) {
    for (int i = 0; i < k->o->n_recompute; i++) {
        if (is_all(k->o->recompute[i])) continue;
        nc_node *n = nc_graph_find_node(k->s->model->main, k->o->recompute[i]);
        if (!n) NC_FAIL(k->w, NC_E_ARGUMENT, "recompute: the model has no node '%s'", k->o->recompute[i]);
        n->recompute = true;
    }
    return NC_OK;
}

/* How this session's graphs are transformed, those that are planned while it runs too: kept with the model. */
static nc_code keep_transform(maker *k) {
    const nc_session_options *o = k->o;
    nc_how *how = &k->s->how;
    nc_arena *a = &k->s->model->arena;
    const char **off = nc_arena_array(a, (size_t)o->n_passes_off + 1, sizeof *off);
    NC_NEED(k->w, off);
    for (int i = 0; i < o->n_passes_off; i++) NC_NEED(k->w, off[i] = nc_arena_str(a, o->passes_off[i]));
    how->transform = (nc_transform_options){.level = o->level, .off = off, .n_off = o->n_passes_off};
    if (o->patterns == NULL) return NC_OK;
    NC_TRY(nc_rules_parse(k->w, a, o->patterns, &how->rules));
    how->transform.rules = &how->rules;
    return NC_OK;
}

static nc_code pass_over(maker *k, bool after_gradient, bool newer) {
    nc_model *m = k->s->model;
    nc_transform_options *o = &k->s->how.transform;
    o->after_gradient = after_gradient, o->newer = newer;
    NC_TRY(nc_transform(k->w, m, o));
    if (!m->stale_sizes) return NC_OK;
    m->stale_sizes = false;
    return nc_infer_model(k->w, m);
}

/* Before gradients. Half precision comes behind the passes, whose patterns know no casts between their parts; casts of
 * constants and casts that meet are left to another round. What is mixed already stays as it is. */
static nc_code transform(maker *k, bool newer) {
    NC_TRY(pass_over(k, false, newer));
    if (k->o->compute == NC_UNDEFINED) return NC_OK;
    NC_TRY(nc_transform_mixed(k->w, k->s->model, k->o->compute));
    return pass_over(k, false, newer);
}

static nc_code hold_values(maker *k) {
    for (int i = 0; i < k->o->n_stops; i++) {
        nc_value *v;
        NC_TRY(nc_graph_need(k->w, k->s->model->main, k->o->stops[i], "stop_gradient", &v));
        NC_TRY(nc_autodiff_stop(k->w, v, NULL));
    }
    return NC_OK;
}

/* As the passes leave it that keep to its opset. */
static nc_code save(maker *k) {
    NC_TRY(transform(k, false));
    return nc_onnx_save_file(k->w, k->s->model, k->o->save_path, &k->o->save);
}

static nc_code make_graph(maker *k) {
    const nc_session_options *o = k->o;
    nc_model *m = k->s->model;
    m->infers_only = !o->differentiate;
    NC_TRY(nc_assume_strictly(k->w, m, o->strict));
    NC_TRY(keep_transform(k));
    dump(k, NC_DUMP_GRAPH);
    NC_TRY(fix_dims(k));
    if (o->parts_symbols) NC_TRY(part_symbols(k));
    NC_TRY(tie(k));
    NC_TRY(make_variables(k));
    NC_TRY(nc_infer_model(k->w, m));
    NC_TRY(check_variables(k));
    dump(k, NC_DUMP_INFERRED);
    NC_TRY(nc_autodiff_expand(k->w, m));
    NC_TRY(mark_recompute(k));
    if (o->differentiate) NC_TRY(hold_values(k));
    if (o->save_path) NC_TRY(save(k));
    NC_TRY(transform(k, !o->differentiate));
    dump(k, NC_DUMP_TRANSFORMED);
    if (!o->differentiate) return nc_verify(k->w, m);
    NC_TRY(o->differentiate(k->w, m, o->differentiate_ctx));
    nc_autodiff_unstop_all(m->main);
    dump(k, NC_DUMP_DIFFERENTIATED);
    NC_TRY(pass_over(k, true, false));
    return nc_verify(k->w, m);
}

static nc_object *object_of(const nc_literal *l) {
    if (l->dtype == NC_STRING) return nc_object_strings(l->rank, l->dims, l->data);
    nc_object *o = nc_object_host_tensor(l->dtype, l->rank, l->dims);
    if (o && l->bytes) memcpy(o->t.data, l->data, l->bytes);
    return o;
}

static nc_code make_initials(maker *k) {
    const nc_program *p = k->s->program;
    NC_NEED(k->w, k->s->initials = nc_alloc_zero((size_t)p->n_inputs + 1, sizeof(nc_object *)));
    for (int i = 0; i < p->n_inputs; i++) {
        const nc_value *v = p->slots[p->inputs[i]].value;
        if (v->initial) NC_NEED(k->w, k->s->initials[i] = object_of(v->initial));
    }
    return NC_OK;
}

/* What loading touched of the files lies between the tensors and is not read again. */
static void forget_files(const nc_model *m) {
    for (int i = 0; i < m->buffers.n; i++)
        if (m->buffers.v[i]->file) nc_file_forget(m->buffers.v[i]->ptr, m->buffers.v[i]->bytes);
}

static void keep_plan(maker *k, const nc_plan_options *po) {
    nc_plan_options *plan = &k->s->how.plan;
    *plan = *po;
    plan->cuts = NULL, plan->n_cuts = 0;
    plan->given = NULL, plan->n_given = plan->n_streams = 0;
}

static nc_code make_program(maker *k) {
    nc_session *s = k->s;
    const nc_session_options *o = k->o;
    NC_TRY(nc_env_device(s->env, k->w, o->device ? o->device : "cpu", &s->device));
    NC_NEED(k->w, s->budget = nc_budget_create(o->bytes_limit));
    nc_plan_options po = {.device = s->device,
                          .no_fusion = o->no_fusion,
                          .no_layout = o->no_layout,
                          .no_views = o->no_views,
                          .no_packing = o->no_packing,
                          .no_winograd = o->no_winograd,
                          .tf32 = o->tf32,
                          .tune = o->tune,
                          .dnn_draws = o->dnn_draws,
                          .no_host = o->no_host,
                          .cuts = o->cuts,
                          .n_cuts = o->n_cuts,
                          .n_streams = o->n_streams,
                          .given = o->given,
                          .n_given = o->n_given,
                          .grad = nc_autodiff_emit};
    for (int i = 0; i < o->n_recompute; i++) po.takes_anew |= is_all(o->recompute[i]);
    keep_plan(k, &po);
    NC_TRY(nc_plan_lower(k->w, s->model, &po));
    dump(k, NC_DUMP_LOWERED);
    NC_TRY(nc_plan_build(k->w, s->model, &po, &s->program));
    s->stats.plans++;
    if (s->profile) s->profile->streams = s->program->streams, s->profile->n_streams = s->program->n_streams;
    if (o->keep_dumps) nc_program_print(&s->dumps[NC_DUMP_PROGRAM], s->program);
    NC_TRY(nc_prepared_create(k->w, s->env, s->budget, s->program, &s->prepared));
    if (o->packed_file) NC_TRY(nc_pack_file(k->w, s->prepared, o->packed_file));
    NC_TRY(make_initials(k));
    return nc_readers_find(k->w, s->prepared); /* the last: nothing of the making reads a constant behind it */
}

static uint64_t next_uid(void) {
    static _Atomic uint64_t last;
    return ++last;
}

static nc_code keep_log(maker *k) {
    k->s->log = k->o->log;
    if (k->o->log.id) NC_NEED(k->w, k->s->log.id = nc_arena_str(&k->s->model->arena, k->o->log.id));
    return NC_OK;
}

/* In a forked child nobody makes the instances that other threads had begun. */
static void renew(void *session) {
    nc_session *s = session;
    pthread_cond_init(&s->made, NULL);
    for (nc_cached *c = s->newest; c; c = c->older)
        if (!c->instance) c->failed = true, c->users = 0;
}

nc_code nc_session_create(nc_work *w, nc_env *env, nc_model *m, const nc_session_options *o, nc_session **out) {
    nc_session *s = nc_alloc_zero(1, sizeof *s);
    if (!s) {
        nc_model_destroy(m);
        NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    nc_host_kept_users(1);
    s->env = nc_env_ref(env), s->model = m, s->capture = o->capture && !o->profile, s->seed = o->seed;
    s->uid = next_uid();
    s->flush_denormals = o->flush_denormals;
    nc_lock_init(&s->lock, NC_LOCK_SESSION, renew, s);
    pthread_cond_init(&s->made, NULL);
    nc_lock_init(&s->deferred_lock, NC_LOCK_DEFERRED, NULL, NULL);
    maker k = {w, s, o};
    nc_code code = NC_OK;
    uint64_t failures = nc_mem_failures();
    if (o->profile && !(s->profile = nc_profile_create())) code = nc_fail(w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK) code = keep_log(&k);
    nc_log_scope before = nc_log_enter(s->log);
    if (code == NC_OK) code = make_graph(&k);
    if (code == NC_OK) code = make_program(&k);
    nc_log_enter(before);
    forget_files(m);
    w->at_node = w->at_op = NULL;
    code = nc_work_finish(w, code, failures);
    if (code != NC_OK) {
        nc_session_destroy(s);
        return code;
    }
    *out = s;
    return NC_OK;
}

nc_code nc_session_make_state(nc_work *w, nc_session *s, nc_state **out) {
    nc_state *made;
    NC_TRY(nc_state_create(w, s->env, s->device, s->budget, &made));
    nc_code code = nc_state_add_program(w, made, s->program, s->seed);
    if (code != NC_OK) {
        nc_state_unref(made);
        return code;
    }
    *out = made;
    return NC_OK;
}

nc_code nc_session_state(nc_work *w, nc_session *s, nc_state **out) {
    nc_state *made = NULL;
    nc_lock_take(&s->lock);
    *out = s->state;
    nc_lock_give(&s->lock);
    if (*out) return NC_OK;
    NC_TRY(nc_session_make_state(w, s, &made));
    nc_lock_take(&s->lock);
    if (!s->state) s->state = made, made = NULL;
    *out = s->state;
    nc_lock_give(&s->lock);
    nc_state_unref(made); /* another thread was first */
    return NC_OK;
}

void nc_session_trim(nc_session *s) {
    nc_prepared_trim(s, s->prepared);
    nc_cache_trim(s);
    for (int i = 0; i < s->program->n_places; i++) {
        nc_device *d = s->program->places[i];
        if (d->table->trim) d->table->trim(d);
    }
}

void nc_session_destroy(nc_session *s) {
    if (!s) return;
    nc_prepared_destroy(s, s->prepared);
    nc_state_unref(s->state);
    for (int i = 0; s->initials && i < s->program->n_inputs; i++) nc_object_unref(s->initials[i]);
    nc_free(s->initials);
    nc_program_destroy(s->program);
    nc_model_destroy(s->model);
    for (int i = 0; i < NC_N_DUMPS; i++) nc_text_release(&s->dumps[i]);
    nc_budget_unref(s->budget);
    nc_lock_release(&s->lock);
    nc_lock_release(&s->deferred_lock);
    pthread_cond_destroy(&s->made);
    nc_profile_destroy(s->profile);
    nc_free(s->seen);
    nc_env_unref(s->env);
    nc_free(s);
    nc_host_kept_users(-1);
}
