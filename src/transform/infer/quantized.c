/* transform/infer/quantized.c: DequantizeLinear and QuantizeLinear around an op become the op on the codes.
 *
 *   y = QuantizeLinear(op(DequantizeLinear(a), ...))   a product or convolution of codes, quantized again from its
 *                                                      sums; a sum of codes
 *   y = MatMul(DequantizeLinear(a), DequantizeLinear(b))   its sums as numbers
 *   y = op(DequantizeLinear(x))      of an op that only moves elements: they are moved as codes, then dequantized
 *   y = QuantizeLinear(DequantizeLinear(x))            with one scale and zero point: x
 *   y = Cast(MatMulInteger(a, b)) * (scale of a * scale of b) + bias   its sums as numbers: dynamic quantization
 * so codes flow through whole models as they do in ONNX Runtime. An activation in front of QuantizeLinear goes where
 * its ends lie at or beyond those of the codes: saturation does the same. Scales and zero points of activations are one
 * number, those of weights one or one per output. Results differ by the rounding of one step at most. */
#include "ops/contrib.h"
#include "transform/pattern.h"
#include "transform/transform.h"

#include <math.h>
#include <string.h>

/* An operand as codes. */
typedef struct coded {
    nc_value *x, *scale, *zero;
    int64_t axis; /* of scales that are more than one */
    bool single;
} coded;

static bool is_code(nc_dtype t) { return t == NC_INT8 || t == NC_UINT8; }

static int64_t number_of(const nc_value *v) {
    int64_t n = 1, d;
    for (int i = 0; i < v->type->rank; i++) {
        if (!nc_dim_is_const(v->type->dims[i], &d)) return -1;
        n *= d;
    }
    return n;
}

/* Inputs of a DequantizeLinear or QuantizeLinear that works by tensor or by axis on 8 bits, f32 on the other side. */
static bool read_params(const nc_node *n, coded *c) {
    if (n == NULL || n->n_in < 3 || n->in[2] == NULL) return false;
    const nc_attr *block = nc_node_attr(n, "block_size"), *axis = nc_node_attr(n, "axis");
    *c = (coded){.x = n->in[0], .scale = n->in[1], .zero = n->in[2], .axis = axis != NULL ? axis->i : 1};
    if ((block != NULL && block->i != 0) || !nc_rewrite_tensor(c->x) || !nc_rewrite_tensor(c->scale) ||
        !nc_rewrite_tensor(c->zero) || c->scale->type->elem != NC_FLOAT || c->scale->type->rank > 1)
        return false;
    c->single = number_of(c->scale) == 1;
    return c->single || number_of(c->scale) > 1;
}

static bool read_coded(const nc_value *v, coded *c) {
    const nc_node *n = v != NULL ? nc_rewrite_def(v, "DequantizeLinear") : NULL;
    return read_params(n, c) && is_code(c->x->type->elem) && nc_rewrite_tensor(v) && v->type->elem == NC_FLOAT;
}

/* One scale and zero point, as scalars: where ops want no vector of one. */
static bool is_scalar(const coded *c) { return c->single && c->scale->type->rank == 0 && c->zero->type->rank == 0; }

static bool same_constant(const nc_value *a, const nc_value *b) {
    if (a == b) return true;
    if (!nc_rewrite_fixed(a) || !nc_rewrite_fixed(b)) return false;
    const nc_literal *p = a->lit, *q = b->lit;
    return p->dtype == q->dtype && p->n == 1 && q->n == 1 && memcmp(p->data, q->data, p->bytes) == 0;
}

/* ---- activations that saturation does ---- */

/* The numbers that the least and the largest code of q stand for. */
static bool ends_of(const coded *q, double *low, double *high) {
    double scale, zero;
    if (!q->single || !nc_rewrite_fixed(q->scale) || !nc_rewrite_fixed(q->zero)) return false;
    if (!nc_rewrite_number(q->scale->lit, 0, &scale) || !nc_rewrite_number(q->zero->lit, 0, &zero)) return false;
    double least = q->zero->type->elem == NC_INT8 ? -128 : 0;
    *low = (least - zero) * scale, *high = (least + 255 - zero) * scale;
    return scale > 0;
}

static bool bound_of(const nc_node *n, int i, double absent, double *out) {
    *out = absent;
    if (i >= n->n_in || n->in[i] == NULL) return true;
    return nc_rewrite_fixed(n->in[i]) && n->in[i]->lit->n == 1 && nc_rewrite_number(n->in[i]->lit, 0, out);
}

/* v, or what lies before a Relu or Clip that changes no code of q. */
static nc_value *before_activation(nc_value *v, const coded *q) {
    double low, high, from = 0, to = INFINITY;
    const nc_node *relu = nc_rewrite_def(v, "Relu"), *clip = nc_rewrite_def(v, "Clip");
    if ((relu == NULL && clip == NULL) || !nc_rewrite_only(v) || !ends_of(q, &low, &high)) return v;
    if (clip != NULL && (nc_node_attr(clip, "min") != NULL || nc_node_attr(clip, "max") != NULL)) return v;
    if (clip != NULL && (!bound_of(clip, 1, -INFINITY, &from) || !bound_of(clip, 2, INFINITY, &to))) return v;
    return from <= low && to >= high ? (relu != NULL ? relu : clip)->in[0] : v;
}

/* ---- what ends in QuantizeLinear ---- */

typedef struct ending {
    nc_node *q, *op;
    coded y; /* what QuantizeLinear says; x is its input */
} ending;

static bool is_axis(const coded *c, int axis) {
    return c->single || (c->axis < 0 ? c->axis + c->x->type->rank : c->axis) == axis;
}

static nc_code make_matmul(nc_work *w, const ending *e, bool *done) {
    coded a, b;
    nc_node *made = NULL;
    if (!read_coded(e->op->in[0], &a) || !read_coded(e->op->in[1], &b) || !a.single || !is_axis(&b, 1)) return NC_OK;
    if (!b.single && b.x->type->rank != 2) return NC_OK;
    nc_value *in[8] = {a.x, a.scale, a.zero, b.x, b.scale, b.zero, e->y.scale, e->y.zero};
    NC_TRY(nc_rewrite(w, e->q, "QLinearMatMul", in, 8, NULL, 0, &made));
    *done = made != NULL;
    return NC_OK;
}

/* Is the scale of the int32 bias that of the sums: x's by the weight's? */
static bool is_sum_scale(const coded *x, const coded *weight, const nc_value *scale) {
    double sx, sw, s;
    if (!nc_rewrite_fixed(x->scale) || !nc_rewrite_fixed(weight->scale) || !nc_rewrite_fixed(scale)) return false;
    const nc_literal *ws = weight->scale->lit, *bs = scale->lit;
    if (!nc_rewrite_number(x->scale->lit, 0, &sx) || (ws->n > 1 && bs->n > 1 && ws->n != bs->n)) return false;
    for (int64_t i = 0; i < ws->n || i < bs->n; i++) {
        if (!nc_rewrite_number(ws, ws->n == 1 ? 0 : i, &sw) || !nc_rewrite_number(bs, bs->n == 1 ? 0 : i, &s))
            return false;
        if (fabs(s - sx * sw) > 1e-5 * fabs(s)) return false;
    }
    return true;
}

/* The bias as int32 in the scale of the sums; NULL in *bias: there is none. */
static bool read_bias(const nc_node *op, const coded *x, const coded *weight, nc_value **bias) {
    const nc_node *n = op->n_in > 2 && op->in[2] != NULL ? nc_rewrite_def(op->in[2], "DequantizeLinear") : NULL;
    *bias = NULL;
    if (op->n_in < 3 || op->in[2] == NULL) return true;
    if (n == NULL || !nc_rewrite_tensor(n->in[0]) || n->in[0]->type->elem != NC_INT32 || n->in[0]->type->rank != 1)
        return false;
    if (n->n_in > 2 && n->in[2] != NULL && !(nc_rewrite_fixed(n->in[2]) && nc_rewrite_all(n->in[2]->lit, 0, true)))
        return false;
    *bias = n->in[0];
    return is_sum_scale(x, weight, n->in[1]);
}

static nc_code make_conv(nc_work *w, const ending *e, bool *done) {
    coded x, k;
    nc_value *bias;
    nc_node *made = NULL;
    if (!read_coded(e->op->in[0], &x) || !read_coded(e->op->in[1], &k) || !x.single || !is_axis(&k, 0)) return NC_OK;
    if (!read_bias(e->op, &x, &k, &bias)) return NC_OK;
    nc_value *in[9] = {x.x, x.scale, x.zero, k.x, k.scale, k.zero, e->y.scale, e->y.zero, bias};
    NC_TRY(nc_rewrite(w, e->q, "QLinearConv", in, bias != NULL ? 9 : 8, e->op->attrs, e->op->n_attrs, &made));
    *done = made != NULL;
    return NC_OK;
}

static nc_code make_gemm(nc_work *w, const ending *e, bool *done) {
    coded a, b;
    nc_value *bias;
    nc_node *made = NULL;
    int trans_b = nc_attr_int(e->op, "transB") != 0;
    if (nc_attr_float(e->op, "alpha") != 1 || nc_attr_float(e->op, "beta") != 1 || nc_attr_has(e->op, "broadcast"))
        return NC_OK;
    if (!read_coded(e->op->in[0], &a) || !read_coded(e->op->in[1], &b) || !is_scalar(&a) || !is_axis(&b, !trans_b))
        return NC_OK;
    if (!read_bias(e->op, &a, &b, &bias) || e->y.scale->type->rank != 0) return NC_OK;
    nc_attr attrs[2] = {{.name = "transA", .kind = NC_A_INT, .i = nc_attr_int(e->op, "transA")},
                        {.name = "transB", .kind = NC_A_INT, .i = trans_b}};
    nc_value *in[9] = {a.x, a.scale, a.zero, b.x, b.scale, b.zero, bias, e->y.scale, e->y.zero};
    NC_TRY(nc_rewrite_in(w, e->q, NC_MICROSOFT, "QGemm", in, 9, attrs, 2, &made));
    *done = made != NULL;
    return NC_OK;
}

/* Scales and zero points are one number each; codes of all three are of one kind. */
static nc_code make_add(nc_work *w, const ending *e, bool *done) {
    coded a, b;
    nc_node *made = NULL;
    if (!read_coded(e->op->in[0], &a) || !read_coded(e->op->in[1], &b) || !a.single || !b.single) return NC_OK;
    if (a.x->type->elem != b.x->type->elem || a.x->type->elem != e->q->out[0]->type->elem) return NC_OK;
    nc_value *in[8] = {a.x, a.scale, a.zero, b.x, b.scale, b.zero, e->y.scale, e->y.zero};
    NC_TRY(nc_rewrite_in(w, e->q, NC_MICROSOFT, "QLinearAdd", in, 8, NULL, 0, &made));
    *done = made != NULL;
    return NC_OK;
}

static const struct {
    const char *op;
    nc_code (*make)(nc_work *w, const ending *e, bool *done);
} endings[] = {{"MatMul", make_matmul}, {"Conv", make_conv}, {"Gemm", make_gemm}, {"Add", make_add}};

/* y = QuantizeLinear(..): the op in front of it on codes, or nothing at all. */
static nc_code at_quantize(nc_work *w, nc_node *q, bool *done) {
    ending e = {.q = q};
    coded x;
    if (!nc_rewrite_free(q) || !read_params(q, &e.y) || !e.y.single || !nc_rewrite_tensor(q->out[0]) ||
        !is_code(q->out[0]->type->elem))
        return NC_OK;
    if (read_coded(e.y.x, &x) && x.single && same_constant(x.scale, e.y.scale) && same_constant(x.zero, e.y.zero) &&
        nc_rewrite_can_skip(q, x.x)) {
        nc_rewrite_skip(q, x.x);
        *done = true;
        return NC_OK;
    }
    nc_value *v = before_activation(e.y.x, &e.y);
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !*done; i++) {
        e.op = nc_rewrite_def(v, endings[i].op);
        if (e.op != NULL && nc_rewrite_free(e.op) && nc_rewrite_only(v)) NC_TRY(endings[i].make(w, &e, done));
    }
    return NC_OK;
}

/* ---- what goes on as numbers ---- */

static nc_code at_matmul(nc_work *w, nc_node *n, bool *done) {
    coded a, b;
    nc_node *made = NULL;
    const nc_value *y = n->out[0];
    const nc_use *use = y->uses.n == 1 && y->n_outputs == 0 ? &y->uses.v[0] : NULL;
    if (!nc_rewrite_free(n) || (use != NULL && nc_rewrite_is(use->node, "QuantizeLinear"))) return NC_OK;
    if (!read_coded(n->in[0], &a) || !read_coded(n->in[1], &b) || !is_scalar(&a) || !is_axis(&b, 1)) return NC_OK;
    if (b.x->type->rank != 2) return NC_OK;
    nc_value *in[6] = {a.x, b.x, a.scale, b.scale, a.zero, b.zero};
    NC_TRY(nc_rewrite_in(w, n, NC_MICROSOFT, "MatMulIntegerToFloat", in, 6, NULL, 0, &made));
    *done = made != NULL;
    return NC_OK;
}

/* ---- what only moves elements ---- */

enum { MOVE_INPUTS = 5 };
static const char *const moves[] = {
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten",
    "Slice",   "Gather",    "Expand",  "MaxPool"}; /* the largest number has the largest code */

/* n, an op with the card and version of its own, on codes. */
static nc_code move_codes(nc_work *w, const nc_node *n, nc_value *codes, const nc_op_version *version, nc_node **out) {
    nc_value *in[MOVE_INPUTS] = {codes};
    const nc_type *t = n->out[0]->type;
    const char *name = nc_arena_printf(&w->scratch, "%s_codes", n->out[0]->name);
    NC_NEED(w, name);
    for (int i = 1; i < n->n_in; i++) in[i] = n->in[i];
    nc_node *moved = nc_edit_node(n->graph, (nc_node *)(uintptr_t)n, n->card, version, NULL, in, n->n_in, &name, 1);
    NC_NEED(w, moved);
    moved->stage = n->stage;
    for (int i = 0; i < n->n_attrs; i++)
        if (nc_edit_set_attr(moved, &n->attrs[i]) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    moved->out[0]->type = nc_type_tensor(&n->graph->model->arena, codes->type->elem, t->rank, t->dims);
    NC_NEED(w, moved->out[0]->type);
    *out = moved;
    return NC_OK;
}

/* move(DequantizeLinear(x)) to DequantizeLinear(move(x)). */
static nc_code at_move(nc_work *w, nc_node *n, const char *op, bool *done) {
    coded c;
    nc_node *moved = NULL, *back = NULL;
    const nc_op_version *version;
    if (!nc_rewrite_free(n) || !read_coded(n->in[0], &c) || !c.single || !nc_rewrite_only(n->in[0]) ||
        !nc_rewrite_tensor(n->out[0]) || n->n_in > MOVE_INPUTS)
        return NC_OK;
    if (nc_rewrite_card(n->graph->model, op, c.x->type->elem, &version) != n->card) return NC_OK;
    NC_TRY(move_codes(w, n, c.x, version, &moved));
    nc_value *codes[3] = {moved->out[0], c.scale, c.zero};
    NC_TRY(nc_rewrite(w, n, "DequantizeLinear", codes, 3, NULL, 0, &back));
    *done = back != NULL;
    return NC_OK;
}

static nc_code at_node(nc_work *w, nc_node *n, bool *done) {
    if (nc_rewrite_is(n, "QuantizeLinear")) return at_quantize(w, n, done);
    if (nc_rewrite_is(n, "MatMul")) return at_matmul(w, n, done);
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (nc_rewrite_is(n, moves[i])) return at_move(w, n, moves[i], done);
    return NC_OK;
}

/* ---- dynamic quantization ---- */

static bool is_scale(const nc_value *v) {
    return nc_rewrite_tensor(v) && v->type->elem == NC_FLOAT && v->type->rank <= 1;
}

/* One number for each column of the matrix b. */
static bool is_columns(const nc_value *v, const nc_value *b) {
    return is_scale(v) && v->type->rank == 1 && nc_rewrite_tensor(b) && b->type->rank == 2 &&
           v->type->dims[0] == b->type->dims[1];
}

/* a, b, the two scales in either order, the zero points. */
static nc_code scaled_sums(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_value *sums = nc_match_value(m, "sums"), *y = m->root->out[0];
    nc_value **in = made->in;
    (void)w;
    made->domain = NC_MICROSOFT;
    *fits = false;
    if (!is_scale(in[2]) || !is_scale(in[3]) || !nc_rewrite_tensor(sums) || !nc_rewrite_tensor(y)) return NC_OK;
    if (number_of(in[2]) != 1) {
        nc_value *other = in[2];
        in[2] = in[3], in[3] = other;
    }
    *fits = number_of(in[2]) == 1 && (number_of(in[3]) == 1 || is_columns(in[3], in[1])) && y->type->elem == NC_FLOAT &&
            y->type->rank == sums->type->rank;
    return NC_OK;
}

static nc_code with_bias(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_node *product = nc_match_value(m, "p")->def;
    (void)w;
    made->domain = NC_MICROSOFT;
    *fits = is_columns(made->in[6], made->in[1]) && nc_rewrite_same_type(product->out[0], m->root->out[0]);
    return NC_OK;
}

static const nc_pattern dynamic_rows[] = {
    {.text = "Mul(Cast(sums=MatMulInteger(a, b, za, zb)), Mul(s, t))",
     .op = "MatMulIntegerToFloat",
     .inputs = "a b s t za zb",
     .where = scaled_sums},
    {.text = "Add(p=com.microsoft.MatMulIntegerToFloat(a, b, s, t, za, zb), bias)",
     .op = "MatMulIntegerToFloat",
     .inputs = "a b s t za zb bias",
     .where = with_bias},
};

nc_code nc_pass_quantized(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->last, *before; n != NULL; n = before) {
        bool done = false;
        before = n->prev;
        if (*n_changes > 0 &&
            nc_rewrite_dead(n)) { /* what an op on codes has replaced, or no constant of it would be left to others */
            nc_edit_remove(n);
            continue;
        }
        w->at_node = n->name, w->at_op = n->card->name;
        NC_TRY(at_node(w, n, &done));
        *n_changes += done;
    }
    return nc_pattern_apply(w, g, dynamic_rows, sizeof dynamic_rows / sizeof *dynamic_rows, n_changes);
}
