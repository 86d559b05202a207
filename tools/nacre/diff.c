/* tools/nacre/diff.c: two values compared: structure first, then every element, NaN and infinities by what they are. */
#include "cli.h"

#include <math.h>
#include <string.h>

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

/* Beyond the tolerance, or of another class (a number, NaN, an infinity). */
static void diff_element(double g, double w, int64_t i, double rtol, double atol, diff *d) {
    if ((isnan(g) && isnan(w)) || g == w) return;
    char a[32], b[32];
    bool odd = !isfinite(g) || !isfinite(w);
    double abs = odd ? 0 : fabs(g - w);
    double rel = odd ? 0 : w != 0 ? abs / fabs(w) : 0;
    bool worst = abs > d->max_abs && !d->why[0];
    if (abs > d->max_abs) d->max_abs = abs;
    if (rel > d->max_rel) d->max_rel = rel;
    if (!odd && abs <= atol + rtol * fabs(w)) return;
    if (worst || !d->n_bad || (odd && !d->why[0])) d->at = i;
    d->n_bad++;
    snprintf(a, sizeof a, "%g", g);
    snprintf(b, sizeof b, "%g", w);
    if (odd && !d->why[0]) {
        d->differs = false;
        differ(d, "got %s, expected %s", a, b);
    }
    d->differs = true;
}

static bool integers_equal(nacre_value *a, nacre_value *b, int64_t i) {
    size_t n = nacre_type_bytes(nacre_value_type(a));
    return memcmp((char *)nacre_value_data(a) + (size_t)i * n, (char *)nacre_value_data(b) + (size_t)i * n, n) == 0;
}

static void diff_numbers(nacre_value *got, nacre_value *want, double rtol, double atol, diff *d) {
    bool complex = nacre_value_type(got) == NACRE_COMPLEX64 || nacre_value_type(got) == NACRE_COMPLEX128;
    bool inexact = complex || type_is_float(nacre_value_type(got));
    for (int64_t i = 0; i < nacre_value_count(got); i++) {
        if (complex && integers_equal(got, want, i)) continue;
        if (inexact) {
            diff_element(value_element(got, i), value_element(want, i), i, rtol, atol, d);
        } else if (!integers_equal(got, want, i)) {
            diff_element(value_element(got, i), value_element(want, i), i, 0, 0, d);
            d->differs = true; /* also where two long integers are the same double */
        }
    }
    for (int64_t i = 0; nacre_value_type(got) == NACRE_COMPLEX64 && i < nacre_value_count(got); i++)
        diff_element(((float *)nacre_value_data(got))[2 * i + 1], ((float *)nacre_value_data(want))[2 * i + 1], i, rtol,
                     atol, d);
    for (int64_t i = 0; nacre_value_type(got) == NACRE_COMPLEX128 && i < nacre_value_count(got); i++)
        diff_element(((double *)nacre_value_data(got))[2 * i + 1], ((double *)nacre_value_data(want))[2 * i + 1], i,
                     rtol, atol, d);
}

static void compare(nacre_value *got, nacre_value *want, double rtol, double atol, diff *d) {
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
            compare(x, y, rtol, atol, d);
            nacre_value_release(x);
            nacre_value_release(y);
        }
        return;
    }
    value_shape(got, a, sizeof a);
    value_shape(want, b, sizeof b);
    if (nacre_value_type(got) != nacre_value_type(want))
        differ(d, "got elements of %s, expected %s", nacre_type_name(nacre_value_type(got)),
               nacre_type_name(nacre_value_type(want)));
    else if (!same_shape(got, want))
        differ(d, "got shape %.70s, expected %.70s", a, b);
    else if (nacre_value_type(got) == NACRE_STRING)
        diff_strings(got, want, d);
    else if (nacre_value_data(got) && nacre_value_data(want))
        diff_numbers(got, want, rtol, atol, d);
}

void value_diff(nacre_value *got, nacre_value *want, double rtol, double atol, diff *d) {
    *d = (diff){.at = -1};
    compare(got, want, rtol, atol, d);
}
