/* ops/matmul/einsum.c: the card of Einsum. The gradient by an operand is an Einsum again: of dY and the other
 * operands, with a unit matrix for every repeated label of the operand and ones for labels that nothing else has.
 * The kernel is in einsum_cpu.c, what it is made of elsewhere in einsum_parts.c. */
#include "ops/matmul/einsum.h"

#include "ops/build.h"
#include "ops/card.h"

static nc_code resolve(nc_work *w, const nc_node *n, nc_einsum *e) {
    int ranks[NC_EINSUM_MAX_IN];
    char why[128] = "";
    for (int i = 0; i < n->n_in && i < NC_EINSUM_MAX_IN; i++) ranks[i] = n->in[i]->type->rank;
    nc_code code = nc_einsum_resolve(nc_attr_str(n, "equation"), ranks, n->n_in, e, why, sizeof why);
    if (code != NC_OK) NC_FAIL(w, code, "%s", why);
    return NC_OK;
}

/* The dim of a label that has dim a in one operand and b in another; 1 broadcasts. */
static nc_code einsum_join(nc_infer *c, const nc_dim *a, const nc_dim *b, const nc_dim **out) {
    int64_t x, y;
    bool ca = nc_dim_is_const(a, &x), cb = nc_dim_is_const(b, &y);
    if (ca && cb && x != y && x != 1 && y != 1)
        NC_FAIL(c->w, NC_E_SHAPE, "a label has %lld in one operand and %lld in another", (long long)x, (long long)y);
    if (a == b || (ca && x != 1) || (cb && y == 1))
        *out = a;
    else
        *out = cb || (ca && x == 1) ? b : nc_dim_spread(c->dims, a, b);
    NC_NEED(c->w, *out);
    return NC_OK;
}

static nc_code einsum_infer(nc_infer *c) {
    const nc_type *first = nc_in(c, 0);
    const nc_dim *size[NC_EINSUM_LABELS] = {NULL}, *dims[NC_MAX_RANK];
    nc_einsum e;
    int rank, ranks[NC_EINSUM_MAX_IN];
    char why[128] = "";
    if (first == NULL) return NC_OK;
    for (int i = 0; i < c->node->n_in; i++) {
        if (!nc_in_rank(c, i, &rank)) return nc_out_unknown(c, 0, first->elem, -1);
        if (i < NC_EINSUM_MAX_IN) ranks[i] = rank;
    }
    nc_code code = nc_einsum_resolve(nc_attr_str(c->node, "equation"), ranks, c->node->n_in, &e, why, sizeof why);
    if (code != NC_OK) NC_FAIL(c->w, code, "%s", why);
    for (int i = 0; i < e.n_in; i++)
        for (int k = 0; k < e.in[i].rank; k++) {
            const nc_dim **d = &size[e.in[i].label[k]], *own = nc_in_dim(c, i, k);
            if (*d == NULL)
                *d = own;
            else
                NC_TRY(einsum_join(c, *d, own, d));
        }
    for (int k = 0; k < e.out.rank; k++) dims[k] = size[e.out.label[k]];
    return nc_out(c, 0, first->elem, e.out.rank, dims);
}

/* ---- gradient ---- */

typedef struct writer {
    nc_grad *g;
    nc_value *in[2 * NC_EINSUM_MAX_IN];
    int n_in;
    char text[2048];
    size_t n_text;
    char letter_of[NC_EINSUM_LABELS]; /* 0: not given yet */
    bool have[NC_EINSUM_LABELS];      /* some operand has it */
    int n_letters;
} writer;

static char new_letter(writer *w) {
    int i = w->n_letters++;
    if (i >= NC_EINSUM_LETTERS && w->g->b->code == NC_OK)
        w->g->b->code = nc_fail(w->g->b->w, NC_E_UNSUPPORTED, "the gradient needs more than 52 labels");
    i %= NC_EINSUM_LETTERS;
    return (char)(i < 26 ? 'a' + i : 'A' + i - 26);
}

static char letter_of(writer *w, int label) {
    if (w->letter_of[label] == 0) w->letter_of[label] = new_letter(w);
    return w->letter_of[label];
}

static void einsum_put(writer *w, char c) {
    if (w->n_text + 1 < sizeof w->text) w->text[w->n_text++] = c;
}

static void put_operand(writer *w, nc_value *v, const nc_einsum_term *t) {
    if (w->n_in > 0) einsum_put(w, ',');
    w->in[w->n_in++] = v;
    for (int k = 0; k < t->rank; k++) {
        einsum_put(w, letter_of(w, t->label[k]));
        w->have[t->label[k]] = true;
    }
}

static nc_value *size_of(nc_builder *b, nc_value *x, int axis) {
    return nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_int(b, axis));
}

static nc_value *unit_matrix(nc_builder *b, nc_value *n, nc_dtype t) {
    int64_t one = 1;
    nc_value *i = nc_build1(b, "Range", 3, nc_build_int(b, 0), n, nc_build_int(b, 1));
    nc_value *j = nc_build1(b, "Unsqueeze", 2, i, nc_build_ints(b, &one, 1));
    return nc_build_cast(b, nc_build1(b, "Equal", 2, i, j), t);
}

static nc_value *ones(nc_builder *b, nc_value *n, nc_dtype t) {
    int64_t zero = 0;
    nc_value *shape = nc_build1(b, "Unsqueeze", 2, n, nc_build_ints(b, &zero, 1));
    return nc_build1(b, "Expand", 2, nc_build_scalar(b, t, 1), shape);
}

/* The operand's labels as the result, with operands for what is repeated or missing. */
static void put_result(writer *w, const nc_einsum_term *t, int i_in, nc_dtype type) {
    nc_builder *b = w->g->b;
    char result[NC_MAX_RANK];
    bool seen[NC_EINSUM_LABELS] = {false};
    for (int k = 0; k < t->rank; k++) {
        int l = t->label[k];
        result[k] = letter_of(w, l);
        if (!seen[l] && w->have[l]) {
            seen[l] = true;
            continue;
        }
        nc_value *n = size_of(b, nc_grad_x(w->g, i_in), k);
        einsum_put(w, ',');
        if (!seen[l]) {
            w->in[w->n_in++] = ones(b, n, type);
            einsum_put(w, result[k]);
        } else {
            char second = new_letter(w);
            w->in[w->n_in++] = unit_matrix(b, n, type);
            einsum_put(w, result[k]);
            einsum_put(w, second);
            result[k] = second;
        }
        seen[l] = true;
    }
    einsum_put(w, '-');
    einsum_put(w, '>');
    for (int k = 0; k < t->rank; k++) einsum_put(w, result[k]);
}

static nc_code grad_of(nc_grad *g, const nc_einsum *e, int i, nc_value *dy) {
    writer w = {.g = g};
    if (e->n_in + e->in[i].rank >= 2 * NC_EINSUM_MAX_IN || e->n_in + e->in[i].rank > NC_EINSUM_MAX_IN)
        NC_FAIL(g->b->w, NC_E_UNSUPPORTED, "the gradient has more than %d operands", NC_EINSUM_MAX_IN);
    put_operand(&w, dy, &e->out);
    for (int k = 0; k < e->n_in; k++)
        if (k != i) put_operand(&w, nc_grad_x(g, k), &e->in[k]);
    put_result(&w, &e->in[i], i, g->node->in[i]->type->elem);
    nc_attr equation = {.name = "equation", .kind = NC_A_STRING, .s = {.p = w.text, .n = w.n_text}};
    nc_value *dx = nc_build_attr1(g->b, "", "Einsum", w.in, w.n_in, &equation, 1);
    nc_grad_set(g, i, nc_grad_sum_to(g, dx, i));
    return g->b->code;
}

static nc_code einsum_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    nc_einsum e;
    if (dy == NULL) return NC_OK;
    for (int i = 0; i < g->node->n_in; i++)
        if (g->node->in[i]->type == NULL || g->node->in[i]->type->rank < 0)
            NC_FAIL(g->b->w, NC_E_UNSUPPORTED, "the gradient needs known ranks");
    NC_TRY(resolve(g->b->w, g->node, &e));
    for (int i = 0; i < e.n_in; i++)
        if (g->wants[i]) NC_TRY(grad_of(g, &e, i, dy));
    return nc_grad_end(g);
}

static nc_code einsum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_einsum e;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->type == NULL || n->in[i]->type->rank < 0)
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    NC_TRY(resolve(b->w, n, &e));
    return nc_einsum_join(b, n, &e, out);
}

#define ROW(types) IN({"Inputs", types, VARIADIC}), OUT({"Output", SAME(0)}), ATTR(A_STR_REQ("equation"))
static const nc_op_version versions[] = {{.since = 28, ROW(T_NUMBER_ALL)}, {.since = 12, ROW(T_NUMBER)}, {0}};

const nc_card nc_card_einsum = {.name = "Einsum",
                                .doc = "Products of operands summed over labels, as an equation says.",
                                .versions = versions,
                                .infer = einsum_infer,
                                .decompose = einsum_decompose,
                                .grad = einsum_grad};
