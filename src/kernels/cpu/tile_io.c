/* cpu/tile_io.c: conversions between storage and compute types, one small loop for each pair. Any stride, any
 * alignment. Speed matters only for what whole.simd.c and tile.simd.c do not do by vectors. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/tile_table.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static int64_t i64_of_f64(double x) {
    if (x != x) return 0;
    if (x >= 0x1p63) return INT64_MAX;
    return x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}
static uint64_t u64_of_f64(double x) {
    if (!(x >= 0)) return (uint64_t)i64_of_f64(x);
    return x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}
static int64_t i64_of_i64(int64_t x) { return x; }

/* To bf16 with one rounding: first to the float beside x with an odd last bit unless x is a float, which no second
 * rounding to fewer digits can tell from x. */
static uint16_t bf16_of_f64(double x) {
    float f = (float)x;
    uint32_t u;
    if ((double)f == x || x != x || isinf(f)) return nc_f32_to_bf16(f);
    memcpy(&u, &f, sizeof u);
    if (fabs((double)f) > fabs(x)) u--;
    u |= 1;
    memcpy(&f, &u, sizeof f);
    return nc_f32_to_bf16(f);
}

/* STORAGE(compute dtype, its C type, storage dtype, its C type in memory, the number that v in memory stands for) */
#define STORAGE_ALL(C, T)                                \
    STORAGE(C, T, FLOAT, float, v)                       \
    STORAGE(C, T, DOUBLE, double, v)                     \
    STORAGE(C, T, FLOAT16, uint16_t, nc_f16_to_f32(v))   \
    STORAGE(C, T, BFLOAT16, uint16_t, nc_bf16_to_f32(v)) \
    STORAGE(C, T, BOOL, uint8_t, (v != 0))               \
    STORAGE(C, T, INT8, int8_t, v)                       \
    STORAGE(C, T, INT16, int16_t, v)                     \
    STORAGE(C, T, INT32, int32_t, v)                     \
    STORAGE(C, T, INT64, int64_t, v)                     \
    STORAGE(C, T, UINT8, uint8_t, v)                     \
    STORAGE(C, T, UINT16, uint16_t, v)                   \
    STORAGE(C, T, UINT32, uint32_t, v)                   \
    STORAGE(C, T, UINT64, uint64_t, v)
#define COMPUTE_ALL             \
    STORAGE_ALL(FLOAT, float)   \
    STORAGE_ALL(DOUBLE, double) \
    STORAGE_ALL(INT64, int64_t) \
    STORAGE_ALL(UINT64, uint64_t)

#define TO_FLOAT(x) ((float)(x))
#define TO_DOUBLE(x) ((double)(x))
#define TO_INT64(x) (_Generic((x), float : i64_of_f64, double : i64_of_f64, default : i64_of_i64)(x))
#define TO_UINT64(x) ((uint64_t) _Generic((x), float : u64_of_f64, double : u64_of_f64, default : i64_of_i64)(x))

#define PUT_FLOAT(x) TO_FLOAT(x)
#define PUT_DOUBLE(x) TO_DOUBLE(x)
#define PUT_FLOAT16(x) nc_f64_to_f16((double)(x))
#define PUT_BFLOAT16(x) bf16_of_f64((double)(x))
#define PUT_BOOL(x) ((x) != 0)
#define PUT_INT8(x) ((int8_t)TO_INT64(x))
#define PUT_INT16(x) ((int16_t)TO_INT64(x))
#define PUT_INT32(x) ((int32_t)TO_INT64(x))
#define PUT_INT64(x) TO_INT64(x)
#define PUT_UINT8(x) ((uint8_t)TO_INT64(x))
#define PUT_UINT16(x) ((uint16_t)TO_INT64(x))
#define PUT_UINT32(x) ((uint32_t)TO_INT64(x))
#define PUT_UINT64(x) TO_UINT64(x)

#define STORAGE(C, T, S, M, number)                                                      \
    static void load_##C##_##S(void *dst, const void *src, int64_t stride, int64_t n) {  \
        T *d = dst;                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                \
            M v;                                                                         \
            memcpy(&v, (const char *)src + i * stride * (int64_t)sizeof v, sizeof v);    \
            d[i] = TO_##C(number);                                                       \
        }                                                                                \
    }                                                                                    \
    static void store_##C##_##S(void *dst, int64_t stride, const void *src, int64_t n) { \
        for (int64_t i = 0; i < n; i++) {                                                \
            T x;                                                                         \
            memcpy(&x, (const char *)src + i * (int64_t)sizeof x, sizeof x);             \
            const M v = PUT_##S(x);                                                      \
            memcpy((char *)dst + i * stride * (int64_t)sizeof v, &v, sizeof v);          \
        }                                                                                \
    }
COMPUTE_ALL
#undef STORAGE

/* By compute type, four of all types. */
enum { ROW_FLOAT, ROW_DOUBLE, ROW_INT64, ROW_UINT64, N_ROWS };
static int row_of(nc_dtype compute) {
    return compute == NC_FLOAT    ? ROW_FLOAT
           : compute == NC_DOUBLE ? ROW_DOUBLE
           : compute == NC_INT64  ? ROW_INT64
           : compute == NC_UINT64 ? ROW_UINT64
                                  : N_ROWS;
}
static const nck_tile_load_fn loads[N_ROWS][NC_N_DTYPES] = {
#define STORAGE(C, T, S, M, number) [ROW_##C][NC_##S] = load_##C##_##S,
    COMPUTE_ALL
#undef STORAGE
};
static const nck_tile_store_fn stores[N_ROWS][NC_N_DTYPES] = {
#define STORAGE(C, T, S, M, number) [ROW_##C][NC_##S] = store_##C##_##S,
    COMPUTE_ALL
#undef STORAGE
};

static bool in_table(int row, nc_dtype storage) { return row < N_ROWS && (int)storage > 0 && storage < NC_N_DTYPES; }

nck_tile_load_fn nck_tile_load_get(nc_dtype compute, nc_dtype storage) {
    int row = row_of(compute);
    return in_table(row, storage) ? loads[row][storage] : NULL;
}

nck_tile_store_fn nck_tile_store_get(nc_dtype compute, nc_dtype storage) {
    int row = row_of(compute);
    return in_table(row, storage) ? stores[row][storage] : NULL;
}

nck_tile_dense_fn nck_tile_dense_get(nc_dtype from, nc_dtype to) {
    const nck_isa *isa = nck_isa_get();
    if (to == NC_FLOAT && from == NC_FLOAT16) return isa->tile->load_f16;
    if (to == NC_FLOAT && from == NC_BFLOAT16) return isa->tile->load_bf16;
    if (from == NC_FLOAT && to == NC_FLOAT16) return isa->tile->store_f16;
    if (from == NC_FLOAT && to == NC_BFLOAT16) return isa->tile->store_bf16;
    for (int i = 0; i < isa->whole->n_rows; i++)
        if (isa->whole->rows[i].from == from && isa->whole->rows[i].to == to) return isa->whole->rows[i].fn;
    return NULL;
}
