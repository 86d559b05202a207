/* cuda/gemm.c: matrix products through cuBLASLt or gemm.cu, see gemm.h.
 *
 * cuBLASLt thinks in columns: a row-major matrix is its own transpose there. So C^T = B^T * A^T is asked for, with C^T,
 * B^T, A^T being the bytes as they lie; a matrix whose rows have stride 1 is marked transposed. The heuristics are
 * asked once per shape, set of strides and alignment of the addresses, all of which may change the choice; with
 * `tune` what they propose is tried once, and the choice is kept on disk. */
#include "kernels/cuda/gemm.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cuda/gemv.h"

#include <string.h>
#include <time.h>

enum { TILE = 16, MAX_GRID_Y = 65535, THREADS = 256 };

typedef union number {
    float f32;
    double f64;
    int64_t i64;
} number;

static number number_of(nc_dtype t, double v) {
    nc_dtype a = nck_cuda_accumulator(t);
    return a == NC_FLOAT    ? (number){.f32 = (float)v}
           : a == NC_DOUBLE ? (number){.f64 = v}
                            : (number){.i64 = (int64_t)v};
}

nc_code nck_cuda_gemm_prepare(nc_device *d, nc_dtype t, nck_cuda_gemm_cache *cache, nck_cuda_gemm *out, nc_diag *diag) {
    if (nck_cuda_type_name(t) == NULL || t == NC_BOOL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "products of %s", nc_dtype_name(t));
    *out = (nck_cuda_gemm){.type = t, .device = d, .cache = cache};
    if (pthread_mutex_init(&cache->mutex, NULL) != 0)
        return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory");
    if (nc_dtype_is_float(t)) NC_TRY(nc_cuda_need_lt(d, diag));
    NC_TRY(nck_cuda_gemv_prepare(d, t, NULL, &out->one_row, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_gemm, t, NULL, "multiply", &out->multiply, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_gemm, t, NULL, "spread", &out->spread, diag);
}

/* ---- what cuBLASLt takes ---- */

/* Reads an (R,C) matrix as columns of the other library: leading dimension, and whether it must be transposed. */
static bool readable(int64_t R, int64_t C, const nck_cuda_matrix *m, int64_t *ld, int64_t *transposed) {
    bool rows = (m->cs == 1 || C == 1) && (m->rs >= C || R == 1);
    bool columns = (m->rs == 1 || R == 1) && (m->cs >= R || C == 1);
    if (m->batch < 0 || !(rows || columns)) return false;
    int64_t least = rows ? C : R, lead = rows ? (R == 1 ? C : m->rs) : (C == 1 ? R : m->cs);
    *ld = nc_max64(lead, least);
    *transposed = !rows;
    return true;
}

/* Up to what every block of an arena has, so that where it lies there changes no choice. */
static int64_t alignment_of(const void *p) {
    uintptr_t low = (uintptr_t)p & -(uintptr_t)p;
    return low == 0 || low > 64 ? 64 : (int64_t)low;
}

static int epilogue_of(const nck_cuda_gemm_args *g) {
    if (g->gelu_at != NULL) return CUBLASLT_EPILOGUE_DGELU;
    if (g->kept != NULL) return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    if (g->gelu) return g->bias != NULL ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return g->bias != NULL ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* What beta is for. */
static const void *added_to(const nck_cuda_gemm_args *g) { return g->other != NULL ? g->other : g->c.data; }

/* What cuBLASLt reads or writes beside the result. */
static const void *beside(const nck_cuda_gemm_args *g) { return g->gelu_at != NULL ? g->gelu_at : g->kept; }

/* It does so in lines of 16 bytes. */
static bool fits_beside(const nck_cuda_gemm *k, const nck_cuda_gemm_args *g) {
    bool half = k->type == NC_FLOAT16 || k->type == NC_BFLOAT16;
    return half && g->n_batch == 1 && g->c.rs % 8 == 0 && alignment_of(beside(g)) >= 16;
}

static bool make_key(const nck_cuda_gemm *k, const nck_cuda_gemm_args *g, nck_cuda_gemm_key *key) {
    int64_t unused;
    *key = (nck_cuda_gemm_key){.M = g->M,
                               .N = g->N,
                               .K = g->K,
                               .n_batch = g->n_batch,
                               .epilogue = epilogue_of(g),
                               .batch = {g->b.batch, g->a.batch, g->c.batch},
                               .aligned = {alignment_of(g->b.data), alignment_of(g->a.data), alignment_of(added_to(g)),
                                           alignment_of(g->c.data)}};
    if (!nc_dtype_is_float(k->type) || g->K == 0) return false;
    if (beside(g) != NULL && !fits_beside(k, g)) return false;
    return readable(g->K, g->N, &g->b, &key->ld[0], &key->transposed[0]) &&
           readable(g->M, g->K, &g->a, &key->ld[1], &key->transposed[1]) &&
           readable(g->M, g->N, &g->c, &key->ld[2], &unused) && unused == 0;
}

typedef struct lt_call {
    cublasLtMatmulDesc desc;
    cublasLtMatrixLayout layout[3]; /* B^T, A^T, C^T */
} lt_call;

#define TRY_LT(call, name) NC_TRY(nc_cuda_check_lt(api->call, name, diag))

static nc_code make_layout(const nc_cuda_api *api, int type, int64_t rows, int64_t cols, const nck_cuda_gemm_key *key,
                           int i, cublasLtMatrixLayout *out, nc_diag *diag) {
    int n_batch = (int)key->n_batch;
    TRY_LT(cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)cols, key->ld[i]),
           "cublasLtMatrixLayoutCreate");
    if (n_batch == 1) return NC_OK;
    TRY_LT(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n_batch, sizeof n_batch),
           "cublasLtMatrixLayoutSetAttribute");
    TRY_LT(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &key->batch[i],
                                            sizeof key->batch[i]),
           "cublasLtMatrixLayoutSetAttribute");
    return NC_OK;
}

static nc_code set_desc(const nc_cuda_api *api, cublasLtMatmulDesc d, int attribute, const void *p, size_t bytes,
                        nc_diag *diag) {
    TRY_LT(cublasLtMatmulDescSetAttribute(d, attribute, p, bytes), "cublasLtMatmulDescSetAttribute");
    return NC_OK;
}

static int compute_of(const nck_cuda_gemm *k) {
    if (k->type == NC_DOUBLE) return CUBLAS_COMPUTE_64F;
    return k->type == NC_FLOAT && k->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static nc_code make_call(const nc_cuda_api *api, const nck_cuda_gemm *k, const nck_cuda_gemm_args *g,
                         const nck_cuda_gemm_key *key, lt_call *l, nc_diag *diag) {
    nc_dtype t = k->type;
    int type = t == NC_FLOAT ? CUDA_R_32F : t == NC_DOUBLE ? CUDA_R_64F : t == NC_FLOAT16 ? CUDA_R_16F : CUDA_R_16BF;
    TRY_LT(cublasLtMatmulDescCreate(&l->desc, compute_of(k), t == NC_DOUBLE ? CUDA_R_64F : CUDA_R_32F),
           "cublasLtMatmulDescCreate");
    int op[2] = {key->transposed[0] ? CUBLAS_OP_T : CUBLAS_OP_N, key->transposed[1] ? CUBLAS_OP_T : CUBLAS_OP_N};
    NC_TRY(set_desc(api, l->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op[0], sizeof op[0], diag));
    NC_TRY(set_desc(api, l->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op[1], sizeof op[1], diag));
    int epilogue = (int)key->epilogue;
    NC_TRY(set_desc(api, l->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, diag));
    if (g->bias != NULL)
        NC_TRY(set_desc(api, l->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias, diag));
    const void *aux = beside(g);
    if (aux != NULL) {
        NC_TRY(set_desc(api, l->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux, diag));
        NC_TRY(set_desc(api, l->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &g->c.rs, sizeof g->c.rs, diag));
    }
    bool tb = key->transposed[0], ta = key->transposed[1];
    NC_TRY(make_layout(api, type, tb ? g->K : g->N, tb ? g->N : g->K, key, 0, &l->layout[0], diag));
    NC_TRY(make_layout(api, type, ta ? g->M : g->K, ta ? g->K : g->M, key, 1, &l->layout[1], diag));
    return make_layout(api, type, g->N, g->M, key, 2, &l->layout[2], diag);
}

static void end_call(const nc_cuda_api *api, lt_call *l) {
    for (int i = 0; i < 3; i++)
        if (l->layout[i] != NULL) api->cublasLtMatrixLayoutDestroy(l->layout[i]);
    if (l->desc != NULL) api->cublasLtMatmulDescDestroy(l->desc);
}

/* ---- choosing ---- */

static bool look_up(nck_cuda_gemm_cache *c, const nck_cuda_gemm_key *key, nck_cuda_gemm_way *way) {
    bool found = false;
    pthread_mutex_lock(&c->mutex);
    for (int i = 0; i < c->n && !found; i++) {
        if (memcmp(&c->row[i].key, key, sizeof *key) != 0) continue;
        found = true;
        *way = c->row[i].way;
    }
    pthread_mutex_unlock(&c->mutex);
    return found;
}

static void remember(nck_cuda_gemm_cache *c, const nck_cuda_gemm_key *key, const nck_cuda_gemm_way *way) {
    pthread_mutex_lock(&c->mutex);
    int i = c->n < NCK_CUDA_GEMM_CACHE ? c->n++ : c->next;
    c->next = (i + 1) % NCK_CUDA_GEMM_CACHE;
    c->row[i].key = *key;
    c->row[i].way = *way;
    pthread_mutex_unlock(&c->mutex);
}

static nc_code set_preference(const nc_cuda_api *api, cublasLtMatmulPreference p, const nck_cuda_gemm_key *key,
                              nc_diag *diag) {
    size_t limit = NC_CUDA_WORKSPACE;
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit),
           "cublasLtMatmulPreferenceSetAttribute");
    static const int attributes[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (int i = 0; i < 4; i++) {
        uint32_t bytes = (uint32_t)key->aligned[i];
        TRY_LT(cublasLtMatmulPreferenceSetAttribute(p, attributes[i], &bytes, sizeof bytes),
               "cublasLtMatmulPreferenceSetAttribute");
    }
    return NC_OK;
}

enum { CANDIDATES = 8, TRIES = 5 };

typedef struct candidates {
    cublasLtMatmulHeuristicResult v[CANDIDATES]; /* the heuristics' best first */
    int n;
} candidates;

/* At most `most` algorithms. None is an answer, not a failure. */
static nc_code find_candidates(const nc_cuda *c, const lt_call *l, const nck_cuda_gemm_key *key, int most,
                               candidates *out, nc_diag *diag) {
    const nc_cuda_api *api = c->api;
    cublasLtMatmulPreference p = NULL;
    out->n = 0;
    TRY_LT(cublasLtMatmulPreferenceCreate(&p), "cublasLtMatmulPreferenceCreate");
    nc_code code = set_preference(api, p, key, diag);
    if (code == NC_OK) {
        cublasStatus r = api->cublasLtMatmulAlgoGetHeuristic(c->lt, l->desc, l->layout[0], l->layout[1], l->layout[2],
                                                             l->layout[2], p, most, out->v, &out->n);
        if (r != 0) out->n = 0;
    }
    for (int i = 0; i < out->n; i++)
        if (out->v[i].state != 0) out->n = i;
    api->cublasLtMatmulPreferenceDestroy(p);
    return code;
}

/* In a capture there may be no workspace yet: then it fails at its end, and this product is left out. */
static nc_code multiply_lt(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g, const lt_call *l,
                           const nck_cuda_gemm_way *way, void *out) {
    const nc_cuda *c = nc_device_cuda(at.device);
    number alpha = number_of(k->type, g->alpha), beta = number_of(k->type, g->other != NULL ? 1 : g->beta);
    void *workspace = at.room;
    if (way->bytes > at.bytes_room) NC_TRY(nc_cuda_scratch(at.device, at.stream, way->bytes, &workspace, at.diag));
    if (workspace == NULL && way->bytes > 0) return NC_OK;
    return nc_cuda_check_lt(c->api->cublasLtMatmul(c->lt, l->desc, &alpha, g->b.data, l->layout[0], g->a.data,
                                                   l->layout[1], &beta, added_to(g), l->layout[2], out, l->layout[2],
                                                   &way->algo, workspace, way->bytes, nc_cuda_stream(at.stream)),
                            "cublasLtMatmul", at.diag);
}

static nck_cuda_gemm_way way_of(const cublasLtMatmulHeuristicResult *r) {
    return (nck_cuda_gemm_way){.algo = r->algo, .bytes = r->workspaceSize, .usable = true};
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of TRIES products into `out`, after one that is not counted. */
static nc_code time_of(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g, const lt_call *l,
                       const nck_cuda_gemm_way *way, void *out, double *time) {
    const nc_device_table *t = at.device->table;
    for (int i = 0; i <= TRIES; i++) {
        NC_TRY(multiply_lt(k, at, g, l, way, out));
        if (i > 0 && i < TRIES) continue;
        NC_TRY(t->stream_sync(at.device, at.stream, at.diag));
        *time = i == 0 ? seconds() : seconds() - *time;
    }
    return NC_OK;
}

/* The fastest of them for these operands, into memory of its own: the result may be read by the product. What cannot be
 * tried leaves the first. */
static nc_code try_all(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g, const lt_call *l,
                       candidates *all) {
    const nc_device_table *t = at.device->table;
    int64_t elements = (g->n_batch - 1) * g->c.batch + (g->M - 1) * g->c.rs + g->N;
    nc_diag ignored = {0};
    void *out;
    double best = 0, time = 0;
    if (t->alloc(at.device, at.stream, (size_t)elements * nc_dtype_bytes(k->type), &out, &ignored) != NC_OK)
        return NC_OK;
    nc_code code = NC_OK;
    for (int i = 0; i < all->n && code == NC_OK; i++) {
        nck_cuda_gemm_way way = way_of(&all->v[i]);
        code = time_of(k, at, g, l, &way, out, &time);
        if (code != NC_OK || (i > 0 && time >= best)) continue;
        best = time;
        all->v[0] = all->v[i];
    }
    t->free(at.device, at.stream, out);
    return code;
}

/* What the choice depends on beside the GPU and its driver. */
typedef struct choice_key {
    nck_cuda_gemm_key key;
    int64_t type, compute, adds, version;
} choice_key;
static const char choice_name[] = "cuBLASLt's way"; /* the bytes are an nck_cuda_gemm_way */

/* An earlier choice. */
static bool read_choice(const nc_cuda *c, const choice_key *of, nck_cuda_gemm_way *way) {
    void *found = NULL;
    size_t n = 0;
    bool there = nc_cuda_read_choice(c, choice_name, of, sizeof *of, &found, &n) && n == sizeof *way;
    if (there) memcpy(way, found, n);
    nc_free(found);
    return there;
}

/* By the heuristics; or, where that is asked for, by trying once, which a recorded run cannot do. */
static nc_code choose(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g, const lt_call *l,
                      const nck_cuda_gemm_key *key, nck_cuda_gemm_way *way) {
    const nc_cuda *c = nc_device_cuda(at.device);
    choice_key of = {.key = *key,
                     .type = k->type,
                     .compute = compute_of(k),
                     .adds = g->other != NULL || g->beta != 0,
                     .version = k->tune ? (int64_t)c->api->cublasLtGetVersion() : 0};
    bool tries = k->tune && !nc_cuda_captures_itself();
    candidates all;
    if (k->tune && read_choice(c, &of, way)) return NC_OK;
    NC_TRY(find_candidates(c, l, key, tries ? CANDIDATES : 1, &all, at.diag));
    if (tries && all.n > 1) NC_TRY(try_all(k, at, g, l, &all));
    memset(way, 0, sizeof *way);
    if (all.n > 0) way->algo = all.v[0].algo, way->bytes = all.v[0].workspaceSize, way->usable = true;
    if (tries && all.n > 1) nc_cuda_write_choice(c, choice_name, &of, sizeof of, way, sizeof *way);
    return NC_OK;
}

/* How g is done, looked up or chosen, and its description, which is the caller's to end. */
static nc_code find_way(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g,
                        const nck_cuda_gemm_key *key, lt_call *l, nck_cuda_gemm_way *way) {
    bool known = look_up(k->cache, key, way);
    if (known && !way->usable) return NC_OK;
    NC_TRY(make_call(nc_device_cuda(at.device)->api, k, g, key, l, at.diag));
    if (known) return NC_OK;
    NC_TRY(choose(k, at, g, l, key, way));
    remember(k->cache, key, way);
    return NC_OK;
}

static nc_code run_lt(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g, const nck_cuda_gemm_key *key,
                      bool *usable) {
    const nc_cuda *c = nc_device_cuda(at.device);
    lt_call l = {0};
    nck_cuda_gemm_way way = {.usable = false};
    *usable = false;
    if (c->lt == NULL) return NC_OK;
    nc_code code = find_way(k, at, g, key, &l, &way);
    *usable = way.usable;
    if (code == NC_OK && way.usable) code = multiply_lt(k, at, g, &l, &way, g->c.data);
    end_call(c->api, &l);
    return code;
}

/* ---- the plain kernel ---- */

typedef struct strides {
    int64_t rs, cs, batch;
} strides;

static strides strides_of(const nck_cuda_matrix *m) { return (strides){m->rs, m->cs, m->batch}; }

static void *shifted(const nck_cuda_matrix *m, int64_t first, nc_dtype t) {
    return (char *)m->data + first * m->batch * (int64_t)nc_dtype_bytes(t);
}

nc_code nck_cuda_gemm_spread(const nck_cuda_gemm *k, nck_cuda_at at, int64_t M, int64_t N, nck_cuda_matrix c,
                             nck_cuda_matrix y) {
    strides cs = strides_of(&c), ys = strides_of(&y);
    void *args[] = {&M, &N, &c.data, &cs, &y.data, &ys};
    return nck_cuda_launch(at, k->spread, nck_cuda_blocks(at.device, M * N, THREADS), THREADS, args);
}

static nc_code run_plain(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g) {
    nck_cuda_gemm_args v = *g;
    number alpha = number_of(k->type, g->alpha), beta = number_of(k->type, g->beta);
    strides as = strides_of(&g->a), bs = strides_of(&g->b), cs = strides_of(&g->c);
    int64_t tiles = nc_ceil_div(g->M, TILE) * nc_ceil_div(g->N, TILE);
    if (tiles > INT32_MAX)
        return nc_diag_set(at.diag, NC_E_LIMIT, NULL, NULL, "a product of %lld tiles", (long long)tiles);
    for (int64_t first = 0; first < g->n_batch; first += MAX_GRID_Y) {
        int64_t n = g->n_batch - first < MAX_GRID_Y ? g->n_batch - first : MAX_GRID_Y;
        void *a = shifted(&g->a, first, k->type), *b = shifted(&g->b, first, k->type),
             *c = shifted(&g->c, first, k->type);
        void *args[] = {&v.M, &v.N, &v.K, &alpha, &beta, &a, &as, &b, &bs, &c, &cs};
        NC_TRY(at.device->table->launch_function(at.device, at.stream, k->multiply,
                                                 (nc_dim3){(uint32_t)tiles, (uint32_t)n, 1}, (nc_dim3){TILE, TILE, 1},
                                                 0, args, at.diag));
    }
    return NC_OK;
}

/* The bias as a first value of C, for what the epilogue does not reach. */
static nc_code run_with_bias(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g) {
    nck_cuda_gemm_args v = *g;
    nck_cuda_matrix row = {.data = (void *)(uintptr_t)g->bias, .cs = 1};
    for (int64_t i = 0; i < g->n_batch; i++) {
        nck_cuda_matrix c = g->c;
        c.data = shifted(&g->c, i, k->type);
        NC_TRY(nck_cuda_gemm_spread(k, at, g->M, g->N, row, c));
    }
    v.bias = NULL;
    v.beta = 1;
    return nck_cuda_gemm_run(k, at, &v);
}

/* cuBLASLt is asked for g, as key says. */
static bool goes_to_lt(const nck_cuda_gemm *k, const nck_cuda_gemm_args *g, nck_cuda_gemm_key *key) {
    return make_key(k, g, key) && (epilogue_of(g) == CUBLASLT_EPILOGUE_DEFAULT || k->type != NC_DOUBLE) &&
           g->n_batch <= INT32_MAX;
}

bool nck_cuda_gemm_room(const nck_cuda_gemm *k, const nck_cuda_gemm_args *g, size_t *bytes) {
    const nc_cuda *c = nc_device_cuda(k->device);
    nck_cuda_gemm_key key;
    nck_cuda_gemm_way way = {.usable = false};
    nc_diag unsaid = {0};
    lt_call l = {0};
    bool one_row = beside(g) == NULL && nck_cuda_gemv_takes(&k->one_row, g);
    *bytes = 0;
    if (k->tune || one_row || c == NULL || c->lt == NULL || !goes_to_lt(k, g, &key)) return false;
    c->api->cuCtxSetCurrent(c->context);
    bool found = find_way(k, (nck_cuda_at){.device = k->device, .diag = &unsaid}, g, &key, &l, &way) == NC_OK;
    end_call(c->api, &l);
    if (found && way.usable && way.bytes > 0) *bytes = way.bytes + NCK_CUDA_ROOM_ALIGNMENT - 1;
    return found && way.usable;
}

nc_code nck_cuda_gemm_fused(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g, bool *done) {
    nck_cuda_gemm_key key;
    *done = false;
    if (g->other != NULL && g->beta != 0)
        return nc_diag_set(at.diag, NC_E_ARGUMENT, NULL, NULL, "a product takes another value or an old one, not both");
    if (beside(g) == NULL && nck_cuda_gemv_takes(&k->one_row, g)) {
        *done = true;
        return nck_cuda_gemv_run(&k->one_row, at, g, 1, NULL);
    }
    return goes_to_lt(k, g, &key) ? run_lt(k, at, g, &key, done) : NC_OK;
}

nc_code nck_cuda_gemm_run(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g) {
    bool done;
    if (g->n_batch == 0 || g->M == 0 || g->N == 0) return NC_OK;
    if (g->gelu || beside(g) != NULL || g->other != NULL || (g->bias != NULL && g->beta != 0))
        return nc_diag_set(at.diag, NC_E_ARGUMENT, NULL, NULL, "a product takes a bias or an old value, not both");
    NC_TRY(nck_cuda_gemm_fused(k, at, g, &done));
    if (done) return NC_OK;
    return g->bias != NULL ? run_with_bias(k, at, g) : run_plain(k, at, g);
}
