/* lanes/activation.h: activation functions of one element, each formula beside its derivative. Same rules as arith.h.
 */
#ifndef NCK_LANES_ACTIVATION_H
#define NCK_LANES_ACTIVATION_H

#define LANE_tanh(x)   L_TANH(x)
#define LANE_tanh_D(y) L_SUB(L_K(1), L_MUL(y, y))

/* 2/sqrt(pi) * exp(-x*x) */
#define LANE_erf(x)   L_ERF(x)
#define LANE_erf_D(x) L_MUL(L_K(1.1283791670955126), L_EXP(L_NEG(L_MUL(x, x))))

#define LANE_sigmoid(x)   L_DIV(L_K(1), L_ADD(L_K(1), L_EXP(L_NEG(x))))
#define LANE_sigmoid_D(y) L_MUL(y, L_SUB(L_K(1), y))

/* log(1 + exp(x)) = max(x, 0) + log(1 + u), u = exp(-|x|). log(1 + u) = log(w)*u/(w - 1) with w = 1 + u as rounded: the
 * quotient takes back the rounding of w, so far negative x keep their digits. */
#define LANE_softplus(x)   L_ADD(L_MAX(x, L_K(0)), LANE_log1p_(L_EXP(L_NEG(L_ABS(x)))))
#define LANE_softplus_D(x) LANE_sigmoid(x)
#define LANE_log1p_(u)     LANE_log1p_of_(u, L_ADD(L_K(1), u))
#define LANE_log1p_of_(u, w) \
    L_SEL(L_EQ(w, L_K(1)), u, L_MUL(L_LOG(w), L_DIV(u, L_SUB(w, L_K(1)))))

/* NaN passes. y > 0 exactly where x > 0. */
#define LANE_relu(x)   L_SEL(L_LT(x, L_K(0)), L_K(0), x)
#define LANE_relu_D(y) L_SEL(L_LE(y, L_K(0)), L_K(0), L_K(1))

/* y = x < 0 ? alpha*x : x */
#define LANE_leaky_relu(x, alpha)   L_SEL(L_LT(x, L_K(0)), L_MUL(alpha, x), x)
#define LANE_leaky_relu_D(x, alpha) L_SEL(L_LT(x, L_K(0)), alpha, L_K(1))

/* y = x < 0 ? alpha*(exp(x) - 1) : x, with exp(x) - 1 = 2t/(1 - t), t = tanh(x/2): no cancellation near 0. */
#define LANE_elu(x, alpha)    L_SEL(L_LT(x, L_K(0)), L_MUL(alpha, LANE_expm1_(L_TANH(L_MUL(L_K(0.5), x)))), x)
#define LANE_elu_D(x, alpha)  L_SEL(L_LT(x, L_K(0)), L_MUL(alpha, L_EXP(x)), L_K(1))
#define LANE_expm1_(t)        L_DIV(L_MUL(L_K(2), t), L_SUB(L_K(1), t))

#endif
