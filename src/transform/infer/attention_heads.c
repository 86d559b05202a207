/* transform/infer/attention_heads.c: what stands around an Attention of four dims goes into it: key heads that are
 * repeated for the queries that share them, and heads that are split off and joined again by Reshape and Transpose:
 * Attention reads and writes rows (batch, length, heads * size) as they are. */
#include "transform/infer/attention.h"

#include <string.h>

static bool turns(const nc_value *t, int a, int b, int c, int d) {
    const int64_t want[4] = {a, b, c, d};
    int n = 0;
    const int64_t *perm = nc_attr_ints(t->def, "perm", &n);
    return perm != NULL && n == 4 && memcmp(perm, want, sizeof want) == 0;
}

static bool has_rank(const nc_value *v, int rank) { return nc_rewrite_tensor(v) && v->type->rank == rank; }

static const nc_node *attention_of(const nc_match *m) {
    const nc_value *a = nc_match_value(m, "a");
    return a != NULL ? a->def : m->root;
}

/* A new node would be of the same version, and has room for what this one says. */
static bool can_keep(const nc_node *old) {
    int64_t opset = nc_model_opset(old->graph->model, "");
    bool usual = nc_card_version(old->card, opset) == old->version;
    bool first = old->version->since > opset && old->version[1].since == 0;
    return (usual || first) && old->n_attrs + 2 <= NC_PATTERN_ATTRS && old->n_in <= NC_PATTERN_INPUTS;
}

/* Op, attributes, and the inputs behind query, key and value, are the old ones. */
static void keep(const nc_node *old, nc_made *made) {
    made->domain = old->card->domain != NULL ? old->card->domain : "", made->op = old->card->name;
    made->random_id = old->random_id;
    for (int i = 3; i < old->n_in; i++) made->in[i] = old->in[i];
    made->n_in = old->n_in;
    for (int i = 0; i < old->n_attrs; i++) made->attrs[made->n_attrs++] = old->attrs[i];
}

/* ---- repeated heads ---- */

/* x (B,H,T,D), each head n times in a row through (B,H,n,T,D). */
static bool repeats(const nc_value *x, const nc_value *wide, const nc_value *y, int64_t *n) {
    int64_t heads, all;
    if (!has_rank(x, 4) || !has_rank(wide, 5) || !has_rank(y, 4)) return false;
    const nc_dim *const *d = x->type->dims, *const *e = wide->type->dims, *const *f = y->type->dims;
    const nc_value *narrow = wide->def->in[0];
    if (!has_rank(narrow, 5) || narrow->type->dims[1] != d[1] || narrow->type->dims[3] != d[2]) return false;
    bool same =
        d[0] == e[0] && d[1] == e[1] && d[2] == e[3] && d[3] == e[4] && d[0] == f[0] && d[2] == f[2] && d[3] == f[3];
    return same && nc_dim_is_const(e[2], n) && nc_dim_is_const(d[1], &heads) && nc_dim_is_const(f[1], &all) &&
           heads > 0 && all == heads * *n;
}

static nc_code grouped(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_node *old = attention_of(m);
    int64_t nk, nv;
    (void)w;
    *fits = can_keep(old) && has_rank(old->in[0], 4) && !(old->n_in > 4 && old->in[4] != NULL) &&
            repeats(made->in[1], nc_match_value(m, "ek"), old->in[1], &nk) &&
            repeats(made->in[2], nc_match_value(m, "ev"), old->in[2], &nv) && nk == nv;
    if (*fits) keep(old, made);
    return NC_OK;
}

/* ---- heads split and joined ---- */

/* x (B,T,heads,D) by a Reshape: dims. */
static bool is_split(const nc_value *x, int64_t *heads, int64_t *size) {
    return nc_rewrite_def(x, "Reshape") != NULL && has_rank(x, 4) && nc_dim_is_const(x->type->dims[2], heads) &&
           nc_dim_is_const(x->type->dims[3], size) && *heads > 0 && *size > 0;
}

static nc_code reshape(nc_work *w, const nc_match *m, nc_value *x, const int64_t *shape, int n, const nc_type *type,
                       nc_value **out) {
    nc_value *in[2] = {x, nc_edit_const_i64(m->root->graph, NULL, 1, n, shape)};
    NC_NEED(w, type);
    NC_NEED(w, in[1]);
    return nc_rewrite_insert(w, m->root, "Reshape", in, 2, NULL, 0, type, out);
}

static const nc_type *rows_type(const nc_match *m, const nc_value *split, int64_t columns) {
    nc_model *model = m->root->graph->model;
    const nc_dim *last = nc_dim_const(model->dims, columns);
    if (last == NULL) return NULL;
    const nc_dim *dims[3] = {split->type->dims[0], split->type->dims[1], last};
    return nc_type_tensor(&model->arena, split->type->elem, 3, dims);
}

/* (B,T,heads,D) as rows: the Reshape before it comes to nothing where it began with rows. */
static nc_code to_rows(nc_work *w, const nc_match *m, nc_value *split, int64_t columns, nc_value **out) {
    int64_t shape[3] = {0, 0, columns};
    return reshape(w, m, split, shape, 3, rows_type(m, split, columns), out);
}

/* Rows in, rows out; the root's four dims (B,S,heads,Dv) are a Reshape of them. */
static nc_code of_rows(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_node *old = attention_of(m);
    const nc_value *y = m->root->out[0];
    nc_value **x = made->in;
    int64_t H[3], D[3], heads, size;
    static const char *const turned[] = {"tq", "tk", "tv"};
    *fits = can_keep(old) && turns(y, 0, 2, 1, 3) && has_rank(y, 4);
    for (int i = 0; *fits && i < 3; i++)
        *fits = turns(nc_match_value(m, turned[i]), 0, 2, 1, 3) && is_split(x[i], &H[i], &D[i]);
    *fits = *fits && nc_dim_is_const(y->type->dims[2], &heads) && nc_dim_is_const(y->type->dims[3], &size) &&
            heads == H[0] && size == D[2] && H[1] == H[2] && !nc_attr_has(old, "q_num_heads");
    if (!*fits) return NC_OK;
    made->attrs[made->n_attrs++] = (nc_attr){.name = "q_num_heads", .kind = NC_A_INT, .i = H[0]};
    made->attrs[made->n_attrs++] = (nc_attr){.name = "kv_num_heads", .kind = NC_A_INT, .i = H[1]};
    keep(old, made);
    for (int i = 0; i < 3; i++) {
        NC_TRY(to_rows(w, m, x[i], H[i] * D[i], &x[i]));
        NC_NEED(w, x[i]);
    }
    nc_value *rows;
    const nc_type *type = rows_type(m, y, heads * size);
    NC_NEED(w, type);
    NC_TRY(nc_rewrite_insert_in(w, m->root, made->domain, made->op, x, made->n_in, made->attrs, made->n_attrs, type,
                                &rows));
    NC_NEED(w, rows);
    rows->def->random_id = made->random_id;
    nc_value *shape = nc_edit_const_i64(m->root->graph, NULL, 1, 4, (int64_t[]){0, 0, heads, size});
    NC_NEED(w, shape);
    *made = (nc_made){.domain = "", .op = "Reshape", .in = {rows, shape}, .n_in = 2};
    return NC_OK;
}

#define REPEATED(x) "Reshape(e" x "=Expand([Unsqueeze(" x ", ..) | Reshape(" x ", ..)], ..), ..)"

#define REPEATS "(q, " REPEATED("k") ", " REPEATED("v") ", ..)"
#define TURNED "(tq=Transpose(q), tk=Transpose(k), tv=Transpose(v), ..)"

static const nc_pattern rows[] = {
    {.text = "Attention" REPEATS, .op = "Attention", .inputs = "q k v", .where = grouped},
    {.text = "nacre.AttentionDropout" REPEATS, .op = "Attention", .inputs = "q k v", .where = grouped, .draws = true},
    {.text = "Transpose([a=Attention" TURNED " | a=nacre.AttentionDropout" TURNED "])",
     .op = "Attention",
     .inputs = "q k v",
     .where = of_rows,
     .draws = true},
};

nc_code nc_attention_heads(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_pattern_apply_newer(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}
