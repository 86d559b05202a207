/* ops/matmul/einsum_cpu.c: Einsum on the CPU, operands taken in from left to right. An operand is its labels with a
 * stride each, so that diagonals and broadcasting cost nothing. Labels that only it has are summed first; then two
 * operands are one batched product (labels of both that stay, of the left, of the right; summed ones between), copied
 * into order where strides do not serve. How a step is cut follows from the dims alone. */
#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm_batch.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/reduce/reduce.h"
#include "ops/card.h"
#include "ops/matmul/einsum.h"
#include "ops/matmul/einsum_cpu.h"

#include <math.h>
#include <string.h>

typedef struct operand {
    void *data;
    nc_einsum_term t; /* labels, each once */
    int64_t dims[NC_MAX_RANK], strides[NC_MAX_RANK];
} operand;

typedef struct einsum_work {
    const nc_call *c; /* NULL: only the workspace is counted */
    nc_einsum e;
    nc_dtype type;
    int64_t size[NC_EINSUM_LABELS];
    int last[NC_EINSUM_LABELS]; /* the last operand that has the label; n_in: the result */
    size_t at;                  /* in the workspace */
    const char *why;            /* NULL: all is well */
    nc_pool *pool;
} einsum_work;

static void *take(einsum_work *w, int64_t elements) {
    size_t from = w->at;
    w->at += nc_align64((size_t)elements * nc_dtype_bytes(w->type));
    return w->c != NULL ? (char *)w->c->workspace + from : NULL;
}

static int einsum_find(const nc_einsum_term *t, int label) {
    for (int k = 0; k < t->rank; k++)
        if (t->label[k] == label) return k;
    return -1;
}

static int64_t numel(const operand *o) {
    int64_t n = 1;
    for (int k = 0; k < o->t.rank; k++) n *= o->dims[k];
    return n;
}

static void operand_add(operand *o, int label, int64_t size) {
    o->t.label[o->t.rank] = (uint8_t)label;
    o->dims[o->t.rank++] = size;
}

/* Operand i with equal labels joined and dims of 1 spread to the label's size. */
static void operand_of(const einsum_work *w, const nc_tensor *x, int i, operand *o) {
    const nc_einsum_term *t = &w->e.in[i];
    o->data = x->data;
    o->t.rank = 0;
    for (int k = 0; k < t->rank; k++) {
        int l = t->label[k], at = einsum_find(&o->t, l);
        if (at < 0) {
            at = o->t.rank;
            operand_add(o, l, w->size[l]);
            o->strides[at] = 0;
        }
        if (x->dims[k] != 1) o->strides[at] += x->strides[k];
    }
}

static bool sum(const einsum_work *w, const operand *o, nc_axes axes, void *to, void *scratch) {
    nc_tensor x;
    nc_tensor_set(&x, o->data, w->type, o->t.rank);
    for (int k = 0; k < o->t.rank; k++) x.dims[k] = o->dims[k], x.strides[k] = o->strides[k];
    return nck_reduce(NCK_REDUCE_SUM, &x, axes, to, scratch, w->pool) == NC_OK;
}

/* Sums the labels away that neither the other operand nor anything after operand i has: o itself where there are none,
 * else *r. */
static const operand *sum_own(einsum_work *w, const operand *o, const operand *other, int i, operand *r) {
    nc_axes axes = 0;
    r->t.rank = 0;
    for (int k = 0; k < o->t.rank; k++) {
        int l = o->t.label[k];
        if (w->last[l] <= i && (other == NULL || einsum_find(&other->t, l) < 0)) {
            axes |= nc_axes_of(k);
            continue;
        }
        operand_add(r, l, o->dims[k]);
    }
    if (axes == 0) return o;
    nc_dense_strides(r->dims, r->t.rank, r->strides);
    int64_t kept = numel(r), reduced = 1;
    for (int k = 0; k < o->t.rank; k++)
        if (axes >> k & 1) reduced *= o->dims[k];
    r->data = take(w, kept);
    size_t bytes = nck_reduce_workspace(kept, reduced);
    void *scratch = take(w, (int64_t)(bytes / nc_dtype_bytes(w->type) + 1));
    if (w->c != NULL && !sum(w, o, axes, r->data, scratch)) w->why = "sums of this type cannot be done";
    return r;
}

/* ---- products ---- */

/* Labels of one role, with the strides of left, right and result. */
typedef struct group {
    int rank;
    uint8_t label[NC_MAX_RANK];
    int64_t size;
} group;

typedef struct product {
    einsum_work *w;
    group batch, m, n, k;
    const operand *a, *b;
    operand *y;
    int64_t a_rs, a_cs, b_rs, b_cs;
} product;

static void group_add(group *g, int label, int64_t size) {
    g->label[g->rank++] = (uint8_t)label;
    g->size *= size;
}

static int64_t stride_of(const operand *o, int label) {
    int k = einsum_find(&o->t, label);
    return k < 0 ? 0 : o->strides[k];
}

/* The group's labels as one dim of o; false when its strides do not allow it. */
static bool fold(const einsum_work *w, const operand *o, const group *g, int64_t *stride) {
    int64_t next = 0;
    bool first = true;
    *stride = 0;
    for (int k = g->rank - 1; k >= 0; k--) {
        int64_t s = stride_of(o, g->label[k]), n = w->size[g->label[k]];
        if (n == 1) continue;
        if (first)
            *stride = s;
        else if (s != next)
            return false;
        first = false;
        next = s * n;
    }
    return true;
}

/* o, or where it is to be copied *r: dense, with the labels of the three groups in order. */
static const operand *arranged(einsum_work *w, const operand *o, const group *const *groups, bool copy, operand *r) {
    int64_t from[NC_MAX_RANK];
    r->t.rank = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < groups[i]->rank; k++) {
            int l = groups[i]->label[k];
            from[r->t.rank] = stride_of(o, l);
            operand_add(r, l, w->size[l]);
        }
    nc_dense_strides(r->dims, r->t.rank, r->strides);
    r->data = take(w, numel(r)); /* booked in any case: need must not depend on strides */
    if (!copy) return o;
    if (w->c != NULL && numel(r) > 0)
        nck_copy(r->t.rank, r->dims, nc_dtype_bytes(w->type), o->data, from, r->data, r->strides, w->pool);
    return r;
}

/* The products of all batches, into p->y. */
static void run_product(const product *p, void *workspace, size_t bytes) {
    nck_gemm_batch b = {.one = {.type = p->w->type,
                                .M = p->m.size,
                                .N = p->n.size,
                                .K = p->k.size,
                                .alpha = 1,
                                .a = p->a->data,
                                .a_rs = p->a_rs,
                                .a_cs = p->a_cs,
                                .b = p->b->data,
                                .b_rs = p->b_rs,
                                .b_cs = p->b_cs,
                                .c = p->y->data,
                                .c_rs = p->n.size,
                                .c_cs = 1}};
    nck_walk walk;
    int64_t dims[NC_MAX_RANK], strides[3][NC_MAX_RANK];
    for (int k = 0; k < p->batch.rank; k++) {
        int l = p->batch.label[k];
        dims[k] = p->w->size[l];
        strides[0][k] = stride_of(p->a, l);
        strides[1][k] = stride_of(p->b, l);
        strides[2][k] = p->y->strides[k];
    }
    nck_walk_init(&walk, p->batch.rank, dims, 3, strides);
    b.walk = &walk;
    nck_gemm_batch_run(&b, workspace, bytes, p->w->pool);
}

static void sort_labels(einsum_work *w, product *p, int i) {
    p->batch.rank = p->m.rank = p->n.rank = p->k.rank = 0;
    p->batch.size = p->m.size = p->n.size = p->k.size = 1;
    for (int k = 0; k < p->a->t.rank; k++) {
        int l = p->a->t.label[k];
        bool shared = einsum_find(&p->b->t, l) >= 0;
        group_add(!shared ? &p->m : w->last[l] > i ? &p->batch : &p->k, l, w->size[l]);
    }
    for (int k = 0; k < p->b->t.rank; k++) {
        int l = p->b->t.label[k];
        if (einsum_find(&p->a->t, l) < 0) group_add(&p->n, l, w->size[l]);
    }
}

/* Operand i taken into what came before it: *y. */
static void multiply(einsum_work *w, const operand *left, const operand *right, int i, operand *y) {
    product p;
    operand sums[2], copies[2];
    p.w = w;
    p.a = sum_own(w, left, right, i, &sums[0]);
    p.b = sum_own(w, right, left, i, &sums[1]);
    p.y = y;
    y->t.rank = 0;
    sort_labels(w, &p, i);
    if (p.batch.rank + p.m.rank + p.n.rank > NC_MAX_RANK) {
        w->why = "a partial product has too many dims";
        return;
    }
    bool a_fits = fold(w, p.a, &p.m, &p.a_rs) && fold(w, p.a, &p.k, &p.a_cs);
    bool b_fits = fold(w, p.b, &p.k, &p.b_rs) && fold(w, p.b, &p.n, &p.b_cs);
    p.a = arranged(w, p.a, (const group *[]){&p.batch, &p.m, &p.k}, !a_fits, &copies[0]);
    p.b = arranged(w, p.b, (const group *[]){&p.batch, &p.k, &p.n}, !b_fits, &copies[1]);
    if (!a_fits) p.a_rs = p.k.size, p.a_cs = 1;
    if (!b_fits) p.b_rs = p.n.size, p.b_cs = 1;
    const group *order[3] = {&p.batch, &p.m, &p.n};
    for (int g = 0; g < 3; g++)
        for (int k = 0; k < order[g]->rank; k++) operand_add(y, order[g]->label[k], w->size[order[g]->label[k]]);
    nc_dense_strides(y->dims, y->t.rank, y->strides);
    y->data = take(w, numel(y));
    size_t bytes = 0;
    if (nc_dtype_is_float(w->type))
        bytes = nck_gemm_batch_workspace(w->type, p.batch.size, p.m.size, p.n.size, p.k.size, false);
    void *workspace = take(w, (int64_t)(bytes / nc_dtype_bytes(w->type)));
    if (w->c != NULL && numel(y) > 0) run_product(&p, workspace, bytes);
}

/* ---- the whole ---- */

/* Sizes of labels from the operands' actual dims. Where only the workspace is counted the dims are capacities: those of
 * two symbols may differ although the sizes of every run agree, and the larger one has room for both. */
static bool einsum_measure(einsum_work *w, nc_tensor *const *in) {
    for (int l = 0; l < NC_EINSUM_LABELS; l++) w->size[l] = 1, w->last[l] = -1;
    for (int i = 0; i < w->e.n_in; i++)
        for (int k = 0; k < w->e.in[i].rank; k++) {
            int l = w->e.in[i].label[k];
            int64_t n = in[i]->dims[k];
            if (w->c != NULL && n != 1 && w->size[l] != 1 && w->size[l] != n)
                w->why = "operands differ in the size of a label";
            if (w->c != NULL ? n != 1 : n > w->size[l]) w->size[l] = n;
            w->last[l] = i;
        }
    for (int k = 0; k < w->e.out.rank; k++) w->last[w->e.out.label[k]] = w->e.n_in;
    return w->why == NULL;
}

static void einsum_run(einsum_work *w, nc_tensor *const *in, const nc_tensor *out) {
    if (!einsum_measure(w, in)) return;
    operand room[2], next, rest; /* what came before and what comes of it take turns */
    operand_of(w, in[0], 0, &room[0]);
    for (int i = 1; i < w->e.n_in && w->why == NULL; i++) {
        operand_of(w, in[i], i, &next);
        multiply(w, &room[(i - 1) % 2], &next, i, &room[i % 2]);
    }
    if (w->why != NULL) return;
    const operand *acc = sum_own(w, &room[(w->e.n_in - 1) % 2], NULL, w->e.n_in - 1, &rest);
    if (w->c == NULL || w->why != NULL || nc_tensor_numel(out) == 0) return;
    int64_t from[NC_MAX_RANK];
    for (int k = 0; k < w->e.out.rank; k++) from[k] = stride_of(acc, w->e.out.label[k]);
    nck_copy(out->rank, out->dims, nc_dtype_bytes(w->type), acc->data, from, out->data, out->strides, w->pool);
}

static nc_code einsum_start(einsum_work *w, const char *equation, nc_tensor *const *in, int n_in, char *why,
                            size_t bytes_why) {
    int ranks[NC_EINSUM_MAX_IN];
    for (int i = 0; i < n_in && i < NC_EINSUM_MAX_IN; i++) ranks[i] = in[i]->rank;
    w->at = 0;
    w->why = NULL;
    /* uint64 adds and multiplies as int64 does. */
    w->type = in[0]->dtype == NC_UINT64 ? NC_INT64 : in[0]->dtype;
    return nc_einsum_resolve(equation, ranks, n_in, &w->e, why, bytes_why);
}

nc_code nc_einsum_prepare(nc_prep *p) {
    p->state = (void *)(uintptr_t)nc_attr_str(p->node, "equation");
    p->strided_in = UINT32_MAX;
    return NC_OK;
}

size_t nc_einsum_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    einsum_work w;
    char why[8];
    (void)n_out;
    w.c = NULL;
    w.pool = NULL;
    nc_tensor *p[NC_EINSUM_MAX_IN];
    if (n_in > NC_EINSUM_MAX_IN) return 0;
    nc_tensor_pointers(p, in, n_in);
    if (einsum_start(&w, state, p, n_in, why, sizeof why) != NC_OK) return 0;
    einsum_run(&w, p, out);
    return w.at;
}

nc_code nc_einsum_run(const nc_call *c) {
    einsum_work w; /* most of it is for labels that are not there: filled as far as it is used */
    char why[128];
    why[0] = '\0';
    w.c = c;
    w.pool = c->pool;
    nc_code code = einsum_start(&w, c->state, c->in, c->n_in, why, sizeof why);
    if (code != NC_OK) return nc_diag_set(c->diag, code, c->node, c->op, "%s", why);
    einsum_run(&w, c->in, c->out[0]);
    return w.why == NULL ? NC_OK : nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s", w.why);
}

bool nc_einsum_few(const nc_node *n, const char **why) {
    *why = "narrow types take at most 8 operands";
    return n->n_in <= 8;
}
