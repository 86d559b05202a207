/* ops/shape/bit_cast.c: the card of BitCast: the same bits as elements of another type of the same size. */
#include "ops/card.h"

static nc_code bit_cast_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int64_t number = nc_attr_int(c->node, "to");
    nc_dtype to = number > 0 && number < NC_N_DTYPES ? (nc_dtype)number : NC_UNDEFINED;
    if (to == NC_UNDEFINED || !(c->node->version->out[0].types & NC_BIT(to)))
        NC_FAIL(c->w, NC_E_TYPE, "cannot cast to type %lld", (long long)number);
    if (x == NULL) return nc_out_unknown(c, 0, to, -1);
    if (nc_dtype_bytes(x->elem) != nc_dtype_bytes(to))
        NC_FAIL(c->w, NC_E_TYPE, "%s has other bits than %s", nc_dtype_name(x->elem), nc_dtype_name(to));
    return x->rank < 0 ? nc_out_unknown(c, 0, to, -1) : nc_out(c, 0, to, x->rank, x->dims);
}

#define T_BITS (T_NUMBER_ALL | T_BOOL | T_COMPLEX)
static const nc_op_version versions[] = {
    {.since = 26, IN({"input", T_BITS}), OUT({"output", T_BITS}), ATTR(A_INT_REQ("to"))}, {0}};

const nc_card nc_card_bit_cast = {.name = "BitCast",
                                  .doc = "The input's bits as elements of another type of the same size.",
                                  .versions = versions,
                                  .infer = bit_cast_infer,
                                  .no_grad = "the bits of a number are read as those of another type"};
