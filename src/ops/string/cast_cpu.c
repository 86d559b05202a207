/* ops/string/cast_cpu.c: Cast and CastLike from and to strings, a host kernel. Numbers are read as C reads them, "INF"
 * and "NaN" in any case included; floats are written with 8 digits, doubles with 17, trailing zeros left out. */
#include "ops/string/string_cpu.h"

#include "base/mem.h"
#include "kernels/cpu/move/move.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool nc_string_cast_fits(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type, *y = n->out[0]->type;
    *why = "only for strings";
    return x != NULL && y != NULL && (x->elem == NC_STRING) != (y->elem == NC_STRING);
}

static nc_code no_number(const nc_dyn *d, const nc_str *s) {
    return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "'%.60s' is not a number",
                       s->n > 0 ? s->p : "");
}

/* Spaces may stand around a number. */
static bool ends(const nc_str *s, const char *end) {
    while (*end == ' ' || (*end >= '\t' && *end <= '\r')) end++;
    return end == s->p + s->n;
}

/* 64-bit integers do not go through double. */
static bool read_int(nc_dtype t, const nc_str *s, void *out) {
    char *end;
    if (t == NC_UINT64)
        *(uint64_t *)out = strtoull(s->p, &end, 10);
    else
        *(int64_t *)out = strtoll(s->p, &end, 10);
    return s->n > 0 && end != s->p && ends(s, end);
}

static nc_code from_strings(nc_dyn *d, const nc_tensor *x) {
    const nc_str *s = x->data;
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, d->call->out[0]->dtype, x->rank, x->dims, &y));
    int64_t n = nc_tensor_numel(x);
    double *v = nc_alloc((size_t)(n + 1) * sizeof *v);
    nc_code code = v != NULL ? NC_OK : nc_strings_no_memory(d);
    for (int64_t i = 0; code == NC_OK && i < n; i++) {
        char *end = s[i].p;
        v[i] = s[i].n > 0 ? nc_text_to_double(s[i].p, &end) : 0;
        if (s[i].n == 0 || end == s[i].p || !ends(&s[i], end)) code = no_number(d, &s[i]);
    }
    nc_tensor wide = y;
    wide.data = v, wide.dtype = NC_DOUBLE;
    if (code == NC_OK) code = nck_convert(&wide, &y, d->call->pool);
    nc_free(v);
    for (int64_t i = 0; code == NC_OK && (y.dtype == NC_INT64 || y.dtype == NC_UINT64) && i < n; i++) {
        int64_t whole;
        if (read_int(y.dtype, &s[i], &whole)) ((int64_t *)y.data)[i] = whole;
    }
    return code;
}

static void write_number(nc_dtype t, const void *p, double v, char *out, size_t bytes) {
    char c = nc_dtype_class(t);
    if (t == NC_UINT64)
        snprintf(out, bytes, "%" PRIu64, *(const uint64_t *)p);
    else if (t == NC_INT64)
        snprintf(out, bytes, "%" PRId64, *(const int64_t *)p);
    else if (c == 'I' || c == 'U' || c == 'B')
        snprintf(out, bytes, "%.0f", v);
    else if (isnan(v))
        snprintf(out, bytes, "NaN");
    else if (isinf(v))
        snprintf(out, bytes, v < 0 ? "-INF" : "INF");
    else
        nc_text_of_double(out, bytes, t == NC_DOUBLE ? 17 : 8, v);
}

static nc_code to_strings(nc_dyn *d, const nc_tensor *x) {
    int64_t n = nc_tensor_numel(x);
    double *v = nc_alloc((size_t)(n + 1) * sizeof *v);
    d->out[0] = nc_object_host_tensor(NC_STRING, x->rank, x->dims);
    bool ok = v != NULL && d->out[0] != NULL;
    nc_tensor wide = *x;
    wide.data = v, wide.dtype = NC_DOUBLE;
    nc_code code = ok ? nck_convert(x, &wide, d->call->pool) : NC_OK;
    for (int64_t i = 0; ok && code == NC_OK && i < n; i++) {
        char text[40];
        const char *p = (const char *)x->data + (size_t)i * nc_dtype_bytes(x->dtype);
        write_number(x->dtype, p, v[i], text, sizeof text);
        ok = nc_strings_put(d->out[0], i, text, strlen(text));
    }
    nc_free(v);
    return ok ? code : nc_strings_no_memory(d);
}

nc_code nc_string_cast(nc_dyn *d) {
    const nc_tensor *x = nc_strings_of(d, 0);
    return x->dtype == NC_STRING ? from_strings(d, x) : to_strings(d, x);
}
