/* cpu/tile_ref.c: the reference of the tile machine: one element at a time, every operation by its formula with libm.
 * Shares with the fast way only the formulas and the conversion of single elements. For tests. */
#include "kernels/cpu/tile.h"

#include "kernels/cpu/tile_table.h"
#include "kernels/lanes/activation.h"
#include "kernels/lanes/arith.h"
#include "kernels/lanes/compare.h"
#include "kernels/lanes/vocab_scalar.h"

#include <stddef.h>
#include <stdint.h>

typedef union cell {
    float f32;
    double f64;
    int64_t i64;
    uint64_t u64;
} cell;

#define PARAMS_0
#define PARAMS_1 , p
#define PARAMS_2 , p, q
#define CALL(lane, ...) lane(__VA_ARGS__)
#define GRAD_NONE(name, n_param)
#define GRAD_X(name, n_param)    \
    case NCK_LANE_##name##_grad: \
        return L_MUL(a, CALL(LANE_##name##_D, b PARAMS_##n_param));
#define GRAD_Y(name, n_param) GRAD_X(name, n_param)

#define CASE_F(name, formula) \
    case NCK_LANE_##name:     \
        return formula;
#define CASE_N(name, formula) CASE_F(name, formula)
#define CASE_I(name, formula)
#define UNARY(name, n_param, kinds, uses) \
    CASE_##kinds(name, CALL(LANE_##name, a PARAMS_##n_param)) GRAD_##uses(name, n_param)
#define BINARY(name, n_param, kinds, diff) CASE_##kinds(name, CALL(LANE_##name, a, b PARAMS_##n_param))
#define TERNARY(name, kinds) \
    case NCK_LANE_##name:    \
        return CALL(LANE_##name, a, b, c);

#define L_T float
static float value_f32(int lane, float a, float b, float c, float p, float q) {
    (void)q;
    switch (lane) {
#include "kernels/lanes/lanes.list"
    default: return NAN;
    }
}
#undef L_T

#define L_T double
static double value_f64(int lane, double a, double b, double c, double p, double q) {
    (void)q;
    switch (lane) {
#include "kernels/lanes/lanes.list"
    default: return NAN;
    }
}
#undef L_T

static cell run_op(nc_dtype compute, const nck_tile_op *op, const cell *reg) {
    cell in[3], y;
    for (int k = 0; k < 3; k++) in[k] = reg[op->src[k < nck_lane_get(op->lane)->n_in ? k : 0]];
    if (compute == NC_FLOAT) {
        y.f32 = value_f32(op->lane, in[0].f32, in[1].f32, in[2].f32, (float)op->param[0], (float)op->param[1]);
    } else if (compute == NC_DOUBLE) {
        y.f64 = value_f64(op->lane, in[0].f64, in[1].f64, in[2].f64, op->param[0], op->param[1]);
    } else {
        const void *src[3] = {&in[0], &in[1], &in[2]};
        const nck_lane_fn *lanes = compute == NC_INT64 ? nck_tile_int64 : nck_tile_uint64;
        lanes[op->lane](1, &y, src, op->param);
    }
    return y;
}

/* Address of the element at the coordinates `at` of the outputs' dims. */
static char *tile_ref_address(const nc_tensor *t, const nc_tensor *out, const int64_t *at) {
    int64_t strides[NC_MAX_RANK], step = 0;
    nc_broadcast_strides(t, out->rank, out->dims, strides);
    for (int i = 0; i < out->rank; i++) step += at[i] * strides[i];
    return (char *)t->data + step * (int64_t)nc_dtype_bytes(t->dtype);
}

static void run_element(const nck_tile_prog *p, const nc_tensor *in, const nc_tensor *out, const int64_t *at) {
    cell reg[NCK_TILE_MAX_REG];
    for (int i = 0; i < p->n_in; i++)
        nck_tile_load_get(p->compute, in[i].dtype)(&reg[i], tile_ref_address(&in[i], out, at), 0, 1);
    for (int i = 0; i < p->n_op; i++) reg[p->op[i].dst] = run_op(p->compute, &p->op[i], reg);
    for (int i = 0; i < p->n_out; i++)
        nck_tile_store_get(p->compute, out[i].dtype)(tile_ref_address(&out[i], out, at), 0, &reg[p->out_reg[i]], 1);
}

void nck_tile_ref_run(const nck_tile_prog *p, const nc_tensor *in, const nc_tensor *out) {
    int64_t at[NC_MAX_RANK] = {0}, n = nc_tensor_numel(&out[0]);
    for (int64_t i = 0; i < n; i++) {
        run_element(p, in, out, at);
        for (int d = out[0].rank - 1; d >= 0; d--) {
            if (++at[d] < out[0].dims[d]) break;
            at[d] = 0;
        }
    }
}
