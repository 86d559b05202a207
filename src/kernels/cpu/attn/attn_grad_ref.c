/* kernels/cpu/attn/attn_grad_ref.c: the gradient of attention as its formula stands, one query at a time in double. The
 * shares of a query come from nck_attn_ref, which shows them. */
#include "kernels/cpu/attn/attn_grad.h"

#include "base/real.h"

#include <math.h>

static int64_t place(const nck_attn_operand *o, int64_t b, int64_t h, int64_t row, int64_t column) {
    return b * o->batch + h * o->head + row * o->row + column * o->column;
}

static double get(const nck_attn_args *a, const nck_attn_operand *o, int64_t b, int64_t h, int64_t row, int64_t c) {
    return nc_real_get(a->type, o->data, place(o, b, h, row, c));
}

static void add(const nck_attn_args *a, const nck_attn_operand *o, int64_t b, int64_t h, int64_t row, int64_t c,
                double v) {
    if (o->data == NULL) return;
    int64_t at = place(o, b, h, row, c);
    nc_real_put(a->type, o->data, at, nc_real_get(a->type, o->data, at) + v);
}

static double slope(const nck_attn_grad_args *g, int64_t b, int64_t h, int64_t kv, int64_t i, int64_t t) {
    const nck_attn_args *a = &g->a;
    double s = 0;
    if (!(a->softcap > 0)) return 1;
    for (int64_t c = 0; c < a->D; c++) s += get(a, &a->q, b, h, i, c) * get(a, &a->k, b, kv, t, c);
    s = tanh(s * a->scale / a->softcap);
    return 1 - s * s;
}

/* p: shares of query i; d: room for their gradients. */
static void query_back(const nck_attn_grad_args *g, int64_t b, int64_t h, int64_t i, const double *p, double *d) {
    const nck_attn_args *a = &g->a;
    int64_t kv = h / (a->Hq / a->Hkv);
    double dot = 0;
    for (int64_t t = 0; t < a->T; t++) {
        d[t] = 0;
        for (int64_t c = 0; c < a->Dv; c++) {
            d[t] += get(a, &g->dy, b, h, i, c) * get(a, &a->v, b, kv, t, c);
            add(a, &g->dv, b, kv, t, c, p[t] * get(a, &g->dy, b, h, i, c));
        }
        dot += p[t] * d[t];
    }
    for (int64_t t = 0; t < a->T; t++) {
        double ds = a->scale * p[t] * (d[t] - dot) * slope(g, b, h, kv, i, t);
        for (int64_t c = 0; c < a->D; c++) {
            add(a, &g->dq, b, h, i, c, ds * get(a, &a->k, b, kv, t, c));
            add(a, &g->dk, b, kv, t, c, ds * get(a, &a->q, b, h, i, c));
        }
    }
}

static void clear(const nck_attn_args *a, const nck_attn_operand *o, int64_t heads, int64_t rows, int64_t columns) {
    for (int64_t i = 0; o->data != NULL && i < a->B * heads * rows * columns; i++) nc_real_put(a->type, o->data, i, 0);
}

/* a->qk holds the shares. */
void nck_attn_grad_ref(const nck_attn_grad_args *g, double *rows) {
    const nck_attn_args *a = &g->a;
    clear(a, &g->dq, a->Hq, a->S, a->D), clear(a, &g->dk, a->Hkv, a->T, a->D), clear(a, &g->dv, a->Hkv, a->T, a->Dv);
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->Hq; h++)
            for (int64_t i = 0; i < a->S; i++) {
                int64_t at = ((b * a->Hq + h) * a->S + i) * a->T;
                for (int64_t t = 0; t < a->T; t++) rows[t] = nc_real_get(a->type, a->qk, at + t);
                query_back(g, b, h, i, rows, rows + a->T);
            }
}
