/* cuda/index.c: launchers of index.cu and scatter.cu, see index.h. */
#include "kernels/cuda/index.h"

#include "base/intmath.h"
#include "kernels/cuda/move.h"

enum { THREADS = 256, CLAIMS = 8, WORD = 16, LINE_BYTES = 32768 };
/* Columns of a lone line that one warp combines sooner than all are sorted; more lines may have as many times more. */
enum { LONE_COLUMNS = 2048 };

/* ---- which element ---- */

static void add_dim(nck_cuda_pick *p, int64_t dim, int64_t of_y, int64_t of_x, int64_t of_index) {
    p->dims[p->rank] = dim;
    p->strides[0][p->rank] = of_y;
    p->strides[1][p->rank] = of_x;
    p->strides[2][p->rank++] = of_index;
}

static void add_axis(nck_cuda_pick *p, const nc_tensor *x, int axis) {
    p->sizes[p->n_axes] = x->dims[axis];
    p->steps[p->n_axes++] = x->strides[axis];
}

static nck_cuda_pick merged(nck_cuda_pick p) {
    p.rank = nc_coalesce((int)p.rank, p.dims, 3, p.strides);
    return p;
}

nck_cuda_pick nck_cuda_pick_slices(const nc_tensor *x, const nc_tensor *index, int axis, const nc_tensor *y) {
    nck_cuda_pick p = {.wide = index->dtype == NC_INT64};
    int d = 0;
    for (int k = 0; k < axis; k++, d++) add_dim(&p, x->dims[k], y->strides[d], x->strides[k], 0);
    for (int k = 0; k < index->rank; k++, d++) add_dim(&p, index->dims[k], y->strides[d], 0, index->strides[k]);
    for (int k = axis + 1; k < x->rank; k++, d++) add_dim(&p, x->dims[k], y->strides[d], x->strides[k], 0);
    add_axis(&p, x, axis);
    return merged(p);
}

nck_cuda_pick nck_cuda_pick_elements(const nc_tensor *x, const nc_tensor *index, int axis, const nc_tensor *y) {
    nck_cuda_pick p = {.wide = index->dtype == NC_INT64};
    for (int k = 0; k < index->rank; k++)
        add_dim(&p, index->dims[k], y != NULL ? y->strides[k] : 0, k == axis ? 0 : x->strides[k], index->strides[k]);
    add_axis(&p, x, axis);
    return merged(p);
}

nck_cuda_pick nck_cuda_pick_rows(const nc_tensor *x, const nc_tensor *index, int batch, const nc_tensor *y) {
    nck_cuda_pick p = {.wide = index->dtype == NC_INT64};
    int last = index->rank - 1, m = (int)index->dims[last];
    for (int k = 0; k < last; k++)
        add_dim(&p, index->dims[k], y != NULL ? y->strides[k] : 0, k < batch ? x->strides[k] : 0, index->strides[k]);
    for (int k = batch + m; y != NULL && k < x->rank; k++)
        add_dim(&p, x->dims[k], y->strides[last + k - batch - m], x->strides[k], 0);
    for (int k = 0; k < m; k++) add_axis(&p, x, batch + k);
    return merged(p);
}

/* ---- gather ---- */

nc_code nck_cuda_gather_prepare(nc_device *d, size_t elem_bytes, nck_cuda_gather *out, nc_diag *diag) {
    const char *define = nck_cuda_move_define(elem_bytes);
    if (define == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "elements of %zu bytes are not picked on a GPU",
                           elem_bytes);
    out->bytes = elem_bytes;
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_index, NC_UNDEFINED, define, "gather", &out->gather, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_index, NC_UNDEFINED, define, "gather_words", &out->words, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_index, NC_UNDEFINED, define, "gather_lines", &out->lines, diag);
}

/* Words of 16 bytes instead of elements, where columns lie side by side behind one index; false: they do not. */
static bool widen(nck_cuda_pick *p, size_t bytes, const void *src, const void *dst) {
    int64_t per_word = WORD / (int64_t)bytes, last = p->rank - 1;
    if (((uintptr_t)src | (uintptr_t)dst) % WORD != 0 || p->dims[last] % per_word != 0) return false;
    if (p->strides[0][last] != 1 || p->strides[1][last] != 1 || p->strides[2][last] != 0) return false;
    for (int64_t d = 0; d < last; d++)
        if (p->strides[0][d] % per_word != 0 || p->strides[1][d] % per_word != 0) return false;
    for (int64_t k = 0; k < p->n_axes; k++)
        if (p->steps[k] % per_word != 0) return false;
    for (int64_t d = 0; d < last; d++) p->strides[0][d] /= per_word, p->strides[1][d] /= per_word;
    for (int64_t k = 0; k < p->n_axes; k++) p->steps[k] /= per_word;
    p->dims[last] /= per_word;
    return true;
}

/* Elements of lines that a block holds, picked often enough to bring them. */
static bool within_lines(const nck_cuda_pick *p, int64_t bytes, const void *src) {
    int64_t last = p->rank - 1, size = p->sizes[0] * bytes;
    if (p->n_axes != 1 || p->steps[0] != 1 || p->strides[0][last] != 1 || p->strides[1][last] != 0 ||
        p->strides[2][last] != 1)
        return false;
    for (int64_t d = 0; d < last; d++)
        if (p->strides[1][d] * bytes % WORD != 0) return false;
    return size <= LINE_BYTES && size % WORD == 0 && (uintptr_t)src % WORD == 0 && p->dims[last] >= p->sizes[0] / 2 &&
           p->dims[last] <= INT32_MAX / 2;
}

/* Rows of indices and of what is picked begin at whole pairs, and are made of such. */
static int in_pairs(const nck_cuda_pick *p, size_t bytes, const void *index, const void *dst) {
    int64_t last = p->rank - 1, odd = p->dims[last];
    for (int64_t d = 0; d < last; d++) odd |= p->strides[0][d] | p->strides[2][d];
    return odd % 2 == 0 && (uintptr_t)index % (p->wide ? 16 : 8) == 0 && (uintptr_t)dst % (2 * bytes) == 0;
}

nc_code nck_cuda_gather_run(const nck_cuda_gather *k, const nc_call *c, const nck_cuda_pick *p, const void *src,
                            const void *index, void *dst) {
    nck_cuda_pick copy = *p;
    nck_cuda_site site = nck_cuda_site_of(c);
    int64_t rows = 1;
    for (int64_t d = 0; d < copy.rank - 1; d++) rows *= copy.dims[d];
    if (within_lines(p, (int64_t)k->bytes, src)) {
        int pairs = in_pairs(p, k->bytes, index, dst);
        void *line_args[] = {&copy, &site, &rows, &pairs, &dst, &src, &index};
        return nck_cuda_launch(nck_cuda_at_call(c), k->lines, nck_cuda_blocks(c->device, rows, 1), THREADS, line_args);
    }
    nc_function *f = widen(&copy, k->bytes, src, dst) ? k->words : k->gather;
    nck_cuda_tiles t = nck_cuda_tiles_of(rows, copy.dims[copy.rank - 1]);
    void *args[] = {&copy, &site, &rows, &t.count, &t.across, &dst, &src, &index};
    return nck_cuda_launch_tiles(nck_cuda_at_call(c), f, &t, args);
}

/* ---- scatter ---- */

nc_code nck_cuda_scatter_prepare(nc_device *d, nc_dtype t, nck_cuda_scatter *out, nc_diag *diag) {
    if (nck_cuda_type_name(t) == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s is not combined on a GPU", nc_dtype_name(t));
    const char *words = nck_cuda_move_define(8);
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_index, NC_UNDEFINED, words, "scatter_keys", &out->keys, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_index, NC_UNDEFINED, words, "scatter_clear", &out->clear, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_index, NC_UNDEFINED, words, "scatter_claim", &out->claim, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_scatter, t, NULL, "scatter_put", &out->put, diag));
    NC_TRY(nck_cuda_sort_prepare(d, &out->sort, diag));
    out->bytes = nc_dtype_bytes(nck_cuda_accumulator(t));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_scatter, t, NULL, "scatter_lines", &out->lines, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_scatter, t, NULL, "scatter", &out->scatter, diag);
}

/* Are these lines of elements that a warp can hold, none so long beside their number that it would work alone? */
static bool in_lines(const nck_cuda_scatter *k, const nck_cuda_pick *p, const nck_cuda_scatter_args *a) {
    int64_t last = p->rank - 1, rows = last >= 0 && p->dims[last] > 0 ? a->n / p->dims[last] : 0;
    if (rows == 0 || rows > INT32_MAX || a->outer != 1 || a->inner != 1 || a->unit != 1 || p->n_axes != 1) return false;
    return p->steps[0] == 1 && p->strides[1][last] == 0 && p->strides[2][last] == 1 &&
           p->sizes[0] <= LINE_BYTES / (int64_t)k->bytes && p->dims[last] / LONE_COLUMNS <= rows;
}

static nc_code scatter_lines(const nck_cuda_scatter *k, const nc_call *c, const nck_cuda_pick *p,
                             const nck_cuda_scatter_args *a) {
    nck_cuda_walk w = {.rank = p->rank - 1};
    nck_cuda_site site = nck_cuda_site_of(c);
    nck_cuda_scatter_args s = *a;
    int64_t size = p->sizes[0], columns = p->dims[w.rank];
    int how = (int)a->how, wide = (int)p->wide;
    for (int64_t d = 0; d < w.rank; d++)
        w.dims[d] = p->dims[d], w.strides[0][d] = p->strides[1][d], w.strides[1][d] = p->strides[2][d];
    void *args[] = {&w, &site, &how, &size, &columns, &wide, &s.index, &s.updates, &s.y};
    return c->device->table->launch_function(c->device, c->stream, k->lines,
                                             (nc_dim3){(uint32_t)(a->n / columns), 1, 1}, (nc_dim3){32, 1, 1},
                                             (unsigned)((size_t)size * k->bytes), args, c->diag);
}

/* Few updates of many places are sorted: the claims of all would cost more. */
static int64_t n_claims(int64_t n, int64_t axis) { return axis <= CLAIMS * n ? axis : 0; }

size_t nck_cuda_scatter_workspace(nck_combine how, int64_t n, int64_t axis) {
    size_t sorts = nck_cuda_sort_workspace(n);
    size_t claims = (size_t)n * sizeof(uint64_t) + (size_t)nc_min64(axis, CLAIMS * n) * sizeof(uint32_t);
    return how == NCK_SET && sorts != SIZE_MAX ? nc_max_size(sorts, claims) : sorts;
}

static nc_code put_last(const nck_cuda_scatter *k, nck_cuda_at at, nck_cuda_scatter_args *s, int bits, uint64_t *keys) {
    uint32_t *claims = (uint32_t *)(keys + s->n);
    void *clear[] = {&s->axis, &claims}, *claim[] = {&s->n, &s->axis, &bits, &keys, &claims};
    void *put[] = {&s->outer, &s->axis, &s->inner, &s->n, &bits, &keys, &claims, &s->updates, &s->y};
    int64_t items = s->outer * s->n * s->inner;
    NC_TRY(nck_cuda_launch(at, k->clear, nck_cuda_blocks(at.device, s->axis, THREADS), THREADS, clear));
    NC_TRY(nck_cuda_launch(at, k->claim, nck_cuda_blocks(at.device, s->n, THREADS), THREADS, claim));
    return nck_cuda_launch(at, k->put, nck_cuda_blocks(at.device, items, THREADS), THREADS, put);
}

nc_code nck_cuda_scatter_run(const nck_cuda_scatter *k, const nc_call *c, const nck_cuda_pick *p,
                             const nck_cuda_scatter_args *a, void *workspace) {
    nck_cuda_at at = nck_cuda_at_call(c);
    nck_cuda_pick copy = *p;
    nck_cuda_site site = nck_cuda_site_of(c);
    nck_cuda_scatter_args s = *a;
    int bits = nck_cuda_sort_bits(a->n), end = bits + nck_cuda_sort_bits(a->axis + 1), how = (int)a->how;
    uint64_t *keys = workspace;
    if (a->outer * a->n * a->inner == 0) return NC_OK;
    if (in_lines(k, p, a)) return scatter_lines(k, c, p, a);
    if (end > 64)
        return nc_diag_set(c->diag, NC_E_LIMIT, c->node, c->op, "%lld updates of %lld places are too many to sort",
                           (long long)a->n, (long long)a->axis);
    void *key_args[] = {&copy, &site, &s.n, &s.axis, &s.unit, &bits, &s.index, &keys};
    NC_TRY(nck_cuda_launch(at, k->keys, nck_cuda_blocks(at.device, s.n, THREADS), THREADS, key_args));
    if (a->how == NCK_SET && n_claims(s.n, s.axis) > 0) return put_last(k, at, &s, bits, keys);
    NC_TRY(nck_cuda_sort_run(&k->sort, at, s.n, bits, end, workspace, &keys));
    void *args[] = {&how, &s.outer, &s.axis, &s.inner, &s.n, &bits, &keys, &s.updates, &s.y};
    return nck_cuda_launch(at, k->scatter, nck_cuda_blocks(at.device, s.outer * s.n * s.inner, THREADS), THREADS, args);
}
