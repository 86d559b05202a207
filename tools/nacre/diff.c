/* tools/nacre/diff.c: two values compared: structure first, then every element, NaN and infinities by what they are.
 * Large tensors by all cores. */
#include "cli.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static void differ(diff *d, const char *fmt, const char *a, const char *b) {
    if (!d->differs) snprintf(d->why, sizeof d->why, fmt, a, b);
    d->differs = true;
}

static bool same_shape(const nacre_value *a, const nacre_value *b) {
    if (nacre_value_rank(a) != nacre_value_rank(b)) return false;
    for (int k = 0; k < nacre_value_rank(a); k++)
        if (nacre_value_dims(a)[k] != nacre_value_dims(b)[k]) return false;
    return true;
}

static void diff_strings(nacre_value *got, nacre_value *want, diff *d) {
    for (int64_t i = 0; i < nacre_value_count(got); i++) {
        size_t n, m;
        const char *a = nacre_value_string(got, i, &n), *b = nacre_value_string(want, i, &m);
        if (n == m && memcmp(a, b, n) == 0) continue;
        if (!d->n_bad++) d->at = i;
        differ(d, "got \"%.60s\", expected \"%.60s\"", a, b);
    }
}

/* ---- numbers: a range of elements, by each of several threads ---- */

enum { BLOCK = 1024, MAX_THREADS = 64 };

typedef struct range {
    nacre_value *got, *want;
    int64_t from, to;
    double rtol, atol;
    bool exact; /* whole numbers: equal or not */
    double max_abs, max_rel;
    int64_t n_bad, worst, odd; /* odd: the first where one side is no number of the other's class; -1: none */
    double worst_abs;
} range;

static void judge_distance(range *r, double abs, double w, int64_t i) {
    double rel = w != 0 ? abs / fabs(w) : 0;
    if (abs > r->max_abs) r->max_abs = abs;
    if (rel > r->max_rel) r->max_rel = rel;
    if (abs <= r->atol + r->rtol * fabs(w)) return;
    if (!r->n_bad++ || r->worst < 0 || abs > r->worst_abs) r->worst = i, r->worst_abs = abs;
}

static void judge(range *r, double g, double w, int64_t i) {
    if ((isnan(g) && isnan(w)) || g == w) return;
    if (isfinite(g) && isfinite(w)) {
        judge_distance(r, fabs(g - w), w, i);
        return;
    }
    if (r->odd < 0) r->odd = i;
    r->n_bad++;
}

/* Elements as doubles; part 1 of complex numbers is the imaginary one. */
static void read_block(nacre_value *v, int64_t from, int n, int part, double *out) {
    const void *p = nacre_value_data(v);
    switch (nacre_value_type(v)) {
    case NACRE_FLOAT:
        for (int k = 0; k < n; k++) out[k] = ((const float *)p)[from + k];
        break;
    case NACRE_DOUBLE: memcpy(out, (const double *)p + from, (size_t)n * sizeof *out); break;
    case NACRE_COMPLEX64:
        for (int k = 0; k < n; k++) out[k] = ((const float *)p)[2 * (from + k) + part];
        break;
    case NACRE_COMPLEX128:
        for (int k = 0; k < n; k++) out[k] = ((const double *)p)[2 * (from + k) + part];
        break;
    default:
        for (int k = 0; k < n; k++) out[k] = value_element(v, from + k);
    }
}

static bool bits_equal(const range *r, int64_t from, int n) {
    if (nacre_value_type(r->got) != nacre_value_type(r->want)) return false;
    size_t bytes = nacre_type_bytes(nacre_value_type(r->got));
    if (bytes == 0) return false; /* packed */
    return memcmp((char *)nacre_value_data(r->got) + (size_t)from * bytes,
                  (char *)nacre_value_data(r->want) + (size_t)from * bytes, (size_t)n * bytes) == 0;
}

static bool is_complex(const nacre_value *v) {
    return nacre_value_type(v) == NACRE_COMPLEX64 || nacre_value_type(v) == NACRE_COMPLEX128;
}

static bool is_whole(nacre_type t) {
    switch (t) {
    case NACRE_INT8:
    case NACRE_INT16:
    case NACRE_INT32:
    case NACRE_INT64:
    case NACRE_INT4:
    case NACRE_INT2:
    case NACRE_UINT8:
    case NACRE_UINT16:
    case NACRE_UINT32:
    case NACRE_UINT64:
    case NACRE_UINT4:
    case NACRE_UINT2:
    case NACRE_BOOL: return true;
    default: return false;
    }
}

/* A whole number of any type, since doubles do not tell neighbours of 64 bits apart. */
typedef struct whole {
    bool negative;
    uint64_t size;
} whole;

static whole whole_of(nacre_value *v, int64_t i) {
    const void *p = nacre_value_data(v);
    if (nacre_value_type(v) == NACRE_UINT64) return (whole){false, ((const uint64_t *)p)[i]};
    int64_t x = nacre_value_type(v) == NACRE_INT64 ? ((const int64_t *)p)[i] : (int64_t)value_element(v, i);
    return (whole){x < 0, x < 0 ? 0 - (uint64_t)x : (uint64_t)x};
}

static void judge_whole(range *r, double w, int64_t i) {
    whole a = whole_of(r->got, i), b = whole_of(r->want, i);
    if (a.negative != b.negative)
        judge_distance(r, (double)a.size + (double)b.size, w, i);
    else if (a.size != b.size)
        judge_distance(r, (double)(a.size > b.size ? a.size - b.size : b.size - a.size), w, i);
}

static void *judge_range(void *p) {
    range *r = p;
    double g[BLOCK], w[BLOCK];
    for (int64_t i = r->from; i < r->to; i += BLOCK) {
        int n = (int)(r->to - i < BLOCK ? r->to - i : BLOCK);
        if (bits_equal(r, i, n)) continue;
        for (int part = 0; part < (is_complex(r->got) ? 2 : 1); part++) {
            read_block(r->got, i, n, part, g);
            read_block(r->want, i, n, part, w);
            for (int k = 0; k < n; k++) {
                if (r->exact)
                    judge_whole(r, w[k], i + k);
                else
                    judge(r, g[k], w[k], i + k);
            }
        }
    }
    return NULL;
}

/* Ranges in order, so that what is told does not depend on how many there are. */
static void merge(const range *r, int n, diff *d, range *all) {
    for (int t = 0; t < n; t++) {
        if (r[t].max_abs > d->max_abs) d->max_abs = r[t].max_abs;
        if (r[t].max_rel > d->max_rel) d->max_rel = r[t].max_rel;
        d->n_bad += r[t].n_bad;
        if (all->odd < 0) all->odd = r[t].odd;
        if (r[t].worst >= 0 && (all->worst < 0 || r[t].worst_abs > all->worst_abs))
            all->worst = r[t].worst, all->worst_abs = r[t].worst_abs;
    }
}

static void diff_numbers(nacre_value *got, nacre_value *want, double rtol, double atol, diff *d) {
    int64_t n = nacre_value_count(got);
    bool exact = is_whole(nacre_value_type(got)) && is_whole(nacre_value_type(want));
    range all = {.got = got,
                 .want = want,
                 .rtol = exact ? 0 : rtol,
                 .atol = exact ? 0 : atol,
                 .exact = exact,
                 .worst = -1,
                 .odd = -1};
    range r[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    bool started[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int parts = n < 64 * BLOCK || cores < 2 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
    for (int t = 0; t < parts; t++) {
        r[t] = all, r[t].from = n / parts * t, r[t].to = t + 1 == parts ? n : n / parts * (t + 1);
        started[t] = t + 1 < parts && pthread_create(&thread[t], NULL, judge_range, &r[t]) == 0;
        if (!started[t]) judge_range(&r[t]);
    }
    for (int t = 0; t < parts; t++)
        if (started[t]) pthread_join(thread[t], NULL);
    merge(r, parts, d, &all);
    d->at = all.odd >= 0 ? all.odd : all.worst;
    if (all.odd >= 0) {
        char a[32], b[32];
        snprintf(a, sizeof a, "%g", value_element(got, all.odd));
        snprintf(b, sizeof b, "%g", value_element(want, all.odd));
        differ(d, "got %s, expected %s", a, b);
    }
    if (d->n_bad) d->differs = true;
}

/* ---- any two values ---- */

static bool comparable(const nacre_value *a, const nacre_value *b, bool any_type) {
    if (nacre_value_type(a) == nacre_value_type(b)) return true;
    return any_type && nacre_value_type(a) != NACRE_STRING && nacre_value_type(b) != NACRE_STRING &&
           is_complex(a) == is_complex(b);
}

static void compare(nacre_value *got, nacre_value *want, double rtol, double atol, bool any_type, diff *d) {
    static const char *const kinds[] = {"tensor", "sequence", "optional", "map", "tape"};
    if (nacre_value_kind(got) != nacre_value_kind(want)) {
        differ(d, "got a %s, expected a %s", kinds[nacre_value_kind(got)], kinds[nacre_value_kind(want)]);
        return;
    }
    char a[160], b[160];
    if (nacre_value_kind(got) != NACRE_KIND_TENSOR) {
        snprintf(a, sizeof a, "%lld", (long long)nacre_value_count(got));
        snprintf(b, sizeof b, "%lld", (long long)nacre_value_count(want));
        if (strcmp(a, b) != 0) differ(d, "got %s items, expected %s", a, b);
        for (int64_t i = 0; !d->differs && i < nacre_value_count(got); i++) {
            nacre_value *x = nacre_value_item(got, i), *y = nacre_value_item(want, i);
            compare(x, y, rtol, atol, any_type, d);
            nacre_value_release(x);
            nacre_value_release(y);
        }
        return;
    }
    value_shape(got, a, sizeof a);
    value_shape(want, b, sizeof b);
    if (!comparable(got, want, any_type))
        differ(d, "got elements of %s, expected %s", nacre_type_name(nacre_value_type(got)),
               nacre_type_name(nacre_value_type(want)));
    else if (!same_shape(got, want))
        differ(d, "got shape %.70s, expected %.70s", a, b);
    else if (nacre_value_type(got) == NACRE_STRING)
        diff_strings(got, want, d);
    else if (nacre_value_data(got) && nacre_value_data(want))
        diff_numbers(got, want, rtol, atol, d);
}

void value_diff(nacre_value *got, nacre_value *want, double rtol, double atol, bool any_type, diff *d) {
    *d = (diff){.at = -1};
    compare(got, want, rtol, atol, any_type, d);
}
