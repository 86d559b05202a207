/* transform/infer/attention.c: Attention from the products, scales, masks and Softmax that exporters write for it, over
 * four dims (batch, heads, length, size). How its heads are repeated, split off and joined is attention_heads.c's.
 *
 * A row of scores that a mask of minus infinities hides whole gives zeros, where its parts gave NaN. */
#include "transform/infer/attention.h"

#include <math.h>

/* PARTS_SINCE: Where and Expand, which masks may need. */
enum { PARTS_SINCE = 9, ATTENTION_SINCE = 23, SCORES_RANK = 4 };

static const nc_type *tensor(const nc_match *m, nc_dtype elem, int rank, const nc_dim *const *dims) {
    return nc_type_tensor(&m->root->graph->model->arena, elem, rank, dims);
}

static nc_code insert(nc_work *w, const nc_match *m, const char *op, nc_value *const *in, int n_in, const nc_type *type,
                      nc_value **out) {
    NC_NEED(w, type);
    return nc_rewrite_insert(w, m->root, op, in, n_in, NULL, 0, type, out);
}

/* ---- what fits ---- */

static bool is_of(const nc_value *v, int rank, nc_dtype elem) {
    return v != NULL && nc_rewrite_tensor(v) && v->type->rank == rank && v->type->elem == elem;
}

/* As many values as keys: the types say so, or the product with the shares p would fail where there are not. */
static bool dims_fit(const nc_type *q, const nc_type *k, const nc_type *v, const nc_type *p) {
    const nc_dim *const *a = q->dims, *const *b = k->dims, *const *c = v->dims;
    bool same_keys = b[3] == c[2] || (p != NULL && p->rank == 4 && p->dims[3] == b[3]);
    return a[0] == b[0] && b[0] == c[0] && a[1] == b[1] && b[1] == c[1] && a[3] == b[2] && same_keys;
}

/* No mask made more of the scores than queries and keys have. */
static bool gives(const nc_type *y, const nc_type *q, const nc_type *v) {
    bool same = y != NULL && y->kind == NC_T_TENSOR && y->rank == 4 && y->dims[3] == v->dims[3];
    for (int i = 0; same && i < 3; i++) same = y->dims[i] == q->dims[i];
    return same;
}

/* Over the last of four dims. */
static bool softmax_fits(const nc_value *s) {
    int64_t axis = nc_attr_int(s->def, "axis");
    return axis == -1 || axis == SCORES_RANK - 1;
}

/* Softmax in a wider type than the scores, and back. */
static bool casts_fit(const nc_match *m, nc_dtype elem) {
    const nc_value *wide = nc_match_value(m, "wide");
    return wide == NULL || (nc_rewrite_tensor(wide) && nc_dtype_is_float(wide->type->elem) &&
                            nc_dtype_bytes(wide->type->elem) >= nc_dtype_bytes(elem));
}

/* The product of the numbers that queries, keys and scores are multiplied by. */
static bool scale_of(const nc_match *m, double *scale) {
    static const struct {
        const char *name;
        bool divides;
    } parts[] = {{"qm", false}, {"qd", true}, {"km", false}, {"kd", true}, {"by", false}, {"root", true}};
    *scale = 1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const nc_value *c = nc_match_value(m, parts[i].name);
        double v;
        if (c == NULL) continue;
        if (!nc_rewrite_number(c->lit, 0, &v)) return false;
        *scale = parts[i].divides ? *scale / v : *scale * v;
    }
    return isfinite((float)*scale);
}

/* ---- masks ---- */

static bool is_one(const nc_dim *d) {
    int64_t v;
    return nc_dim_is_const(d, &v) && v == 1;
}

/* Of two to four dims. Those in front are as large as the scores' or 1, because the root's type says that they widen
 * nothing. */
static bool mask_fits(const nc_value *mask) {
    return nc_rewrite_tensor(mask) && mask->type->rank >= 2 && mask->type->rank <= 4;
}

/* A number so low that a score changes nothing when added: hidden scores are then all the same, as Where makes them. */
static bool swallows(const nc_value *low, nc_dtype elem) {
    double v;
    return nc_rewrite_number(low->lit, 0, &v) && v <= (elem == NC_FLOAT16 ? -6e4 : -1e30);
}

/* What scores that are chosen by a condition, `show` or `hide`, would have had to be added to: 0, or the low number. */
static nc_code chosen(nc_work *w, const nc_match *m, nc_dtype elem, nc_value **out) {
    nc_value *show = nc_match_value(m, "show"), *hide = nc_match_value(m, "hide"), *low = nc_match_value(m, "low");
    nc_value *zero = nc_edit_const_scalar(m->root->graph, NULL, elem, 0), *is = show != NULL ? show : hide;
    NC_NEED(w, zero);
    nc_value *in[3] = {is, show != NULL ? zero : low, show != NULL ? low : zero};
    return insert(w, m, "Where", in, 3, tensor(m, elem, is->type->rank, is->type->dims), out);
}

static bool spread(const nc_type *a, const nc_type *b, const nc_dim **dims) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < rank; i++) {
        const nc_dim *x = i < rank - a->rank ? NULL : a->dims[i - (rank - a->rank)];
        const nc_dim *y = i < rank - b->rank ? NULL : b->dims[i - (rank - b->rank)];
        if (x != NULL && y != NULL && x != y && !is_one(x) && !is_one(y)) return false;
        dims[i] = x == NULL || (y != NULL && is_one(x)) ? y : x;
    }
    return true;
}

/* The sum of two masks. */
static nc_code joined(nc_work *w, const nc_match *m, nc_value *a, nc_value *b, nc_value **out) {
    const nc_dim *dims[4];
    int rank = a->type->rank > b->type->rank ? a->type->rank : b->type->rank;
    *out = NULL;
    if (!spread(a->type, b->type, dims)) return NC_OK;
    return insert(w, m, "Add", (nc_value *[]){a, b}, 2, tensor(m, a->type->elem, rank, dims), out);
}

/* The mask that Attention gets; NULL with *fits: none. */
static nc_code mask_of(nc_work *w, const nc_match *m, nc_dtype elem, nc_value **out, bool *fits) {
    nc_value *mask = nc_match_value(m, "mask"), *more = nc_match_value(m, "more");
    nc_value *show = nc_match_value(m, "show"), *hide = nc_match_value(m, "hide"), *low = nc_match_value(m, "low");
    nc_value *is = show != NULL ? show : hide;
    double v;
    *out = mask;
    *fits = (mask == NULL || mask_fits(mask)) && (more == NULL || mask_fits(more)) &&
            (is == NULL || (mask_fits(is) && swallows(low, elem)));
    if (!*fits) return NC_OK;
    if (mask == NULL && show != NULL && nc_rewrite_number(low->lit, 0, &v) && isinf(v)) {
        *out = show;
        return NC_OK;
    }
    if (is != NULL) NC_TRY(chosen(w, m, elem, out));
    if (is != NULL && mask != NULL && *out != NULL) NC_TRY(joined(w, m, *out, mask, out));
    if (more != NULL) NC_TRY(joined(w, m, mask, more, out));
    *fits = *out != NULL || (mask == NULL && is == NULL);
    return NC_OK;
}

/* The mask with a column for every key: Attention takes one with fewer for one that hides the others, but one column
 * of scores' own is spread over all. Where the types do not say that there are as many, the run does. */
static nc_code all_columns(nc_work *w, const nc_match *m, nc_value *turned_keys, nc_value **mask) {
    const nc_type *t = (*mask)->type;
    const nc_dim *T = turned_keys->type->dims[3], *dims[4];
    nc_arena *arena = &m->root->graph->model->arena;
    nc_value *at = nc_edit_const_i64(m->root->graph, NULL, 1, 1, (int64_t[]){3}), *shape;
    if (t->dims[t->rank - 1] == T) return NC_OK;
    for (int i = 0; i < t->rank; i++) dims[i] = i < t->rank - 1 ? t->dims[i] : T;
    const nc_dim *four = nc_dim_const(m->root->graph->model->dims, 4),
                 *one = nc_dim_const(m->root->graph->model->dims, 1);
    NC_NEED(w, at);
    NC_NEED(w, four);
    NC_NEED(w, one);
    NC_TRY(insert(w, m, "Shape", &turned_keys, 1, nc_type_tensor(arena, NC_INT64, 1, &four), &shape));
    NC_NEED(w, shape);
    NC_TRY(insert(w, m, "Gather", (nc_value *[]){shape, at}, 2, nc_type_tensor(arena, NC_INT64, 1, &one), &shape));
    NC_NEED(w, shape);
    return insert(w, m, "Expand", (nc_value *[]){*mask, shape}, 2, nc_type_tensor(arena, t->elem, t->rank, dims), mask);
}

/* ---- what is made ---- */

/* Keys (batch, heads, length, size) of those that stand turned: a view, or one Transpose with the one before it. */
static nc_code turn_back(nc_work *w, const nc_match *m, nc_value *turned, nc_value **out) {
    const nc_dim *const *d = turned->type->dims, *dims[4] = {d[0], d[1], d[3], d[2]};
    int64_t perm[4] = {0, 1, 3, 2};
    nc_attr attr = {.name = "perm", .kind = NC_A_INTS, .ints = perm, .n = 4};
    const nc_type *type = tensor(m, turned->type->elem, 4, dims);
    NC_NEED(w, type);
    return nc_rewrite_insert(w, m->root, "Transpose", &turned, 1, &attr, 1, type, out);
}

/* The attribute is a float: what it cannot say of a double, the queries are multiplied by. */
static nc_code scaled(nc_work *w, const nc_match *m, nc_made *made, double scale) {
    nc_value *q = made->in[0];
    if (q->type->elem == NC_DOUBLE && (double)(float)scale != scale) {
        nc_value *by = nc_edit_const_scalar(m->root->graph, NULL, NC_DOUBLE, scale);
        NC_NEED(w, by);
        NC_TRY(insert(w, m, "Mul", (nc_value *[]){q, by}, 2, q->type, &made->in[0]));
        scale = 1;
    }
    made->attrs[made->n_attrs++] = (nc_attr){.name = "scale", .kind = NC_A_FLOAT, .f = (float)scale};
    return NC_OK;
}

static nc_code attends(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    nc_value *q = made->in[0], *k = made->in[1], *v = made->in[2], *mask;
    const nc_value *wide = nc_match_value(m, "wide");
    double scale;
    *fits = nc_rewrite_tensor(q) && is_of(q, 4, q->type->elem) && is_of(k, 4, q->type->elem) &&
            is_of(v, 4, q->type->elem) && dims_fit(q->type, k->type, v->type, m->root->in[0]->type) &&
            gives(m->root->out[0]->type, q->type, v->type) && softmax_fits(nc_match_value(m, "s")) &&
            casts_fit(m, q->type->elem) && scale_of(m, &scale);
    if (!*fits) return NC_OK;
    NC_TRY(mask_of(w, m, q->type->elem, &mask, fits));
    if (!*fits) return NC_OK;
    if (mask != NULL) NC_TRY(all_columns(w, m, k, &mask));
    NC_TRY(turn_back(w, m, k, &made->in[1]));
    NC_TRY(scaled(w, m, made, scale));
    *fits = made->in[0] != NULL && made->in[1] != NULL;
    made->n_in = 3;
    if (mask != NULL) made->in[made->n_in++] = mask;
    if (wide != NULL)
        made->attrs[made->n_attrs++] =
            (nc_attr){.name = "softmax_precision", .kind = NC_A_INT, .i = (int64_t)wide->type->elem};
    return NC_OK;
}

#define SIDE(x) "[Mul(" x ", $" x "m) | Div(" x ", $" x "d) | " x "]"
#define PRODUCT "MatMul(" SIDE("q") ", " SIDE("k") ")"
#define SCALED "[Mul(" PRODUCT ", $by) | Div(" PRODUCT ", $root) | " PRODUCT "]"
#define CHOSEN "[Where(show, " SCALED ", $low) | Where(hide, $low, " SCALED ") | " SCALED "]"
#define SCORES "[Add(Add(" SCALED ", mask), more) | Add(" CHOSEN ", mask) | " CHOSEN "]"
#define SOFTMAX "[Cast(s=Softmax(wide=Cast(" SCORES "))) | s=Softmax(" SCORES ")]"
/* Torch hides the NaN of rows that see no key. */
#define SHARES "[Where(IsNaN(p=" SOFTMAX "), 0, p) | " SOFTMAX "]"

static const nc_pattern rows[] = {
    {.text = "MatMul(" SHARES ", v)", .op = "Attention", .inputs = "q k v", .where = attends},
};

nc_code nc_pass_attention_newer(nc_work *w, nc_graph *g, int *n_changes) {
    if (nc_model_opset(g->model, "") < PARTS_SINCE) return NC_OK;
    NC_TRY(nc_pattern_apply_newer(w, g, rows, sizeof rows / sizeof rows[0], n_changes));
    return nc_attention_heads(w, g, n_changes);
}

nc_code nc_pass_attention(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_model_opset(g->model, "") < ATTENTION_SINCE ? NC_OK : nc_pass_attention_newer(w, g, n_changes);
}
