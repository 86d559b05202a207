/* lanes/lanes.h: the numbers and facts of all element formulas, made from lanes.list.
 *
 * A lane is one formula: NCK_LANE_tanh. Every unary lane with a derivative also has NCK_LANE_tanh_grad, of two inputs
 * (dy, s) with value dy * D(s), s being the forward input or output as .uses of the forward lane says. */
#ifndef NCK_LANES_LANES_H
#define NCK_LANES_LANES_H

#include <stdbool.h>

typedef enum nck_uses { NCK_USES_NONE, NCK_USES_X, NCK_USES_Y } nck_uses;

#define NCK_LANE_GRAD_NONE(name)
#define NCK_LANE_GRAD_X(name) NCK_LANE_##name##_grad,
#define NCK_LANE_GRAD_Y(name) NCK_LANE_##name##_grad,
typedef enum nck_lane {
#define UNARY(name, n_param, kinds, uses)  NCK_LANE_##name, NCK_LANE_GRAD_##uses(name)
#define BINARY(name, n_param, kinds, diff) NCK_LANE_##name,
#define TERNARY(name, kinds)               NCK_LANE_##name,
#include "kernels/lanes/lanes.list"
#undef UNARY
#undef BINARY
#undef TERNARY
    NCK_N_LANES
} nck_lane;
#undef NCK_LANE_GRAD_NONE
#undef NCK_LANE_GRAD_X
#undef NCK_LANE_GRAD_Y

typedef struct nck_lane_info {
    const char *name;
    int n_in, n_param;
    char kinds;    /* 'F' floats only, 'N' floats and integers, 'I' integers only */
    nck_uses uses; /* unary lanes: what the derivative is a function of */
    bool diff;     /* has derivatives: D, or D0 and D1 */
    int grad;      /* unary lanes: the lane dy * D(s); -1 where there is none */
} nck_lane_info;

/* NULL when the number is no lane. */
const nck_lane_info *nck_lane_get(int lane);
/* -1 when no lane has the name. */
int nck_lane_find(const char *name);

#endif
