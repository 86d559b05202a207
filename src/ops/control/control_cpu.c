/* ops/control/control_cpu.c: control flow and tapes as dynamic kernels of the host. The executor runs the subgraphs;
 * here is which, how often, and what passes between them. Objects are moved from iteration to iteration, so that a
 * sequence or a tape that a loop carries has one owner and grows in place. */
#include "base/mem.h"
#include "ops/binding.h"

extern const nc_binding nc_control_cpu[];

static nc_code fail(const nc_dyn *d, nc_code code, const char *text) {
    return nc_diag_set(d->call->diag, code, d->call->node, d->call->op, "%s", text);
}

/* For a NULL from the executor, which may have said why. */
static nc_code no_memory(const nc_dyn *d) {
    return d->call->diag->code != NC_OK ? d->call->diag->code : fail(d, NC_E_MEMORY, "out of memory");
}

/* Operand i as the kernel's own reference: moved where this is its last use. NULL: out of memory. */
static nc_object *take(nc_dyn *d, int i) {
    nc_object *o = d->in[i];
    if (!o) return d->object(d, i);
    if (!d->moved[i]) return nc_object_ref(o);
    d->in[i] = NULL;
    return o;
}

static void drop(nc_object **o, int n) {
    for (int i = 0; i < n; i++) {
        nc_object_unref(o[i]);
        o[i] = NULL;
    }
}

static nc_code read_bool(const nc_dyn *d, const nc_tensor *t, bool *out) {
    if (!t->data || nc_tensor_numel(t) != 1) return fail(d, NC_E_DATA, "the condition must have one element");
    *out = *(const unsigned char *)t->data != 0;
    return NC_OK;
}

/* ---- If ---- */

typedef struct if_state {
    int then_sub, else_sub;
} if_state;

static nc_code if_prepare(nc_prep *p) {
    if_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->then_sub = nc_node_attr(p->node, "then_branch")->sub;
    s->else_sub = nc_node_attr(p->node, "else_branch")->sub;
    p->state = s;
    return NC_OK;
}

static nc_code if_run(nc_dyn *d) {
    const if_state *s = d->call->state;
    bool cond = false;
    NC_TRY(read_bool(d, d->call->in[0], &cond));
    return d->run_sub(d, cond ? s->then_sub : s->else_sub, NULL, 0, d->out, d->call->n_out);
}

/* ---- Deferred: the executor passes the operands ---- */

static nc_code deferred_run(nc_dyn *d) { return d->run_sub(d, 0, NULL, 0, d->out, d->call->n_out); }

/* ---- Loop ---- */

typedef struct scan_type {
    nc_dtype dtype;
    int rank;                  /* with the leading axis */
    int64_t dims[NC_MAX_RANK]; /* of the result of no iteration: 0 where not known before the run */
} scan_type;

typedef struct loop_state {
    bool has_trips, has_cond;
    int n_carried, n_scan;
    bool *filled; /* per carried value: an optional comes in, what it holds goes out */
    int ranks[2]; /* of the iteration's number and the condition, as the body takes them: 0 or 1 */
    scan_type *scan;
} loop_state;

static void read_scan_type(const nc_type *t, scan_type *s) {
    *s = (scan_type){.dtype = t ? t->elem : NC_UNDEFINED, .rank = t && t->rank > 0 ? t->rank : 1};
    for (int k = 1; t && k < t->rank; k++)
        if (!nc_dim_is_const(t->dims[k], &s->dims[k])) s->dims[k] = 0;
}

static nc_type_kind kind_of(const nc_value *v) { return v && v->type ? v->type->kind : NC_T_TENSOR; }

static nc_code loop_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    loop_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->has_trips = n->n_in > 0 && n->in[0];
    s->has_cond = n->n_in > 1 && n->in[1];
    s->n_carried = n->n_in > 2 ? n->n_in - 2 : 0;
    s->n_scan = n->n_out - s->n_carried;
    s->scan = nc_arena_array(p->arena, (size_t)s->n_scan, sizeof *s->scan);
    NC_NEED(p->w, s->scan);
    s->filled = nc_arena_array(p->arena, (size_t)s->n_carried + 1, sizeof *s->filled);
    NC_NEED(p->w, s->filled);
    for (int i = 0; i < s->n_carried; i++)
        s->filled[i] = n->out[i] && kind_of(n->in[2 + i]) == NC_T_OPTIONAL && kind_of(n->out[i]) != NC_T_OPTIONAL;
    const nc_graph *body = n->subs[0].graph;
    for (int i = 0; i < 2; i++) s->ranks[i] = body->inputs.v[i]->type ? body->inputs.v[i]->type->rank : 0;
    for (int i = 0; i < s->n_scan; i++) {
        const nc_value *y = n->out[s->n_carried + i];
        read_scan_type(y ? y->type : NULL, &s->scan[i]);
        const nc_type *inner = body->outputs.v[1 + s->n_carried + i]->type;
        if (!y && inner) s->scan[i].dtype = inner->elem;
    }
    p->state = s;
    return NC_OK;
}

/* in: iteration, condition, carried. out: condition, carried, scan. lists: what the scan outputs gave so far. */
typedef struct loop_run {
    nc_dyn *d;
    const loop_state *s;
    nc_object **in, **out, **lists;
    int n_in, n_out;
    int64_t trips;
    bool cond;
} loop_run;

static nc_code loop_begin(loop_run *r) {
    nc_tensor *const *in = r->d->call->in;
    if (r->s->has_trips && (!in[0]->data || nc_tensor_numel(in[0]) != 1))
        return fail(r->d, NC_E_DATA, "the trip count must have one element");
    r->trips = r->s->has_trips ? *(const int64_t *)in[0]->data : INT64_MAX;
    r->cond = true;
    if (r->s->has_cond) NC_TRY(read_bool(r->d, in[1], &r->cond));
    for (int i = 0; i < r->s->n_carried; i++)
        if (!(r->in[2 + i] = take(r->d, 2 + i))) return no_memory(r->d);
    for (int i = 0; i < r->s->n_scan; i++)
        if (!(r->lists[i] = nc_object_list(NC_OBJ_SEQUENCE, r->s->scan[i].dtype))) return no_memory(r->d);
    return NC_OK;
}

static nc_code loop_step(loop_run *r, int64_t iteration) {
    const loop_state *s = r->s;
    const int64_t one = 1;
    if (!(r->in[0] = nc_object_host_tensor(NC_INT64, s->ranks[0], &one))) return no_memory(r->d);
    if (!(r->in[1] = nc_object_host_tensor(NC_BOOL, s->ranks[1], &one))) return no_memory(r->d);
    *(int64_t *)r->in[0]->t.data = iteration;
    *(bool *)r->in[1]->t.data = r->cond;
    nc_code code = r->d->run_sub(r->d, 0, r->in, r->n_in, r->out, r->n_out);
    for (int i = 0; i < r->n_in; i++) r->in[i] = NULL;
    NC_TRY(code);
    NC_TRY(read_bool(r->d, &r->out[0]->t, &r->cond));
    nc_object_unref(r->out[0]);
    r->out[0] = NULL;
    for (int i = 0; i < s->n_carried; i++) {
        r->in[2 + i] = r->out[1 + i];
        r->out[1 + i] = NULL;
    }
    for (int i = 0; i < s->n_scan; i++) {
        nc_object *y = r->out[1 + s->n_carried + i];
        r->out[1 + s->n_carried + i] = NULL;
        if (!nc_object_push(r->lists[i], y)) return no_memory(r->d);
    }
    return NC_OK;
}

/* Without an iteration a carried optional is still one. */
static nc_code unwrap(loop_run *r, int i, nc_object **o) {
    if (!r->s->filled[i] || (*o)->kind != NC_OBJ_OPTIONAL) return NC_OK;
    if ((*o)->n == 0) return fail(r->d, NC_E_DATA, "no iteration ran, and a carried optional holds nothing");
    nc_object *item = nc_object_ref((*o)->items[0]);
    nc_object_unref(*o);
    *o = item;
    return NC_OK;
}

static nc_code loop_end(loop_run *r) {
    const loop_state *s = r->s;
    for (int i = 0; i < s->n_carried; i++) {
        NC_TRY(unwrap(r, i, &r->in[2 + i]));
        r->d->out[i] = r->in[2 + i];
        r->in[2 + i] = NULL;
    }
    for (int i = 0; i < s->n_scan; i++) {
        int i_out = s->n_carried + i;
        nc_object *list = r->lists[i];
        nc_tensor t;
        if (list->n == 0) {
            int64_t dims[NC_MAX_RANK] = {0}; /* no iteration: what is known of the other dims, else 0 */
            for (int k = 1; k < s->scan[i].rank; k++) {
                int64_t known = r->d->call->out[i_out]->dims[k];
                dims[k] = r->d->call->out[i_out]->rank == s->scan[i].rank && known > 0 ? known : s->scan[i].dims[k];
            }
            NC_TRY(r->d->alloc(r->d, i_out, s->scan[i].dtype, s->scan[i].rank, dims, &t));
            continue;
        }
        const nc_tensor *first = &list->items[0]->t;
        for (int64_t k = 1; k < list->n; k++)
            for (int a = 0; a < first->rank || a < list->items[k]->t.rank; a++)
                if (first->rank != list->items[k]->t.rank || first->dims[a] != list->items[k]->t.dims[a])
                    return fail(r->d, NC_E_SHAPE, "a scan output has different shapes in different iterations");
        if (!(r->d->out[i_out] = r->d->stack(r->d, i_out, list->items, list->n))) return no_memory(r->d);
    }
    return NC_OK;
}

static nc_code loop_all(loop_run *r) {
    NC_TRY(loop_begin(r));
    for (int64_t i = 0; i < r->trips && r->cond; i++) {
        if (r->d->cancelled(r->d)) return fail(r->d, NC_E_CANCELLED, "cancelled");
        NC_TRY(loop_step(r, i));
    }
    return loop_end(r);
}

static nc_code loop_run_all(nc_dyn *d) {
    const loop_state *s = d->call->state;
    loop_run r = {.d = d, .s = s, .n_in = 2 + s->n_carried, .n_out = 1 + s->n_carried + s->n_scan};
    nc_object **objects = nc_alloc_zero((size_t)(r.n_in + r.n_out + s->n_scan), sizeof *objects);
    if (!objects) return no_memory(d);
    r.in = objects;
    r.out = objects + r.n_in;
    r.lists = r.out + r.n_out;
    nc_code code = loop_all(&r);
    drop(objects, r.n_in + r.n_out + s->n_scan);
    nc_free(objects);
    return code;
}

/* ---- tapes: a list of records, each a list of values ---- */

static nc_code tape_empty(nc_dyn *d) {
    d->out[0] = nc_object_list(NC_OBJ_TAPE, NC_UNDEFINED);
    return d->out[0] ? NC_OK : no_memory(d);
}

static nc_code tape_push(nc_dyn *d) {
    nc_object *record = nc_object_list(NC_OBJ_TAPE, NC_UNDEFINED);
    bool ok = record != NULL;
    for (int i = 1; i < d->call->n_in && ok; i++) {
        nc_object *v = take(d, i);
        ok = v && nc_object_push(record, v);
    }
    nc_object *held = ok ? take(d, 0) : NULL;
    nc_object *tape = held ? nc_object_own(held) : NULL;
    if (!tape) {
        nc_object_unref(record);
        return no_memory(d);
    }
    if (!nc_object_push(tape, record)) {
        nc_object_unref(tape);
        return no_memory(d);
    }
    d->out[0] = tape;
    return NC_OK;
}

static nc_code tape_pop(nc_dyn *d) {
    int n = d->call->n_out - 1;
    const nc_object *seen = d->in[0];
    if (!seen || seen->kind != NC_OBJ_TAPE || seen->n == 0) return fail(d, NC_E_DATA, "the tape is empty");
    if (seen->items[seen->n - 1]->n != n)
        return fail(d, NC_E_DATA, "the record on the tape has another number of values");
    nc_object *held = take(d, 0);
    nc_object *tape = held ? nc_object_own(held) : NULL;
    if (!tape) return no_memory(d);
    nc_object *record = nc_object_pop(tape);
    for (int i = 0; i < n; i++) d->out[1 + i] = nc_object_ref(record->items[i]);
    nc_object_unref(record);
    d->out[0] = tape;
    return NC_OK;
}

static nc_code tape_length(nc_dyn *d) {
    if (!d->in[0] || d->in[0]->kind != NC_OBJ_TAPE) return fail(d, NC_E_DATA, "the input is no tape");
    d->out[0] = nc_object_host_tensor(NC_INT64, 0, NULL);
    if (!d->out[0]) return no_memory(d);
    *(int64_t *)d->out[0]->t.data = d->in[0]->n;
    return NC_OK;
}

const nc_binding nc_control_cpu[] = {
    {.op = "If", .kind = NC_K_DYNAMIC, .prepare = if_prepare, .dynamic = if_run},
    {.op = "Loop", .kind = NC_K_DYNAMIC, .prepare = loop_prepare, .dynamic = loop_run_all},
    {.op = "Deferred", .domain = "nacre", .kind = NC_K_DYNAMIC, .dynamic = deferred_run},
    {.op = "TapeEmpty", .domain = "nacre", .kind = NC_K_DYNAMIC, .dynamic = tape_empty},
    {.op = "TapePush", .domain = "nacre", .kind = NC_K_DYNAMIC, .dynamic = tape_push},
    {.op = "TapePop", .domain = "nacre", .kind = NC_K_DYNAMIC, .dynamic = tape_pop},
    {.op = "TapeLength", .domain = "nacre", .kind = NC_K_DYNAMIC, .dynamic = tape_length},
    {0}};
