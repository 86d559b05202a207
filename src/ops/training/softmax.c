/* ops/training/softmax.c: gradients of Softmax and LogSoftmax as ONNX Runtime names them: along one axis (_13), or over
 * all dims from one on. */
#include "ops/training/training.h"

typedef struct softmax_own {
    const char *op;
    bool flat;
} softmax_own;

static nc_code softmax_infer(nc_infer *c) {
    int rank, axis;
    if (nc_in_rank(c, 0, &rank)) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis));
    return nc_out_like(c, 0, 0);
}

static nc_code softmax_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const softmax_own *own = n->card->own;
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")},
                        {.name = "flat", .kind = NC_A_INT, .i = own->flat}};
    return nc_training_as(b, n, own->op, n->in, 2, attrs, 2, out);
}

#define ROW(s, axis)                                                                                                \
    {                                                                                                               \
        {.since = 1, IN({"dY", T_FLOAT_ALL}, {s, SAME(0)}), OUT({"dX", SAME(0)}), ATTR(A_INT("axis", axis))}, { 0 } \
    }
static const nc_op_version old_versions[] = ROW("Y", 1);
static const nc_op_version new_versions[] = ROW("Y", -1);
static const nc_op_version log_old_versions[] = ROW("X", 1);
static const nc_op_version log_new_versions[] = ROW("X", -1);

#define BY(op, flat) .own = &(const softmax_own){op, flat}, .infer = softmax_infer, .decompose = softmax_decompose
NC_TRAINING_CARD(softmax_grad, "SoftmaxGrad", "Gradient of Softmax over all dims from an axis on.", old_versions,
                 BY("SoftmaxGrad", true));
NC_TRAINING_CARD(softmax_grad_13, "SoftmaxGrad_13", "Gradient of Softmax along an axis.", new_versions,
                 BY("SoftmaxGrad", false));
NC_TRAINING_CARD(log_softmax_grad, "LogSoftmaxGrad", "Gradient of LogSoftmax over all dims from an axis on.",
                 log_old_versions, BY("LogSoftmaxGrad", true));
NC_TRAINING_CARD(log_softmax_grad_13, "LogSoftmaxGrad_13", "Gradient of LogSoftmax along an axis.", log_new_versions,
                 BY("LogSoftmaxGrad", false));
