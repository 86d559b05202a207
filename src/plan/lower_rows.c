/* plan/lower_rows.c: a softmax, a normalization or a reduction of whole rows takes in the element formulas that make
 * its operand, where that is for it alone and its place has a kernel for both (nacre.ChainRows): the rows are made and
 * used while they are in the cache, and are never written. Comes after lower_epilogue.c: formulas that follow a product
 * are done there.
 *
 * Example: a = nacre.Chain{Mul Add}(x, s, m), y = Softmax(a) become y = nacre.ChainRows<op = 0, axis = 2>{Mul Add}(x,
 * s, m). */
#include "ops/build.h"
#include "ops/lane_prog.h"
#include "ops/nacre/rows.h"
#include "ops/reduce/reduce.h"
#include "plan/plan.h"

#include <string.h>

enum { MAX_OPERANDS = 12 };

/* What is found: the formulas, and what is done to their rows. */
typedef struct rows {
    nc_node *lanes;
    nc_rows_op op;
    int64_t axis;
    bool keepdims;
} rows;

#define ROWS(X)                                                                                             \
    X(softmax, SOFTMAX)                                                                                     \
    X(log_softmax, LOG_SOFTMAX)                                                                             \
    X(layer_normalization, NORM) X(rms_normalization, RMS_NORM) X(simplified_layer_normalization, RMS_NORM) \
        X(reduce_sum, SUM) X(reduce_mean, MEAN) X(reduce_max, MAX) X(reduce_min, MIN) X(reduce_prod, PROD)
#define KNOWN(name, what) extern const nc_card nc_card_##name;
ROWS(KNOWN)

static const struct {
    const nc_card *card;
    nc_rows_op op;
} ops[] = {
#define ROW(name, what) {&nc_card_##name, NC_ROWS_##what},
    ROWS(ROW)};

/* What people are told of an nc_rows_op. */
static const char *const names[] = {"Softmax",    "LogSoftmax", "LayerNormalization", "RMSNormalization", "ReduceSum",
                                    "ReduceMean", "ReduceMax",  "ReduceMin",          "ReduceProd"};
_Static_assert(sizeof names / sizeof *names == NC_ROWS_PROD + 1, "a name for each");

/* The only user of formulas that are floats in plain order. */
static nc_node *lanes_of(const nc_node *n) {
    const nc_value *v = n->n_in > 0 ? n->in[0] : NULL;
    nc_node *l = v && v->origin == NC_FROM_NODE ? v->def : NULL;
    nc_lane_prog p;
    if (!l || v->uses.n != 1 || v->n_outputs || l->graph != n->graph || l->place != n->place) return NULL;
    if (l->stage != n->stage || !nc_lower_may_go(l) || l->n_in > MAX_OPERANDS) return NULL;
    if (!v->type || v->type->elem != NC_FLOAT || v->type->rank < 1 || v->type->layout.block) return NULL;
    if (!(l->card->traits & NC_ELEMENTWISE) || !nc_lane_prog_make(&p, l)) return NULL;
    if (l->card->lane > 0 && !nc_lane_prog_group(&p, &l, 1)) return NULL; /* alone, Pow takes whole exponents */
    return p.compute == NC_FLOAT && p.n_out == 1 ? l : NULL;
}

/* Scale and bias are one number for each element of a row. */
static bool has_scales(const nc_node *n, int64_t axis) {
    const nc_type *x = n->in[0]->type;
    for (int i = 1; i < n->n_in; i++) {
        const nc_type *t = n->in[i] ? n->in[i]->type : NULL;
        if (!t || t->elem != NC_FLOAT || t->rank != x->rank - axis) return false;
        for (int k = 0; k < t->rank; k++)
            if (t->dims[k] != x->dims[axis + k]) return false;
    }
    return n->n_in > 1 && n->n_in < 4;
}

/* The first of the last dims that a reduction is over; -1: it is over others. */
static int64_t reduced_from(const nc_node *n, int rank) {
    const nc_attr *attr = nc_node_attr(n, "axes");
    int64_t axes[NC_MAX_RANK];
    int count = 0;
    nc_axes mask;
    if (attr) {
        count = attr->n <= NC_MAX_RANK ? attr->n : 0;
        memcpy(axes, attr->ints, (size_t)count * sizeof *axes);
    } else if (n->n_in > 1 && n->in[1]) {
        const nc_literal *lit = n->in[1]->lit;
        if (!lit || lit->dtype != NC_INT64 || lit->n > NC_MAX_RANK) return -1;
        count = (int)lit->n;
        memcpy(axes, lit->data, (size_t)count * sizeof *axes);
    }
    if (!nc_reduce_mask(axes, count, rank, &mask)) return -1;
    if (count == 0) return nc_attr_int(n, "noop_with_empty_axes") ? -1 : 0;
    int64_t from = rank;
    while (from > 0 && (mask >> (from - 1) & 1)) from--;
    return from < rank && (mask & (nc_axes_below((int)from))) == 0 ? from : -1;
}

static bool find(nc_node *n, const nc_plan_options *o, rows *r) {
    size_t k = 0;
    while (k < sizeof ops / sizeof *ops && ops[k].card != n->card) k++;
    if (k == sizeof ops / sizeof *ops || !nc_lower_may_go(n)) return false;
    *r = (rows){.op = ops[k].op, .lanes = lanes_of(n), .keepdims = nc_attr_int(n, "keepdims") != 0};
    if (!r->lanes || !nc_binding_exists(&nc_card_chain_rows, nc_kernels_at(o, n->place), NC_FLOAT)) return false;
    int rank = n->in[0]->type->rank;
    if (r->op >= NC_ROWS_SUM) {
        r->axis = reduced_from(n, rank);
        return r->axis >= 0;
    }
    r->axis = nc_attr_int(n, "axis");
    if (r->axis < 0) r->axis += rank;
    bool flat = r->op >= NC_ROWS_NORM || n->version->since < 13;
    return (flat || r->axis == rank - 1) && (r->op < NC_ROWS_NORM || has_scales(n, r->axis));
}

static nc_code join(nc_work *w, nc_node *n, const rows *r) {
    nc_value *in[MAX_OPERANDS];
    int n_in = 0, own = r->op == NC_ROWS_NORM || r->op == NC_ROWS_RMS_NORM ? n->n_in : 1;
    for (int i = 0; i < r->lanes->n_in; i++) {
        int k = 0;
        while (k < n_in && in[k] != r->lanes->in[i]) k++;
        if (k == n_in) in[n_in++] = r->lanes->in[i];
    }
    const nc_card *card = &nc_card_chain_rows;
    nc_node *both = nc_edit_node(n->graph, n, card, nc_card_version(card, 1), n->name, in, n_in, &n->out[0]->name, 1);
    NC_NEED(w, both);
    const char *then = names[r->op];
    nc_attr attrs[] = {{.name = "then", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)then, strlen(then)}},
                       {.name = "op", .kind = NC_A_INT, .i = r->op},
                       {.name = "axis", .kind = NC_A_INT, .i = r->axis},
                       {.name = "keepdims", .kind = NC_A_INT, .i = r->keepdims},
                       {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")}};
    for (int i = 0; i < 5; i++) NC_TRY(nc_edit_set_attr(both, &attrs[i]));
    NC_TRY(nc_lower_body(w, both, r->lanes, in, n_in));
    for (int i = 1; i < own; i++) NC_TRY(nc_edit_add_in(both, n->in[i]));
    both->stage = n->stage, both->place = n->place;
    both->out[0]->type = n->out[0]->type;
    nc_edit_replace(n->out[0], both->out[0]);
    nc_edit_remove(n);
    nc_edit_remove(r->lanes);
    return NC_OK;
}

static nc_code rows_in(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    rows r;
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) NC_TRY(rows_in(w, n->subs[i].graph, o));
        if (find(n, o, &r)) NC_TRY(join(w, n, &r));
    }
    return NC_OK;
}

nc_code nc_lower_rows(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : rows_in(w, m->main, o);
}
