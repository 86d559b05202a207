/* train/checkpoint_safetensors_put.c: writes checkpoints as safetensors; the format's text is at the top of
 * safetensors.h. Tensors with large elements come first, so that each is aligned for its elements where the file is
 * mapped. */
#include "base/json.h"
#include "train/checkpoint_formats.h"
#include "train/safetensors.h"

#include <stdlib.h>
#include <string.h>

typedef struct item { /* a tensor to write */
    const char *name;
    const nc_object *o;
    size_t bytes;
    int i; /* its turn among equals */
} item;

typedef struct writer {
    nc_work *w;
    const nc_checkpoint *c;
    bool with_optimizer;
    item *items;
    int n;
    const char **moments; /* NC_MOMENTS names per parameter; NULL: none */
    nc_map taken;
    nc_text sums; /* of the metadata's texts */
} writer;

static nc_code add_item(writer *x, const char *name, const nc_object *o) {
    item *it = &x->items[x->n];
    *it = (item){.name = name, .o = o, .i = x->n};
    if (o->kind == NC_OBJ_TENSOR && o->t.dtype == NC_STRING)
        NC_FAIL(x->w, NC_E_UNSUPPORTED,
                "checkpoint: '%s' holds strings, which safetensors cannot: save it in onnxruntime's format", name);
    if (strcmp(name, "__metadata__") == 0)
        NC_FAIL(x->w, NC_E_UNSUPPORTED, "checkpoint: safetensors has another use for the name '%s'", name);
    NC_TRY(nc_checkpoint_bytes(x->w, name, o, &it->bytes));
    x->n++;
    return NC_OK;
}

/* A name for a moment that no parameter has. */
static nc_code moment_name(writer *x, const char *param, int k, const char **out) {
    char *name = nc_arena_printf(&x->w->scratch, "optimizer.%s.%s", nc_checkpoint_moments[k], param);
    while (name && nc_map_get(&x->taken, name)) name = nc_arena_printf(&x->w->scratch, "%s'", name);
    if (!name || !nc_map_put(&x->taken, name, name)) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    *out = name;
    return NC_OK;
}

static nc_code collect(writer *x) {
    const nc_checkpoint *c = x->c;
    size_t n = (size_t)c->params.n;
    NC_NEED(x->w, x->items = nc_arena_array(&x->w->scratch, n * (NC_MOMENTS + 1) + 1, sizeof *x->items));
    NC_NEED(x->w, x->moments = nc_arena_array(&x->w->scratch, n * NC_MOMENTS + 1, sizeof *x->moments));
    for (int i = 0; i < c->params.n; i++)
        if (!nc_map_put(&x->taken, c->params.v[i].name, &c->params.v[i])) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < c->params.n; i++)
        if (c->params.v[i].value) NC_TRY(add_item(x, c->params.v[i].name, c->params.v[i].value));
    for (int i = 0; i < c->params.n && x->with_optimizer; i++)
        for (int k = 0; k < NC_MOMENTS; k++) {
            const char **name = &x->moments[i * NC_MOMENTS + k];
            if (!c->params.v[i].moments[k]) continue;
            NC_TRY(moment_name(x, c->params.v[i].name, k, name));
            NC_TRY(add_item(x, *name, c->params.v[i].moments[k]));
        }
    return NC_OK;
}

static int large_first(const void *a, const void *b) {
    const item *x = a, *y = b;
    size_t bx = nc_dtype_bytes(x->o->t.dtype), by = nc_dtype_bytes(y->o->t.dtype);
    return bx != by ? (bx > by ? -1 : 1) : x->i - y->i;
}

static nc_code put_name(writer *x, nc_text *t, const char *s) {
    if (!nc_json_put_string(t, s))
        NC_FAIL(x->w, NC_E_DATA, "checkpoint: '%s' is not UTF-8, which safetensors needs", s);
    return NC_OK;
}

static void put_shape(nc_text *t, const nc_tensor *v) {
    nc_text_add(t, "\"shape\":[");
    for (int d = 0; d < v->rank; d++) nc_text_addf(t, "%s%lld", d ? "," : "", (long long)v->dims[d]);
    nc_text_add(t, "]");
}

static void put_float(nc_text *t, const char *key, float f) {
    char s[64];
    nc_text_of_double(s, sizeof s, 9, f);
    nc_text_addf(t, "\"%s\":\"%s\"", key, s);
}

static nc_code put_parameters(writer *x, nc_text *t) {
    nc_text_add(t, "[");
    for (int i = 0; i < x->c->params.n; i++) {
        const nc_parameter *p = &x->c->params.v[i];
        const char *const *moments = &x->moments[i * NC_MOMENTS];
        nc_text_add(t, i ? ",{\"name\":" : "{\"name\":");
        NC_TRY(put_name(x, t, p->name));
        nc_text_addf(t, ",\"dtype\":\"%s\",\"trainable\":%s", nc_dtype_name(p->dtype), p->trainable ? "true" : "false");
        if (!p->value) nc_text_add(t, ",\"nominal\":true");
        if (moments[0] || moments[1]) nc_text_add(t, ",\"moments\":[");
        for (int k = 0; (moments[0] || moments[1]) && k < NC_MOMENTS; k++) {
            if (k) nc_text_add(t, ",");
            if (moments[k])
                NC_TRY(put_name(x, t, moments[k]));
            else
                nc_text_add(t, "null");
        }
        nc_text_add(t, moments[0] || moments[1] ? "]}" : "}");
    }
    nc_text_add(t, "]");
    return NC_OK;
}

static nc_code put_tensors(writer *x, nc_text *t) {
    nc_text_add(t, "{");
    for (int i = 0; i < x->n; i++) {
        const item *it = &x->items[i];
        char crc[9];
        nc_checkpoint_crc(it->o->t.data, it->bytes, crc);
        if (i) nc_text_add(t, ",");
        NC_TRY(put_name(x, t, it->name));
        nc_text_addf(t, ":{\"crc32c\":\"%s\"", crc);
        if (!nc_safetensors_name(it->o->t.dtype)) {
            nc_text_addf(t, ",\"dtype\":\"%s\",", nc_dtype_name(it->o->t.dtype));
            put_shape(t, &it->o->t);
        }
        nc_text_add(t, "}");
    }
    nc_text_add(t, "}");
    return NC_OK;
}

static nc_code put_properties(writer *x, nc_text *t) {
    nc_text_add(t, "{");
    for (int i = 0; i < x->c->properties.n; i++) {
        const nc_property *p = &x->c->properties.v[i];
        if (i) nc_text_add(t, ",");
        NC_TRY(put_name(x, t, p->name));
        nc_text_add(t, ":{");
        if (p->kind == NC_PROPERTY_INT) nc_text_addf(t, "\"int\":%lld", (long long)p->i);
        if (p->kind == NC_PROPERTY_FLOAT) put_float(t, "float", p->f);
        if (p->kind == NC_PROPERTY_STRING) {
            nc_text_add(t, "\"string\":");
            NC_TRY(put_name(x, t, p->s));
        }
        nc_text_add(t, "}");
    }
    nc_text_add(t, "}");
    return NC_OK;
}

static nc_code put_optimizer(writer *x, nc_text *t) {
    const nc_optimizer_state *o = &x->c->optimizer;
    nc_text_addf(t, "{\"step\":%lld,", (long long)o->step);
    put_float(t, "initial_rate", o->initial_rate);
    nc_text_add(t, ",");
    put_float(t, "rate", o->rate);
    nc_text_addf(t, ",\"warmup\":%lld,\"total\":%lld}", (long long)o->warmup, (long long)o->total);
    return NC_OK;
}

static nc_code put_scale(writer *x, nc_text *t) {
    nc_text_add(t, "{");
    put_float(t, "scale", x->c->loss_scale);
    nc_text_addf(t, ",\"updates\":%lld}", (long long)x->c->scale_updates);
    return NC_OK;
}

static nc_code put_random(writer *x, nc_text *t) {
    nc_text_addf(t, "{\"seed\":%lld,\"drawn\":%lld}", (long long)x->c->seed, (long long)x->c->drawn);
    return NC_OK;
}

static nc_code put_true(writer *x, nc_text *t) {
    (void)x;
    nc_text_add(t, "true");
    return NC_OK;
}

static nc_code put_sums(writer *x, nc_text *t) {
    nc_text_add(t, x->sums.s ? x->sums.s : "");
    nc_text_add(t, "}");
    if (x->sums.failed) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* A text that is JSON, as a string of the metadata. */
static nc_code put_meta(writer *x, nc_text *t, const char *key, nc_code (*put)(writer *, nc_text *)) {
    nc_text inner = {0};
    nc_code code = put(x, &inner);
    if (code == NC_OK && inner.failed) code = nc_fail(x->w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK) {
        char crc[9];
        nc_checkpoint_crc(inner.s, inner.n, crc);
        nc_text_addf(&x->sums, "%s\"%s\":\"%s\"", x->sums.n ? "," : "{", key, crc);
        nc_text_addf(t, ",\"%s\":", key);
        code = put_name(x, t, inner.s);
    }
    nc_text_release(&inner);
    return code;
}

static nc_code put_metadata(writer *x, nc_text *t) {
    nc_text_add(t, "{\"__metadata__\":{\"format\":\"pt\"");
    NC_TRY(put_meta(x, t, "nacre.parameters", put_parameters));
    NC_TRY(put_meta(x, t, "nacre.tensors", put_tensors));
    NC_TRY(put_meta(x, t, "nacre.properties", put_properties));
    if (x->with_optimizer && x->c->optimizer.present) NC_TRY(put_meta(x, t, "nacre.optimizer", put_optimizer));
    if (x->c->has_random) NC_TRY(put_meta(x, t, "nacre.random", put_random));
    if (x->c->loss_scale > 0) NC_TRY(put_meta(x, t, "nacre.loss_scale", put_scale));
    if (x->c->nominal) NC_TRY(put_meta(x, t, "nacre.nominal", put_true));
    NC_TRY(put_meta(x, t, "nacre.crc32c", put_sums));
    nc_text_add(t, "}");
    return NC_OK;
}

/* The header with its length before it, padded with spaces so that the data begin at a multiple of 8. */
static nc_code put_header(writer *x, nc_text *t) {
    uint64_t at = 0;
    nc_text_add_n(t, "\0\0\0\0\0\0\0\0", 8);
    NC_TRY(put_metadata(x, t));
    for (int i = 0; i < x->n; i++) {
        const nc_tensor *v = &x->items[i].o->t;
        const char *type = nc_safetensors_name(v->dtype);
        nc_text_add(t, ",");
        NC_TRY(put_name(x, t, x->items[i].name));
        nc_text_addf(t, ":{\"dtype\":\"%s\",", type ? type : "U8");
        if (type)
            put_shape(t, v);
        else
            nc_text_addf(t, "\"shape\":[%zu]", x->items[i].bytes);
        nc_text_addf(t, ",\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                     (unsigned long long)(at + x->items[i].bytes));
        at += x->items[i].bytes;
    }
    nc_text_add(t, "}");
    while (t->n % 8 && !t->failed) nc_text_add(t, " ");
    if (t->failed) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    if (t->n - 8 > NC_SAFETENSORS_MAX_HEADER)
        NC_FAIL(x->w, NC_E_LIMIT, "checkpoint: names and properties take %zu bytes, safetensors allows %d", t->n - 8,
                NC_SAFETENSORS_MAX_HEADER);
    for (int i = 0; i < 8; i++) t->s[i] = (char)((uint64_t)(t->n - 8) >> 8 * i);
    return NC_OK;
}

nc_code nc_checkpoint_write_safetensors(nc_work *w, const nc_checkpoint *c, bool with_optimizer,
                                        nc_checkpoint_sink to) {
    writer x = {.w = w, .c = c, .with_optimizer = with_optimizer};
    nc_text header = {0};
    nc_map_init(&x.taken, &w->scratch);
    NC_TRY(collect(&x));
    qsort(x.items, (size_t)x.n, sizeof *x.items, large_first);
    nc_code code = put_header(&x, &header);
    if (code == NC_OK) code = to.add(w, to.to, header.s, header.n);
    for (int i = 0; i < x.n && code == NC_OK; i++)
        if (x.items[i].bytes) code = to.add(w, to.to, x.items[i].o->t.data, x.items[i].bytes);
    nc_text_release(&header);
    nc_text_release(&x.sums);
    return code;
}
