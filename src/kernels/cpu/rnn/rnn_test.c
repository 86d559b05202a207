/* kernels/cpu/rnn/rnn_test.c: recurrent layers against the reference, over kinds, activations, lengths, layouts and odd
 * sizes; equal bits for any number of threads; NaN stays in its row. */
#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/gemm/igemm.h"
#include "kernels/cpu/rnn/rnn.h"
#include "tests/check.h"

enum { MOST = 8192, N_ARRAYS = 12 };

typedef struct fixture {
    nck_rnn_cell cell;
    nck_rnn_args a;
    void *p[N_ARRAYS];
    void *workspace;
    double state[4 * 64];
} fixture;

static double get(nc_dtype t, const void *p, int64_t i) {
    return t == NC_FLOAT ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static bool fixture_init(fixture *f, const nck_rnn_rule *rule, nc_dtype type, const int64_t *s) {
    uint32_t seed = 7;
    nck_rnn_cell_init(&f->cell, rule);
    for (int k = 0; k < N_ARRAYS; k++) {
        if ((f->p[k] = nc_alloc(MOST * 8)) == NULL) return false;
        for (int64_t i = 0; i < MOST; i++) {
            seed = seed * 1664525u + 1013904223u;
            double v = ((double)(seed >> 8) - 8388608.0) / 8388608.0;
            if (type == NC_FLOAT)
                ((float *)f->p[k])[i] = (float)v;
            else
                ((double *)f->p[k])[i] = v;
        }
    }
    f->a = (nck_rnn_args){.cell = &f->cell,
                          .type = type,
                          .T = s[0],
                          .B = s[1],
                          .I = s[2],
                          .H = s[3],
                          .x = f->p[0],
                          .w = f->p[1],
                          .r = f->p[2],
                          .b = f->p[3],
                          .h0 = f->p[4],
                          .c0 = f->p[5],
                          .p = rule->peepholes ? f->p[6] : NULL,
                          .state_rs = s[3],
                          .y_t = s[1] * s[3],
                          .y_b = s[3]};
    f->workspace = nc_alloc(nck_rnn_workspace(rule->kind, type, 1, s[0], s[1], s[2], s[3], NCK_RNN_PLAIN) + 64);
    return f->workspace != NULL;
}

static void fixture_release(fixture *f) {
    for (int k = 0; k < N_ARRAYS; k++) nc_free(f->p[k]);
    nc_free(f->workspace);
}

static void run(fixture *f, int first, nc_pool *pool) {
    f->a.y = f->p[first], f->a.y_h = f->p[first + 1], f->a.y_c = f->cell.rule.kind == NCK_LSTM ? f->p[first + 2] : NULL;
    nck_rnn(&f->a, 1, nc_align64_pointer(f->workspace), pool);
}

static void check(const nck_rnn_rule *rule, nc_dtype type, const int64_t *s, bool reverse, bool batch_first,
                  const int32_t *lens) {
    fixture f = {0};
    nc_tolerance tol = type == NC_FLOAT ? nc_tol_recurrent_f32 : nc_tol_recurrent_f64;
    if (fixture_init(&f, rule, type, s)) {
        f.a.reverse = reverse, f.a.batch_first = batch_first, f.a.lens = lens;
        run(&f, 6 + (rule->peepholes ? 1 : 0), NULL);
        void *y = f.a.y, *y_h = f.a.y_h, *y_c = f.a.y_c;
        f.a.y = f.p[10], f.a.y_h = f.p[11], f.a.y_c = NULL;
        nck_rnn_ref(&f.a, f.state);
        for (int64_t i = 0; i < s[0] * s[1] * s[3]; i++) CHECK_CLOSE(get(type, y, i), get(type, f.p[10], i), tol);
        for (int64_t i = 0; i < s[1] * s[3]; i++) CHECK_CLOSE(get(type, y_h, i), get(type, f.p[11], i), tol);
        f.a.y = NULL, f.a.y_h = NULL, f.a.y_c = y_c != NULL ? f.p[11] : NULL;
        nck_rnn_ref(&f.a, f.state);
        for (int64_t i = 0; y_c != NULL && i < s[1] * s[3]; i++)
            CHECK_CLOSE(get(type, y_c, i), get(type, f.p[11], i), tol);
    } else {
        nc_test_failed(__FILE__, __LINE__, "out of memory");
    }
    fixture_release(&f);
}

static const nck_rnn_rule usual[3] = {
    {.kind = NCK_RNN, .act = {{NCK_RNN_TANH, 0, 0}}},
    {.kind = NCK_GRU, .act = {{NCK_RNN_SIGMOID, 0, 0}, {NCK_RNN_TANH, 0, 0}}},
    {.kind = NCK_LSTM, .act = {{NCK_RNN_SIGMOID, 0, 0}, {NCK_RNN_TANH, 0, 0}, {NCK_RNN_TANH, 0, 0}}},
};

TEST(rnn_kernel_sizes) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1}, {5, 3, 4, 7}, {2, 17, 9, 19},
                                       {3, 1, 0, 5}, {0, 2, 3, 4}, {4, 0, 3, 4}};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int way = 0; way < 4; way++) {
                check(&usual[k], NC_FLOAT, sizes[i], way & 1, way & 2, NULL);
                check(&usual[k], NC_DOUBLE, sizes[i], way & 1, way & 2, NULL);
            }
}

TEST(rnn_kernel_variants) {
    static const int64_t s[4] = {4, 3, 5, 6};
    static const int32_t lens[3] = {2, 0, 4};
    for (int k = 0; k < 3; k++) {
        nck_rnn_rule r = usual[k];
        check(&r, NC_DOUBLE, s, false, false, lens);
        check(&r, NC_DOUBLE, s, true, true, lens);
        r.clip = 0.3;
        check(&r, NC_DOUBLE, s, false, false, NULL);
        r.linear_before_reset = r.input_forget = true;
        r.peepholes = k == 2;
        check(&r, NC_DOUBLE, s, true, false, lens);
        r.input_forget = false;
        check(&r, NC_FLOAT, s, true, false, NULL);
    }
}

TEST(rnn_kernel_activations) {
    static const int64_t s[4] = {3, 2, 3, 5};
    for (int f = NCK_RNN_TANH; f <= NCK_RNN_SOFTPLUS; f++)
        for (int k = 0; k < 3; k++) {
            nck_rnn_rule r = usual[k];
            for (int i = 0; i < 3; i++) r.act[i] = (nck_rnn_act){(nck_rnn_function)f, 0.4, 0.3};
            check(&r, NC_DOUBLE, s, false, false, NULL);
        }
}

TEST(rnn_kernel_threads_and_nan) {
    static const int64_t s[4] = {3, 7, 11, 33};
    fixture f = {0};
    nc_pool *pool = nc_pool_create(3);
    if (pool != NULL && fixture_init(&f, &usual[2], NC_FLOAT, s)) {
        ((float *)f.p[0])[1 * 11] = NAN; /* step 0, row 1 */
        run(&f, 6, NULL);
        run(&f, 9, pool);
        CHECK(memcmp(f.p[6], f.p[9], (size_t)(s[0] * s[1] * s[3]) * 4) == 0);
        for (int64_t b = 0; b < s[1]; b++) CHECK_INT(isnan(((const float *)f.p[7])[b * s[3]]), b == 1);
    }
    nc_pool_destroy(pool);
    fixture_release(&f);
}

/* ---- weights of 8 bits ---- */

/* W or R, K rows of N codes, from random bytes. */
static nck_rnn_codes codes_of(nc_dtype type, int64_t K, int64_t N, bool each, const void *bytes, float *scale,
                              void *packed) {
    for (int64_t j = 0; j < N; j++) scale[j] = 0.002f + 0.0001f * (float)(j % 7);
    nck_igemm_pack_b(type, K, N, bytes, N, 1, packed, NULL);
    return (nck_rnn_codes){.type = type,
                           .codes = bytes,
                           .packed = packed,
                           .scale = scale,
                           .zero = (const char *)bytes + 1,
                           .scales = each ? N : 1,
                           .zeros = each ? N : 1};
}

static void check_codes(nc_dtype type, const int64_t *s, bool each, bool reverse, const int32_t *lens) {
    int64_t I = s[2], H = s[3], N = 4 * H;
    size_t bytes[2] = {nck_igemm_packed_b_bytes(I, N), nck_igemm_packed_b_bytes(H, N)};
    fixture f = {0};
    char *packed = nc_alloc(bytes[0] + bytes[1] + 64),
         *room = nc_alloc(nck_rnn_workspace(NCK_LSTM, NC_FLOAT, 1, s[0], s[1], I, H, NCK_RNN_CODES) + 64);
    nc_pool *pool = nc_pool_create(3);
    if (fixture_init(&f, &usual[2], NC_FLOAT, s) && packed != NULL && room != NULL && pool != NULL) {
        char *at = nc_align64_pointer(packed);
        nck_rnn_codes codes[2] = {codes_of(type, I, N, each, f.p[1], f.p[6], at),
                                  codes_of(type, H, N, each, f.p[2], f.p[7], at + bytes[0])};
        f.a.codes = codes, f.a.w = f.a.r = NULL, f.a.reverse = reverse, f.a.lens = lens;
        f.a.y = f.p[8], f.a.y_h = f.p[9];
        nck_rnn(&f.a, 1, nc_align64_pointer(room), NULL);
        f.a.y = f.p[10];
        nck_rnn(&f.a, 1, nc_align64_pointer(room), pool);
        CHECK(memcmp(f.p[8], f.p[10], (size_t)(s[0] * s[1] * H) * sizeof(float)) == 0);
        f.a.y_h = f.p[11];
        nck_rnn_ref(&f.a, f.state);
        for (int64_t i = 0; i < s[0] * s[1] * H; i++)
            CHECK_CLOSE(get(NC_FLOAT, f.p[8], i), get(NC_FLOAT, f.p[10], i), nc_tol_recurrent_f32);
        for (int64_t i = 0; i < s[1] * H; i++)
            CHECK_CLOSE(get(NC_FLOAT, f.p[9], i), get(NC_FLOAT, f.p[11], i), nc_tol_recurrent_f32);
    } else {
        nc_test_failed(__FILE__, __LINE__, "out of memory");
    }
    nc_pool_destroy(pool);
    nc_free(packed);
    nc_free(room);
    fixture_release(&f);
}

TEST(rnn_kernel_codes) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1}, {5, 3, 4, 7}, {2, 17, 9, 19},
                                       {3, 1, 0, 5}, {0, 2, 3, 4}, {4, 0, 3, 4}};
    static const int32_t lens[3] = {2, 0, 5};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int way = 0; way < 4; way++)
            check_codes(way & 1 ? NC_INT8 : NC_UINT8, sizes[i], way & 2, way & 1, i == 1 && way > 1 ? lens : NULL);
}

/* ---- both directions: rows and columns shared out between threads, weights packed before or not ---- */

enum { X_, W_, R_, B_, N_GIVEN };

typedef struct pair {
    nck_rnn_cell cell;
    float *given[N_GIVEN], *packed[2], *y, *y_h, *kept;
    void *workspace;
    size_t bytes_y, bytes_h, bytes_kept, bytes_packed[2];
} pair;

static bool pair_init(pair *p, nck_rnn_kind kind, const int64_t *s) {
    int64_t T = s[0], B = s[1], I = s[2], H = s[3], GH = nck_rnn_gates(kind) * H;
    const int64_t n[N_GIVEN] = {T * B * I, 2 * GH * I, 2 * GH * H, 4 * GH};
    uint32_t seed = 11;
    bool ok = true;
    nck_rnn_cell_init(&p->cell, &usual[kind]);
    for (int k = 0; k < N_GIVEN; k++) {
        ok &= (p->given[k] = nc_alloc((size_t)n[k] * sizeof(float))) != NULL;
        for (int64_t i = 0; ok && i < n[k]; i++) {
            seed = seed * 1664525u + 1013904223u;
            p->given[k][i] = ((float)(seed >> 8) - 8388608.0f) / 16777216.0f;
        }
    }
    p->bytes_y = (size_t)(T * B * 2 * H) * sizeof(float), p->bytes_h = (size_t)(2 * B * H) * sizeof(float);
    p->bytes_packed[0] = nck_rnn_packed_w_bytes(kind, NC_FLOAT, I, H);
    p->bytes_packed[1] = nck_rnn_packed_r_bytes(kind, NC_FLOAT, H);
    for (int k = 0; k < 2; k++) ok &= (p->packed[k] = nc_alloc(2 * p->bytes_packed[k] + 64)) != NULL;
    ok &= (p->y = nc_alloc(2 * p->bytes_y)) != NULL && (p->y_h = nc_alloc(2 * p->bytes_h)) != NULL;
    p->bytes_kept = (size_t)(2 * T * B * nck_rnn_kept(kind) * H) * sizeof(float);
    ok &= (p->kept = nc_alloc_zero(2, p->bytes_kept)) != NULL;
    ok &= (p->workspace = nc_alloc(nck_rnn_workspace(kind, NC_FLOAT, 2, T, B, I, H, NCK_RNN_PLAIN) + 64)) != NULL;
    return ok;
}

static void pair_release(pair *p) {
    for (int k = 0; k < N_GIVEN; k++) nc_free(p->given[k]);
    for (int k = 0; k < 2; k++) nc_free(p->packed[k]);
    nc_free(p->y);
    nc_free(p->y_h);
    nc_free(p->kept);
    nc_free(p->workspace);
}

/* Direction d as it writes into the first or second half of the results. */
static nck_rnn_args pair_direction(pair *p, const int64_t *s, int d, bool packed, int half) {
    nck_rnn_kind kind = p->cell.rule.kind;
    static const int32_t lens[3] = {2, 0, 4};
    int64_t B = s[1], H = s[3], GH = nck_rnn_gates(kind) * H;
    nck_rnn_args a = {.cell = &p->cell, .type = NC_FLOAT, .T = s[0], .B = B, .I = s[2], .H = H};
    a.reverse = d == 1;
    a.lens = B == 3 ? lens : NULL;
    a.kept = (char *)p->kept + (size_t)(2 * half + d) * p->bytes_kept / 2;
    a.x = p->given[X_], a.w = p->given[W_] + d * GH * s[2], a.r = p->given[R_] + d * GH * H;
    a.b = p->given[B_] + d * 2 * GH;
    a.state_rs = H, a.y_t = 2 * B * H, a.y_b = H;
    a.y = (char *)p->y + (size_t)half * p->bytes_y + (size_t)(d * B * H) * sizeof(float);
    a.y_h = (char *)p->y_h + (size_t)half * p->bytes_h + (size_t)(d * B * H) * sizeof(float);
    if (!packed) return a;
    void *w = (char *)nc_align64_pointer(p->packed[0]) + (size_t)d * p->bytes_packed[0];
    void *r = (char *)nc_align64_pointer(p->packed[1]) + (size_t)d * p->bytes_packed[1];
    nck_rnn_pack_w(kind, NC_FLOAT, s[2], H, a.w, w);
    nck_rnn_pack_r(kind, NC_FLOAT, H, a.r, r);
    a.w_packed = w, a.r_packed = r;
    return a;
}

TEST(rnn_kernel_cuts_keep_bits) {
    /* Rows for every thread; fewer than threads; steps whose units are shared out, with rows that end early, with
     * a last panel of weights that is not full, with more threads than panels. */
    static const int64_t sizes[][4] = {{3, 17, 11, 33}, {4, 1, 5, 40},  {2, 1, 3, 600}, {2, 9, 7, 600},
                                       {4, 3, 5, 224},  {3, 1, 5, 384}, {3, 1, 2, 520}, {0, 1, 2, 384}};
    nc_pool *pool = nc_pool_create(30);
    for (int kind = NCK_RNN; pool != NULL && kind <= NCK_LSTM; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            pair p = {0};
            if (pair_init(&p, (nck_rnn_kind)kind, sizes[i])) {
                for (int half = 0; half < 2; half++) {
                    nck_rnn_args dirs[2];
                    for (int d = 0; d < 2; d++) dirs[d] = pair_direction(&p, sizes[i], d, half == 1, half);
                    nck_rnn(dirs, 2, nc_align64_pointer(p.workspace), half == 1 ? pool : NULL);
                }
                CHECK(memcmp(p.y, (char *)p.y + p.bytes_y, p.bytes_y) == 0);
                CHECK(memcmp(p.y_h, (char *)p.y_h + p.bytes_h, p.bytes_h) == 0);
                CHECK(memcmp(p.kept, (char *)p.kept + p.bytes_kept, p.bytes_kept) == 0);
                CHECK(sizes[i][0] == 0 || p.y[0] != 0);
            } else {
                nc_test_failed(__FILE__, __LINE__, "out of memory");
            }
            pair_release(&p);
        }
    nc_pool_destroy(pool);
}

/* Large weights are read from the last on in every other step: the bits of steps that each begin a layer of their own,
 * on panels that gates share and on gates apart. */
TEST(rnn_kernel_order_keeps_bits) {
    static const int64_t sizes[][4] = {{5, 1, 3, 256}, {5, 2, 3, 256}, {4, 1, 3, 257}, {4, 2, 3, 512}};
    for (int kind = NCK_GRU; kind <= NCK_LSTM; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const int64_t *s = sizes[i], one[4] = {1, s[1], s[2], s[3]}, BH = s[1] * s[3];
            pair p = {0};
            float *c = nc_alloc_zero(2, (size_t)BH * sizeof *c);
            if (pair_init(&p, (nck_rnn_kind)kind, s) && c != NULL) {
                nck_rnn_args all = pair_direction(&p, s, 0, true, 0), step = pair_direction(&p, one, 0, true, 1);
                all.y_c = kind == NCK_LSTM ? c : NULL, all.kept = step.kept = NULL;
                nck_rnn(&all, 1, nc_align64_pointer(p.workspace), NULL);
                step.y_h = p.y_h + 2 * BH, step.y_c = kind == NCK_LSTM ? c + BH : NULL;
                for (int64_t t = 0; t < s[0]; t++) {
                    nck_rnn(&step, 1, nc_align64_pointer(p.workspace), NULL);
                    step.h0 = step.y_h, step.c0 = step.y_c;
                    step.x = (const float *)step.x + s[1] * s[2];
                }
                CHECK(memcmp(p.y_h, step.y_h, (size_t)BH * sizeof *c) == 0);
                CHECK(memcmp(c, c + BH, (size_t)BH * sizeof *c) == 0);
                CHECK(p.y_h[BH - 1] != 0);
            } else {
                nc_test_failed(__FILE__, __LINE__, "out of memory");
            }
            nc_free(c), pair_release(&p);
        }
}
