/* ir/text_type.c: types and constant data in the text form: reading types, printing and reading elements. */
#include "ir/dim_core.h"
#include "ir/edit.h"
#include "ir/text_core.h"

#include "base/mem.h"
#include "base/narrow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

static const struct {
    const char *word;
    nc_type_kind kind;
} holders[] = {{"seq", NC_T_SEQUENCE}, {"optional", NC_T_OPTIONAL}, {"map", NC_T_MAP}, {"sparse", NC_T_SPARSE}};

bool nc_read_at_type(nc_reader *r) {
    if (nc_read_peek(r) == '?') return true;
    const char *start = r->s;
    if (!nc_read_at_ident(r)) return false;
    bool tape = nc_read_word(r, "tape");
    while (!tape && *r->s && strchr("_.", *r->s) == NULL && (nc_dim_ident(r->s, 1) || (*r->s >= '0' && *r->s <= '9')))
        r->s++;
    char c = nc_read_peek(r);
    bool is = tape ? c != '=' && c != ',' && c != ')' : c == '[' || c == '(';
    r->s = start;
    return is;
}

static nc_code read_layout(nc_reader *r, nc_layout *l) {
    int64_t axis, block;
    NC_TRY(nc_read_expect(r, '{'));
    if (!nc_read_word(r, "axis")) return nc_read_fail(r, "expected axis=");
    NC_TRY(nc_read_expect(r, '='));
    NC_TRY(nc_read_int(r, &axis));
    NC_TRY(nc_read_expect(r, ','));
    if (!nc_read_word(r, "c")) return nc_read_fail(r, "expected c=");
    NC_TRY(nc_read_expect(r, '='));
    NC_TRY(nc_read_int(r, &block));
    NC_TRY(nc_read_expect(r, ','));
    if (!nc_read_word(r, "C")) return nc_read_fail(r, "expected C=");
    NC_TRY(nc_read_expect(r, '='));
    nc_read_peek(r);
    l->logical = nc_dim_parse(r->m->dims, &r->s);
    if (!l->logical || axis < 0 || axis >= NC_MAX_RANK || block < 1 || block > 4096)
        return nc_read_fail(r, "bad layout");
    l->axis = (int)axis;
    l->block = (int)block;
    return nc_read_expect(r, '}');
}

static nc_code read_dims(nc_reader *r, nc_dtype elem, const nc_type **out) {
    const nc_dim *dims[NC_MAX_RANK];
    int rank = 0;
    NC_TRY(nc_read_expect(r, '['));
    if (nc_read_peek(r) == '.') {
        if (strncmp(r->s, "...", 3) != 0) return nc_read_fail(r, "expected ...");
        r->s += 3;
        rank = -1;
    } else if (*r->s != ']') {
        do {
            if (rank == NC_MAX_RANK) return nc_read_fail(r, "more than %d dims", NC_MAX_RANK);
            r->m->dims->out_of_memory = false;
            dims[rank] = nc_read_eat(r, '?') ? nc_dim_fresh(r->m->dims, "d") : nc_dim_parse(r->m->dims, &r->s);
            if (!dims[rank] && r->m->dims->out_of_memory) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
            if (!dims[rank++]) return nc_read_fail(r, "bad dim");
        } while (nc_read_eat(r, ','));
    }
    NC_TRY(nc_read_expect(r, ']'));
    nc_type t = {.kind = NC_T_TENSOR, .elem = elem, .rank = rank, .dims = dims};
    const char *at = r->s;
    bool layout = nc_read_eat(r, '{') && nc_read_word(r, "axis");
    r->s = at;
    if (layout) NC_TRY(read_layout(r, &t.layout));
    *out = nc_type_copy(&r->m->arena, NULL, &t);
    NC_NEED(r->w, *out);
    return NC_OK;
}

static nc_code read_elem(nc_reader *r, nc_dtype *out) {
    const char *name;
    *out = NC_UNDEFINED;
    if (nc_read_eat(r, '?')) return NC_OK;
    NC_TRY(nc_read_ident(r, &name));
    *out = nc_dtype_parse(name);
    return *out ? NC_OK : nc_read_fail(r, "unknown element type '%s'", name);
}

static nc_code read_tensor_type(nc_reader *r, const nc_type **out) {
    nc_dtype elem;
    NC_TRY(read_elem(r, &elem));
    return read_dims(r, elem, out);
}

/* What stands in the brackets of seq(...), optional(...), map(key,...); a lone ? is unknown. */
static nc_code read_inner(nc_reader *r, const nc_type **out) {
    *out = NULL;
    if (nc_read_peek(r) == '?' && r->s[1] == ')') {
        r->s++;
        return NC_OK;
    }
    return nc_read_type(r, out);
}

static nc_code read_holder(nc_reader *r, nc_type_kind kind, const nc_type **out) {
    nc_type t = {.kind = kind, .rank = -1};
    NC_TRY(nc_read_expect(r, '('));
    if (kind == NC_T_SPARSE) {
        const nc_type *dense;
        NC_TRY(read_tensor_type(r, &dense));
        t = *dense;
        t.kind = kind;
    } else {
        if (kind == NC_T_MAP) {
            NC_TRY(read_elem(r, &t.elem));
            NC_TRY(nc_read_expect(r, ','));
        }
        NC_TRY(read_inner(r, &t.of));
    }
    NC_TRY(nc_read_expect(r, ')'));
    *out = nc_arena_copy(&r->m->arena, &t, sizeof t);
    NC_NEED(r->w, *out);
    return NC_OK;
}

nc_code nc_read_type(nc_reader *r, const nc_type **out) {
    if (r->depth >= 64) return nc_read_fail(r, "nested too deeply");
    if (nc_read_word(r, "tape")) {
        *out = nc_type_holding(&r->m->arena, NC_T_TAPE, NULL);
        NC_NEED(r->w, *out);
        return NC_OK;
    }
    for (size_t i = 0; i < sizeof holders / sizeof *holders; i++)
        if (nc_read_word(r, holders[i].word)) {
            r->depth++;
            nc_code code = read_holder(r, holders[i].kind, out);
            r->depth--;
            return code;
        }
    return read_tensor_type(r, out);
}

/* ---- elements ---- */

static void put_element(nc_text *out, nc_dtype t, const char *p) {
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f[2];
        double d[2];
        nc_str s;
    } x;
    memcpy(&x, p, t == NC_STRING ? sizeof x.s : nc_dtype_bytes(t));
    switch (t) {
    case NC_FLOAT: nc_text_put_float(out, (double)x.f[0], 9); return;
    case NC_DOUBLE: nc_text_put_float(out, x.d[0], 17); return;
    case NC_FLOAT16: nc_text_put_float(out, (double)nc_f16_to_f32(x.u16), 9); return;
    case NC_BFLOAT16: nc_text_put_float(out, (double)nc_bf16_to_f32(x.u16), 9); return;
    case NC_COMPLEX64:
    case NC_COMPLEX128:
        for (int i = 0; i < 2; i++) {
            if (i) nc_text_add(out, ", ");
            nc_text_put_float(out, t == NC_COMPLEX64 ? (double)x.f[i] : x.d[i], t == NC_COMPLEX64 ? 9 : 17);
        }
        return;
    case NC_STRING: nc_text_put_string(out, x.s.p, x.s.n); return;
    case NC_INT8: nc_text_addf(out, "%d", x.i8); return;
    case NC_UINT8:
    case NC_BOOL: nc_text_addf(out, "%u", x.u8); return;
    case NC_INT16: nc_text_addf(out, "%d", x.i16); return;
    case NC_UINT16: nc_text_addf(out, "%u", x.u16); return;
    case NC_INT32: nc_text_addf(out, "%" PRId32, x.i32); return;
    case NC_UINT32: nc_text_addf(out, "%" PRIu32, x.u32); return;
    case NC_INT64: nc_text_addf(out, "%" PRId64, x.i64); return;
    case NC_UINT64: nc_text_addf(out, "%" PRIu64, x.u64); return;
    default: nc_text_add(out, "?"); return;
    }
}

void nc_text_put_data(nc_text *out, const nc_literal *l) {
    if (l->n > NC_TEXT_MAX_ELEMENTS) {
        nc_text_addf(out, "{ ... %zu bytes }", l->bytes);
        return;
    }
    size_t step = l->dtype == NC_STRING ? sizeof(nc_str) : nc_dtype_bytes(l->dtype);
    bool narrow = nc_dtype_is_narrow(l->dtype);
    nc_text_add(out, "{");
    for (int64_t i = 0; i < l->n; i++) {
        if (i) nc_text_add(out, ", ");
        if (narrow)
            nc_text_put_float(out, (double)nc_narrow_to_f32(l->dtype, nc_narrow_load(l->dtype, l->data, i)), 9);
        else
            put_element(out, l->dtype, (const char *)l->data + (size_t)i * step);
    }
    nc_text_add(out, "}");
}

static nc_code read_float_element(nc_reader *r, nc_dtype t, char *p) {
    double d;
    NC_TRY(nc_read_float(r, &d));
    float f = (float)d;
    uint16_t h = t == NC_FLOAT16 ? nc_f64_to_f16(d) : nc_f32_to_bf16(f);
    if (t == NC_FLOAT || t == NC_COMPLEX64)
        memcpy(p, &f, sizeof f);
    else if (t == NC_DOUBLE || t == NC_COMPLEX128)
        memcpy(p, &d, sizeof d);
    else
        memcpy(p, &h, sizeof h);
    return NC_OK;
}

/* The low bytes of the two's complement number are the element, on a little-endian machine as all of ours. */
static nc_code read_int_element(nc_reader *r, nc_dtype t, char *p) {
    size_t bits = 8 * nc_dtype_bytes(t);
    nc_read_peek(r);
    if (t == NC_UINT64 && *r->s != '-') {
        char *end;
        errno = 0;
        unsigned long long u = strtoull(r->s, &end, 10);
        if (end == r->s || errno == ERANGE) return nc_read_fail(r, "expected an unsigned integer");
        r->s = end;
        memcpy(p, &u, 8);
        return NC_OK;
    }
    int64_t v;
    NC_TRY(nc_read_int(r, &v));
    bool is_signed = nc_dtype_class(t) == 'I';
    int64_t high = t == NC_BOOL ? 1 : bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - is_signed)) - 1;
    if (v > high || v < (is_signed ? -high - 1 : 0))
        return nc_read_fail(r, "%" PRId64 " does not fit %s", v, nc_dtype_name(t));
    memcpy(p, &v, bits / 8);
    return NC_OK;
}

static nc_code read_narrow(nc_reader *r, nc_dtype t, int64_t n, char *p) {
    const nc_narrowing how = {.saturate = false, .round = NC_ROUND_NEAREST};
    for (int64_t i = 0; i < n; i++) {
        double v;
        if (i) NC_TRY(nc_read_expect(r, ','));
        NC_TRY(nc_read_float(r, &v));
        uint8_t code = nc_f64_to_narrow(t, v, how);
        if (nc_dtype_class(t) != 'N' && (double)nc_narrow_to_int(t, code) != v)
            return nc_read_fail(r, "%g does not fit %s", v, nc_dtype_name(t));
        nc_narrow_store(t, p, i, code);
    }
    return NC_OK;
}

static nc_code read_elements(nc_reader *r, nc_dtype t, int64_t n, char *p) {
    if (nc_dtype_is_narrow(t)) return read_narrow(r, t, n, p);
    size_t step = t == NC_STRING ? sizeof(nc_str) : nc_dtype_bytes(t);
    bool complex = nc_dtype_class(t) == 'C';
    if (complex) {
        step /= 2;
        n *= 2;
    }
    for (int64_t i = 0; i < n; i++, p += step) {
        if (i) NC_TRY(nc_read_expect(r, ','));
        if (t == NC_STRING) {
            nc_str s;
            NC_TRY(nc_read_string(r, &s));
            memcpy(p, &s, sizeof s);
        } else if (complex || nc_dtype_is_float(t)) {
            NC_TRY(read_float_element(r, t, p));
        } else {
            NC_TRY(read_int_element(r, t, p));
        }
    }
    return NC_OK;
}

nc_code nc_read_data(nc_reader *r, const nc_type *type, const nc_literal **out) {
    int64_t dims[NC_MAX_RANK], n;
    size_t bytes;
    if (type->kind != NC_T_TENSOR || type->rank < 0 || !type->elem)
        return nc_read_fail(r, "constant data need a tensor type");
    for (int i = 0; i < type->rank; i++)
        if (!nc_dim_is_const(type->dims[i], &dims[i])) return nc_read_fail(r, "constant data need constant dims");
    NC_TRY(nc_read_expect(r, '{'));
    if (strncmp(r->s + strspn(r->s, " "), "...", 3) == 0) return nc_read_fail(r, "the data were left out of this dump");
    bool fits = nc_numel(dims, type->rank, &n) && n <= (1 << 24);
    bytes = fits ? (size_t)n * (type->elem == NC_STRING ? sizeof(nc_str) : (nc_dtype_bits(type->elem) + 7) / 8) : 0;
    if (!fits) return nc_read_fail(r, "the constant is too large for text");
    char *data = nc_alloc_zero(bytes + 1, 1);
    NC_NEED(r->w, data);
    nc_code code = read_elements(r, type->elem, n, data);
    if (code == NC_OK) code = nc_read_expect(r, '}');
    if (code == NC_OK && !(*out = nc_edit_literal(r->m, type->elem, type->rank, dims, data)))
        code = nc_fail(r->w, NC_E_MEMORY, "out of memory");
    nc_free(data);
    return code;
}
