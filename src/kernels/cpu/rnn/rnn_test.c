/* kernels/cpu/rnn/rnn_test.c: recurrent layers against the reference, over kinds, activations, lengths, layouts and odd
 * sizes; equal bits for any number of threads; NaN stays in its row. */
#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/rnn/rnn.h"
#include "tests/check.h"

enum { MOST = 8192, N_ARRAYS = 12 };

typedef struct fixture {
    nck_rnn_cell cell;
    nck_rnn_args a;
    void *p[N_ARRAYS];
    void *workspace;
    double state[3 * 64];
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
    f->workspace = nc_alloc(nck_rnn_workspace(rule->kind, type, s[0], s[1], s[2], s[3]) + 64);
    return f->workspace != NULL;
}

static void fixture_release(fixture *f) {
    for (int k = 0; k < N_ARRAYS; k++) nc_free(f->p[k]);
    nc_free(f->workspace);
}

static void run(fixture *f, int first, nc_pool *pool) {
    f->a.y = f->p[first], f->a.y_h = f->p[first + 1], f->a.y_c = f->cell.rule.kind == NCK_LSTM ? f->p[first + 2] : NULL;
    nck_rnn(&f->a, nc_align64_pointer(f->workspace), pool);
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
