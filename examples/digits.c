/* examples/digits.c: reads handwritten digits with a small CNN: accuracy, throughput, time per operator, and a few
 * digits as text pictures. `make demo` runs it; arguments: the model and the data of examples/digits. */
#include "nacre/nacre.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, SHOWN = 5, RUNS = 50 };

typedef struct digits {
    unsigned char *labels, *pixels; /* of the test split */
    int64_t n;
    unsigned char *file;
} digits;

static int fail(const nacre_error *err) {
    fprintf(stderr, "digits: %s %s: %s [%s]\n", err->op, err->node, err->text, nacre_code_name(err->code));
    return 1;
}

static bool read_digits(const char *path, digits *d) {
    FILE *f = fopen(path, "rb");
    unsigned char head[16];
    bool ok = f && fread(head, 1, 16, f) == 16 && memcmp(head, "DIGITS1\n", 8) == 0;
    size_t all = ok ? head[8] | (size_t)head[9] << 8 : 0, test = ok ? head[12] | (size_t)head[13] << 8 : 0;
    ok = ok && test <= all && (d->file = malloc(all * (1 + PIXELS) + 1)) && fread(d->file, 1 + PIXELS, all, f) == all;
    if (f) fclose(f);
    if (!ok) {
        fprintf(stderr, "digits: %s cannot be read\n", path);
        return false;
    }
    d->n = (int64_t)test;
    d->labels = d->file + (all - test);
    d->pixels = d->file + all + (all - test) * PIXELS;
    return true;
}

static int open_session(nacre_env *env, const char *path, bool profile, nacre_session **out) {
    nacre_error err;
    nacre_model *m;
    nacre_options *o;
    if (nacre_options_create(&o, &err) != NACRE_OK) return fail(&err);
    int bad = 0;
    if (nacre_options_set(o, "profile", profile ? "on" : "off", &err) != NACRE_OK ||
        nacre_model_load(env, path, &m, &err) != NACRE_OK || nacre_session_create(env, m, o, out, &err) != NACRE_OK)
        bad = fail(&err);
    nacre_options_release(o);
    return bad;
}

/* Probabilities of n digits, in p. */
static int predict(nacre_session *s, const unsigned char *pixels, int64_t n, float *p) {
    nacre_error err;
    nacre_value *x, *y = NULL;
    const int64_t in[] = {n, 1, SIDE, SIDE}, out[] = {n, CLASSES};
    if (nacre_value_new_tensor(NACRE_FLOAT, 4, in, &x, &err) != NACRE_OK) return fail(&err);
    float *to = nacre_value_data(x);
    for (int64_t i = 0; i < n * PIXELS; i++) to[i] = pixels[i];
    int bad = 0;
    if (nacre_value_tensor(NACRE_FLOAT, 2, out, p, &y, &err) != NACRE_OK ||
        nacre_run(s, NULL, (const char *[]){"pixels"}, (nacre_value *const[]){x}, 1, (const char *[]){"probabilities"},
                  1, &y, &err) != NACRE_OK)
        bad = fail(&err);
    nacre_value_release(x);
    nacre_value_release(y);
    return bad;
}

static int best(const float *p) {
    int k = 0;
    for (int i = 1; i < CLASSES; i++)
        if (p[i] > p[k]) k = i;
    return k;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int print_speed(nacre_session *s, const digits *d, float *p) {
    static const int64_t batches[] = {1, 8, 64, 360};
    printf("\n  batch   digits/s   per batch\n");
    for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
        int64_t n = batches[k] < d->n ? batches[k] : d->n;
        if (predict(s, d->pixels, n, p)) return 1;
        double start = now();
        for (int i = 0; i < RUNS; i++)
            if (predict(s, d->pixels, n, p)) return 1;
        double one = (now() - start) / RUNS;
        printf("  %5lld  %9.0f  %7.1f us\n", (long long)n, (double)n / one, one * 1e6);
    }
    return 0;
}

static int print_profile(nacre_env *env, const char *path, const digits *d, float *p) {
    nacre_session *s;
    nacre_error err;
    nacre_profile_op *rows;
    size_t n;
    if (open_session(env, path, true, &s)) return 1;
    int bad = predict(s, d->pixels, d->n, p);
    nacre_session_profile_reset(s);
    for (int i = 0; i < RUNS && !bad; i++) bad = predict(s, d->pixels, d->n, p);
    if (!bad && nacre_session_profile_ops(s, &rows, &n, &err) != NACRE_OK) bad = fail(&err);
    if (!bad) {
        double total = 0;
        for (size_t i = 0; i < n; i++) total += (double)rows[i].ns;
        printf("\n  time per operator, %lld digits at once     us    share\n", (long long)d->n);
        for (size_t i = 0; i < n; i++)
            printf("  %-38s %8.1f   %5.1f%%\n", rows[i].op, (double)rows[i].ns / 1e3 / RUNS,
                   100 * (double)rows[i].ns / total);
        nacre_free(rows);
    }
    nacre_session_release(s);
    return bad;
}

/* Up to two that were read wrongly, then the first of the others. */
static void print_pictures(const digits *d, const float *p) {
    int64_t shown[SHOWN];
    int n = 0;
    for (int64_t i = 0; i < d->n && n < 2; i++)
        if (best(p + i * CLASSES) != d->labels[i]) shown[n++] = i;
    for (int64_t i = 0; i < d->n && n < SHOWN; i++)
        if (best(p + i * CLASSES) == d->labels[i]) shown[n++] = i;
    printf("\n");
    for (int row = 0; row < SIDE; row++) {
        for (int k = 0; k < n; k++) {
            printf("  ");
            for (int c = 0; c < SIDE; c++) {
                char shade = " .:-=+*#@"[d->pixels[shown[k] * PIXELS + row * SIDE + c] / 2];
                printf("%c%c", shade, shade);
            }
        }
        printf("\n");
    }
    for (int k = 0; k < n; k++) {
        const float *q = p + shown[k] * CLASSES;
        int guess = best(q), truth = d->labels[shown[k]];
        char text[32];
        if (guess == truth)
            snprintf(text, sizeof text, "%d, %.0f%% sure", guess, (double)q[guess] * 100);
        else
            snprintf(text, sizeof text, "%d, but it is %d", guess, truth);
        printf("  %-16s", text);
    }
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s digits.onnx digits.bin\n", argv[0]);
        return 2;
    }
    digits d;
    nacre_env *env;
    nacre_session *s;
    nacre_error err;
    if (!read_digits(argv[2], &d)) return 1;
    if (nacre_env_create(0, &env, &err) != NACRE_OK) return fail(&err);
    float *p = calloc((size_t)d.n * CLASSES + 1, sizeof *p);
    if (!p || open_session(env, argv[1], false, &s)) return 1;
    int bad = predict(s, d.pixels, d.n, p);
    if (!bad) {
        int right = 0;
        for (int64_t i = 0; i < d.n; i++) right += best(p + i * CLASSES) == d.labels[i];
        printf("%d of %lld test digits are read rightly: %.1f%%\n", right, (long long)d.n, 100.0 * right / (double)d.n);
        print_pictures(&d, p);
        bad = print_speed(s, &d, p) || print_profile(env, argv[1], &d, p);
    }
    nacre_session_release(s);
    nacre_env_release(env);
    free(p);
    free(d.file);
    return bad;
}
