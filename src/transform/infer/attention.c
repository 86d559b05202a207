/* transform/infer/attention.c: Attention from the products, scales, masks and Softmax that exporters write for it.
 * Heads that are split off and joined again by Reshape and Transpose go with it: Attention reads rows (batch, length,
 * heads * size) as they are. Where they come otherwise (rotated, cached, repeated) it takes four dims, keys turned
 * back. Only where the model's opset has Attention.
 *
 * A row of scores that a mask of minus infinities hides whole gives zeros, where its parts gave NaN. */
#include "transform/pattern.h"
#include "transform/transform.h"

#include <math.h>
#include <string.h>

enum { ATTENTION_SINCE = 23, SCORES_RANK = 4 };

/* Batch, heads, length, size: of queries, keys, values. */
typedef struct attended {
    const nc_dim *q[4], *k[4], *v[4];
} attended;

static bool turns(const nc_value *t, int a, int b, int c, int d) {
    const int64_t want[4] = {a, b, c, d};
    int n = 0;
    const int64_t *perm = nc_attr_ints(t->def, "perm", &n);
    return perm != NULL && n == 4 && memcmp(perm, want, sizeof want) == 0;
}

static bool is_of(const nc_value *v, int rank, nc_dtype elem) {
    return v != NULL && nc_rewrite_tensor(v) && v->type->rank == rank && v->type->elem == elem;
}

/* x (batch, length, heads * size) as the Reshape behind `turned` splits it; d: batch, heads, length, size. */
static bool splits_heads(const nc_value *x, const nc_value *turned, const nc_dim **d) {
    const nc_value *split = turned->def->in[0];
    int64_t H, D, C;
    if (!is_of(x, 3, x->type ? x->type->elem : NC_FLOAT) || !is_of(split, 4, x->type->elem)) return false;
    const nc_dim *const *s = split->type->dims;
    if (s[0] != x->type->dims[0] || s[1] != x->type->dims[1]) return false;
    if (!nc_dim_is_const(s[2], &H) || !nc_dim_is_const(s[3], &D) || !nc_dim_is_const(x->type->dims[2], &C))
        return false;
    d[0] = s[0], d[1] = s[2], d[2] = s[1], d[3] = s[3];
    return H > 0 && D > 0 && H * D == C;
}

static bool dims_fit(const attended *a) {
    return a->q[0] == a->k[0] && a->k[0] == a->v[0] && a->q[1] == a->k[1] && a->k[1] == a->v[1] && a->k[2] == a->v[2] &&
           a->q[3] == a->k[3];
}

/* Over the last of four dims. */
static bool softmax_fits(const nc_value *s) {
    int64_t axis = nc_attr_int(s->def, "axis");
    return axis == -1 || axis == SCORES_RANK - 1;
}

static bool is_one(const nc_dim *d) {
    int64_t v;
    return nc_dim_is_const(d, &v) && v == 1;
}

/* A mask of two to four dims that has every key, and is spread over the others: Attention takes one with too few
 * columns for one that hides keys. */
static bool mask_fits(const nc_value *mask, const attended *a, nc_dtype elem) {
    const nc_dim *want[4] = {a->q[0], a->q[1], a->q[2], a->k[2]};
    if (mask == NULL) return true;
    if (!nc_rewrite_tensor(mask) || mask->type->elem != elem || mask->type->rank < 2 || mask->type->rank > 4)
        return false;
    int rank = mask->type->rank;
    for (int i = 0; i < rank; i++) {
        const nc_dim *d = mask->type->dims[i], *w = want[4 - rank + i];
        if (d != w && (i == rank - 1 || !is_one(d))) return false;
    }
    return true;
}

/* What the scores are multiplied by: as a factor, a divisor, or not at all. */
static bool scale_of(const nc_match *m, float *scale) {
    const nc_value *by = nc_match_value(m, "by"), *root = nc_match_value(m, "root"), *c = by != NULL ? by : root;
    double v = 1;
    if (c != NULL && (c->lit->n != 1 || !nc_rewrite_number(c->lit, 0, &v))) return false;
    *scale = (float)(root != NULL ? 1 / v : v);
    return isfinite(*scale);
}

static bool common_fits(const nc_match *m, const attended *a, nc_dtype elem, float *scale) {
    return (elem == NC_FLOAT || elem == NC_FLOAT16) && dims_fit(a) && softmax_fits(nc_match_value(m, "s")) &&
           mask_fits(nc_match_value(m, "mask"), a, elem) && scale_of(m, scale);
}

static void make(const nc_match *m, nc_made *made, float scale) {
    made->n_in = nc_match_value(m, "mask") != NULL ? 4 : 3;
    made->attrs[made->n_attrs++] = (nc_attr){.name = "scale", .kind = NC_A_FLOAT, .f = scale};
}

/* Rows in, rows out. */
static nc_code of_rows(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_value *tq = nc_match_value(m, "tq"), *tk = nc_match_value(m, "tk"), *tv = nc_match_value(m, "tv");
    const nc_type *y = m->root->out[0]->type;
    attended a;
    float scale;
    int64_t H;
    (void)w;
    *fits = turns(tq, 0, 2, 1, 3) && turns(tk, 0, 2, 3, 1) && turns(tv, 0, 2, 1, 3) &&
            turns(nc_match_value(m, "ty"), 0, 2, 1, 3) && splits_heads(made->in[0], tq, a.q) &&
            splits_heads(made->in[1], tk, a.k) && splits_heads(made->in[2], tv, a.v) &&
            common_fits(m, &a, made->in[0]->type->elem, &scale);
    *fits = *fits && y != NULL && y->rank == 3 && y->dims[0] == a.q[0] && y->dims[1] == a.q[2];
    if (!*fits || !nc_dim_is_const(a.q[1], &H)) return NC_OK;
    make(m, made, scale);
    made->attrs[made->n_attrs++] = (nc_attr){.name = "q_num_heads", .kind = NC_A_INT, .i = H};
    made->attrs[made->n_attrs++] = (nc_attr){.name = "kv_num_heads", .kind = NC_A_INT, .i = H};
    return NC_OK;
}

/* Keys (batch, heads, length, size) of those that stand turned: a view, or one Transpose with the one before it. */
static nc_code turn_back(nc_work *w, const nc_match *m, nc_value *turned, nc_value **out) {
    const nc_op_version *version;
    const nc_card *card = nc_rewrite_card(m->root->graph->model, "Transpose", turned->type->elem, &version);
    const nc_dim *const *d = turned->type->dims, *dims[4] = {d[0], d[1], d[3], d[2]};
    int64_t perm[4] = {0, 1, 3, 2};
    nc_attr attr = {.name = "perm", .kind = NC_A_INTS, .ints = perm, .n = 4};
    const char *name = nc_arena_printf(&w->scratch, "%s_rows", turned->name);
    *out = NULL;
    if (card == NULL) return NC_OK;
    NC_NEED(w, name);
    nc_node *t = nc_edit_node(m->root->graph, m->root, card, version, NULL, &turned, 1, &name, 1);
    NC_NEED(w, t);
    t->stage = m->root->stage;
    if (nc_edit_set_attr(t, &attr) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_NEED(w, t->out[0]->type = nc_type_tensor(&m->root->graph->model->arena, turned->type->elem, 4, dims));
    *out = t->out[0];
    return NC_OK;
}

static nc_code of_heads(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_value *q = made->in[0], *k = made->in[1], *v = made->in[2];
    attended a;
    float scale;
    *fits =
        nc_rewrite_tensor(q) && is_of(q, 4, q->type->elem) && is_of(k, 4, q->type->elem) && is_of(v, 4, q->type->elem);
    if (!*fits) return NC_OK;
    for (int i = 0; i < 4; i++) {
        a.q[i] = q->type->dims[i], a.v[i] = v->type->dims[i];
        a.k[i] = k->type->dims[i < 2 ? i : 5 - i];
    }
    *fits = common_fits(m, &a, q->type->elem, &scale);
    if (!*fits) return NC_OK;
    NC_TRY(turn_back(w, m, made->in[1], &made->in[1]));
    *fits = made->in[1] != NULL;
    if (*fits) make(m, made, scale);
    return NC_OK;
}

#define ROW(pattern, fn) \
    { .text = pattern, .op = "Attention", .inputs = "q k v mask", .where = fn }
#define ROWS_OF(scores)                                                                                               \
    ROW("Reshape(ty=Transpose(MatMul(s=Softmax(" scores(                                                              \
            "tq=Transpose(Reshape(q, ..))", "tk=Transpose(Reshape(k, ..))") "), tv=Transpose(Reshape(v, ..)))), ..)", \
        of_rows)
#define HEADS_OF(scores) ROW("MatMul(s=Softmax(" scores("q", "k") "), v)", of_heads)

#define PLAIN(q, k) "MatMul(" q ", " k ")"
#define TIMES(q, k) "Mul(MatMul(" q ", " k "), #by)"
#define OVER(q, k) "Div(MatMul(" q ", " k "), #root)"
#define PLAIN_MASKED(q, k) "Add(" PLAIN(q, k) ", mask)"
#define TIMES_MASKED(q, k) "Add(" TIMES(q, k) ", mask)"
#define OVER_MASKED(q, k) "Add(" OVER(q, k) ", mask)"

static const nc_pattern rows[] = {
    ROWS_OF(TIMES_MASKED),  ROWS_OF(OVER_MASKED), ROWS_OF(PLAIN_MASKED),  ROWS_OF(TIMES),
    ROWS_OF(OVER),          ROWS_OF(PLAIN),       HEADS_OF(TIMES_MASKED), HEADS_OF(OVER_MASKED),
    HEADS_OF(PLAIN_MASKED), HEADS_OF(TIMES),      HEADS_OF(OVER),         HEADS_OF(PLAIN),
};

nc_code nc_pass_attention(nc_work *w, nc_graph *g, int *n_changes) {
    if (nc_model_opset(g->model, "") < ATTENTION_SINCE) return NC_OK;
    return nc_pattern_apply(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}
