/* tools/nacre/show.c: values as text: numbers summarised or in full, strings, sequences, optionals and maps. */
#include "cli.h"

#include <math.h>
#include <string.h>

static double half_value(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

double value_element(nacre_value *v, int64_t i) {
    const void *p = nacre_value_data(v);
    uint32_t bits;
    float f;
    switch (nacre_value_type(v)) {
    case NACRE_FLOAT: return ((const float *)p)[i];
    case NACRE_DOUBLE: return ((const double *)p)[i];
    case NACRE_FLOAT16: return half_value(((const uint16_t *)p)[i]);
    case NACRE_BFLOAT16:
        bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        memcpy(&f, &bits, sizeof f);
        return f;
    case NACRE_INT64: return (double)((const int64_t *)p)[i];
    case NACRE_UINT64: return (double)((const uint64_t *)p)[i];
    case NACRE_INT32: return ((const int32_t *)p)[i];
    case NACRE_UINT32: return ((const uint32_t *)p)[i];
    case NACRE_INT16: return ((const int16_t *)p)[i];
    case NACRE_UINT16: return ((const uint16_t *)p)[i];
    case NACRE_INT8: return ((const int8_t *)p)[i];
    case NACRE_BOOL:
    case NACRE_UINT8: return ((const uint8_t *)p)[i];
    case NACRE_COMPLEX64: return ((const float *)p)[2 * i];
    case NACRE_COMPLEX128: return ((const double *)p)[2 * i];
    default: return narrow_value(nacre_value_type(v), p, i);
    }
}

void value_shape(const nacre_value *v, char *text, size_t bytes) {
    size_t n = (size_t)snprintf(text, bytes, "(");
    for (int d = 0; d < nacre_value_rank(v) && n < bytes; d++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%lld", d ? ", " : "", (long long)nacre_value_dims(v)[d]);
    if (n < bytes) snprintf(text + n, bytes - n, nacre_value_rank(v) == 1 ? ",)" : ")");
}

static void show_element(nacre_value *v, int64_t i, bool full) {
    switch (nacre_value_type(v)) {
    case NACRE_INT64: printf("%lld", (long long)((const int64_t *)nacre_value_data(v))[i]); break;
    case NACRE_UINT64: printf("%llu", (unsigned long long)((const uint64_t *)nacre_value_data(v))[i]); break;
    case NACRE_COMPLEX64: {
        const float *p = (const float *)nacre_value_data(v) + 2 * i;
        printf("%g%+gi", (double)p[0], (double)p[1]);
        break;
    }
    case NACRE_COMPLEX128: {
        const double *p = (const double *)nacre_value_data(v) + 2 * i;
        printf("%g%+gi", p[0], p[1]);
        break;
    }
    default: printf("%.*g", full ? 17 : 6, value_element(v, i));
    }
}

/* Not-a-numbers are counted apart, so that they neither hide in the mean nor spoil it. */
static void show_summary(nacre_value *v) {
    int64_t n = nacre_value_count(v), n_nan = 0, n_inf = 0, n_finite = 0;
    double lo = INFINITY, hi = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = value_element(v, i);
        if (isnan(x)) {
            n_nan++;
            continue;
        }
        lo = x < lo ? x : lo, hi = x > hi ? x : hi;
        if (isinf(x))
            n_inf++;
        else
            sum += x, n_finite++;
    }
    if (n > n_nan) printf("  min %.6g", lo);
    if (n_finite) printf("  mean %.6g", sum / (double)n_finite);
    if (n > n_nan) printf("  max %.6g", hi);
    if (n_nan) printf("  NaN %lld", (long long)n_nan);
    if (n_inf) printf("  Inf %lld", (long long)n_inf);
}

static void show_tensor(nacre_value *v, bool full) {
    char shape[400];
    int64_t n = nacre_value_count(v), shown = full || n < 8 ? n : 8;
    bool strings = nacre_value_type(v) == NACRE_STRING;
    value_shape(v, shape, sizeof shape);
    printf(" %s %s", nacre_type_name(nacre_value_type(v)), shape);
    if (!strings) show_summary(v);
    printf("  [");
    for (int64_t i = 0; i < shown; i++) {
        if (i) printf(", ");
        if (strings)
            printf("\"%s\"", nacre_value_string(v, i, NULL));
        else
            show_element(v, i, full);
    }
    printf("%s]\n", shown < n ? ", ..." : "");
}

static void show_item(const char *name, const nacre_value *v, int64_t i, bool full, int indent) {
    nacre_value *item = nacre_value_item(v, i);
    if (item) value_show(name, item, full, indent);
    nacre_value_release(item);
}

void value_show(const char *name, nacre_value *v, bool full, int indent) {
    int64_t n = nacre_value_count(v), shown = full || n < 8 ? n : 8;
    printf("%*s%-*s", indent, "", 16 - indent, name);
    switch (nacre_value_kind(v)) {
    case NACRE_KIND_TENSOR: show_tensor(v, full); return;
    case NACRE_KIND_OPTIONAL:
        printf(n ? " optional, holds\n" : " optional, empty\n");
        if (n) show_item("value", v, 0, full, indent + 2);
        return;
    case NACRE_KIND_MAP:
        printf(" map\n");
        show_item("keys", v, 0, full, indent + 2);
        show_item("values", v, 1, full, indent + 2);
        return;
    case NACRE_KIND_SEQUENCE:
    case NACRE_KIND_TAPE: break;
    }
    printf(" sequence of %lld\n", (long long)n);
    for (int64_t i = 0; i < shown; i++) {
        char label[32];
        snprintf(label, sizeof label, "[%lld]", (long long)i);
        show_item(label, v, i, full, indent + 2);
    }
    if (shown < n) printf("%*s...\n", indent + 2, "");
}
