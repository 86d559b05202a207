/* run/deferred.c: the body of a nacre.Deferred, planned when it is reached. One variant for each set of ranks, or
 * of dims where the node is exact; of each node the MAX_VARIANTS used last are kept. A variant is a program of the
 * session: its frames run inside of the caller's, and it may hold further Deferreds. */
#include "run/frame.h"

#include "base/mem.h"
#include "infer/infer.h"
#include "ir/edit.h"
#include "ir/verify.h"
#include "transform/transform.h"

#include <string.h>

enum { MAX_VARIANTS = 16, KEY_PER_INPUT = 2 + NC_MAX_RANK };

struct nc_variant {
    int64_t *key; /* KEY_PER_INPUT numbers for each input */
    nc_model *model;
    nc_program *program;
    nc_prepared *prepared;
    int users;
    uint64_t used_at;
    struct nc_variant *next;
};

static bool is_exact(const nc_node *n) {
    const nc_attr *a = nc_node_attr(n, "exact");
    return a && a->i;
}

static void fill_key(const nc_node *n, nc_tensor *const *in, int64_t *key) {
    bool exact = is_exact(n);
    for (int i = 0; i < n->n_in; i++, key += KEY_PER_INPUT) {
        const nc_type *t = n->in[i]->type;
        if (!t || t->kind != NC_T_TENSOR) continue;
        key[0] = in[i]->dtype, key[1] = in[i]->rank;
        for (int d = 0; exact && d < in[i]->rank; d++) key[2 + d] = in[i]->dims[d];
    }
}

/* ---- making one ---- */

static nc_code set_type(nc_work *w, nc_model *m, nc_value *v, const nc_tensor *t, bool exact) {
    const nc_dim *dims[NC_MAX_RANK];
    if (!v->type || v->type->kind != NC_T_TENSOR || (v->type->rank >= 0 && !exact)) return NC_OK;
    for (int d = 0; d < t->rank; d++) {
        dims[d] = exact ? nc_dim_const(m->dims, t->dims[d]) : nc_dim_fresh(m->dims, v->name);
        NC_NEED(w, dims[d]);
    }
    v->type = nc_type_tensor(&m->arena, t->dtype, t->rank, dims);
    NC_NEED(w, v->type);
    return NC_OK;
}

static bool is_bound(const nc_dim *d, const bool *bound, bool *none, int *syms) {
    for (int n = nc_dim_syms(d, none, syms); n > 0; n--)
        if (!bound[syms[n - 1]]) return false;
    return true;
}

/* What is known of the elements of the inputs may be told in symbols of the graph around the body, which no input of
 * the body binds: then the run reads the elements themselves. */
static nc_code forget_foreign(nc_work *w, nc_model *m) {
    size_t n = (size_t)nc_dims_n_syms(m->dims) + 1;
    bool *bound = nc_arena_array(&w->scratch, n, sizeof *bound), *none = nc_arena_array(&w->scratch, n, sizeof *none);
    int *syms = nc_arena_array(&w->scratch, n, sizeof *syms);
    NC_NEED(w, bound);
    NC_NEED(w, none);
    NC_NEED(w, syms);
    for (int i = 0; i < m->main->inputs.n; i++) {
        const nc_type *t = m->main->inputs.v[i]->type;
        for (int d = 0; t && t->kind == NC_T_TENSOR && d < t->rank; d++) nc_dim_mark(t->dims[d], bound);
    }
    for (int i = 0; i < m->main->inputs.n; i++) {
        nc_value *v = m->main->inputs.v[i];
        bool keep = true;
        for (int k = 0; keep && v->elems && k < v->n_elems; k++)
            if (v->elems[k]) keep = is_bound(v->elems[k], bound, none, syms);
        if (!keep) v->elems = NULL, v->n_elems = 0;
    }
    return NC_OK;
}

static nc_code plan(nc_work *w, nc_session *s, const nc_node *n, nc_tensor *const *in, nc_variant *v) {
    NC_NEED(w, v->model = nc_model_clone_graph(n->subs[0].graph));
    nc_model *m = v->model;
    for (int i = 0; i < n->n_in; i++) NC_TRY(set_type(w, m, m->main->inputs.v[i], in[i], is_exact(n)));
    NC_TRY(forget_foreign(w, m));
    NC_TRY(nc_infer_model(w, m));
    NC_TRY(nc_transform(w, m, &s->how.transform));
    NC_TRY(nc_verify(w, m));
    nc_plan_options o = s->how.plan;
    o.inner = true;
    NC_TRY(nc_plan_lower(w, m, &o));
    NC_TRY(nc_plan_build(w, m, &o, &v->program));
    s->stats.plans++;
    return nc_prepared_create(w, s->env, s->budget, v->program, &v->prepared);
}

static void destroy(nc_session *s, nc_variant *v) {
    if (!v) return;
    nc_prepared_destroy(s, v->prepared);
    nc_program_destroy(v->program);
    nc_model_destroy(v->model);
    nc_free(v->key);
    nc_free(v);
}

static nc_code make(nc_frame *f, const nc_node *n, nc_tensor *const *in, nc_variant **out) {
    nc_work w;
    nc_variant *v = nc_alloc_zero(1, sizeof *v);
    NC_NEED(&f->work, v);
    nc_work_init(&w);
    uint64_t failures = nc_mem_failures();
    nc_code code = nc_work_finish(&w, plan(&w, f->session, n, in, v), failures);
    if (code != NC_OK) {
        f->work.diag = w.diag;
        destroy(f->session, v);
        v = NULL;
    }
    nc_work_release(&w);
    *out = v;
    return code;
}

/* ---- the variants of one node; s->deferred_lock is held ---- */

static nc_variant **oldest_unused(nc_variant **list, int *n) {
    nc_variant **oldest = NULL;
    for (*n = 0; *list; list = &(*list)->next, ++*n)
        if (!(*list)->users && (!oldest || (*list)->used_at < (*oldest)->used_at)) oldest = list;
    return oldest;
}

static void make_room(nc_session *s, nc_variant **list) {
    int n;
    nc_variant **at = oldest_unused(list, &n), *v = at ? *at : NULL;
    if (!v || n < MAX_VARIANTS) return;
    *at = v->next;
    destroy(s, v);
}

static nc_code get(nc_frame *f, int i, nc_tensor *const *in, nc_variant **out) {
    const nc_node *n = f->program->instrs[i].node;
    nc_variant **list = &f->prepared->variants[i], *v = *list;
    size_t n_key = (size_t)n->n_in * KEY_PER_INPUT;
    int64_t *key = nc_alloc_zero(n_key + 1, sizeof *key);
    nc_code code = NC_OK;
    NC_NEED(&f->work, key);
    fill_key(n, in, key);
    while (v && memcmp(v->key, key, n_key * sizeof *key) != 0) v = v->next;
    if (!v) {
        make_room(f->session, list);
        code = make(f, n, in, &v);
        if (code == NC_OK) v->key = key, key = NULL, v->next = *list, *list = v;
    }
    if (v) v->users++, v->used_at = ++f->session->deferred_clock, *out = v;
    nc_free(key);
    return code;
}

nc_code nc_deferred_get(nc_frame *f, int i, nc_tensor *const *in, nc_variant **out, nc_prepared **prepared) {
    nc_lock_take(&f->session->deferred_lock);
    nc_code code = get(f, i, in, out);
    nc_lock_give(&f->session->deferred_lock);
    if (code == NC_OK) *prepared = (*out)->prepared;
    return code;
}

void nc_deferred_release(nc_session *s, nc_variant *v) {
    if (!v) return;
    nc_lock_take(&s->deferred_lock);
    v->users--;
    nc_lock_give(&s->deferred_lock);
}

void nc_deferred_trim(nc_session *s, nc_variant **list) {
    int n;
    nc_lock_take(&s->deferred_lock);
    for (nc_variant **at; (at = oldest_unused(list, &n));) {
        nc_variant *v = *at;
        *at = v->next;
        destroy(s, v);
    }
    nc_lock_give(&s->deferred_lock);
}

void nc_deferred_clear(nc_session *s, nc_variant **list) {
    for (nc_variant *v = *list, *next; v; v = next) {
        next = v->next;
        destroy(s, v);
    }
    *list = NULL;
}
