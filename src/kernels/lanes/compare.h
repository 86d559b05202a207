/* lanes/compare.h: comparisons, logic and selection on one element. Results are 1 or 0 in the compute type; an input is
 * true when it is not 0, NaN included. A comparison with NaN is false. Same rules as arith.h; none has a derivative. */
#ifndef NCK_LANES_COMPARE_H
#define NCK_LANES_COMPARE_H

#define LANE_less(a, b)             L_BOOL(L_LT(a, b))
#define LANE_less_or_equal(a, b)    L_BOOL(L_LE(a, b))
#define LANE_equal(a, b)            L_BOOL(L_EQ(a, b))
#define LANE_greater(a, b)          L_BOOL(L_LT(b, a))
#define LANE_greater_or_equal(a, b) L_BOOL(L_LE(b, a))

/* Only an infinite x has x - x that is no number though x is one. */
#define LANE_is_nan(x) L_BOOL(L_NOT(L_EQ(x, x)))
#define LANE_is_inf(x) L_BOOL(L_AND(L_EQ(x, x), L_NOT(L_EQ(L_SUB(x, x), L_K(0)))))

#define LANE_not(x)    L_BOOL(L_NOT(L_TRUE(x)))
#define LANE_and(a, b) L_BOOL(L_AND(L_TRUE(a), L_TRUE(b)))
#define LANE_or(a, b)  L_BOOL(L_OR(L_TRUE(a), L_TRUE(b)))
#define LANE_xor(a, b) \
    L_BOOL(L_OR(L_AND(L_TRUE(a), L_NOT(L_TRUE(b))), L_AND(L_NOT(L_TRUE(a)), L_TRUE(b))))

#define LANE_where(c, a, b) L_SEL(L_TRUE(c), a, b)

#endif
