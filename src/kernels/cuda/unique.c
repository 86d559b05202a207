/* cuda/unique.c: launchers of unique.cu, see unique.h. */
#include "kernels/cuda/unique.h"

#include "base/intmath.h"
#include "kernels/cuda/move.h"

#include <string.h>

/* PARTS of the workspace: start, number, first, inverse. Few or long rows are compared whole by one block. */
enum { THREADS = 256, PARTS = 4, HALF = 32, FEW = 2048, LONG_BITS = 8192 };

/* Mirror those of unique.cu. */
typedef struct unique_args {
    int64_t n, row_stride, outers, outer_stride, inners, n_sorted, sorted;
} unique_args;
typedef struct unique_out {
    uint8_t *flags;
    int64_t *counts, *start, *number, *first, *count, *inverse, *sizes;
    int64_t n_out, rank, axis, dims[NC_MAX_RANK];
} unique_out;

nc_code nck_cuda_unique_prepare(nc_device *d, nc_dtype t, nck_cuda_unique *out, nc_diag *diag) {
    const struct {
        const char *name;
        nc_function **to;
    } all[] = {{"unique_words", &out->words},   {"unique_sort", &out->sort_few}, {"unique_begins", &out->begins},
               {"unique_firsts", &out->firsts}, {"unique_count", &out->count},   {"unique_add", &out->add},
               {"unique_number", &out->number}, {"unique_name", &out->name}};
    out->bits = t == NC_BOOL ? 1 : 8 * (int)nc_dtype_bytes(t);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_unique, t, NULL, all[i].name, all[i].to, diag));
    NC_TRY(nck_cuda_sort_prepare(d, &out->sort, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_compact, NC_BOOL, nck_cuda_move_define(nc_dtype_bytes(t)), "compact_take",
                         &out->take, diag);
}

static int64_t power_of_two(int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

static size_t words_bytes(int64_t n) { return nc_align64(nck_cuda_sort_workspace(n > 0 ? n : 1)); }

/* The words, flags, a count for every block and the total, the parts, of which start has one more. */
size_t nck_cuda_unique_workspace(int64_t n) {
    if (nck_cuda_sort_workspace(n) == SIZE_MAX) return SIZE_MAX;
    return words_bytes(n) + nc_align64((size_t)n) +
           (size_t)(nc_ceil_div(n, THREADS) + 1 + PARTS * (n + 1)) * sizeof(int64_t);
}

/* The rows' places in their order: by the last element first, the lower half of an element before the upper. */
static nc_code order_rows(const nck_cuda_unique *k, nck_cuda_at at, const unique_args *a, const void *x, void *room,
                          uint64_t **words) {
    unique_args u = *a;
    int64_t elements = u.outers * u.inners;
    uint64_t *so_far = NULL, *to = room;
    *words = room;
    if (u.n <= FEW || elements > LONG_BITS / k->bits) {
        void *sort[] = {&u, &x, &to};
        return nck_cuda_launch(at, k->sort_few, 1, THREADS, sort);
    }
    for (int64_t e = elements - 1; e >= 0; e--)
        for (int shift = 0; shift < k->bits; shift += HALF) {
            void *args[] = {&u, &e, &shift, &x, &so_far, &to};
            int end = HALF + (k->bits - shift < HALF ? k->bits - shift : HALF);
            NC_TRY(nck_cuda_launch(at, k->words, nck_cuda_blocks(at.device, u.n, THREADS), THREADS, args));
            NC_TRY(nck_cuda_sort_run(&k->sort, at, u.n, HALF, end, room, words));
            so_far = *words;
        }
    return NC_OK;
}

static unique_out out_of(const nck_cuda_unique_args *a, const nck_cuda_compact_sizes *s, int64_t *sizes, char *room,
                         int64_t blocks) {
    int64_t step = a->n + 1, *counts = (int64_t *)(room + words_bytes(a->n) + nc_align64((size_t)a->n));
    int64_t *part = counts + blocks + 1;
    unique_out y = {.flags = (uint8_t *)room + words_bytes(a->n),
                    .counts = counts,
                    .start = part,
                    .number = part + step,
                    .first = a->first != NULL ? a->first : part + 2 * step,
                    .count = a->count,
                    .inverse = a->inverse != NULL || a->sorted ? a->inverse : part + 3 * step,
                    .sizes = sizes,
                    .n_out = a->n_out,
                    .rank = s->rank,
                    .axis = s->axis};
    memcpy(y.dims, s->dims, sizeof y.dims);
    return y;
}

nc_code nck_cuda_unique_run(const nck_cuda_unique *k, nck_cuda_at at, const nck_cuda_unique_args *a,
                            const nck_cuda_compact_sizes *s, int64_t *sizes, void *workspace) {
    int64_t outer = a->outer, n = a->n, inner = a->inner;
    uint32_t over = nck_cuda_blocks(at.device, n, THREADS);
    int64_t blocks = over, *total;
    unique_args u = {n, inner, outer, n * inner, inner, power_of_two(n), a->sorted};
    unique_out y = out_of(a, s, sizes, workspace, blocks);
    const void *x = a->x;
    uint64_t *words;
    int seen = 0;
    NC_TRY(order_rows(k, at, &u, x, workspace, &words));
    void *begins[] = {&u, &y, &x, &words}, *of_all[] = {&u, &y, &blocks, &words}, *number[] = {&u, &y, &seen, &words};
    void *firsts[] = {&u, &y, &words}, *to = a->y;
    NC_TRY(nck_cuda_launch(at, k->begins, over, THREADS, begins));
    for (; seen < (a->sorted ? 1 : 2); seen++) {
        if (seen) NC_TRY(nck_cuda_launch(at, k->firsts, over, THREADS, firsts));
        NC_TRY(nck_cuda_launch(at, k->count, over, THREADS, begins));
        NC_TRY(nck_cuda_launch(at, k->add, 1, THREADS, of_all));
        NC_TRY(nck_cuda_launch(at, k->number, over, THREADS, number));
    }
    NC_TRY(nck_cuda_launch(at, k->name, over, THREADS, of_all));
    total = y.counts + blocks;
    void *take[] = {&outer, &n, &inner, &total, &y.first, &x, &to};
    return nck_cuda_launch(at, k->take, nck_cuda_blocks(at.device, outer * n * inner, THREADS), THREADS, take);
}
