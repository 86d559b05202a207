/* cuda/nbits.c: launchers of nbits.cu, see nbits.h. */
#include "kernels/cuda/nbits.h"

#include "base/intmath.h"

#include <stdio.h>

enum {
    THREADS = 128,
    WARP = 32,
    WARPS = 4096, /* that keep a GPU busy: rows of W are shared by more threads until there are so many */
    FEW_ROWS = 8, /* rows of A for which codes are read as they lie */
    ONE_COLS = 4, /* what a group of threads of nbits_one, nbits_fixed and nbits_few takes */
    FIXED_COLS = 8,
    MANY_ROWS = 4,
    MANY_COLS = 2,
    DECODE_THREADS = 256,
    DECODED = 8, /* numbers of a thread's turn */
    VECTOR_BYTES = 16,
    MAX_SHARED = 48 << 10
};
/* Numbers that are decoded at once: half an L2 of today's GPUs; for few rows, whose codes lie badly, less. */
static const int64_t piece_bytes[2] = {1 << 20, 32 << 20};

static int64_t chunk_of(int64_t block) { return block < 32 ? 16 : 32; }

/* One row is met as integers. */
static bool is_fixed(const nck_cuda_nbits_how *how) {
    return (how->type == NC_FLOAT16 || how->type == NC_BFLOAT16) && !how->table;
}

void nck_cuda_nbits_define(const nck_cuda_nbits_how *how, char *out, size_t bytes) {
    bool none = how->zeros == NC_UNDEFINED, floats = !none && how->zeros != NC_UINT8;
    snprintf(out, bytes, "#define CHUNK %d\n%s%s%s%s%s", (int)chunk_of(how->block),
             none     ? "#define NO_ZEROS\n"
             : floats ? "#define Z "
                      : "",
             floats ? nck_cuda_type_name(how->zeros) : "", floats ? "\n" : "", how->table ? "#define TABLE\n" : "",
             is_fixed(how) ? "#define FIXED\n" : "");
}

nc_code nck_cuda_nbits_prepare(nc_device *d, const nck_cuda_nbits_how *how, nck_cuda_gemm_cache *cache,
                               nck_cuda_nbits *out, nc_diag *diag) {
    char define[112];
    *out = (nck_cuda_nbits){.how = *how};
    nck_cuda_nbits_define(how, define, sizeof define);
    const struct {
        const char *entry;
        nc_function **f;
    } wanted[] = {{"nbits_one", &out->one}, {"nbits_few", &out->few}, {"nbits_decode", &out->decode}};
    if (is_fixed(how))
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_nbits, how->type, define, "nbits_fixed", &out->fixed, diag));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_nbits, how->type, define, wanted[i].entry, wanted[i].f, diag));
    return nck_cuda_gemm_prepare(d, how->type, cache, &out->gemm, diag);
}

/* Rows of W that are decoded at once. */
static int64_t piece_rows(nc_dtype t, int64_t M, int64_t N, int64_t K) {
    int64_t row = nc_max64(1, K) * (int64_t)nc_dtype_bytes(t);
    return nc_min64(N, nc_max64(1, piece_bytes[M > FEW_ROWS] / row));
}

size_t nck_cuda_nbits_workspace(nc_dtype t, int64_t M, int64_t N, int64_t K) {
    return (size_t)(piece_rows(t, M, N, K) * K) * nc_dtype_bytes(t);
}

/* Codes lie so that a thread's turn is one load. */
static bool lies_well(const nck_cuda_nbits *k, const nck_cuda_nbits_args *a) {
    int64_t chunk = chunk_of(a->block);
    return a->bits == 4 && a->group_of == NULL && a->K <= INT32_MAX / 2 &&
           (uintptr_t)a->codes % (size_t)(chunk / 2) == 0 && (!k->how.table || a->K % chunk == 0);
}

/* Shared memory of nbits_fixed: two bytes a number, and what stands beside each chunk. */
static int64_t bytes_fixed(const nck_cuda_nbits_args *a) {
    int64_t chunk = chunk_of(a->block);
    return nc_ceil_div(a->K, chunk) * (2 * chunk + 8);
}

static nc_code run_few(const nck_cuda_nbits *k, nck_cuda_at at, const nck_cuda_nbits_args *a) {
    nck_cuda_nbits_args v = *a;
    size_t es = nc_dtype_bytes(k->how.type);
    bool fixed = a->M == 1 && k->fixed != NULL && bytes_fixed(a) <= MAX_SHARED;
    int64_t cols = fixed ? FIXED_COLS : a->M == 1 ? ONE_COLS : MANY_COLS, turns = nc_ceil_div(a->K, chunk_of(a->block));
    uint32_t group = WARP;
    while (group < THREADS && 2 * (int64_t)group <= turns && nc_ceil_div(a->N, cols) * group < (int64_t)WARP * WARPS)
        group *= 2;
    v.vectors = (uintptr_t)a->a % VECTOR_BYTES == 0 && (size_t)a->K * es % VECTOR_BYTES == 0;
    nc_dim3 block = {group, THREADS / group, 1};
    int64_t blocks = nc_ceil_div(a->N, cols * block.y);
    if (blocks > INT32_MAX)
        return nc_diag_set(at.diag, NC_E_LIMIT, NULL, NULL, "a product of %lld columns", (long long)a->N);
    nc_dim3 grid = {(uint32_t)blocks, (uint32_t)nc_ceil_div(a->M, a->M == 1 ? 1 : MANY_ROWS), 1};
    void *args[] = {&v};
    return at.device->table->launch_function(at.device, at.stream,
                                             fixed       ? k->fixed
                                             : a->M == 1 ? k->one
                                                         : k->few,
                                             grid, block, fixed ? (unsigned)bytes_fixed(a) : 0, args, at.diag);
}

static nc_code run_decoded(const nck_cuda_nbits *k, const nc_call *c, const nck_cuda_nbits_args *a) {
    nck_cuda_at at = nck_cuda_at_call(c);
    nck_cuda_nbits_args v = *a;
    nck_cuda_site site = nck_cuda_site_of(c);
    int64_t es = (int64_t)nc_dtype_bytes(k->how.type), step = piece_rows(k->how.type, a->M, a->N, a->K);
    void *w = c->workspace;
    for (int64_t first = 0; first < a->N; first += step) {
        int64_t rows = nc_min64(step, a->N - first);
        void *args[] = {&v, &site, &first, &rows, &w};
        uint32_t blocks = nck_cuda_blocks(at.device, rows * nc_ceil_div(a->K, DECODED), DECODE_THREADS);
        NC_TRY(nck_cuda_launch(at, k->decode, blocks, DECODE_THREADS, args));
        nck_cuda_gemm_args g = {.n_batch = 1, .M = a->M, .N = rows, .K = a->K, .alpha = 1};
        g.a = (nck_cuda_matrix){.data = (void *)(uintptr_t)a->a, .rs = a->K, .cs = 1};
        g.b = (nck_cuda_matrix){.data = w, .rs = 1, .cs = a->K};
        g.c = (nck_cuda_matrix){.data = (char *)a->y + first * es, .rs = a->N, .cs = 1};
        if (a->bias != NULL) g.bias = (const char *)a->bias + first * es;
        NC_TRY(nck_cuda_gemm_run(&k->gemm, at, &g));
    }
    return NC_OK;
}

nc_code nck_cuda_nbits_run(const nck_cuda_nbits *k, const nc_call *c, const nck_cuda_nbits_args *a) {
    if (a->M == 0 || a->N == 0) return NC_OK;
    nck_cuda_nbits_args v = *a;
    v.blocks = nc_ceil_div(a->K, a->block);
    for (v.shift = 0; v.shift < 62 && (int64_t)1 << v.shift < a->block;) v.shift++;
    if (v.M <= FEW_ROWS && lies_well(k, &v)) return run_few(k, nck_cuda_at_call(c), &v);
    return run_decoded(k, c, &v);
}
