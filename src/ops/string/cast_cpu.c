/* ops/string/cast_cpu.c: the host kernel of Cast between strings and numbers. Numbers are written in as few digits as
 * give them back; strings are read as C writes numbers, whatever the locale, with NaN and INF in any case. */
#include "ops/string/string_cpu.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double float_at(const nc_tensor *t, int64_t i) {
    switch (t->dtype) {
    case NC_FLOAT: return (double)((const float *)t->data)[i];
    case NC_FLOAT16: return (double)nc_f16_to_f32(((const uint16_t *)t->data)[i]);
    case NC_BFLOAT16: return (double)nc_bf16_to_f32(((const uint16_t *)t->data)[i]);
    default: return ((const double *)t->data)[i];
    }
}

static uint64_t bits_at(const nc_tensor *t, int64_t i) {
    switch (t->dtype) {
    case NC_INT8: return (uint64_t)((const int8_t *)t->data)[i];
    case NC_INT16: return (uint64_t)((const int16_t *)t->data)[i];
    case NC_INT32: return (uint64_t)((const int32_t *)t->data)[i];
    case NC_UINT8:
    case NC_BOOL: return ((const uint8_t *)t->data)[i];
    case NC_UINT16: return ((const uint16_t *)t->data)[i];
    case NC_UINT32: return ((const uint32_t *)t->data)[i];
    default: return ((const uint64_t *)t->data)[i];
    }
}

/* The comma of some locales back to a point. */
static void point(char *s) {
    for (; *s != '\0'; s++)
        if (*s == ',') *s = '.';
}

static void write_float(char *out, size_t bytes, nc_dtype t, double v) {
    bool narrow = t != NC_DOUBLE;
    if (v != v || v - v != 0) {
        snprintf(out, bytes, "%s", v != v ? "NaN" : v > 0 ? "INF" : "-INF");
        return;
    }
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(out, bytes, "%.*g", digits, v);
        double again = strtod(out, NULL);
        if (narrow ? (float)again == (float)v : again == v) break;
    }
    snprintf(out, bytes, "%.*g", digits, v);
    point(out);
}

static nc_code to_strings(nc_dyn *d, const nc_tensor *x) {
    nc_object *z = d->out[0] = nc_object_host_tensor(NC_STRING, x->rank, x->dims);
    if (z == NULL) return nc_strings_no_memory(d);
    char class = nc_dtype_class(x->dtype), text[64];
    int64_t n = nc_tensor_numel(x);
    for (int64_t i = 0; i < n; i++) {
        if (class == 'F')
            write_float(text, sizeof text, x->dtype, float_at(x, i));
        else if (class == 'I')
            snprintf(text, sizeof text, "%lld", (long long)bits_at(x, i));
        else
            snprintf(text, sizeof text, "%llu", (unsigned long long)bits_at(x, i));
        if (!nc_strings_put(z, i, text, strlen(text))) return nc_strings_no_memory(d);
    }
    return NC_OK;
}

/* False: not a number of the type. The whole string counts, but for white space around it. */
static bool read_number(nc_dtype t, const char *s, void *out, int64_t i) {
    char *end;
    errno = 0;
    if (nc_dtype_is_float(t)) {
        double v = strtod(s, &end);
        if (t == NC_FLOAT)
            ((float *)out)[i] = (float)v;
        else if (t == NC_DOUBLE)
            ((double *)out)[i] = v;
        else
            ((uint16_t *)out)[i] = t == NC_FLOAT16 ? nc_f64_to_f16(v) : nc_f32_to_bf16((float)v);
    } else {
        bool is_unsigned = nc_dtype_class(t) == 'U';
        uint64_t v = is_unsigned ? strtoull(s, &end, 10) : (uint64_t)strtoll(s, &end, 10);
        if (*end == '.' || *end == 'e' || *end == 'E') v = (uint64_t)(int64_t)strtod(s, &end);
        switch (nc_dtype_bytes(t)) {
        case 1: ((uint8_t *)out)[i] = t == NC_BOOL ? v != 0 : (uint8_t)v; break;
        case 2: ((uint16_t *)out)[i] = (uint16_t)v; break;
        case 4: ((uint32_t *)out)[i] = (uint32_t)v; break;
        default: ((uint64_t *)out)[i] = v; break;
        }
        if (errno == ERANGE) return false;
    }
    if (end == s) return false;
    while (*end == ' ' || (*end >= '\t' && *end <= '\r')) end++;
    return *end == '\0';
}

static nc_code from_strings(nc_dyn *d, const nc_tensor *x, nc_dtype t) {
    const nc_str *in = x->data;
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, t, x->rank, x->dims, &y));
    int64_t n = nc_tensor_numel(x);
    for (int64_t i = 0; i < n; i++)
        if (in[i].p == NULL || !read_number(t, in[i].p, y.data, i))
            return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "'%.40s' is not a number of %s",
                               in[i].p != NULL ? in[i].p : "", nc_dtype_name(t));
    return NC_OK;
}

nc_code nc_string_cast(nc_dyn *d) {
    const nc_tensor *x = nc_strings_of(d, 0);
    nc_dtype to = d->call->out[0].dtype;
    return x->dtype == NC_STRING ? from_strings(d, x, to) : to_strings(d, x);
}
