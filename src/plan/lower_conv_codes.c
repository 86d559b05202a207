/* plan/lower_conv_codes.c: convolutions of codes take in the sum behind them, as residual networks have it:
 *
 *   QLinearAdd(QLinearConv<channels_last>(x, ..), other)    becomes   nacre.QLinearConvAdd(x, .., other)
 *
 * with the same codes as result, since both round as they did; the sum is taken of a block while it is in the cache.
 * The kernels of the CPU alone. */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/contrib.h"
#include "plan/plan.h"

#include <string.h>

extern const nc_card nc_card_ms_qlinear_conv, nc_card_qlinear_add, nc_card_qlinear_conv_add;

enum { CONV_IN = 8, ADD_IN = 8, SUM_IN = 14 }; /* a convolution's bias comes behind, that of the sum last */

/* Are two numbers of one type known to be the same? */
static bool is_same(const nc_value *a, const nc_value *b) {
    if (a == b) return true;
    bool known = a->origin == NC_FROM_CONST && b->origin == NC_FROM_CONST && a->lit && b->lit;
    return known && a->lit->n == 1 && b->lit->n == 1 && a->lit->dtype == b->lit->dtype &&
           memcmp(a->lit->data, b->lit->data, nc_dtype_bytes(a->lit->dtype)) == 0;
}

/* The convolution that gives operand i of the sum n, which reads the codes as they were written, and nobody else. */
static nc_node *conv_of(const nc_node *n, int i) {
    const nc_value *y = n->in[i];
    nc_node *conv = y->def;
    if (!conv || conv->card != &nc_card_ms_qlinear_conv || !nc_lower_may_go(conv) || conv->place != n->place)
        return NULL;
    if (y->uses.n != 1 || y->n_outputs || !y->type || y->type->rank < 3) return NULL;
    if (!is_same(conv->in[6], n->in[i + 1]) || !is_same(conv->in[7], n->in[i + 2])) return NULL;
    bool same = nc_type_equal(y->type, n->in[3 - i]->type) && nc_type_equal(y->type, n->out[0]->type);
    return same && nc_attr_int(conv, "channels_last") && nc_attr_int(conv, "group") == 1 ? conv : NULL;
}

static bool has_all(const nc_node *n) {
    if (n->n_in != ADD_IN) return false; /* without zero points */
    for (int i = 0; i < ADD_IN; i++)
        if (!n->in[i]) return false;
    return true;
}

static nc_code at_add(nc_builder *b, nc_node *n) {
    static const char *const own[] = {"channels_last"};
    nc_attr attrs[16];
    int i = conv_of(n, 3) ? 3 : 0;
    nc_node *conv = conv_of(n, i);
    if (!conv) return NC_OK;
    b->before = n, b->stage = n->stage, b->place = n->place;
    nc_value *bias = nc_contrib_in(conv, CONV_IN), *in[SUM_IN];
    for (int k = 0; k < CONV_IN; k++) in[k] = conv->in[k];
    for (int k = 0; k < 3; k++) in[8 + k] = n->in[3 - i + k];
    for (int k = 0; k < 2; k++) in[11 + k] = n->in[6 + k];
    in[SUM_IN - 1] = bias;
    int n_attrs = nc_contrib_attrs(conv, own, 1, attrs);
    nc_value *y = nc_build_card1(b, &nc_card_qlinear_conv_add, in, bias ? SUM_IN : SUM_IN - 1, attrs, n_attrs);
    if (!y) return b->code ? b->code : nc_fail(b->w, NC_E_MEMORY, "out of memory");
    y->def->name = conv->name;
    nc_edit_replace(n->out[0], y);
    nc_edit_remove(n);
    nc_edit_remove(conv);
    return NC_OK;
}

nc_code nc_lower_conv_codes(nc_work *w, nc_model *m, const nc_plan_options *o) {
    nc_builder b = {.w = w, .graph = m->main, .infer = nc_infer_node};
    if (o->no_fusion) return NC_OK;
    for (nc_node *n = m->main->first, *next; n; n = next) {
        next = n->next;
        if (n->card != &nc_card_qlinear_add || !nc_lower_may_go(n) || !has_all(n) || !nc_lower_on_cpu(n, o)) continue;
        w->at_node = n->name, w->at_op = n->card->name;
        NC_TRY(at_add(&b, n));
    }
    return NC_OK;
}
