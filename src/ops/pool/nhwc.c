/* ops/pool/nhwc.c: cards of com.ms.internal.nhwc, pools of ai.onnx with channels last, as ONNX Runtime writes them
 * where its processor computes in float16. Its files do not import that domain. They run between two Transposes. */
#include "ops/contrib.h"
#include "ops/pool/pool.h"

#define NHWC "com.ms.internal.nhwc"

static nc_code pool_infer(nc_infer *c) { return nc_contrib_infer_turned(c, true, nc_pool_infer); }
static nc_code global_infer(nc_infer *c) { return nc_contrib_infer_turned(c, true, nc_pool_global_infer); }

static nc_code pool_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    nc_value *x = nc_contrib_turn(b, n->in[0], false);
    out[0] = nc_contrib_turn(b, nc_build_attr1(b, "", n->card->own, &x, 1, n->attrs, n->n_attrs), true);
    return b->code;
}

#define XY(types) .since = 1, IN({"X", types}), OUT({"Y", SAME(0)})
#define WINDOW                                                                                          \
    A_STR("auto_pad", "NOTSET"), A_INTS_REQ("kernel_shape"), A_INTS_OPT("strides"), A_INTS_OPT("pads"), \
        A_INT("ceil_mode", 0)
static const nc_op_version max_versions[] = {{XY(T_FLOAT_ALL | NC_BIT(NC_INT8) | NC_BIT(NC_UINT8)),
                                              ATTR(WINDOW, A_INTS_OPT("dilations"), A_INT("storage_order", 0))},
                                             {0}};
static const nc_op_version average_versions[] = {{XY(T_FLOAT_ALL), ATTR(WINDOW, A_INT("count_include_pad", 0))}, {0}};
static const nc_op_version global_versions[] = {{XY(T_FLOAT_ALL), NO_ATTR}, {0}};

#define POOL(card, op, rows, infers)                                       \
    const nc_card nc_card_nhwc_##card = {.name = op,                       \
                                         .domain = NHWC,                   \
                                         .doc = op " with channels last.", \
                                         .versions = rows,                 \
                                         .own = op,                        \
                                         .infer = infers,                  \
                                         .decompose = pool_decompose}
POOL(max, "MaxPool", max_versions, pool_infer);
POOL(average, "AveragePool", average_versions, pool_infer);
POOL(global_average, "GlobalAveragePool", global_versions, global_infer);
