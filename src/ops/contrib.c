/* ops/contrib.c: the words of ops/contrib.h that cards of domain com.microsoft are written with. It names no op of that
 * domain. */
#include "ops/contrib.h"

#include <string.h>

nc_value *nc_contrib_in(const nc_node *n, int i) { return i < n->n_in ? n->in[i] : NULL; }

bool nc_contrib_wants(const nc_node *n, int i) { return i < n->n_out && n->out[i] != NULL; }

nc_value *nc_contrib_dropout_grad(nc_builder *b, const nc_node *n, nc_value *dy, nc_value *mask, int i_ratio) {
    nc_value *ratio = nc_contrib_in(n, i_ratio), *drops = nc_contrib_in(n, i_ratio + 1);
    nc_value *in[4] = {dy, mask, ratio != NULL ? ratio : nc_build_scalar(b, NC_FLOAT, 0.5),
                       drops != NULL ? drops : nc_build_scalar(b, NC_BOOL, 1)};
    return nc_build_attr1(b, "nacre", "DropoutGrad", in, 4, NULL, 0);
}

int64_t nc_contrib_int(const nc_node *n, const char *name, int64_t none) {
    return nc_attr_has(n, name) ? nc_attr_int(n, name) : none;
}

double nc_contrib_float(const nc_node *n, const char *name, double none) {
    return nc_attr_has(n, name) ? nc_attr_float(n, name) : none;
}

static const char *input_name(const nc_infer *c, int i) { return c->node->version->in[i].name; }

nc_code nc_contrib_rank(nc_infer *c, int i, int rank) {
    int got;
    if (nc_in_rank(c, i, &got) && got != rank)
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected %d", input_name(c, i), got, rank);
    return NC_OK;
}

nc_code nc_contrib_vector(nc_infer *c, int i, const nc_dim *size) {
    NC_TRY(nc_contrib_rank(c, i, 1));
    return nc_in_expect(c, i, 0, size);
}

nc_value *nc_contrib_wide(nc_builder *b, nc_value *x) {
    if (b->code != NC_OK || x == NULL || x->type == NULL) return x;
    nc_dtype t = x->type->elem;
    return t == NC_FLOAT16 || t == NC_BFLOAT16 ? nc_build_cast(b, x, NC_FLOAT) : x;
}

nc_value *nc_contrib_add(nc_builder *b, nc_value *x, nc_value *y) {
    return y != NULL ? nc_build1(b, "Add", 2, x, y) : x;
}

nc_value *nc_contrib_size(nc_builder *b, nc_value *x, int axis) {
    int64_t size;
    if (b->code != NC_OK) return NULL;
    if (nc_dim_is_const(x->type->dims[axis], &size)) return nc_build_ints(b, &size, 1);
    nc_attr attrs[2] = {{.name = "start", .kind = NC_A_INT, .i = axis},
                        {.name = "end", .kind = NC_A_INT, .i = axis + 1}};
    return nc_build_attr1(b, "", "Shape", &x, 1, attrs, 2);
}

/* ---- channels last ---- */

/* Which axis of something with channels last becomes axis i with channels first, or the other way round. */
static int turned_axis(int i, int rank, bool back) {
    if (i == 0) return 0;
    return back ? (i == rank - 1 ? 1 : i + 1) : (i == 1 ? rank - 1 : i - 1);
}

nc_code nc_contrib_turned(nc_infer *c, const nc_type *t, bool back, const nc_type **out) {
    const nc_dim *dims[NC_MAX_RANK];
    *out = t;
    if (t == NULL || t->rank < 3) return NC_OK;
    for (int i = 0; i < t->rank; i++) dims[i] = t->dims[turned_axis(i, t->rank, back)];
    *out = nc_type_tensor(c->arena, t->elem, t->rank, dims);
    NC_NEED(c->w, *out);
    return NC_OK;
}

nc_code nc_contrib_infer_turned(nc_infer *c, bool last, nc_code (*inner)(nc_infer *c)) {
    nc_infer_val in[8];
    nc_infer pool = *c;
    for (int i = 0; i < 8 && i < c->node->n_in; i++) in[i] = c->in[i];
    pool.in = in;
    if (last) NC_TRY(nc_contrib_turned(c, in[0].type, false, &in[0].type));
    NC_TRY(inner(&pool));
    return last ? nc_contrib_turned(c, c->out[0].type, true, &c->out[0].type) : NC_OK;
}

nc_value *nc_contrib_turn(nc_builder *b, nc_value *x, bool back) {
    int64_t perm[NC_MAX_RANK];
    if (b->code != NC_OK) return NULL;
    for (int i = 0; i < x->type->rank; i++) perm[i] = turned_axis(i, x->type->rank, back);
    return nc_build_transpose(b, x, perm, x->type->rank);
}

int nc_contrib_attrs(const nc_node *n, const char *const *without, int n_without, nc_attr *to) {
    int count = 0;
    for (int i = 0; i < n->n_attrs && count < 16; i++) {
        bool drop = false;
        for (int k = 0; k < n_without; k++) drop |= strcmp(n->attrs[i].name, without[k]) == 0;
        if (!drop) to[count++] = n->attrs[i];
    }
    return count;
}

/* ---- codes ---- */

nc_value *nc_contrib_decoded(nc_builder *b, nc_value *x, nc_value *scale, nc_value *zero) {
    nc_value *in[3] = {x, scale, zero};
    return nc_build_newest1(b, "DequantizeLinear", in, zero != NULL ? 3 : 2, NULL, 0);
}

nc_value *nc_contrib_coded(nc_builder *b, nc_value *x, nc_value *scale, nc_value *zero, nc_dtype t) {
    nc_value *in[3] = {x, scale, zero};
    nc_attr type = {.name = "output_dtype", .kind = NC_A_INT, .i = t};
    return nc_build_newest1(b, "QuantizeLinear", in, zero != NULL ? 3 : 2, &type, 1);
}

/* ---- activations ---- */

typedef struct activation {
    const char *name;
    const char *attrs[2]; /* in the order of the numbers; Clip takes its bounds as inputs */
    int n_numbers;
} activation;

static const activation activations[] = {{"Relu", {NULL}, 0},
                                         {"Sigmoid", {NULL}, 0},
                                         {"Tanh", {NULL}, 0},
                                         {"Softplus", {NULL}, 0},
                                         {"Softsign", {NULL}, 0},
                                         {"HardSwish", {NULL}, 0},
                                         {"LeakyRelu", {"alpha"}, 1},
                                         {"Elu", {"alpha"}, 1},
                                         {"ThresholdedRelu", {"alpha"}, 1},
                                         {"HardSigmoid", {"alpha", "beta"}, 2},
                                         {"Selu", {"alpha", "gamma"}, 2},
                                         {"Clip", {NULL}, 2}};

static const activation *find_activation(const char *name) {
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
        if (strcmp(activations[i].name, name) == 0) return &activations[i];
    return NULL;
}

const char *nc_contrib_activation_attr(const char *name, int i) {
    const activation *a = name != NULL ? find_activation(name) : NULL;
    return a != NULL && i < a->n_numbers ? a->attrs[i] : NULL;
}

nc_code nc_contrib_check_activation(nc_infer *c, const char *name, int n_numbers) {
    if (name == NULL || *name == 0) return NC_OK;
    const activation *a = find_activation(name);
    if (a == NULL) NC_FAIL(c->w, NC_E_UNSUPPORTED, "the activation '%.60s' is not known", name);
    if (n_numbers < a->n_numbers)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "the activation %s has %d numbers, expected %d", name, n_numbers, a->n_numbers);
    return NC_OK;
}

nc_value *nc_contrib_activation(nc_builder *b, const char *name, const float *numbers, nc_value *x) {
    nc_attr attrs[2];
    if (b->code != NC_OK || name == NULL || *name == 0) return x;
    const activation *a = find_activation(name);
    if (a->attrs[0] == NULL && a->n_numbers == 2) {
        nc_dtype t = x->type->elem;
        return nc_build1(b, a->name, 3, x, nc_build_scalar(b, t, (double)numbers[0]),
                         nc_build_scalar(b, t, (double)numbers[1]));
    }
    for (int i = 0; i < a->n_numbers; i++)
        attrs[i] = (nc_attr){.name = a->attrs[i], .kind = NC_A_FLOAT, .f = numbers[i]};
    return nc_build_attr1(b, "", a->name, &x, 1, attrs, a->n_numbers);
}
