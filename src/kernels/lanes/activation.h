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

/* y = x < 0 ? alpha*(exp(x) - 1) : x, with exp(x) - 1 = 2t/(1 - t), t = tanh(x/2): no cancellation near 0. The slope's
 * exp sees no x above 0: chosen away, it would still be inf there, and 0*inf in the second derivative. */
#define LANE_elu(x, alpha)    L_SEL(L_LT(x, L_K(0)), L_MUL(alpha, LANE_expm1_(L_TANH(L_MUL(L_K(0.5), x)))), x)
#define LANE_elu_D(x, alpha)  L_SEL(L_LT(x, L_K(0)), L_MUL(alpha, L_EXP(L_MIN(x, L_K(0)))), L_K(1))
#define LANE_expm1_(t)        L_DIV(L_MUL(L_K(2), t), L_SUB(L_K(1), t))

/* y = x < 0 ? alpha*(exp(x/alpha) - 1) : x */
#define LANE_celu(x, alpha) \
    L_SEL(L_LT(x, L_K(0)), L_MUL(alpha, LANE_expm1_(L_TANH(L_DIV(L_MUL(L_K(0.5), x), alpha)))), x)
#define LANE_celu_D(x, alpha) L_SEL(L_LT(x, L_K(0)), L_EXP(L_DIV(L_MIN(x, L_K(0)), alpha)), L_K(1))

/* y = gamma * (x < 0 ? alpha*(exp(x) - 1) : x) */
#define LANE_selu(x, alpha, gamma)   L_MUL(gamma, LANE_elu(x, alpha))
#define LANE_selu_D(x, alpha, gamma) L_MUL(gamma, LANE_elu_D(x, alpha))

/* y = x <= alpha ? 0 : x; NaN passes. */
#define LANE_thresholded_relu(x, alpha)   L_SEL(L_LE(x, alpha), L_K(0), x)
#define LANE_thresholded_relu_D(x, alpha) L_SEL(L_LE(x, alpha), L_K(0), L_K(1))

/* y = min(1, max(0, alpha*x + beta)) */
#define LANE_hard_sigmoid(x, alpha, beta) L_MIN(L_K(1), L_MAX(L_K(0), L_ADD(L_MUL(alpha, x), beta)))
#define LANE_hard_sigmoid_D(x, alpha, beta) LANE_hard_sigmoid_slope_(L_ADD(L_MUL(alpha, x), beta), alpha)
#define LANE_hard_sigmoid_slope_(z, alpha) L_SEL(L_AND(L_LT(L_K(0), z), L_LT(z, L_K(1))), alpha, L_K(0))

/* y = x * min(1, max(0, x/6 + 1/2)) */
#define LANE_hard_swish(x) \
    L_MUL(x, L_MIN(L_K(1), L_MAX(L_K(0), L_ADD(L_DIV(x, L_K(6)), L_K(0.5)))))
#define LANE_hard_swish_D(x) \
    L_SEL(L_LE(x, L_K(-3)), L_K(0), L_SEL(L_LE(L_K(3), x), L_K(1), L_ADD(L_DIV(x, L_K(3)), L_K(0.5))))

/* y = x * t, t = tanh(log(1 + e)) = n/(n + 2), n = e*(e + 2), e = exp(x). From x = 20 on t rounds to 1. */
#define LANE_mish(x)      L_MUL(x, LANE_mish_t_(x))
#define LANE_mish_t_(x)   L_SEL(L_LT(L_K(20), x), L_K(1), LANE_mish_of_(L_EXP(L_MIN(x, L_K(20)))))
#define LANE_mish_of_(e)  L_DIV(L_MUL(e, L_ADD(e, L_K(2))), L_ADD(L_MUL(e, L_ADD(e, L_K(2))), L_K(2)))
#define LANE_mish_D(x)    LANE_mish_slope_(x, LANE_mish_t_(x))
#define LANE_mish_slope_(x, t) \
    L_ADD(t, L_MUL(L_MUL(x, LANE_sigmoid(x)), L_SUB(L_K(1), L_MUL(t, t))))

#define LANE_softsign(x)      L_DIV(x, L_ADD(L_K(1), L_ABS(x)))
#define LANE_softsign_D(x)    LANE_softsign_of_(L_ADD(L_K(1), L_ABS(x)))
#define LANE_softsign_of_(w)  L_DIV(L_K(1), L_MUL(w, w))

/* y = x < -lambd ? x + bias : lambd < x ? x - bias : 0; NaN passes. */
#define LANE_shrink(x, bias, lambd)                                              \
    L_SEL(L_LT(x, L_NEG(lambd)), L_ADD(x, bias),                                 \
          L_SEL(L_LT(lambd, x), L_SUB(x, bias), L_SEL(L_EQ(x, x), L_K(0), x)))
#define LANE_shrink_D(x, bias, lambd) \
    L_SEL(L_OR(L_LT(x, L_NEG(lambd)), L_LT(lambd, x)), L_K(1), L_K(0))

/* y = x * Phi(x), Phi(x) = (1 + erf(x/sqrt(2)))/2; the density is exp(-x*x/2)/sqrt(2 pi). */
#define LANE_gelu(x)   L_MUL(x, L_CDF(x))
#define LANE_gelu_D(x) L_ADD(L_CDF(x), L_MUL(L_MUL(L_K(0.39894228040143268), x), L_BELL(x)))

/* y = x/2 * (1 + tanh(u)), u = sqrt(2/pi) * (x + 0.044715 x^3) */
#define LANE_gelu_tanh(x)     L_MUL(L_MUL(L_K(0.5), x), L_ADD(L_K(1), L_TANH_1(LANE_gelu_u_(x))))
#define LANE_gelu_u_(x) \
    L_MUL(L_MUL(L_K(0.79788456080286536), x), L_ADD(L_K(1), L_MUL(L_K(0.044715), L_MUL(x, x))))
#define LANE_gelu_tanh_D(x)   LANE_gelu_tanh_of_(x, L_TANH_1(LANE_gelu_u_(x)))
#define LANE_gelu_tanh_of_(x, t)                                                                    \
    L_ADD(L_MUL(L_K(0.5), L_ADD(L_K(1), t)),                                                        \
          L_MUL(L_MUL(L_MUL(L_K(0.39894228040143268), x), L_SUB(L_K(1), L_MUL(t, t))),              \
                L_ADD(L_K(1), L_MUL(L_K(0.134145), L_MUL(x, x)))))

/* The gradients of both where y is at hand: the share y/x stands for the integral, whose formula is longer; by tanh
 * the slope is then a polynomial of x and the share. 1/2 where y has lost its digits. */
#define LANE_gelu_share_(x, y) L_SEL(L_LT(L_ABS(x), L_K(1e-30)), L_K(0.5), L_DIV(y, x))
#define LANE_gelu_grad_y(dy, x, y) \
    L_MUL(dy, L_ADD(LANE_gelu_share_(x, y), L_MUL(L_MUL(L_K(0.39894228040143268), x), L_BELL(x))))
#define LANE_gelu_tanh_grad_y(dy, x, y) LANE_gelu_pull_(dy, x, LANE_gelu_share_(x, y))
#define LANE_gelu_pull_(dy, x, c) \
    L_MUL(dy, L_ADD(c, L_MUL(L_MUL(L_MUL(x, c), L_SUB(L_K(1), c)), LANE_gelu_u_D_(x))))
#define LANE_gelu_u_D_(x) /* twice the derivative of u */ \
    L_ADD(L_K(1.5957691216057308), L_MUL(L_K(0.21406444881780073), L_MUL(x, x)))

/* y = x * sigmoid(alpha*x), one division */
#define LANE_swish(x, alpha)        L_DIV(x, L_ADD(L_K(1), L_EXP(L_NEG(L_MUL(alpha, x)))))
#define LANE_swish_D(x, alpha)      LANE_swish_of_(L_MUL(alpha, x), LANE_sigmoid(L_MUL(alpha, x)))
#define LANE_swish_of_(ax, s)       L_MUL(s, L_ADD(L_K(1), L_MUL(ax, L_SUB(L_K(1), s))))

/* y = x < 0 ? slope*x : x */
#define LANE_prelu(x, slope)       L_SEL(L_LT(x, L_K(0)), L_MUL(slope, x), x)
#define LANE_prelu_D0(x, slope, y) L_SEL(L_LT(x, L_K(0)), slope, L_K(1))
#define LANE_prelu_D1(x, slope, y) L_SEL(L_LT(x, L_K(0)), x, L_K(0))

#endif
