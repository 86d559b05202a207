/* tools/nacre/curve.c: how the loss fell, as a picture of letters: '*' of training, 'o' of validation. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 12, WIDTH = 64 };

bool curve_add(double **v, size_t *n, size_t *cap, double x) {
    if (*n == *cap) {
        size_t room = *cap * 2 + 256;
        double *more = realloc(*v, room * sizeof *more);
        if (!more) return false;
        *v = more, *cap = room;
    }
    (*v)[(*n)++] = x;
    return true;
}

void curve_release(curve *c) {
    free(c->train), free(c->valid);
    *c = (curve){0};
}

/* The mean of the values that fall into each column. */
static int columns_of(const curve *c, double *means) {
    int n = c->n_train < WIDTH ? (int)c->n_train : WIDTH;
    for (int k = 0; k < n; k++) {
        size_t from = c->n_train * (size_t)k / (size_t)n, to = c->n_train * (size_t)(k + 1) / (size_t)n;
        double sum = 0;
        for (size_t i = from; i < to; i++) sum += c->train[i];
        means[k] = sum / (double)(to - from);
    }
    return n;
}

typedef struct axis {
    double low, high;
    bool log;
} axis;

static void widen(axis *a, double x) {
    if (!isfinite(x)) return;
    if (x < a->low) a->low = x;
    if (x > a->high) a->high = x;
}

static int row_of(const axis *a, double x) {
    double low = a->log ? log(a->low) : a->low, high = a->log ? log(a->high) : a->high;
    double at = a->log ? log(x) : x;
    return high > low ? (int)lround((high - at) / (high - low) * (HEIGHT - 1)) : 0;
}

static double value_at(const axis *a, int row) {
    double part = (double)row / (HEIGHT - 1);
    return a->log ? exp(log(a->high) - (log(a->high) - log(a->low)) * part) : a->high - (a->high - a->low) * part;
}

static void draw(const curve *c, const axis *a, const double *means, int n, size_t steps_of_epoch) {
    char picture[HEIGHT][WIDTH + 1];
    memset(picture, ' ', sizeof picture);
    for (int k = 0; k < n; k++)
        if (isfinite(means[k])) picture[row_of(a, means[k])][k] = '*';
    for (size_t e = 0; e < c->n_valid; e++) {
        size_t step = (e + 1) * steps_of_epoch;
        int k = c->n_train ? (int)((step < c->n_train ? step : c->n_train) * (size_t)n / c->n_train) - 1 : 0;
        if (isfinite(c->valid[e])) picture[row_of(a, c->valid[e])][k < 0 ? 0 : k] = 'o';
    }
    for (int r = 0; r < HEIGHT; r++) {
        picture[r][n] = 0;
        for (int k = n - 1; k >= 0 && picture[r][k] == ' '; k--) picture[r][k] = 0;
        printf("%10.4g |%s\n", value_at(a, r), picture[r]);
    }
    printf("%10s +", "");
    for (int k = 0; k < n; k++) putchar('-');
    putchar('\n');
}

void curve_print(const curve *c, size_t steps_of_epoch) {
    double means[WIDTH];
    axis a = {INFINITY, -INFINITY, false};
    int n = columns_of(c, means);
    for (int k = 0; k < n; k++) widen(&a, means[k]);
    for (size_t e = 0; e < c->n_valid; e++) widen(&a, c->valid[e]);
    if (n < 2 || !(a.low < a.high)) return;
    a.log = a.low > 0 && a.high / a.low > 20;
    printf("\nloss (* training%s)%s\n", c->n_valid ? ", o validation" : "", a.log ? ", on a logarithmic scale" : "");
    draw(c, &a, means, n, steps_of_epoch);
    printf("%11s %zu updates\n", "", c->n_train);
}
