/* kernels/cpu/attn/attn_ref.c: attention as its formula stands, one query at a time in double. */
#include "kernels/cpu/attn/attn.h"

#include "base/real.h"

#include <math.h>

static double attn_ref_bias(const nck_attn_args *a, int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t place = i + (a->offset_by_lens ? a->kv_lens[b] - a->S : a->offset);
    if (a->causal && j > place) return -(double)INFINITY;
    if (a->left >= 0 && j < place - a->left) return -(double)INFINITY;
    if (a->right >= 0 && j > place + a->right) return -(double)INFINITY;
    if (a->kv_lens && j >= a->kv_lens[b]) return -(double)INFINITY;
    if (a->mask == NULL) return 0;
    if (j >= a->mask_cols) return -(double)INFINITY;
    int64_t at = b * a->mask_strides[0] + h * a->mask_strides[1] + i * a->mask_strides[2] + j * a->mask_strides[3];
    if (a->mask_bool) return ((const bool *)a->mask)[at] ? 0 : -(double)INFINITY;
    return nc_real_get(a->type, a->mask, at);
}

static void attn_ref_expose(const nck_attn_args *a, nck_attn_stage stage, int64_t at, double v) {
    if (a->qk && a->qk_stage == stage) nc_real_put(a->type, a->qk, at, v);
}

static void run_query(const nck_attn_args *a, int64_t b, int64_t h, int64_t i, double *row) {
    int64_t kv = h / (a->Hq / a->Hkv), q = b * a->q.batch + h * a->q.head + i * a->q.row;
    int64_t qk = ((b * a->Hq + h) * a->S + i) * a->T;
    double sink = a->sink != NULL ? nc_real_get(a->type, a->sink, h) : -(double)INFINITY, top = sink, sum = 0;
    for (int64_t j = 0; j < a->T; j++) {
        double s = 0;
        for (int64_t d = 0; d < a->D; d++)
            s += nc_real_get(a->type, a->q.data, q + d * a->q.column) *
                 nc_real_get(a->type, a->k.data, b * a->k.batch + kv * a->k.head + j * a->k.row + d * a->k.column);
        s *= a->scale;
        attn_ref_expose(a, NCK_ATTN_PRODUCT, qk + j, s);
        if (a->softcap > 0) s = a->softcap * tanh(s / a->softcap);
        attn_ref_expose(a, NCK_ATTN_CAPPED, qk + j, s);
        row[j] = s + attn_ref_bias(a, b, h, i, j);
        attn_ref_expose(a, NCK_ATTN_BIASED, qk + j, row[j]);
        if (!isnan(top) && !(row[j] <= top)) top = row[j];
    }
    for (int64_t j = 0; j < a->T; j++) sum += row[j] = top == -(double)INFINITY ? 0 : exp(row[j] - top);
    if (sink != -(double)INFINITY) sum += exp(sink - top);
    for (int64_t j = 0; j < a->T; j++) {
        row[j] = sum == 0 ? 0 : row[j] / sum;
        attn_ref_expose(a, NCK_ATTN_SOFTMAX, qk + j, row[j]);
    }
    for (int64_t d = 0; d < a->Dv; d++) {
        double y = 0;
        for (int64_t j = 0; j < a->T; j++)
            y += row[j] *
                 nc_real_get(a->type, a->v.data, b * a->v.batch + kv * a->v.head + j * a->v.row + d * a->v.column);
        nc_real_put(a->type, a->y.data, b * a->y.batch + h * a->y.head + i * a->y.row + d, y);
    }
}

void nck_attn_ref(const nck_attn_args *a, double *row) {
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->Hq; h++)
            for (int64_t i = 0; i < a->S; i++) run_query(a, b, h, i, row);
}
