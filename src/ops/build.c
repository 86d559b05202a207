/* ops/build.c: the builder of ops/build.h. Emits nodes, infers each at once, remembers the first failure. Values of
 * other graphs are the caller's business (nc_edit_reach). */
#include "ops/build.h"

#include <stdarg.h>
#include <string.h>

/* Formulas are written against this opset or any newer one: models of older opsets get nodes of newer versions. */
enum { BUILD_OPSET = 18 };

static const nc_card *find_card(const nc_registry *r, const char *domain, const char *op) {
    for (; r != NULL; r = r->base) {
        const nc_card *card = r->find(r, domain, op);
        if (card != NULL) return card;
    }
    return NULL;
}

static const nc_op_version *version_of(const nc_model *m, const nc_card *card) {
    int64_t opset = nc_model_opset(m, card->domain ? card->domain : "");
    if (card->domain != NULL) return opset > 0 ? nc_card_version(card, opset) : &card->versions[0];
    const nc_op_version *v = nc_card_version(card, opset > BUILD_OPSET ? opset : BUILD_OPSET), *first = card->versions;
    while (v == NULL && first[1].since != 0) first++;
    return v != NULL ? v : first; /* a pass has made an op that is newer than the model's opset */
}

/* Sticks the failure; `v` passes through when there is none. */
static nc_value *keep(nc_builder *b, nc_value *v) {
    if (b->code == NC_OK && v == NULL) b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
    return b->code == NC_OK ? v : NULL;
}

static nc_node *failed(nc_builder *b, nc_code code) {
    b->code = code;
    return NULL;
}

static nc_node *unknown(nc_builder *b, const char *op) {
    return failed(b, nc_fail(b->w, NC_E_UNSUPPORTED, "the op %s is needed here but not known", op));
}

/* nc_build_card with the version chosen; NULL: there is none. */
static nc_node *build_version(nc_builder *b, const nc_card *card, const nc_op_version *version, nc_value *const *in,
                              int n_in, const bool *wanted, int n_out, const nc_attr *attrs, int n_attrs) {
    enum { MAX_OUT = 16 };
    const char *names[MAX_OUT] = {NULL}; /* NULL: unnamed, empty: absent */
    if (wanted != NULL && n_out > MAX_OUT)
        return failed(b, nc_fail(b->w, NC_E_FAIL, "%s: %d outputs are too many for this call", card->name, n_out));
    for (int i = 0; wanted != NULL && i < n_out; i++)
        if (!wanted[i]) names[i] = "";
    if (version == NULL) return unknown(b, card->name);
    nc_node *n = nc_edit_node(b->graph, b->before, card, version, NULL, in, n_in, wanted != NULL ? names : NULL, n_out);
    if (n == NULL) return failed(b, nc_fail(b->w, NC_E_MEMORY, "out of memory"));
    n->stage = b->stage;
    n->place = b->place;
    for (int i = 0; i < n_attrs; i++)
        if (nc_edit_set_attr(n, &attrs[i]) != NC_OK) return failed(b, nc_fail(b->w, NC_E_MEMORY, "out of memory"));
    nc_code code = b->infer != NULL ? b->infer(b->w, n) : NC_OK;
    return code == NC_OK ? n : failed(b, code);
}

nc_node *nc_build_card(nc_builder *b, const nc_card *card, nc_value *const *in, int n_in, const bool *wanted, int n_out,
                       const nc_attr *attrs, int n_attrs) {
    if (b->code != NC_OK) return NULL;
    return build_version(b, card, version_of(b->graph->model, card), in, n_in, wanted, n_out, attrs, n_attrs);
}

nc_node *nc_build_newest(nc_builder *b, const char *op, nc_value *const *in, int n_in, const bool *wanted, int n_out,
                         const nc_attr *attrs, int n_attrs) {
    if (b->code != NC_OK) return NULL;
    const nc_card *card = find_card(b->graph->model->registry, "", op);
    if (card == NULL) return unknown(b, op);
    return build_version(b, card, &card->versions[0], in, n_in, wanted, n_out, attrs, n_attrs);
}

nc_value *nc_build_newest1(nc_builder *b, const char *op, nc_value *const *in, int n_in, const nc_attr *attrs,
                           int n_attrs) {
    nc_node *n = nc_build_newest(b, op, in, n_in, NULL, 1, attrs, n_attrs);
    return n != NULL ? n->out[0] : NULL;
}

nc_value *nc_build_card1(nc_builder *b, const nc_card *card, nc_value *const *in, int n_in, const nc_attr *attrs,
                         int n_attrs) {
    nc_node *n = nc_build_card(b, card, in, n_in, NULL, 1, attrs, n_attrs);
    return n != NULL ? n->out[0] : NULL;
}

nc_node *nc_build_wanted(nc_builder *b, const char *domain, const char *op, nc_value *const *in, int n_in,
                         const bool *wanted, int n_out, const nc_attr *attrs, int n_attrs) {
    if (b->code != NC_OK) return NULL;
    const nc_card *card = find_card(b->graph->model->registry, domain ? domain : "", op);
    return card != NULL ? nc_build_card(b, card, in, n_in, wanted, n_out, attrs, n_attrs) : unknown(b, op);
}

nc_node *nc_build(nc_builder *b, const char *domain, const char *op, nc_value *const *in, int n_in, int n_out,
                  const nc_attr *attrs, int n_attrs) {
    return nc_build_wanted(b, domain, op, in, n_in, NULL, n_out, attrs, n_attrs);
}

nc_value *nc_build_attr1(nc_builder *b, const char *domain, const char *op, nc_value *const *in, int n_in,
                         const nc_attr *attrs, int n_attrs) {
    nc_node *n = nc_build(b, domain, op, in, n_in, 1, attrs, n_attrs);
    return n != NULL ? n->out[0] : NULL;
}

nc_value *nc_build1(nc_builder *b, const char *op, int n_in, ...) {
    enum { MAX_IN = 8 };
    nc_value *in[MAX_IN];
    if (n_in > MAX_IN) {
        failed(b, nc_fail(b->w, NC_E_FAIL, "%s: %d inputs are too many for this call", op, n_in));
        return NULL;
    }
    va_list args;
    va_start(args, n_in);
    for (int i = 0; i < n_in; i++) in[i] = va_arg(args, nc_value *);
    va_end(args);
    return nc_build_attr1(b, "", op, in, n_in, NULL, 0);
}

nc_value *nc_build_scalar(nc_builder *b, nc_dtype t, double v) {
    return b->code == NC_OK ? keep(b, nc_edit_const_scalar(b->graph, NULL, t, v)) : NULL;
}

nc_value *nc_build_ints(nc_builder *b, const int64_t *v, int n) {
    return b->code == NC_OK ? keep(b, nc_edit_const_i64(b->graph, NULL, 1, n, v)) : NULL;
}

nc_value *nc_build_int(nc_builder *b, int64_t v) {
    return b->code == NC_OK ? keep(b, nc_edit_const_i64(b->graph, NULL, 0, 1, &v)) : NULL;
}

static bool known_tensor(const nc_value *v) {
    return v != NULL && v->type != NULL && v->type->kind == NC_T_TENSOR && v->type->rank >= 0;
}

/* All dims constant, in dims. */
static bool const_dims(const nc_value *v, int64_t *dims) {
    if (!known_tensor(v)) return false;
    for (int i = 0; i < v->type->rank; i++)
        if (!nc_dim_is_const(v->type->dims[i], &dims[i])) return false;
    return true;
}

static bool same_dims(const nc_value *a, const nc_value *b) {
    if (!known_tensor(a) || !known_tensor(b) || a->type->rank != b->type->rank) return false;
    for (int i = 0; i < a->type->rank; i++)
        if (a->type->dims[i] != b->type->dims[i]) return false;
    return true;
}

nc_value *nc_build_shape(nc_builder *b, nc_value *x) {
    int64_t dims[NC_MAX_RANK];
    if (b->code == NC_OK && const_dims(x, dims)) return nc_build_ints(b, dims, x->type->rank);
    return nc_build1(b, "Shape", 1, x);
}

static nc_dtype elem_of(nc_builder *b, const nc_value *x) {
    if (b->code != NC_OK) return NC_UNDEFINED;
    if (x == NULL || x->type == NULL || x->type->elem == NC_UNDEFINED) {
        b->code = nc_fail(b->w, NC_E_TYPE, "the element type of '%s' is not known", x != NULL ? x->name : "");
        return NC_UNDEFINED;
    }
    return x->type->elem;
}

static bool is_kind(const nc_value *x, nc_type_kind kind) {
    return x != NULL && x->type != NULL && x->type->kind == kind;
}

nc_value *nc_build_zeros_like(nc_builder *b, nc_value *x) {
    if (is_kind(x, NC_T_SEQUENCE)) return nc_build_attr1(b, "nacre", "SequenceZeros", &x, 1, NULL, 0);
    nc_dtype t = elem_of(b, x);
    return nc_build_expand_like(b, nc_build_scalar(b, t, 0), x);
}

nc_value *nc_build_add(nc_builder *b, nc_value *x, nc_value *y) {
    nc_value *in[2] = {x, y};
    if (is_kind(x, NC_T_SEQUENCE)) return nc_build_attr1(b, "nacre", "SequenceAdd", in, 2, NULL, 0);
    if (!is_kind(x, NC_T_OPTIONAL)) return nc_build1(b, "Add", 2, x, y);
    nc_value *sum = nc_build_add(b, nc_build1(b, "OptionalGetElement", 1, x), nc_build1(b, "OptionalGetElement", 1, y));
    return nc_build1(b, "Optional", 1, sum);
}

nc_value *nc_build_cast(nc_builder *b, nc_value *x, nc_dtype to) {
    if (b->code != NC_OK || (x != NULL && x->type != NULL && x->type->elem == to)) return b->code == NC_OK ? x : NULL;
    nc_attr attr = {.name = "to", .kind = NC_A_INT, .i = to};
    return nc_build_attr1(b, "", "Cast", &x, 1, &attr, 1);
}

nc_value *nc_build_transpose(nc_builder *b, nc_value *x, const int64_t *perm, int n) {
    nc_attr attr = {.name = "perm", .kind = NC_A_INTS, .n = n, .ints = perm};
    return nc_build_attr1(b, "", "Transpose", &x, 1, &attr, 1);
}

nc_value *nc_build_swap_last(nc_builder *b, nc_value *x) {
    if (b->code != NC_OK) return NULL;
    if (!known_tensor(x) || x->type->rank < 2) {
        failed(b, nc_fail(b->w, NC_E_SHAPE, "'%s' needs a known rank of 2 or more", x != NULL ? x->name : ""));
        return NULL;
    }
    int64_t perm[NC_MAX_RANK];
    int r = x->type->rank;
    for (int i = 0; i < r; i++) perm[i] = i;
    perm[r - 2] = r - 1;
    perm[r - 1] = r - 2;
    return nc_build_transpose(b, x, perm, r);
}

nc_value *nc_build_reshape_like(nc_builder *b, nc_value *x, nc_value *like) {
    if (b->code == NC_OK && same_dims(x, like)) return x;
    nc_value *in[2] = {x, nc_build_shape(b, like)};
    /* An explicit 0 in the shape is a size here, never "copy the dim". */
    nc_attr attr = {.name = "allowzero", .kind = NC_A_INT, .i = 1};
    return nc_build_attr1(b, "", "Reshape", in, 2, &attr, 1);
}

nc_value *nc_build_expand_like(nc_builder *b, nc_value *x, nc_value *like) {
    if (b->code == NC_OK && same_dims(x, like)) return x;
    nc_value *shape = nc_build_shape(b, like);
    return nc_build1(b, "Expand", 2, x, shape);
}

nc_value *nc_build_reduce_sum(nc_builder *b, nc_value *x, const int64_t *axes, int n, bool keepdims) {
    nc_value *in[2] = {x, nc_build_ints(b, axes, n)};
    nc_attr attrs[2] = {{.name = "keepdims", .kind = NC_A_INT, .i = keepdims},
                        {.name = "noop_with_empty_axes", .kind = NC_A_INT, .i = 1}};
    return nc_build_attr1(b, "", "ReduceSum", in, 2, attrs, 2);
}

/* The axes of dy that broadcasting `like` to dy's shape added or widened; false when that is known only in the run. */
static bool widened_axes(const nc_value *dy, const nc_value *like, int64_t *axes, int *n) {
    if (!known_tensor(dy) || !known_tensor(like) || dy->type->rank < like->type->rank) return false;
    int lead = dy->type->rank - like->type->rank;
    *n = 0;
    for (int i = 0; i < dy->type->rank; i++) {
        int64_t c = -1;
        const nc_dim *to = i < lead ? NULL : like->type->dims[i - lead];
        if (to == dy->type->dims[i]) continue;
        if (to != NULL && !nc_dim_is_const(to, &c)) return false;
        if (to == NULL || c == 1) axes[(*n)++] = i;
    }
    return true;
}

nc_value *nc_build_sum_to(nc_builder *b, nc_value *dy, nc_value *like) {
    if (b->code != NC_OK) return NULL;
    int64_t axes[NC_MAX_RANK];
    int n;
    if (!widened_axes(dy, like, axes, &n)) {
        nc_value *in[2] = {dy, nc_build_shape(b, like)};
        return nc_build_attr1(b, "nacre", "SumTo", in, 2, NULL, 0);
    }
    if (n == 0) return dy;
    int lead = dy->type->rank - like->type->rank;
    nc_value *sum = nc_build_reduce_sum(b, dy, axes, n, lead == 0);
    return lead == 0 || n == lead || sum == NULL ? sum : nc_build_reshape_like(b, sum, like);
}

extern const nc_card nc_card_stop_gradient, nc_card_transpose;

nc_value *nc_build_stop(nc_builder *b, nc_value *x) {
    return nc_build_card1(b, &nc_card_stop_gradient, &x, 1, NULL, 0);
}

bool nc_build_is_stop(const nc_node *n) { return n->card == &nc_card_stop_gradient; }

bool nc_build_is_transpose(const nc_node *n) { return n->card == &nc_card_transpose; }

bool nc_build_is_onnx(const nc_node *n) { return n->card->domain == NULL; }
bool nc_build_is_own(const nc_node *n) { return n->card->domain && strcmp(n->card->domain, "nacre") == 0; }

nc_value *nc_grad_x(nc_grad *g, int i) {
    if (g->b->code != NC_OK || i < 0 || i >= g->node->n_operands || g->node->in[i] == NULL) return NULL;
    return keep(g->b, g->forward(g, g->node->in[i]));
}

nc_value *nc_grad_y(nc_grad *g, int i) {
    if (g->b->code != NC_OK || i < 0 || i >= g->node->n_out || g->node->out[i] == NULL) return NULL;
    return keep(g->b, g->forward(g, g->node->out[i]));
}

nc_value *nc_grad_like(nc_grad *g, int i) {
    int64_t dims[NC_MAX_RANK];
    return const_dims(g->node->in[i], dims) ? g->node->in[i] : nc_grad_x(g, i);
}

nc_value *nc_grad_sum_to(nc_grad *g, nc_value *dy, int i) {
    if (g->b->code != NC_OK) return NULL;
    nc_value *x = g->node->in[i];
    int64_t axes[NC_MAX_RANK];
    int n;
    bool by_type = widened_axes(dy, x, axes, &n);
    int lead = by_type ? dy->type->rank - x->type->rank : 0;
    bool needs_shape = !by_type || (lead > 0 && n > lead);
    if (needs_shape) x = nc_grad_like(g, i);
    return nc_build_sum_to(g->b, dy, x);
}

nc_value *nc_grad_dy(nc_grad *g, int i) { return i >= 0 && i < g->node->n_out ? g->dy[i] : NULL; }

void nc_grad_set(nc_grad *g, int i, nc_value *dx) {
    if (i >= 0 && i < g->node->n_operands && g->wants[i]) g->dx[i] = dx;
}

nc_code nc_grad_end(nc_grad *g) { return g->b->code; }
