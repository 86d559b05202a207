/* kernels/cpu/reduce/loss_test.c: cross-entropy against its definition in double, its gradient against finite
 * differences; weights, ignored and bad labels, reductions, threads. */
#include "base/mem.h"
#include "kernels/cpu/reduce/loss.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { N = 3, C = 7, D = 5, ALL = N * C * D };

static double at(const double *x, int n, int c, int d) { return x[(n * C + c) * D + d]; }

static double one_loss(const double *x, int n, int d, int64_t label) {
    double sum = 0;
    for (int c = 0; c < C; c++) sum += exp(at(x, n, c, d));
    return log(sum) - at(x, n, (int)label, d);
}

static double total(const nck_loss_args *a, const double *x) {
    double sum = 0, norm = 0;
    for (int i = 0; i < N * D; i++) {
        int64_t label = ((const int64_t *)a->labels)[i];
        if (a->has_ignore && label == a->ignore_index) continue;
        double w = a->weights ? ((const double *)a->weights)[label] : 1;
        sum += w * one_loss(x, i / D, i % D, label);
        norm += w;
    }
    return a->reduction == NCK_LOSS_MEAN ? sum / norm : sum;
}

static void make(double *x, int64_t *labels, double *weights) {
    for (int i = 0; i < ALL; i++) x[i] = sin(i * 1.7) * 2;
    for (int i = 0; i < N * D; i++) labels[i] = i * 3 % C;
    for (int c = 0; c < C; c++) weights[c] = 0.5 + c * 0.25;
    labels[4] = -100;
}

TEST(loss_value_and_gradient) {
    double x[ALL], weights[C], loss, lp[ALL], dx[ALL], dloss = 1.5;
    int64_t labels[N * D], bad;
    make(x, labels, weights);
    for (int way = 0; way < 4; way++) {
        nck_loss_args a = {.type = NC_DOUBLE,
                           .N = N,
                           .C = C,
                           .D = D,
                           .label_type = NC_INT64,
                           .labels = labels,
                           .weights = way & 1 ? weights : NULL,
                           .has_ignore = true,
                           .ignore_index = -100,
                           .reduction = way & 2 ? NCK_LOSS_MEAN : NCK_LOSS_SUM};
        CHECK_INT(nck_cross_entropy(&a, x, &loss, lp, &bad, NULL), NC_OK);
        CHECK_CLOSE(loss, total(&a, x), nc_tol_kernel_f64);
        CHECK_INT(nck_cross_entropy_grad(&a, &dloss, lp, dx, &bad, NULL), NC_OK);
        for (int i = 0; i < ALL; i++) {
            double keep = x[i], h = 1e-5, up, down;
            x[i] = keep + h;
            up = total(&a, x);
            x[i] = keep - h;
            down = total(&a, x);
            x[i] = keep;
            CHECK_CLOSE(dx[i], dloss * (up - down) / (2 * h), nc_tol_difference_lane_f64);
        }
    }
}

TEST(loss_not_reduced) {
    double x[ALL], weights[C], loss[N * D], lp[ALL], dx[ALL], dloss[N * D];
    int64_t labels[N * D], bad;
    make(x, labels, weights);
    for (int i = 0; i < N * D; i++) dloss[i] = i + 1;
    dloss[4] = (double)NAN;
    nck_loss_args a = {.type = NC_DOUBLE,
                       .N = N,
                       .C = C,
                       .D = D,
                       .label_type = NC_INT64,
                       .labels = labels,
                       .weights = weights,
                       .has_ignore = true,
                       .ignore_index = -100,
                       .reduction = NCK_LOSS_NONE};
    CHECK_INT(nck_cross_entropy(&a, x, loss, lp, &bad, NULL), NC_OK);
    CHECK_INT(nck_cross_entropy_grad(&a, dloss, lp, dx, &bad, NULL), NC_OK);
    for (int i = 0; i < N * D; i++) {
        int n = i / D, d = i % D;
        bool skip = i == 4;
        CHECK_CLOSE(loss[i], skip ? 0 : weights[labels[i]] * one_loss(x, n, d, labels[i]), nc_tol_kernel_f64);
        for (int c = 0; c < C; c++) {
            double want = skip ? 0 : (exp(at(lp, n, c, d)) - (c == labels[i])) * weights[labels[i]] * dloss[i];
            CHECK_CLOSE(at(dx, n, c, d), want, nc_tol_kernel_f64);
        }
    }
}

TEST(loss_bad_label_and_all_ignored) {
    float x[2 * 3] = {1, 2, 3, 4, 5, 6}, lp[6], loss = 7;
    int32_t labels[2] = {1, 3};
    int64_t bad = 0;
    nck_loss_args a = {
        .type = NC_FLOAT, .N = 2, .C = 3, .D = 1, .label_type = NC_INT32, .labels = labels, .reduction = NCK_LOSS_MEAN};
    CHECK_INT(nck_cross_entropy(&a, x, &loss, lp, &bad, NULL), NC_E_DATA);
    CHECK_INT(bad, 3);
    CHECK(loss == 7);
    CHECK_INT(nck_cross_entropy_grad(&a, &loss, lp, lp, &bad, NULL), NC_E_DATA);
    labels[1] = -1;
    CHECK_INT(nck_cross_entropy(&a, x, &loss, lp, &bad, NULL), NC_E_DATA);
    CHECK_INT(bad, -1);
    labels[0] = labels[1] = 2;
    a.has_ignore = true, a.ignore_index = 2;
    CHECK_INT(nck_cross_entropy(&a, x, &loss, lp, &bad, NULL), NC_OK);
    CHECK(isnan(loss));
    float dx[6], one = 1;
    CHECK_INT(nck_cross_entropy_grad(&a, &one, lp, dx, &bad, NULL), NC_OK);
    for (int i = 0; i < 6; i++) CHECK(dx[i] == 0);
    a.N = 0;
    a.reduction = NCK_LOSS_SUM;
    CHECK_INT(nck_cross_entropy(&a, x, &loss, lp, &bad, NULL), NC_OK);
    CHECK(loss == 0);
}

TEST(loss_rows_f32_and_threads) {
    enum { R = 19, K = 1031 };
    float *x = nc_alloc(R * K * 4), *lp = nc_alloc(R * K * 4), loss;
    float *one = nc_alloc(R * K * 4), *five = nc_alloc(R * K * 4);
    int64_t labels[R], bad;
    float g = 2;
    REQUIRE(x && lp && one && five);
    for (int i = 0; i < R * K; i++) x[i] = (float)(i * 37 % 101) * 0.1f;
    for (int i = 0; i < R; i++) labels[i] = i * 517 % K;
    nck_loss_args a = {
        .type = NC_FLOAT, .N = R, .C = K, .D = 1, .label_type = NC_INT64, .labels = labels, .reduction = NCK_LOSS_MEAN};
    nc_pool *pool = nc_pool_create(5);
    CHECK_INT(nck_cross_entropy(&a, x, &loss, lp, &bad, pool), NC_OK);
    CHECK_INT(nck_cross_entropy_grad(&a, &g, lp, one, &bad, NULL), NC_OK);
    CHECK_INT(nck_cross_entropy_grad(&a, &g, lp, five, &bad, pool), NC_OK);
    CHECK(memcmp(one, five, R * K * 4) == 0);
    for (int i = 0; i < R * K; i++) {
        double want = (exp((double)lp[i]) - (i % K == labels[i / K])) * 2 / R;
        CHECK_CLOSE(one[i], want, nc_tol_kernel_f32);
    }
    nc_pool_destroy(pool);
    nc_free(x), nc_free(lp), nc_free(one), nc_free(five);
}

/* Rows of several runs, one ignored, one infinite, one not a number, at odd addresses: the same as one after the
 * other, also over the scores. */
TEST(loss_both_at_once) {
    enum { ROWS = 6, WIDE = 1203 };
    float *x = nc_alloc(3 * (ROWS * WIDE + 1) * sizeof *x), *two = x + ROWS * WIDE + 1, *one = two + ROWS * WIDE + 1;
    float *from = x + 1, loss[2], picked[ROWS], dloss = 1.5f, weights[WIDE];
    REQUIRE(x);
    int64_t labels[ROWS] = {0, 1202, 511, 512, 7, 3}, bad;
    for (int i = 0; i < ROWS * WIDE; i++) from[i] = sinf((float)i * 1.7f) * 20;
    for (int i = 0; i < WIDE; i++) weights[i] = 0.5f + (float)(i % 5);
    for (int way = 0; way < 12; way++) {
        nck_loss_args a = {.type = NC_FLOAT,
                           .N = ROWS,
                           .C = WIDE,
                           .D = 1,
                           .label_type = NC_INT64,
                           .labels = labels,
                           .weights = way & 1 ? weights : NULL,
                           .has_ignore = true,
                           .ignore_index = 512,
                           .reduction = way & 2 ? NCK_LOSS_MEAN : NCK_LOSS_SUM};
        if (way == 4) from[3] = INFINITY;
        if (way == 8) from[3] = NAN, from[2 * WIDE + 1] = -INFINITY;
        CHECK_INT(nck_cross_entropy(&a, from, &loss[0], two, &bad, NULL), NC_OK);
        CHECK_INT(nck_cross_entropy_grad(&a, &dloss, two, two, &bad, NULL), NC_OK);
        memcpy(one + 1, from, ROWS * WIDE * sizeof *one);
        CHECK_INT(nck_cross_entropy_both(&a, &dloss, one + 1, &loss[1], one + 1, picked, &bad, NULL), NC_OK);
        CHECK(loss[0] == loss[1] || (way >= 4 && loss[0] != loss[0] && loss[1] != loss[1]));
        for (int i = 0; i < ROWS * WIDE; i++)
            if (two[i] != two[i])
                CHECK(one[i + 1] != one[i + 1]);
            else
                CHECK_CLOSE(one[i + 1], two[i], nc_tol_kernel_f32);
    }
    labels[2] = WIDE;
    nck_loss_args wrong = {.type = NC_FLOAT, .N = ROWS, .C = WIDE, .D = 1, .label_type = NC_INT64, .labels = labels};
    CHECK_INT(nck_cross_entropy_both(&wrong, &dloss, from, loss, one, picked, &bad, NULL), NC_E_DATA);
    CHECK_INT(bad, WIDE);
    nc_free(x);
}
