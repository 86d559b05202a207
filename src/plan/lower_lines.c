/* plan/lower_lines.c: scores of an odd number of classes (a vocabulary of 50,257 words) lie in lines of even length,
 * from the product that makes them to the products that read their gradient, where that is made from scores
 * (nacre.CrossEntropyGrad): cuBLASLt's kernels for lines of odd length reach a sixth of the others' speed, and copies
 * of scores to and from longer lines take memory and time. The matrix gets columns of zeros, whose scores nobody reads
 * and whose gradient is 0.
 *
 * Example, of 4,097 classes: s = MatMul(x, b), l = SoftmaxCrossEntropyLoss(s, t), d = nacre.CrossEntropyGrad(1, s, t),
 * g = Gemm<transA = 1>(x, d) become z = Concat(b, zeros), s = MatMul(x, z), l = SoftmaxCrossEntropyLoss(Slice(s), t),
 * d = nacre.CrossEntropyGrad<classes = 4097>(1, s, t), g = Slice(Gemm<transA = 1>(x, d)). */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/matmul/matmul.h"
#include "ops/nn/loss.h"
#include "plan/plan.h"

#include <string.h>

enum { LINE = 8, LEAST = 4096 }; /* elements of 16 bytes of half types; classes that are worth another copy of B */

/* A product that makes scores. */
typedef struct scores {
    nc_builder b;
    nc_node *product;
    int64_t classes, more;        /* elements that a line gets */
    nc_value *old[2], *longer[2]; /* the product's second factor, and what it is the Transpose of, if that */
} scores;

static bool is_product(const nc_node *n) {
    bool turned[2];
    return n && nc_matmul_of_two(n, turned) && n->in[0] != n->in[1] && !n->recompute;
}

/* The axis of operand i that sums run over; the other one is axis i of the result. */
static int summed_axis(const nc_node *n, int i) {
    bool turned[2] = {0};
    (void)nc_matmul_of_two(n, turned);
    return (i == 0) != turned[i];
}

/* The view that nobody reads any more goes. */
static void drop(nc_value *v) {
    if (!v->uses.n && !v->n_outputs && !v->var) nc_edit_remove(v->def);
}

static void before(scores *s, nc_node *n) { s->b.before = n, s->b.stage = n ? n->stage : s->b.stage; }

/* x with zeros behind its elements along an axis; NULL: its other dim is not known. */
static nc_value *lengthen(scores *s, nc_value *x, int axis) {
    int64_t dims[2] = {s->more, s->more};
    nc_model *m = s->b.graph->model;
    if (s->b.code != NC_OK || !nc_dim_is_const(x->type->dims[!axis], &dims[!axis])) return NULL;
    size_t bytes = (size_t)(dims[0] * dims[1]) * nc_dtype_bytes(x->type->elem);
    void *zeros = nc_arena_alloc(&m->arena, bytes + 1);
    if (zeros) memset(zeros, 0, bytes);
    const nc_literal *lit = zeros ? nc_edit_literal(m, x->type->elem, 2, dims, zeros) : NULL;
    nc_value *in[2] = {x, lit ? nc_edit_const(s->b.graph, NULL, lit) : NULL};
    nc_attr along = {.name = "axis", .kind = NC_A_INT, .i = axis};
    if (!in[1]) s->b.code = nc_fail(s->b.w, NC_E_MEMORY, "out of memory");
    return nc_build_attr1(&s->b, "", "Concat", in, 2, &along, 1);
}

/* v has longer lines along an axis from now on; *out, its classes, stands for it. */
static nc_code grow(scores *s, nc_value *v, int axis, nc_value **out) {
    nc_model *m = s->b.graph->model;
    const nc_type *old = v->type;
    const nc_dim *dims[2] = {old->dims[0], old->dims[1]};
    NC_NEED(s->b.w, dims[axis] = nc_dim_const(m->dims, s->classes + s->more));
    NC_NEED(s->b.w, v->type = nc_type_tensor(&m->arena, old->elem, 2, dims));
    before(s, v->def->next);
    s->b.stage = v->def->stage;
    const int64_t at[3] = {0, s->classes, axis};
    nc_value *ends[3];
    for (int i = 0; i < 3; i++) ends[i] = nc_build_ints(&s->b, &at[i], 1);
    nc_value *first = nc_build1(&s->b, "Slice", 4, v, ends[0], ends[1], ends[2]);
    if (!first) return s->b.code;
    first->type = old;
    nc_edit_replace(v, first);
    nc_edit_set_in(first->def, 0, v);
    *out = first;
    return NC_OK;
}

static bool is_turned(const nc_value *v) { return v->origin == NC_FROM_NODE && nc_build_is_transpose(v->def); }
static nc_value *turned(scores *s, nc_value *x) { return nc_build_transpose(&s->b, x, (int64_t[]){1, 0}, 2); }

/* The product's second factor gets more classes, along an axis. A view stays one: what it is of gets them. */
static nc_code lengthen_factor(scores *s, int axis) {
    nc_value *b = s->old[0] = s->product->in[1];
    nc_value *of = is_turned(b) && b->def->place == s->b.place ? b->def->in[0] : NULL;
    before(s, s->product);
    if (of) s->old[1] = of, s->longer[1] = lengthen(s, of, !axis);
    s->longer[0] = !of ? lengthen(s, b, axis) : s->longer[1] ? turned(s, s->longer[1]) : NULL;
    return s->b.code;
}

/* What a product of the gradient with y, whose sums run over the classes, takes instead of y. */
static nc_value *other_of(scores *s, nc_value *y, int axis) {
    for (int k = 0; k < 2; k++)
        if (y == s->old[k]) return s->longer[k];
    return is_turned(y) && y->def->in[0] == s->old[0] ? turned(s, s->longer[0]) : lengthen(s, y, axis);
}

/* Operand i of n, the classes of d, becomes d; *done false: it cannot. */
static nc_code read_longer(scores *s, nc_value *d, nc_node *n, int i, bool *done) {
    bool fits = is_product(n) && !n->out[0]->var && n->place == s->b.place && n->graph == s->b.graph;
    nc_value *other = fits ? n->in[!i] : NULL, *unused;
    bool sums = fits && summed_axis(n, i) == 1; /* a line of d is its axis 1 */
    if (fits) before(s, n);
    if (sums) other = other_of(s, other, summed_axis(n, !i));
    *done = other != NULL;
    if (!other) return s->b.code;
    nc_edit_set_in(n, i, d);
    nc_edit_set_in(n, !i, other);
    return sums ? NC_OK : grow(s, n->out[0], i, &unused);
}

static nc_code read_all(scores *s, nc_value *d, nc_value *classes) {
    for (int i = 0; i < classes->uses.n;) {
        bool done = false;
        nc_use u = classes->uses.v[i];
        if (u.node) NC_TRY(read_longer(s, d, u.node, u.i, &done));
        i += !done;
    }
    drop(classes);
    return NC_OK;
}

/* The scores of n, a gradient made from them, are a product whose lines may become longer. */
static bool find_scores(nc_work *w, nc_node *n, scores *s) {
    nc_value *x = n->n_in > 2 && !(n->n_in > 3 && n->in[3]) ? n->in[1] : NULL;
    nc_node *p = x && is_product(x->def) ? x->def : NULL;
    if (!p || p->graph != n->graph || p->place != n->place || n->recompute || nc_attr_int(n, "classes")) return false;
    if (x->var || n->out[0]->var || nc_dtype_bytes(x->type->elem) != 2) return false;
    *s = (scores){.b = {.w = w, .graph = n->graph, .place = n->place, .infer = nc_infer_node}, .product = p};
    if (!nc_dim_is_const(x->type->dims[1], &s->classes) || s->classes < LEAST || s->classes % LINE == 0) return false;
    s->more = LINE - s->classes % LINE;
    return true;
}

static nc_code lines_of_grad(nc_work *w, nc_node *n) {
    scores s;
    nc_value *x, *classes;
    if (!find_scores(w, n, &s)) return NC_OK;
    NC_TRY(lengthen_factor(&s, !summed_axis(s.product, 1)));
    if (!s.longer[0]) return NC_OK;
    nc_edit_set_in(s.product, 1, s.longer[0]);
    NC_TRY(grow(&s, s.product->out[0], 1, &x));
    nc_edit_set_in(n, 1, s.product->out[0]);
    nc_attr attr = {.name = "classes", .kind = NC_A_INT, .i = s.classes};
    if (nc_edit_set_attr(n, &attr) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_TRY(grow(&s, n->out[0], 1, &classes));
    drop(x);
    NC_TRY(read_all(&s, n->out[0], classes));
    if (s.old[1]) drop(s.old[0]);
    return NC_OK;
}

static nc_code lines_of(nc_work *w, nc_graph *g) {
    for (nc_node *n = g->first; n; n = n->next) {
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) NC_TRY(lines_of(w, n->subs[i].graph));
        if (nc_loss_from_scores(n)) NC_TRY(lines_of_grad(w, n));
    }
    return NC_OK;
}

nc_code nc_lower_lines(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : lines_of(w, m->main);
}
