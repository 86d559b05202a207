/* plan/lower_conv_integer.c: convolutions of integers whose sums become numbers, as dynamic quantization writes them,
 * with channels last, which is how their kernels work:
 *
 *   Mul(Cast(ConvInteger(x, w)), scale) + bias    becomes   back(nacre.ConvIntegerToFloat(last(x), w, scale, bias))
 *   Relu, Max and Min of one with a number                  bounds of it
 *   f(back(a), ..) of elements                              back(f(a, ..))
 *   MaxPool(back(a)), AveragePool                           back(the same of a)
 *   DynamicQuantizeLinear(back(a))                          back(codes), scale and zero point as they were
 *
 * last and back being Transposes. One sweep in the order of the graph: every value that is turned back is known by what
 * it was before, so that those who can take that, and the Transposes nobody uses go. The kernels of the CPU alone. */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/contrib.h"
#include "plan/plan.h"

extern const nc_card nc_card_conv_integer, nc_card_conv_integer_to_float, nc_card_cast, nc_card_mul, nc_card_add,
    nc_card_max_pool, nc_card_average_pool, nc_card_dynamic_quantize_linear, nc_card_relu, nc_card_max, nc_card_min;

enum { MAX_IN = 8, BIAS = 5 };

typedef struct numbers {
    nc_work *w;
    nc_graph *g;
    const nc_plan_options *o;
    nc_builder b;
    nc_map last; /* value -> the same with channels last */
} numbers;

static nc_value *last_of(const numbers *l, const nc_value *v) {
    return nc_map_get_bytes(&l->last, &v->id, sizeof v->id);
}

static bool is_only(const nc_value *v) { return v->uses.n == 1 && !v->n_outputs && !v->var; }

static nc_code failed(const numbers *l) { return l->b.code ? l->b.code : nc_fail(l->w, NC_E_MEMORY, "out of memory"); }

/* y, with channels last, in the place of n's output 0. */
static nc_code put(numbers *l, nc_node *n, nc_value *y) {
    nc_value *back = y ? nc_contrib_turn(&l->b, y, false) : NULL;
    if (!back) return failed(l);
    nc_edit_replace(n->out[0], back);
    return nc_map_put_bytes(&l->last, &back->id, sizeof back->id, y) ? NC_OK : failed(l);
}

static void start(numbers *l, nc_node *n) { l->b.before = n, l->b.stage = n->stage, l->b.place = n->place; }

/* ---- numbers for each channel ---- */

/* How many numbers v has where it is one, or one for each channel of y, whose rank is at least v's; 0: neither. */
static int64_t per_channel(const nc_value *v, const nc_type *y) {
    int64_t d, n = 1;
    if (!v || !v->type || v->type->kind != NC_T_TENSOR || v->type->rank < 0 || v->type->rank > y->rank) return 0;
    for (int i = 0; i < v->type->rank; i++) {
        int axis = y->rank - v->type->rank + i;
        if (!nc_dim_is_const(v->type->dims[i], &d) || (d != 1 && (axis != 1 || v->type->dims[i] != y->dims[1])))
            return 0;
        n *= d;
    }
    return n;
}

/* Such numbers as a vector, or one as a scalar. */
static nc_value *as_vector(numbers *l, nc_value *v, int64_t n) {
    int rank = n == 1 ? 0 : 1;
    if (v->type->rank == rank) return v;
    if (v->origin != NC_FROM_CONST || !v->lit) return nc_build1(&l->b, "Reshape", 2, v, nc_build_ints(&l->b, &n, rank));
    const nc_literal *flat = nc_edit_literal(l->g->model, v->type->elem, rank, &n, v->lit->data);
    return flat ? nc_edit_const(l->g, NULL, flat) : NULL;
}

/* ---- the convolution ---- */

/* The ConvInteger whose sums input i of the product n is, as numbers. */
static nc_node *sums_of(const nc_node *n, int i) {
    nc_node *cast = n->in[i]->def, *conv = cast && cast->card == &nc_card_cast && cast->in[0] ? cast->in[0]->def : NULL;
    if (!conv || conv->card != &nc_card_conv_integer || !is_only(n->in[i]) || !is_only(cast->in[0]) ||
        !nc_lower_may_go(cast) || !nc_lower_may_go(conv))
        return NULL;
    const nc_type *y = conv->out[0]->type, *x = conv->in[0]->type;
    if (cast->place != n->place || conv->place != n->place || !y || y->rank < 3 || !x || x->rank != y->rank)
        return NULL;
    return n->out[0]->type && nc_type_equal(cast->out[0]->type, n->out[0]->type) ? conv : NULL;
}

static nc_code at_product(numbers *l, nc_node *n) {
    for (int i = 0; i < 2; i++) {
        nc_node *conv = n->n_in == 2 && n->in[0] && n->in[1] ? sums_of(n, i) : NULL;
        int64_t scales = conv ? per_channel(n->in[1 - i], n->out[0]->type) : 0;
        if (scales == 0 || n->in[1 - i]->type->elem != NC_FLOAT) continue;
        start(l, n);
        nc_value *x = last_of(l, conv->in[0]);
        nc_value *in[BIAS + 1] = {x ? x : nc_contrib_turn(&l->b, conv->in[0], true), conv->in[1],
                                  as_vector(l, n->in[1 - i], scales), nc_contrib_in(conv, 2), nc_contrib_in(conv, 3)};
        if (!in[0] || !in[2]) return failed(l);
        nc_value *y = nc_build_card1(&l->b, &nc_card_conv_integer_to_float, in, BIAS + 1, conv->attrs, conv->n_attrs);
        if (y) y->def->name = conv->name;
        return put(l, n, y);
    }
    return NC_OK;
}

/* The convolution that gives input i of n, which alone uses it and has its type. */
static nc_node *conv_behind(const numbers *l, const nc_node *n, int i) {
    const nc_value *v = n->in[i], *y = v ? last_of(l, v) : NULL;
    bool conv = y && y->def && y->def->card == &nc_card_conv_integer_to_float && is_only(v) && y->uses.n == 1;
    return conv && nc_type_equal(v->type, n->out[0]->type) ? y->def : NULL;
}

/* Makes a bound that n sets one of the convolution in front of it; the lower one comes first. */
static bool takes_bound(const numbers *l, nc_node *n) {
    bool upper = n->card == &nc_card_min, relu = n->card == &nc_card_relu;
    for (int i = 0; i < n->n_in && n->n_in == (relu ? 1 : 2); i++) {
        nc_node *conv = conv_behind(l, n, i);
        const nc_value *v = relu ? NULL : n->in[1 - i];
        bool number =
            relu || (v && v->origin == NC_FROM_CONST && v->lit && v->lit->n == 1 && v->type->elem == NC_FLOAT);
        if (!conv || !number || nc_attr_has(conv, "high") || (!upper && nc_attr_has(conv, "low"))) continue;
        nc_attr bound = {.name = upper ? "high" : "low", .kind = NC_A_FLOAT};
        if (!relu) bound.f = *(const float *)v->lit->data;
        if (nc_edit_set_attr(conv, &bound) != NC_OK) return false;
        nc_edit_replace(n->out[0], n->in[i]);
        nc_edit_remove(n);
        return true;
    }
    return false;
}

/* Puts the bias that n adds into the convolution in front of it. */
static bool takes_bias(numbers *l, nc_node *n) {
    for (int i = 0; i < 2 && n->n_in == 2 && n->in[0] && n->in[1]; i++) {
        nc_node *conv = conv_behind(l, n, i);
        nc_value *v = n->in[1 - i];
        bool bare = conv && !conv->in[BIAS] && !nc_attr_has(conv, "low") && !nc_attr_has(conv, "high");
        if (!bare || v->origin != NC_FROM_CONST) continue;
        int64_t channels = per_channel(v, n->out[0]->type), K;
        if (channels == 0 || !nc_dim_is_const(n->out[0]->type->dims[1], &K) || channels != K) continue;
        nc_value *bias = K == 1 ? NULL : as_vector(l, v, K);
        if (!bias) continue;
        nc_edit_set_in(conv, BIAS, bias);
        nc_edit_replace(n->out[0], n->in[i]);
        nc_edit_remove(n);
        return true;
    }
    return false;
}

/* ---- what takes channels last ---- */

/* A formula of such values, and of numbers for all elements or for each channel. */
static nc_code at_formula(numbers *l, nc_node *n) {
    nc_value *in[MAX_IN] = {NULL};
    const nc_type *y = n->out[0]->type;
    bool any = false;
    if (n->n_in > MAX_IN || !y || y->rank < 3) return NC_OK;
    for (int i = 0; i < n->n_in; i++) {
        nc_value *v = n->in[i], *turned = v ? last_of(l, v) : NULL;
        bool whole = turned && v->type->rank == y->rank;
        for (int k = 0; whole && k < y->rank; k++) whole = v->type->dims[k] == y->dims[k];
        if (v && !whole && per_channel(v, y) == 0) return NC_OK;
        in[i] = whole ? turned : v;
        any |= whole;
    }
    if (!any) return NC_OK;
    start(l, n);
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i] || in[i] != n->in[i]) continue;
        in[i] = as_vector(l, in[i], per_channel(in[i], y));
        if (!in[i]) return failed(l);
    }
    return put(l, n, nc_build_card1(&l->b, n->card, in, n->n_in, n->attrs, n->n_attrs));
}

/* Channels are the lanes of one block. */
static nc_code at_pool(numbers *l, nc_node *n) {
    nc_value *x = last_of(l, n->in[0]);
    if (!x || x->type->rank > 4 || x->type->elem != NC_FLOAT) return NC_OK;
    start(l, n);
    int64_t axis = 1;
    const nc_blocking k = {.block = NC_BLOCK_ALL};
    nc_value *axes = nc_build_ints(&l->b, &axis, 1), *block = nc_build1(&l->b, "Unsqueeze", 2, x, axes);
    nc_value *y = block ? n->card->blocked(&l->b, n, &k, &block) : NULL;
    return put(l, n, y ? nc_build1(&l->b, "Squeeze", 2, y, axes) : NULL);
}

/* Codes lie as the numbers do. */
static nc_code at_codes(numbers *l, nc_node *n) {
    nc_value *x = last_of(l, n->in[0]);
    if (!x) return NC_OK;
    start(l, n);
    nc_node *made = nc_build_card(&l->b, n->card, &x, 1, NULL, 3, NULL, 0);
    if (!made) return failed(l);
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i]) nc_edit_replace(n->out[i], made->out[i]);
    return put(l, n, made->out[0]);
}

static nc_code at_node(numbers *l, nc_node *n) {
    if (n->recompute || !n->out[0] || n->out[0]->var || !nc_lower_on_cpu(n, l->o)) return NC_OK;
    if (n->card == &nc_card_dynamic_quantize_linear) return n->in[0] ? at_codes(l, n) : NC_OK;
    if (n->n_out != 1) return NC_OK;
    if (n->card == &nc_card_max_pool || n->card == &nc_card_average_pool) return at_pool(l, n);
    if (n->card == &nc_card_add && takes_bias(l, n)) return NC_OK;
    bool bounds = n->card == &nc_card_relu || n->card == &nc_card_max || n->card == &nc_card_min;
    if (bounds && takes_bound(l, n)) return NC_OK;
    if (n->card == &nc_card_mul) {
        const nc_value *y = n->out[0];
        NC_TRY(at_product(l, n));
        if (y->uses.n == 0 && y->n_outputs == 0) return NC_OK; /* done */
    }
    return n->card->lane ? at_formula(l, n) : NC_OK;
}

/* ---- all of it ---- */

/* What the rewrites have left without a use. */
static void drop_unused(nc_graph *g) {
    for (nc_node *n = g->last, *prev; n; n = prev) {
        bool used = (n->card->traits & (NC_RANDOM | NC_IN_PLACE | NC_CONTROL)) || n->n_subs > 0;
        prev = n->prev;
        for (int i = 0; i < n->n_out; i++)
            used |= n->out[i] && (n->out[i]->uses.n || n->out[i]->n_outputs || n->out[i]->var);
        if (!used) nc_edit_remove(n);
    }
}

static bool has_sums(const numbers *l) {
    for (const nc_node *n = l->g->first; n; n = n->next)
        if (n->card == &nc_card_conv_integer && nc_lower_on_cpu(n, l->o)) return true;
    return false;
}

nc_code nc_lower_conv_integer(nc_work *w, nc_model *m, const nc_plan_options *o) {
    numbers l = {.w = w, .g = m->main, .o = o, .b = {.w = w, .graph = m->main, .infer = nc_infer_node}};
    if (o->no_layout || !has_sums(&l)) return NC_OK;
    nc_map_init(&l.last, &w->scratch);
    for (nc_node *n = l.g->first, *next; n; n = next) {
        next = n->next;
        w->at_node = n->name, w->at_op = n->card->name;
        NC_TRY(at_node(&l, n));
    }
    drop_unused(l.g);
    return NC_OK;
}
