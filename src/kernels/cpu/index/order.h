/* kernels/cpu/index/order.h: the order that sorts and searches use: less than 0 where x comes before y, 0 where they
 * are equal, more than 0 where y comes first. -0 equals 0; a NaN equals every NaN and comes after all numbers. Integers
 * narrower than 64 bits widen to these without loss, and so do halves to float. */
#ifndef NCK_ORDER_H
#define NCK_ORDER_H

#include <stdint.h>

static inline int nck_order_f32(float x, float y) {
    int nan_x = x != x, nan_y = y != y;
    return nan_x || nan_y ? nan_x - nan_y : (x > y) - (x < y);
}

static inline int nck_order_f64(double x, double y) {
    int nan_x = x != x, nan_y = y != y;
    return nan_x || nan_y ? nan_x - nan_y : (x > y) - (x < y);
}

static inline int nck_order_i64(int64_t x, int64_t y) { return (x > y) - (x < y); }
static inline int nck_order_u64(uint64_t x, uint64_t y) { return (x > y) - (x < y); }

#endif
