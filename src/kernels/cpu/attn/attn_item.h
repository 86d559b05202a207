/* kernels/cpu/attn/attn_item.h: what attention (attn.c) and its gradient (attn_grad.c) are cut into, and which keys a
 * query sees. */
#ifndef NCK_ATTN_ITEM_H
#define NCK_ATTN_ITEM_H

#include "base/intmath.h"
#include "kernels/cpu/attn/attn.h"

/* Some queries of one head, and the keys [k0, k1) at hand. */
typedef struct attn_item {
    int64_t b, h, kv, first, rows;
    int64_t k0, k1;
    int64_t ld;   /* attn.c: elements from the scores of one query to those of the next */
    int64_t past; /* attn.c: keys that the past has as well */
    bool begun;   /* rows of Y hold what earlier blocks gave */
} attn_item;

/* Queries of a block, at most: each block packs the keys and values that it sees. Few where that gives the groups less
 * to do at once. */
static inline int64_t attn_rows(const nck_attn_args *a) {
    bool many = a->B * a->Hkv * (NCK_ATTN_ROWS / NCK_ATTN_FEW) > NCK_ATTN_GROUPS && !a->causal && a->right < 0;
    return many ? NCK_ATTN_ROWS : NCK_ATTN_FEW;
}

/* First and last key that query i of batch b may see. */
static inline void seen_keys(const nck_attn_args *a, int64_t b, int64_t i, int64_t *lo, int64_t *hi) {
    int64_t first = a->offset_by_lens ? a->kv_lens[b] - (a->joined ? 1 : a->S) : a->offset;
    int64_t place = first + (a->joined ? 0 : i);
    *lo = a->left >= 0 ? nc_max64(0, place - a->left) : 0;
    *hi = a->T - 1;
    if (a->right >= 0) *hi = nc_min64(*hi, place + a->right);
    if (a->causal) *hi = nc_min64(*hi, place);
    if (a->kv_lens) *hi = nc_min64(*hi, a->kv_lens[b] - 1);
    if (a->mask) *hi = nc_min64(*hi, a->mask_cols - 1);
}

static inline char *attn_matrix(const nck_attn_args *a, const nck_attn_operand *o, int64_t b, int64_t h, int64_t row) {
    return (char *)o->data + (b * o->batch + h * o->head + row * o->row) * (int64_t)nc_dtype_bytes(a->type);
}

#endif
