/* ops/string/move.c: ops that only move elements, on strings. The kernel for int64 moves the strings' numbers instead,
 * and the result is filled with copies of the strings that it names. Number 0 is the empty string: what a kernel fills
 * with zeros. */
#include "base/mem.h"
#include "ops/binding.h"

#include <string.h>

typedef struct moving {
    const nc_binding *inner;
    const void *state;
} moving;

static bool move_fits(const nc_node *n, const char **why) {
    const nc_attr *reduction = nc_node_attr(n, "reduction");
    *why = "strings cannot be reduced";
    if (reduction != NULL && strcmp(nc_attr_str(n, "reduction"), "none") != 0) return false;
    *why = "no kernel that moves elements serves it";
    return nc_binding_find_moving(n, NC_INT64) != NULL;
}

/* OneHot: input 0 holds the indices. */
static bool values_fit(const nc_node *n, const char **why) {
    *why = "its values are no strings";
    const nc_value *v = n->n_in > 2 ? n->in[2] : NULL;
    return v != NULL && v->type != NULL && v->type->elem == NC_STRING;
}

static nc_code move_prepare(nc_prep *p) {
    moving *m = nc_arena_alloc(p->arena, sizeof *m);
    NC_NEED(p->w, m);
    nc_prep inner = *p;
    m->inner = nc_binding_find_moving(p->node, NC_INT64);
    if (m->inner == NULL) NC_FAIL(p->w, NC_E_UNSUPPORTED, "no kernel that moves elements serves it");
    NC_TRY(nc_binding_prepare(m->inner, &inner));
    m->state = inner.state;
    p->state = m;
    return NC_OK;
}

/* One run: the strings of all inputs in a row, behind the empty one, and tensors of their numbers. */
typedef struct move_run {
    nc_dyn *d;
    const moving *m;
    const nc_str **strings;
    nc_str empty;
    int64_t n;
    nc_tensor *in, *out, **operands;
    void *workspace;
} move_run;

static nc_code no_memory(const nc_dyn *d) {
    return nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
}

static const nc_tensor *tensor_of(const nc_dyn *d, int i) { return d->in[i] != NULL ? &d->in[i]->t : d->call->in[i]; }

static bool is_string(const nc_dyn *d, int i) {
    const nc_tensor *t = tensor_of(d, i);
    return t->data != NULL && t->dtype == NC_STRING;
}

static nc_code number_inputs(move_run *r) {
    nc_dyn *d = r->d;
    int64_t total = 1;
    for (int i = 0; i < d->call->n_in; i++) total += is_string(d, i) ? nc_tensor_numel(tensor_of(d, i)) : 0;
    r->strings = nc_alloc_zero((size_t)total, sizeof *r->strings);
    if (r->strings == NULL) return no_memory(d);
    r->strings[0] = &r->empty;
    r->n = 1;
    for (int i = 0; i < d->call->n_in; i++) {
        r->in[i] = *d->call->in[i];
        if (!is_string(d, i)) continue;
        const nc_tensor *t = tensor_of(d, i);
        int64_t n = nc_tensor_numel(t), *numbers = nc_alloc((size_t)(n + 1) * sizeof *numbers);
        if (numbers == NULL) return no_memory(d);
        r->in[i] = *t;
        r->in[i].dtype = NC_INT64;
        r->in[i].data = numbers;
        nc_dense_strides(t->dims, t->rank, r->in[i].strides);
        for (int64_t k = 0; k < n; k++) {
            r->strings[r->n] = (const nc_str *)t->data + k;
            numbers[k] = r->n++;
        }
    }
    return NC_OK;
}

static nc_code shape_outputs(move_run *r) {
    const nc_call *c = r->d->call;
    for (int i = 0; i < c->n_out; i++) {
        int64_t n = 0;
        r->out[i] = *c->out[i];
        r->out[i].dtype = NC_INT64;
        r->out[i].data = NULL;
        if (c->out[i]->rank < 0 || !nc_numel(c->out[i]->dims, c->out[i]->rank, &n))
            return nc_diag_set(c->diag, NC_E_UNSUPPORTED, c->node, c->op,
                               "the size of a string tensor must be known before it is made");
        nc_dense_strides(r->out[i].dims, r->out[i].rank, r->out[i].strides);
        if (r->m->inner->kind == NC_K_VIEW) continue;
        r->out[i].data = nc_alloc((size_t)(n + 1) * sizeof(int64_t));
        if (r->out[i].data == NULL) return no_memory(r->d);
    }
    return NC_OK;
}

static nc_code move_numbers(move_run *r) {
    const nc_binding *b = r->m->inner;
    nc_call c = *r->d->call;
    c.state = r->m->state;
    c.in = nc_tensor_pointers(r->operands, r->in, c.n_in);
    c.out = nc_tensor_pointers(r->operands + c.n_in, r->out, c.n_out);
    if (b->kind == NC_K_VIEW) return b->view(&c);
    c.bytes_workspace = b->workspace != NULL ? b->workspace(c.state, r->in, c.n_in, r->out, c.n_out) : 0;
    r->workspace = nc_alloc(c.bytes_workspace + 1);
    if (r->workspace == NULL) return no_memory(r->d);
    c.workspace = r->workspace;
    return b->run(&c);
}

static nc_code name_output(move_run *r, int i) {
    const nc_tensor *t = &r->out[i];
    int64_t n = nc_tensor_numel(t), at[NC_MAX_RANK] = {0}, offset = 0;
    nc_str *picked = nc_alloc((size_t)(n + 1) * sizeof *picked);
    if (picked == NULL) return no_memory(r->d);
    for (int64_t k = 0; k < n; k++) {
        picked[k] = *r->strings[((const int64_t *)t->data)[offset]];
        for (int a = t->rank - 1; a >= 0; a--) {
            offset += t->strides[a];
            if (++at[a] < t->dims[a]) break;
            offset -= t->strides[a] * t->dims[a];
            at[a] = 0;
        }
    }
    r->d->out[i] = nc_object_strings(t->rank, t->dims, picked);
    nc_free(picked);
    return r->d->out[i] != NULL ? NC_OK : no_memory(r->d);
}

static nc_code move_all(move_run *r) {
    NC_TRY(number_inputs(r));
    NC_TRY(shape_outputs(r));
    NC_TRY(move_numbers(r));
    for (int i = 0; i < r->d->call->n_out; i++) NC_TRY(name_output(r, i));
    return NC_OK;
}

static nc_code move_strings(nc_dyn *d) {
    const nc_call *c = d->call;
    move_run r = {.d = d, .m = c->state};
    r.in = nc_alloc_zero((size_t)c->n_in + 1, sizeof *r.in);
    r.out = nc_alloc_zero((size_t)c->n_out + 1, sizeof *r.out);
    r.operands = nc_alloc_zero((size_t)(c->n_in + c->n_out) + 1, sizeof *r.operands);
    nc_code code = r.in != NULL && r.out != NULL && r.operands != NULL ? move_all(&r) : no_memory(d);
    for (int i = 0; r.in != NULL && i < c->n_in; i++)
        if (is_string(d, i) && r.in[i].dtype == NC_INT64) nc_free(r.in[i].data);
    for (int i = 0; r.out != NULL && r.m->inner->kind != NC_K_VIEW && i < c->n_out; i++) nc_free(r.out[i].data);
    nc_free(r.workspace);
    nc_free(r.strings);
    nc_free(r.in);
    nc_free((void *)r.operands);
    nc_free(r.out);
    return code;
}

#define MOVE(name)                                                                                                \
    {                                                                                                             \
        .op = name, .kind = NC_K_DYNAMIC, .types = NC_BIT(NC_STRING), .fits = move_fits, .prepare = move_prepare, \
        .dynamic = move_strings, .sized = true                                                                    \
    }

const nc_binding nc_string_move_cpu[] = {MOVE("Concat"),
                                         MOVE("Slice"),
                                         MOVE("Split"),
                                         MOVE("Expand"),
                                         MOVE("Transpose"),
                                         MOVE("Squeeze"),
                                         MOVE("Unsqueeze"),
                                         MOVE("Flatten"),
                                         MOVE("Gather"),
                                         MOVE("GatherElements"),
                                         MOVE("GatherND"),
                                         MOVE("ScatterElements"),
                                         MOVE("Scatter"),
                                         MOVE("ScatterND"),
                                         MOVE("Tile"),
                                         MOVE("Pad"),
                                         MOVE("ReverseSequence"),
                                         MOVE("DepthToSpace"),
                                         MOVE("SpaceToDepth"),
                                         MOVE("CenterCropPad"),
                                         {.op = "OneHot",
                                          .kind = NC_K_DYNAMIC,
                                          .fits = values_fit,
                                          .prepare = move_prepare,
                                          .dynamic = move_strings,
                                          .sized = true},
                                         {0}};

const nc_binding nc_string_move_cuda[] = {{0}};
