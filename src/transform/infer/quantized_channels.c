/* transform/infer/quantized_channels.c: convolutions of codes with channels last, which is how their kernels work.
 *
 *   y = QLinearConv(x)                   becomes   y = back(com.microsoft.QLinearConv<channels_last>(last(x)))
 *   y = QLinearAdd(back(a), back(b))               y = back(QLinearAdd(a, b))
 *   y = MaxPool(back(x)), x codes                  y = back(NhwcMaxPool(x))
 * last and back being Transposes, which meet and go (common/transposes.c): between the first convolution of a network
 * and its last pool none is left. */
#include "ops/contrib.h"
#include "transform/pattern.h"
#include "transform/transform.h"

#include <string.h>

/* The Transpose that puts channels last, or back behind the batch. */
typedef struct turning {
    int64_t perm[NC_MAX_RANK];
    nc_attr attr;
} turning;

static void turning_init(turning *t, int rank, bool back) {
    for (int k = 0; k < rank; k++) t->perm[k] = k;
    for (int k = 1; k < rank; k++) t->perm[k] = back ? (k == 1 ? rank - 1 : k - 1) : (k == rank - 1 ? 1 : k + 1);
    t->attr = (nc_attr){.name = "perm", .kind = NC_A_INTS, .n = rank, .ints = t->perm};
}

/* v's type with its dims in the turning's order. */
static const nc_type *turned_type(const nc_value *v, const turning *t) {
    const nc_dim *dims[NC_MAX_RANK];
    for (int k = 0; k < v->type->rank; k++) dims[k] = v->type->dims[t->perm[k]];
    return nc_type_tensor(&v->graph->model->arena, v->type->elem, v->type->rank, dims);
}

/* What is turned back by v; NULL: v is no such Transpose. */
static nc_value *before_back(const nc_value *v) {
    const nc_node *n = v != NULL ? nc_rewrite_def(v, "Transpose") : NULL;
    turning back;
    int count = 0;
    const int64_t *perm = n != NULL ? nc_attr_ints(n, "perm", &count) : NULL;
    if (perm == NULL || !nc_rewrite_tensor(v) || count != v->type->rank || count < 3 || n->recompute) return NULL;
    turning_init(&back, count, true);
    return memcmp(perm, back.perm, (size_t)count * sizeof *perm) == 0 ? n->in[0] : NULL;
}

/* In n's place: com.microsoft's op on inputs with channels last, and what it gives turned back. */
static nc_code replace(nc_work *w, nc_node *n, const char *op, nc_value *const *in, int n_in, const nc_attr *attrs,
                       int n_attrs, bool *done) {
    turning last, back;
    nc_value *y = NULL;
    nc_node *made = NULL;
    turning_init(&last, n->out[0]->type->rank, false);
    turning_init(&back, n->out[0]->type->rank, true);
    const nc_type *type = turned_type(n->out[0], &last);
    NC_NEED(w, type);
    NC_TRY(nc_rewrite_insert_in(w, n, NC_MICROSOFT, op, in, n_in, attrs, n_attrs, type, &y));
    if (y == NULL) return NC_OK;
    NC_TRY(nc_rewrite(w, n, "Transpose", &y, 1, &back.attr, 1, &made));
    *done = made != NULL;
    return NC_OK;
}

enum { CONV_INPUTS = 9, ADD_INPUTS = 8, ATTRS = 8 };

static bool is_image(const nc_value *v) { return v != NULL && nc_rewrite_tensor(v) && v->type->rank >= 3; }

static nc_code at_conv(nc_work *w, nc_node *n, bool *done) {
    nc_value *in[CONV_INPUTS] = {NULL}, *x = n->in[0];
    nc_attr attrs[ATTRS] = {{.name = "channels_last", .kind = NC_A_INT, .i = 1}};
    turning last;
    if (!nc_rewrite_free(n) || !is_image(x) || !is_image(n->out[0]) || n->n_attrs + 1 > ATTRS) return NC_OK;
    turning_init(&last, x->type->rank, false);
    const nc_type *type = turned_type(x, &last);
    NC_NEED(w, type);
    for (int i = 0; i < n->n_in && i < CONV_INPUTS; i++) in[i] = n->in[i];
    for (int i = 0; i < n->n_attrs; i++) attrs[i + 1] = n->attrs[i];
    NC_TRY(nc_rewrite_insert(w, n, "Transpose", &x, 1, &last.attr, 1, type, &in[0]));
    return in[0] != NULL ? replace(w, n, "QLinearConv", in, n->n_in, attrs, n->n_attrs + 1, done) : NC_OK;
}

static nc_code at_add(nc_work *w, nc_node *n, bool *done) {
    nc_value *in[ADD_INPUTS] = {NULL}, *a = before_back(n->in[0]), *b = before_back(n->in[3]);
    if (a == NULL || b == NULL || !nc_rewrite_free(n) || !nc_rewrite_tensor(n->out[0])) return NC_OK;
    if (a->type->rank != b->type->rank || a->type->rank != n->out[0]->type->rank) return NC_OK;
    for (int i = 0; i < n->n_in && i < ADD_INPUTS; i++) in[i] = n->in[i];
    in[0] = a, in[3] = b;
    return replace(w, n, "QLinearAdd", in, n->n_in, NULL, 0, done);
}

/* One result, no indices of its elements. */
static nc_code at_pool(nc_work *w, nc_node *n, bool *done) {
    nc_value *x = before_back(n->in[0]);
    nc_attr attrs[ATTRS];
    int n_attrs = 0;
    if (x == NULL || !nc_rewrite_free(n) || !nc_rewrite_tensor(n->out[0]) || n->n_attrs > ATTRS) return NC_OK;
    if ((x->type->elem != NC_INT8 && x->type->elem != NC_UINT8) || (n->n_out > 1 && n->out[1] != NULL)) return NC_OK;
    for (int i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, "storage_order") != 0) attrs[n_attrs++] = n->attrs[i];
    return replace(w, n, "NhwcMaxPool", &x, 1, attrs, n_attrs, done);
}

nc_code nc_pass_quantized_channels(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        bool done = false;
        nc_match m;
        next = n->next;
        w->at_node = n->name, w->at_op = n->card->name;
        if (nc_rewrite_is(n, "QLinearConv"))
            NC_TRY(at_conv(w, n, &done));
        else if (nc_rewrite_is(n, "MaxPool"))
            NC_TRY(at_pool(w, n, &done));
        else if (nc_pattern_match("com.microsoft.QLinearAdd(a, ..)", n, &m))
            NC_TRY(at_add(w, n, &done));
        *n_changes += done;
    }
    return NC_OK;
}
