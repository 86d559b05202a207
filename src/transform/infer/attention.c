/* transform/infer/attention.c: Attention from the products, scales, masks and Softmax that exporters write for it, over
 * four dims (batch, heads, length, size), or over three (batch times heads, length, size), as torch's
 * MultiheadAttention writes it, which get a dim of one head. How its heads are repeated, split off and joined is
 * attention_heads.c's, which masks are triangles attention_causal.c's.
 *
 * A Dropout between Softmax and the product is taken along as nacre.AttentionDropout, which draws the same numbers: in
 * the main graph alone, since a gradient in a loop's body would draw those of another iteration.
 *
 * A row of scores that a mask of minus infinities hides whole gives zeros, where its parts gave NaN. */
#include "transform/infer/attention.h"

#include <math.h>

/* PARTS_SINCE: Where and Expand, which masks may need. */
enum { PARTS_SINCE = 9, AXES_IN_SINCE = 13, ATTENTION_SINCE = 23 };

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
    int lead = q->rank - 2;
    const nc_dim *const *a = q->dims, *const *b = k->dims, *const *c = v->dims;
    bool same = a[lead + 1] == b[lead];
    for (int i = 0; i < lead; i++) same = same && a[i] == b[i] && b[i] == c[i];
    return same && (b[lead + 1] == c[lead] || (p != NULL && p->rank == q->rank && p->dims[lead + 1] == b[lead + 1]));
}

/* No mask made more of the scores than queries and keys have. */
static bool gives(const nc_type *y, const nc_type *q, const nc_type *v) {
    int last = q->rank - 1;
    bool same = y != NULL && y->kind == NC_T_TENSOR && y->rank == q->rank && y->dims[last] == v->dims[last];
    for (int i = 0; same && i < last; i++) same = y->dims[i] == q->dims[i];
    return same;
}

/* Over the last of the scores' dims. */
static bool softmax_fits(const nc_value *s, int rank) {
    int64_t axis = nc_attr_int(s->def, "axis");
    return axis == -1 || axis == rank - 1;
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

/* Of two dims up to those of the scores. Those in front are as large as the scores' or 1, because the root's type says
 * that they widen nothing. */
static bool mask_fits(const nc_match *m, const nc_value *mask) {
    return nc_rewrite_tensor(mask) && mask->type->rank >= 2 && mask->type->rank <= m->root->out[0]->type->rank;
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
    *fits = (mask == NULL || mask_fits(m, mask)) && (more == NULL || mask_fits(m, more)) &&
            (is == NULL || (mask_fits(m, is) && swallows(low, elem)));
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
    int rank = turned_keys->type->rank;
    const nc_dim *T = turned_keys->type->dims[rank - 1], *dims[4];
    nc_arena *arena = &m->root->graph->model->arena;
    nc_value *at = nc_edit_const_i64(m->root->graph, NULL, 1, 1, (int64_t[]){rank - 1}), *shape;
    if (t->dims[t->rank - 1] == T) return NC_OK;
    for (int i = 0; i < t->rank; i++) dims[i] = i < t->rank - 1 ? t->dims[i] : T;
    const nc_dim *n = nc_dim_const(m->root->graph->model->dims, rank),
                 *one = nc_dim_const(m->root->graph->model->dims, 1);
    NC_NEED(w, at);
    NC_NEED(w, n);
    NC_NEED(w, one);
    NC_TRY(insert(w, m, "Shape", &turned_keys, 1, nc_type_tensor(arena, NC_INT64, 1, &n), &shape));
    NC_NEED(w, shape);
    NC_TRY(insert(w, m, "Gather", (nc_value *[]){shape, at}, 2, nc_type_tensor(arena, NC_INT64, 1, &one), &shape));
    NC_NEED(w, shape);
    return insert(w, m, "Expand", (nc_value *[]){*mask, shape}, 2, nc_type_tensor(arena, t->elem, t->rank, dims), mask);
}

/* ---- three dims ---- */

/* The axis of the one head, as Unsqueeze and Squeeze of the model's opset take it: an input or an attribute. */
static nc_code head_axis(nc_work *w, const nc_match *m, nc_made *made) {
    static const int64_t axis[1] = {1};
    made->domain = "";
    made->n_in = 1;
    if (nc_model_opset(m->root->graph->model, "") < AXES_IN_SINCE) {
        made->attrs[made->n_attrs++] = (nc_attr){.name = "axes", .kind = NC_A_INTS, .ints = axis, .n = 1};
        return NC_OK;
    }
    made->in[made->n_in++] = nc_edit_const_i64(m->root->graph, NULL, 1, 1, axis);
    NC_NEED(w, made->in[1]);
    return NC_OK;
}

/* x (batch, ...) as (batch, 1, ...). */
static nc_code with_head(nc_work *w, const nc_match *m, nc_value **x) {
    const nc_type *t = (*x)->type;
    const nc_dim *one = nc_dim_const(m->root->graph->model->dims, 1);
    nc_made made = {.in = {*x}};
    NC_NEED(w, one);
    const nc_dim *dims[4] = {t->dims[0], one, t->dims[1], t->dims[2]};
    const nc_type *type = tensor(m, t->elem, 4, dims);
    NC_NEED(w, type);
    NC_TRY(head_axis(w, m, &made));
    NC_TRY(nc_rewrite_insert(w, m->root, "Unsqueeze", made.in, made.n_in, made.attrs, made.n_attrs, type, x));
    NC_NEED(w, *x);
    return NC_OK;
}

/* Queries, keys, values and a mask of three dims get a head; masks of two do as they are. */
static nc_code to_four(nc_work *w, const nc_match *m, nc_value **q, nc_value **k, nc_value **v, nc_value **mask) {
    if ((*q)->type->rank == 4) return NC_OK;
    NC_TRY(with_head(w, m, q));
    NC_TRY(with_head(w, m, k));
    NC_TRY(with_head(w, m, v));
    return *mask != NULL && (*mask)->type->rank == 3 ? with_head(w, m, mask) : NC_OK;
}

/* The root has no dim of heads: it becomes a Squeeze of what was made. */
static nc_code to_three(nc_work *w, const nc_match *m, nc_made *made) {
    const nc_dim *const *q = made->in[0]->type->dims, *const *v = made->in[2]->type->dims;
    const nc_dim *dims[4] = {q[0], q[1], q[2], v[3]};
    const nc_type *type = tensor(m, made->in[0]->type->elem, 4, dims);
    nc_made after = {.op = "Squeeze"};
    if (m->root->out[0]->type->rank == 4) return NC_OK;
    NC_NEED(w, type);
    NC_TRY(nc_rewrite_insert_in(w, m->root, made->domain, made->op, made->in, made->n_in, made->attrs, made->n_attrs,
                                type, &after.in[0]));
    NC_NEED(w, after.in[0]);
    after.in[0]->def->random_id = made->random_id, after.inner = made->inner;
    NC_TRY(head_axis(w, m, &after));
    *made = after;
    return NC_OK;
}

/* ---- what is made ---- */

/* Keys (..., length, size) of those that stand turned: a view, or one Transpose with the one before it. */
static nc_code turn_back(nc_work *w, const nc_match *m, nc_value *turned, nc_value **out) {
    int rank = turned->type->rank;
    const nc_dim *dims[4];
    int64_t perm[4];
    for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    for (int i = 0; i < rank; i++) dims[i] = turned->type->dims[perm[i]];
    nc_attr attr = {.name = "perm", .kind = NC_A_INTS, .ints = perm, .n = rank};
    const nc_type *type = tensor(m, turned->type->elem, rank, dims);
    NC_NEED(w, type);
    NC_TRY(nc_rewrite_insert(w, m->root, "Transpose", &turned, 1, &attr, 1, type, out));
    NC_NEED(w, *out);
    return NC_OK;
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

/* Of a Dropout that is in training mode, with the session's seed, and whose ratio an attribute can say. */
static bool drops_fit(const nc_match *m, double *ratio) {
    const nc_value *drop = nc_match_value(m, "drop"), *r = nc_match_value(m, "ratio");
    double trains;
    *ratio = 0;
    if (drop == NULL) return true;
    bool says = nc_rewrite_number(r->lit, 0, ratio) && (double)(float)*ratio == *ratio && *ratio > 0 && *ratio < 1;
    return says && nc_rewrite_number(nc_match_value(m, "training")->lit, 0, &trains) && trains != 0 &&
           !nc_attr_has(drop->def, "seed") && drop->def->graph->owner == NULL;
}

static bool operands_fit(const nc_match *m, const nc_value *q, const nc_value *k, const nc_value *v) {
    if (!nc_rewrite_tensor(q) || (q->type->rank != 3 && q->type->rank != 4)) return false;
    int rank = q->type->rank;
    return is_of(k, rank, q->type->elem) && is_of(v, rank, q->type->elem) &&
           dims_fit(q->type, k->type, v->type, m->root->in[0]->type) &&
           gives(m->root->out[0]->type, q->type, v->type) && softmax_fits(nc_match_value(m, "s"), rank) &&
           casts_fit(m, q->type->elem);
}

static nc_code attends(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    nc_value **q = &made->in[0], **k = &made->in[1], **v = &made->in[2], *mask;
    const nc_value *wide = nc_match_value(m, "wide");
    double scale, ratio;
    *fits = operands_fit(m, *q, *k, *v) && scale_of(m, &scale) && drops_fit(m, &ratio);
    if (!*fits) return NC_OK;
    if (ratio > 0) {
        made->domain = "nacre", made->op = "AttentionDropout";
        made->random_id = nc_match_value(m, "drop")->def->random_id;
        made->attrs[made->n_attrs++] = (nc_attr){.name = "ratio", .kind = NC_A_FLOAT, .f = (float)ratio};
    }
    NC_TRY(mask_of(w, m, (*q)->type->elem, &mask, fits));
    if (!*fits) return NC_OK;
    if (mask != NULL) NC_TRY(all_columns(w, m, *k, &mask));
    NC_TRY(turn_back(w, m, *k, k));
    NC_TRY(to_four(w, m, q, k, v, &mask));
    NC_TRY(scaled(w, m, made, scale));
    *fits = *q != NULL;
    made->n_in = 3;
    if (mask != NULL) made->in[made->n_in++] = mask;
    if (wide != NULL)
        made->attrs[made->n_attrs++] =
            (nc_attr){.name = "softmax_precision", .kind = NC_A_INT, .i = (int64_t)wide->type->elem};
    return *fits ? to_three(w, m, made) : NC_OK;
}

#define SIDE(x) "[Mul(" x ", $" x "m) | Div(" x ", $" x "d) | " x "]"
#define PRODUCT "MatMul(" SIDE("q") ", " SIDE("k") ")"
#define SCALED "[Mul(product=MatMul(..), $by) | Div(product=MatMul(..), $root) | product=MatMul(..)]"
#define CHOSEN "[Where(show, " SCALED ", $low) | Where(hide, $low, " SCALED ") | " SCALED "]"
#define SCORES "[Add(Add(" SCALED ", mask), more) | Add(" CHOSEN ", mask) | " CHOSEN "]"
#define SOFTMAX "[Cast(s=Softmax(wide=Cast(scores))) | s=Softmax(scores)]"
/* Torch hides the NaN of rows that see no key. */
#define SHARES "[Where(IsNaN(p=" SOFTMAX "), 0, p) | " SOFTMAX "]"

/* What made `v`, as the text says, goes to what was matched before. */
static bool match_more(const nc_value *v, const char *text, nc_match *all) {
    nc_match m;
    bool fits = v->origin == NC_FROM_NODE && v->def->stage == all->root->stage && nc_rewrite_only(v) &&
                nc_pattern_match(text, v->def, &m) && all->n_bound + m.n_bound <= NC_PATTERN_NAMES &&
                all->n_nodes + m.n_nodes <= NC_PATTERN_NODES;
    for (int i = 0; fits && i < m.n_bound; i++) all->bound[all->n_bound++] = m.bound[i];
    bool known = false; /* a product is, without what gives it its operands */
    for (int i = 0; fits && i < all->n_nodes; i++) known |= all->nodes[i] == v->def;
    for (int i = known; fits && i < m.n_nodes; i++) all->nodes[all->n_nodes++] = m.nodes[i];
    return fits;
}

/* Scores and their product are matched by themselves: in one text they would stand in it many times. */
static nc_code attends_to(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    nc_match *all = nc_arena_alloc(&w->scratch, sizeof *all);
    NC_NEED(w, all);
    *all = *m;
    *fits = match_more(nc_match_value(m, "scores"), SCORES, all) &&
            match_more(nc_match_value(all, "product"), PRODUCT, all);
    if (!*fits) return NC_OK;
    made->inner = all;
    made->in[0] = nc_match_value(all, "q"), made->in[1] = nc_match_value(all, "k");
    return attends(w, all, made, fits);
}

/* own: nobody else reads what is made, so that Dropout may be in it. */
static nc_code apply(nc_work *w, nc_graph *g, bool own, int *n_changes) {
    const nc_pattern row = {.text = "MatMul([drop=Dropout(" SHARES ", $ratio, $training) | " SHARES "], v)",
                            .op = "Attention",
                            .inputs = "scores scores v",
                            .where = attends_to,
                            .draws = own};
    NC_TRY(nc_pattern_apply_newer(w, g, &row, 1, n_changes));
    NC_TRY(nc_attention_heads(w, g, n_changes));
    return nc_attention_causal(w, g, n_changes);
}

nc_code nc_pass_attention_newer(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_model_opset(g->model, "") < PARTS_SINCE ? NC_OK : apply(w, g, true, n_changes);
}

nc_code nc_pass_attention(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_model_opset(g->model, "") < ATTENTION_SINCE ? NC_OK : apply(w, g, false, n_changes);
}
