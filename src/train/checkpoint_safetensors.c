/* train/checkpoint_safetensors.c: reads checkpoints in safetensors files, its own and those of others. The format's
 * text is at the top of safetensors.h; the writer is checkpoint_safetensors_put.c. */
#include "base/json.h"
#include "train/checkpoint_formats.h"
#include "train/safetensors.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry { /* a tensor of the file */
    const char *name;
    nc_dtype dtype;
    int rank;
    int64_t dims[NC_MAX_RANK];
    uint64_t from, to;   /* its bytes, counted from the end of the header */
    const nc_json *more; /* its line of nacre.tensors, or NULL */
    bool used;
} entry;

typedef struct reader {
    nc_work *w;
    nc_checkpoint *c;
    const uint8_t *data;
    uint64_t n_data;
    entry *entries;
    int n;
    nc_map by_name;
    const nc_json *meta;
} reader;

static nc_code bad(reader *r, const char *name, const char *what) {
    return nc_fail(r->w, NC_E_BAD_MODEL, "checkpoint: tensor '%s': %s", name, what);
}

static nc_code read_dims(reader *r, const char *name, const nc_json *shape, int *rank, int64_t *dims) {
    if (!shape || shape->kind != NC_JSON_LIST) return bad(r, name, "its shape is not a list");
    if (shape->n > NC_MAX_RANK) return bad(r, name, "it has more than 64 dims");
    *rank = 0;
    for (const nc_json *d = shape->first; d; d = d->next) {
        if (!d->is_int || d->i < 0) return bad(r, name, "its shape holds something else than sizes");
        dims[(*rank)++] = d->i;
    }
    return NC_OK;
}

static nc_code read_entry(reader *r, const nc_json *v, entry *e) {
    const nc_json *dtype = nc_json_get(v, "dtype"), *offsets = nc_json_get(v, "data_offsets");
    size_t bytes;
    e->name = v->key;
    if (!dtype || dtype->kind != NC_JSON_STRING) return bad(r, v->key, "it has no dtype");
    e->dtype = nc_safetensors_dtype(dtype->s);
    if (e->dtype == NC_UNDEFINED)
        NC_FAIL(r->w, NC_E_UNSUPPORTED, "checkpoint: tensor '%s': elements of type '%s' are not known here", v->key,
                dtype->s);
    NC_TRY(read_dims(r, v->key, nc_json_get(v, "shape"), &e->rank, e->dims));
    if (!offsets || offsets->kind != NC_JSON_LIST || offsets->n != 2 || !offsets->first->is_int ||
        !offsets->first->next->is_int || offsets->first->i < 0 || offsets->first->next->i < offsets->first->i)
        return bad(r, v->key, "its data_offsets are not two places, the first before the second");
    e->from = (uint64_t)offsets->first->i, e->to = (uint64_t)offsets->first->next->i;
    if (!nc_tensor_bytes(e->dtype, e->dims, e->rank, &bytes) || bytes != e->to - e->from)
        return bad(r, v->key, "its shape does not fit the number of its bytes");
    if (e->to > r->n_data)
        NC_FAIL(r->w, NC_E_BAD_MODEL,
                "checkpoint: tensor '%s' ends at byte %llu of the data, of which the file has %llu: it was cut off",
                v->key, (unsigned long long)e->to, (unsigned long long)r->n_data);
    return NC_OK;
}

static int by_place(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The bytes of tensors lie one behind the other, without holes, to the file's end. */
static nc_code read_entries(reader *r, const nc_json *header) {
    uint64_t end = 0;
    NC_NEED(r->w, r->entries = nc_arena_array(&r->w->scratch, (size_t)header->n + 1, sizeof *r->entries));
    for (const nc_json *v = header->first; v; v = v->next)
        if (strcmp(v->key, "__metadata__") != 0) NC_TRY(read_entry(r, v, &r->entries[r->n++]));
    qsort(r->entries, (size_t)r->n, sizeof *r->entries, by_place);
    for (int i = 0; i < r->n; i++) {
        entry *e = &r->entries[i];
        if (e->from != end) return bad(r, e->name, "it does not begin where the one before it ends");
        if (nc_map_get(&r->by_name, e->name)) return bad(r, e->name, "it is there twice");
        if (!nc_map_put(&r->by_name, e->name, e)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
        end = e->to;
    }
    if (end != r->n_data)
        NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: %llu bytes behind the last tensor",
                (unsigned long long)(r->n_data - end));
    return NC_OK;
}

/* A text of the metadata, which is JSON itself; NULL when it is not there. */
static nc_code meta(reader *r, const char *key, nc_json_kind kind, const nc_json **out) {
    const nc_json *text = nc_json_get(r->meta, key);
    nc_json *v = NULL;
    if (text) {
        if (text->kind != NC_JSON_STRING) NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: metadata '%s' is no text", key);
        NC_TRY(nc_json_parse(r->w, &r->w->scratch, text->s, strlen(text->s), &v));
        if (v->kind != kind) NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: metadata '%s' is not of its kind", key);
    }
    *out = v;
    return NC_OK;
}

/* Whether the texts of the metadata are all there, as they were saved. */
static nc_code check_meta(reader *r) {
    const nc_json *sums;
    NC_TRY(meta(r, "nacre.crc32c", NC_JSON_OBJECT, &sums));
    for (const nc_json *v = sums ? sums->first : NULL; v; v = v->next) {
        const nc_json *text = nc_json_get(r->meta, v->key);
        if (!text || text->kind != NC_JSON_STRING || v->kind != NC_JSON_STRING)
            NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: metadata '%s' were saved, but are not there", v->key);
        NC_TRY(nc_checkpoint_check_crc(r->w, v->key, v->s, text->s, strlen(text->s)));
    }
    return NC_OK;
}

static nc_code read_more(reader *r) {
    const nc_json *tensors;
    NC_TRY(meta(r, "nacre.tensors", NC_JSON_OBJECT, &tensors));
    for (const nc_json *v = tensors ? tensors->first : NULL; v; v = v->next) {
        entry *e = nc_map_get(&r->by_name, v->key);
        if (e) e->more = v;
    }
    return NC_OK;
}

/* The dtype and dims that the bytes are meant to have: those of the file, or of nacre.tensors. */
static nc_code meaning(reader *r, const entry *e, nc_dtype *dtype, int *rank, int64_t *dims) {
    const nc_json *type = nc_json_get(e->more, "dtype");
    size_t bytes;
    *dtype = e->dtype, *rank = e->rank;
    memcpy(dims, e->dims, sizeof e->dims);
    if (!type) return NC_OK;
    *dtype = type->kind == NC_JSON_STRING ? nc_dtype_parse(type->s) : NC_UNDEFINED;
    NC_TRY(read_dims(r, e->name, nc_json_get(e->more, "shape"), rank, dims));
    if (e->dtype != NC_UINT8 || !nc_tensor_bytes(*dtype, dims, *rank, &bytes) || bytes != e->to - e->from)
        return bad(r, e->name, "its type in the metadata does not fit its bytes");
    return NC_OK;
}

static nc_code read_tensor(reader *r, entry *e, nc_object **out) {
    nc_dtype dtype;
    int rank;
    int64_t dims[NC_MAX_RANK];
    const nc_json *crc = nc_json_get(e->more, "crc32c");
    NC_TRY(meaning(r, e, &dtype, &rank, dims));
    if (crc && crc->kind == NC_JSON_STRING)
        NC_TRY(nc_checkpoint_check_crc(r->w, e->name, crc->s, r->data + e->from, (size_t)(e->to - e->from)));
    e->used = true;
    return nc_checkpoint_tensor(r->w, dtype, rank, dims, r->data + e->from, out);
}

static nc_code find_tensor(reader *r, const char *name, entry **out) {
    *out = nc_map_get(&r->by_name, name);
    if (!*out) return bad(r, name, "the metadata know it, but the file does not hold it");
    if ((*out)->used) return bad(r, name, "the metadata name it twice");
    return NC_OK;
}

static nc_code read_moments(reader *r, const nc_json *list, const char *param) {
    int k = 0;
    for (const nc_json *v = list ? list->first : NULL; v; v = v->next, k++) {
        entry *e;
        if (k >= NC_MOMENTS) return bad(r, param, "it has more than two moments");
        if (v->kind == NC_JSON_NULL) continue;
        if (v->kind != NC_JSON_STRING) return bad(r, param, "a moment is given by something else than a name");
        NC_TRY(find_tensor(r, v->s, &e));
        NC_TRY(read_tensor(r, e, &nc_checkpoint_find(r->c, param)->moments[k]));
    }
    return NC_OK;
}

static bool is_true(const nc_json *v) { return v && v->kind == NC_JSON_BOOL && v->i; }

static nc_code read_parameter(reader *r, const nc_json *v) {
    const nc_json *name = nc_json_get(v, "name"), *dtype = nc_json_get(v, "dtype");
    nc_object *value = NULL;
    if (!name || name->kind != NC_JSON_STRING || !dtype || dtype->kind != NC_JSON_STRING ||
        nc_dtype_parse(dtype->s) == NC_UNDEFINED)
        NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: a parameter of the metadata has no name or no type");
    if (!is_true(nc_json_get(v, "nominal"))) {
        entry *e;
        NC_TRY(find_tensor(r, name->s, &e));
        NC_TRY(read_tensor(r, e, &value));
    }
    NC_TRY(
        nc_checkpoint_add(r->w, r->c, name->s, nc_dtype_parse(dtype->s), value, is_true(nc_json_get(v, "trainable"))));
    return read_moments(r, nc_json_get(v, "moments"), name->s);
}

/* Tensors that the metadata do not speak of were put there by others: parameters. */
static nc_code read_others(reader *r) {
    for (int i = 0; i < r->n; i++) {
        entry *e = &r->entries[i];
        nc_object *value;
        if (e->used) continue;
        NC_TRY(read_tensor(r, e, &value));
        NC_TRY(nc_checkpoint_add(r->w, r->c, e->name, value->t.dtype, value, nc_dtype_is_float(value->t.dtype)));
    }
    return NC_OK;
}

static int64_t integer(const nc_json *v, const char *key) {
    const nc_json *i = nc_json_get(v, key);
    return i && i->is_int ? i->i : 0;
}

static float real(const nc_json *v) {
    return v && v->kind == NC_JSON_STRING ? (float)nc_text_to_double(v->s, NULL) : 0;
}

static nc_code read_state(reader *r) {
    const nc_json *o, *random, *scale, *nominal = nc_json_get(r->meta, "nacre.nominal");
    NC_TRY(meta(r, "nacre.optimizer", NC_JSON_OBJECT, &o));
    NC_TRY(meta(r, "nacre.random", NC_JSON_OBJECT, &random));
    NC_TRY(meta(r, "nacre.loss_scale", NC_JSON_OBJECT, &scale));
    r->c->loss_scale = scale ? real(nc_json_get(scale, "scale")) : 0;
    r->c->scale_updates = integer(scale, "updates");
    r->c->nominal = nominal && nominal->kind == NC_JSON_STRING && strcmp(nominal->s, "true") == 0;
    if (o)
        r->c->optimizer = (nc_optimizer_state){.present = true,
                                               .step = integer(o, "step"),
                                               .initial_rate = real(nc_json_get(o, "initial_rate")),
                                               .rate = real(nc_json_get(o, "rate")),
                                               .warmup = integer(o, "warmup"),
                                               .total = integer(o, "total")};
    r->c->has_random = random != NULL;
    r->c->seed = (uint64_t)integer(random, "seed");
    r->c->drawn = (uint64_t)integer(random, "drawn");
    return NC_OK;
}

static nc_code read_properties(reader *r) {
    const nc_json *all;
    NC_TRY(meta(r, "nacre.properties", NC_JSON_OBJECT, &all));
    for (const nc_json *v = all ? all->first : NULL; v; v = v->next) {
        const nc_json *i = nc_json_get(v, "int"), *f = nc_json_get(v, "float"), *s = nc_json_get(v, "string");
        nc_property p = {.name = v->key};
        if (i && i->is_int)
            p.kind = NC_PROPERTY_INT, p.i = i->i;
        else if (f && f->kind == NC_JSON_STRING)
            p.kind = NC_PROPERTY_FLOAT, p.f = real(f);
        else if (s && s->kind == NC_JSON_STRING)
            p.kind = NC_PROPERTY_STRING, p.s = s->s;
        else
            NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: property '%s' is neither int, float nor string", v->key);
        NC_TRY(nc_checkpoint_set_property(r->w, r->c, &p));
    }
    return NC_OK;
}

static uint64_t header_bytes(const uint8_t *p) {
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) n |= (uint64_t)p[i] << 8 * i;
    return n;
}

bool nc_checkpoint_is_safetensors(const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    return n > 8 && p[8] == '{' && header_bytes(p) <= NC_SAFETENSORS_MAX_HEADER;
}

nc_code nc_checkpoint_read_safetensors(nc_work *w, const void *bytes, size_t n, nc_checkpoint *c) {
    const uint8_t *p = bytes;
    uint64_t header = header_bytes(p);
    nc_json *v;
    const nc_json *params;
    if (header > n - 8)
        NC_FAIL(w, NC_E_BAD_MODEL, "checkpoint: its header has %llu bytes, the file %zu: it was cut off",
                (unsigned long long)header, n);
    NC_TRY(nc_json_parse(w, &w->scratch, (const char *)p + 8, (size_t)header, &v));
    reader r = {
        .w = w, .c = c, .data = p + 8 + header, .n_data = n - 8 - header, .meta = nc_json_get(v, "__metadata__")};
    nc_map_init(&r.by_name, &w->scratch);
    NC_TRY(read_entries(&r, v));
    NC_TRY(check_meta(&r));
    NC_TRY(read_more(&r));
    NC_TRY(meta(&r, "nacre.parameters", NC_JSON_LIST, &params));
    for (const nc_json *q = params ? params->first : NULL; q; q = q->next) NC_TRY(read_parameter(&r, q));
    NC_TRY(read_others(&r));
    NC_TRY(read_state(&r));
    return read_properties(&r);
}
