/* ops/nn/loss_call.c: attributes and operands of the losses for the kernels of all devices; reads no element. The cards
 * are in loss.c. */
#include "ops/nn/loss.h"

#include <string.h>

nc_loss nc_loss_read(const nc_node *n) {
    const char *reduction = nc_attr_str(n, "reduction");
    const nc_attr *ignore = nc_node_attr(n, "ignore_index");
    const nc_value *logs = n->n_out > 1 ? n->out[1] : NULL;
    return (nc_loss){.reduction = strcmp(reduction, "none") == 0  ? NCK_LOSS_NONE
                                  : strcmp(reduction, "sum") == 0 ? NCK_LOSS_SUM
                                                                  : NCK_LOSS_MEAN,
                     .has_ignore = ignore != NULL,
                     .ignore_index = ignore != NULL ? ignore->i : 0,
                     .gives_logs = logs != NULL && (logs->uses.n > 0 || logs->n_outputs > 0)};
}

nc_code nc_loss_describe(const nc_loss *s, const nc_call *c, const nc_tensor *x, int i_labels, nck_loss_args *a) {
    const nc_tensor *labels = c->in[i_labels], *weights = c->n_in > i_labels + 1 ? c->in[i_labels + 1] : NULL;
    *a = (nck_loss_args){.type = x->dtype,
                         .N = x->dims[0],
                         .C = x->dims[1],
                         .D = 1,
                         .label_type = labels->dtype,
                         .labels = labels->data,
                         .weights = weights != NULL ? weights->data : NULL,
                         .has_ignore = s->has_ignore,
                         .ignore_index = s->ignore_index,
                         .reduction = s->reduction};
    for (int i = 2; i < x->rank; i++) a->D *= x->dims[i];
    if (nc_tensor_numel(labels) != a->N * a->D)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld labels, %lld are expected",
                           (long long)nc_tensor_numel(labels), (long long)(a->N * a->D));
    if (a->weights != NULL && nc_tensor_numel(weights) != a->C)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld weights, %lld are expected",
                           (long long)nc_tensor_numel(weights), (long long)a->C);
    return NC_OK;
}
