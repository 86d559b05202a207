/* kernels/cpu/rnn/rnn_grad_test.c: recurrent layers backwards against central differences of the reference, over kinds,
 * activations, lengths, layouts and odd sizes; float against double; equal bits for any number of threads. */
#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/rnn/rnn.h"
#include "tests/check.h"

enum { MOST = 2048, X, W, R, BIAS, P, H0, C0, N_IN, Y = N_IN, Y_H, Y_C, N_ALL };

typedef struct fixture {
    nck_rnn_cell cell;
    nck_rnn_cell_grad back;
    nck_rnn_args a;
    void *v[N_ALL], *d[N_ALL]; /* values, gradients */
    int64_t n[N_ALL];
    void *kept, *workspace;
    double state[3 * 64];
} fixture;

static void put(nc_dtype t, void *p, int64_t i, double v) {
    if (t == NC_FLOAT)
        ((float *)p)[i] = (float)v;
    else
        ((double *)p)[i] = v;
}

static double get(nc_dtype t, const void *p, int64_t i) {
    return t == NC_FLOAT ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static bool fill(fixture *f, nc_dtype type, void **p) {
    static uint32_t seed = 11;
    *p = nc_alloc(MOST * 8);
    for (int64_t i = 0; *p != NULL && i < MOST; i++) {
        seed = seed * 1664525u + 1013904223u;
        put(type, *p, i, (double)(float)(((double)(seed >> 8) - 8388608.0) / 8388608.0));
    }
    (void)f;
    return *p != NULL;
}

static bool fixture_init(fixture *f, const nck_rnn_rule *rule, nc_dtype type, const int64_t *s, bool reverse,
                         bool batch_first, const int32_t *lens) {
    int64_t T = s[0], B = s[1], I = s[2], H = s[3], GH = nck_rnn_gates(rule->kind) * H;
    bool lstm = rule->kind == NCK_LSTM;
    nck_rnn_cell_init(&f->cell, rule);
    nck_rnn_cell_grad_init(&f->back, rule);
    for (int i = 0; i < N_ALL; i++)
        if (!fill(f, type, &f->v[i]) || !fill(f, type, &f->d[i])) return false;
    const int64_t n[N_ALL] = {[X] = T * B * I,
                              [W] = GH * I,
                              [R] = GH * H,
                              [BIAS] = 2 * GH,
                              [P] = rule->peepholes ? 3 * H : 0,
                              [H0] = B * H,
                              [C0] = lstm ? B * H : 0,
                              [Y] = T * B * H,
                              [Y_H] = B * H,
                              [Y_C] = lstm ? B * H : 0};
    memcpy(f->n, n, sizeof n);
    f->a = (nck_rnn_args){.cell = &f->cell,
                          .type = type,
                          .T = T,
                          .B = B,
                          .I = I,
                          .H = H,
                          .x = f->v[X],
                          .w = f->v[W],
                          .r = f->v[R],
                          .b = f->v[BIAS],
                          .p = rule->peepholes ? f->v[P] : NULL,
                          .h0 = f->v[H0],
                          .c0 = lstm ? f->v[C0] : NULL,
                          .y = f->v[Y],
                          .y_h = f->v[Y_H],
                          .y_c = lstm ? f->v[Y_C] : NULL,
                          .state_rs = H,
                          .y_t = batch_first ? H : B * H,
                          .y_b = batch_first ? T * H : H,
                          .batch_first = batch_first,
                          .reverse = reverse,
                          .lens = lens};
    size_t forth = nck_rnn_workspace(rule->kind, type, 1, T, B, I, H, NCK_RNN_PLAIN),
           back = nck_rnn_grad_workspace(rule->kind, type, T, B, I, H);
    f->kept = nc_alloc((size_t)(T * B * nck_rnn_kept(rule->kind) * H) * 8 + 1);
    f->workspace = nc_alloc(nc_max_size(forth, back) + 64);
    return f->kept != NULL && f->workspace != NULL;
}

static void fixture_release(fixture *f) {
    for (int i = 0; i < N_ALL; i++) {
        nc_free(f->v[i]);
        nc_free(f->d[i]);
    }
    nc_free(f->kept);
    nc_free(f->workspace);
}

static void run(fixture *f, nc_pool *pool) {
    bool lstm = f->cell.rule.kind == NCK_LSTM;
    f->a.kept = f->kept;
    nck_rnn(&f->a, 1, nc_align64_pointer(f->workspace), pool);
    nck_rnn_grad_args g = {.a = &f->a,
                           .cell = &f->back,
                           .dy = f->d[Y],
                           .dy_h = f->d[Y_H],
                           .dy_c = lstm ? f->d[Y_C] : NULL,
                           .dx = f->d[X],
                           .dw = f->d[W],
                           .dr = f->d[R],
                           .db = f->d[BIAS],
                           .dp = f->cell.rule.peepholes ? f->d[P] : NULL,
                           .dh0 = f->d[H0],
                           .dc0 = lstm ? f->d[C0] : NULL};
    nck_rnn_grad(&g, nc_align64_pointer(f->workspace), pool);
}

/* What the reference gives, weighted with the gradients that arrive. */
static double weighted(fixture *f) {
    double sum = 0;
    nck_rnn_ref(&f->a, f->state);
    for (int i = Y; i < N_ALL; i++)
        for (int64_t j = 0; j < f->n[i]; j++) sum += get(f->a.type, f->v[i], j) * get(f->a.type, f->d[i], j);
    return sum;
}

static void check(const nck_rnn_rule *rule, const int64_t *s, bool reverse, bool batch_first, const int32_t *lens) {
    const double h = 1e-6;
    fixture f = {0};
    if (fixture_init(&f, rule, NC_DOUBLE, s, reverse, batch_first, lens)) {
        run(&f, NULL);
        for (int i = 0; i < N_IN; i++)
            for (int64_t j = 0; j < f.n[i]; j++) {
                double *at = &((double *)f.v[i])[j], was = *at;
                *at = was + h;
                double up = weighted(&f);
                *at = was - h;
                double slope = (up - weighted(&f)) / (2 * h);
                *at = was;
                CHECK_CLOSE(((double *)f.d[i])[j], slope, nc_tol_difference_f64);
            }
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

TEST(rnn_grad_kernel_sizes) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1}, {5, 3, 4, 7}, {2, 4, 0, 3}, {0, 2, 3, 4}, {4, 0, 3, 4}};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int way = 0; way < 4; way += nc_test_emulated() ? 3 : 1)
                check(&usual[k], sizes[i], way & 1, way & 2, NULL);
}

TEST(rnn_grad_kernel_variants) {
    static const int64_t s[4] = {4, 3, 2, 5};
    static const int32_t lens[3] = {2, 0, 4};
    for (int k = 0; k < 3; k++) {
        nck_rnn_rule r = usual[k];
        check(&r, s, false, false, lens);
        check(&r, s, true, true, lens);
        r.clip = 0.7;
        check(&r, s, false, false, NULL);
        r.peepholes = k == 2;
        check(&r, s, true, false, lens);
        r.linear_before_reset = r.input_forget = true;
        check(&r, s, false, true, lens);
        r.clip = 0;
        check(&r, s, true, false, NULL);
        r.peepholes = false;
        check(&r, s, false, false, lens);
    }
}

TEST(rnn_grad_kernel_activations) {
    static const int64_t s[4] = {3, 2, 3, 5};
    for (int f = NCK_RNN_TANH; f <= NCK_RNN_SOFTPLUS; f++)
        for (int k = 0; k < 3; k++) {
            nck_rnn_rule r = usual[k];
            for (int i = 0; i < 3; i++) r.act[i] = (nck_rnn_act){(nck_rnn_function)f, 0.4, 0.3};
            check(&r, s, false, false, NULL);
        }
}

TEST(rnn_grad_kernel_float_and_threads) {
    static const int64_t s[4] = {3, 5, 7, 9};
    for (int k = 0; k < 3; k++) {
        fixture narrow = {0}, wide = {0}, alone = {0};
        nc_pool *pool = nc_pool_create(3);
        bool ok = fixture_init(&narrow, &usual[k], NC_FLOAT, s, false, false, NULL);
        ok = fixture_init(&wide, &usual[k], NC_DOUBLE, s, false, false, NULL) && ok;
        ok = fixture_init(&alone, &usual[k], NC_FLOAT, s, false, false, NULL) && ok && pool != NULL;
        for (int i = 0; ok && i < N_ALL; i++)
            for (int64_t j = 0; j < MOST; j++) {
                ((double *)wide.v[i])[j] = (double)(((float *)alone.v[i])[j] = ((float *)narrow.v[i])[j]);
                ((double *)wide.d[i])[j] = (double)(((float *)alone.d[i])[j] = ((float *)narrow.d[i])[j]);
            }
        CHECK(ok);
        if (ok) {
            run(&narrow, pool);
            run(&wide, NULL);
            run(&alone, NULL);
            for (int i = 0; i < N_IN; i++) {
                CHECK(memcmp(narrow.d[i], alone.d[i], (size_t)narrow.n[i] * 4) == 0);
                for (int64_t j = 0; j < narrow.n[i]; j++)
                    CHECK_CLOSE(((float *)narrow.d[i])[j], ((double *)wide.d[i])[j], nc_tol_recurrent_f32);
            }
        }
        nc_pool_destroy(pool);
        fixture_release(&narrow);
        fixture_release(&wide);
        fixture_release(&alone);
    }
}
