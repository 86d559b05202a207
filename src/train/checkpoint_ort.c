/* train/checkpoint_ort.c: reads onnxruntime's own checkpoints; its fields are in ort_checkpoint.h, the writer is
 * checkpoint_ort_put.c. */
#include "train/checkpoint_formats.h"
#include "train/ort_checkpoint.h"

#include <string.h>

typedef struct reader {
    nc_work *w;
    nc_checkpoint *c;
    nc_bytes data;            /* of the other file */
    uint64_t room, room_data; /* bytes that no tensor has claimed: offsets that overlap must not multiply the file */
} reader;

typedef struct tensor {
    const char *name;
    nc_dtype dtype;
    int rank;
    int64_t dims[NC_MAX_RANK];
} tensor;

static nc_code text(reader *r, nc_bytes b, const char *what, const char **out) {
    if (!b.p || memchr(b.p, 0, b.n))
        NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: %s is missing or has a NUL inside", what);
    char *s = nc_arena_strn(&r->w->scratch, (const char *)b.p, b.n);
    NC_NEED(r->w, s);
    *out = s;
    return NC_OK;
}

static nc_code read_head(reader *r, const nc_flat_table *t, tensor *v) {
    nc_bytes name;
    nc_flat_vector dims;
    int32_t type = 0;
    NC_TRY(nc_flat_string(r->w, t, nc_ort_tensor_name, &name));
    NC_TRY(text(r, name, "the name of a tensor", &v->name));
    NC_TRY(nc_flat_list(r->w, t, nc_ort_tensor_dims, 8, &dims));
    NC_TRY(nc_flat_i32(r->w, t, nc_ort_tensor_data_type, &type));
    if (type <= 0 || type > NC_ORT_LAST_DTYPE)
        NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: tensor '%s': expected an element type of 1 to %d, got %d", v->name,
                NC_ORT_LAST_DTYPE, (int)type);
    if (dims.n > NC_MAX_RANK)
        NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: tensor '%s' has %zu dims, at most %d are allowed", v->name, dims.n,
                NC_MAX_RANK);
    v->dtype = (nc_dtype)type;
    v->rank = (int)dims.n;
    for (int d = 0; d < v->rank; d++) v->dims[d] = nc_flat_list_i64(&dims, (size_t)d);
    return NC_OK;
}

static nc_code read_strings(reader *r, const nc_flat_table *t, const tensor *v, nc_object **out) {
    nc_flat_vector list;
    int64_t n;
    NC_TRY(nc_flat_list(r->w, t, nc_ort_tensor_string_data, 4, &list));
    if (!nc_numel(v->dims, v->rank, &n) || (uint64_t)n != list.n)
        NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: tensor '%s' has %zu strings, which its dims do not fit", v->name,
                list.n);
    nc_str *strings = nc_arena_array(&r->w->scratch, list.n + 1, sizeof *strings);
    NC_NEED(r->w, strings);
    for (size_t i = 0; i < list.n; i++) {
        nc_bytes b;
        NC_TRY(nc_flat_list_string(r->w, &list, i, &b));
        if (b.n + 4 > r->room) NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: the strings of '%s' overlap", v->name);
        r->room -= b.n + 4;
        strings[i] = (nc_str){(char *)(uintptr_t)b.p, b.n};
    }
    NC_NEED(r->w, *out = nc_object_strings(v->rank, v->dims, strings));
    return NC_OK;
}

static nc_code find_external(reader *r, const tensor *v, int64_t offset, size_t bytes, const uint8_t **p) {
    if (!r->data.p && bytes)
        NC_FAIL(r->w, NC_E_NO_FILE,
                "checkpoint: tensor '%s' lies in a file beside this one (its name with .data): load it from its path",
                v->name);
    if ((uint64_t)offset > r->data.n || bytes > r->data.n - (uint64_t)offset)
        NC_FAIL(r->w, NC_E_BAD_MODEL,
                "checkpoint: tensor '%s' takes bytes %lld to %lld of the file of data, which has %zu: it was cut off",
                v->name, (long long)offset, (long long)offset + (long long)bytes, r->data.n);
    if (bytes > r->room_data) NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: tensor '%s' overlaps with another", v->name);
    r->room_data -= bytes;
    *p = r->data.p + offset;
    return NC_OK;
}

/* Where the bytes of a tensor lie. */
static nc_code find_bytes(reader *r, const nc_flat_table *t, const tensor *v, size_t bytes, const uint8_t **p) {
    nc_flat_vector raw;
    int64_t offset = -1;
    NC_TRY(nc_flat_list(r->w, t, nc_ort_tensor_raw_data, 1, &raw));
    NC_TRY(nc_flat_i64(r->w, t, nc_ort_tensor_external_data_offset, &offset));
    if (offset >= 0) return find_external(r, v, offset, bytes, p);
    if (raw.n != bytes)
        NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: tensor '%s': expected %zu bytes, got %zu", v->name, bytes, raw.n);
    if (bytes > r->room) NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: tensor '%s' overlaps with another", v->name);
    r->room -= bytes;
    *p = raw.file.p + raw.at;
    return NC_OK;
}

/* The part of a doc_string that is a checksum. */
static nc_code check_crc(reader *r, const nc_flat_table *t, const char *name, const uint8_t *p, size_t bytes) {
    nc_bytes doc;
    size_t head = strlen(NC_ORT_CRC);
    NC_TRY(nc_flat_string(r->w, t, nc_ort_tensor_doc_string, &doc));
    if (doc.n != head + 8 || memcmp(doc.p, NC_ORT_CRC, head) != 0) return NC_OK;
    return nc_checkpoint_check_crc(r->w, name, (const char *)doc.p + head, p, bytes);
}

/* full: the name to show, of a moment with that of its parameter. */
static nc_code read_value(reader *r, const nc_flat_table *t, const tensor *v, const char *full, nc_object **out) {
    size_t bytes;
    const uint8_t *p = NULL;
    if (v->dtype == NC_STRING) return read_strings(r, t, v, out);
    if (!nc_tensor_bytes(v->dtype, v->dims, v->rank, &bytes))
        NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: tensor '%s' has dims that no tensor can have", full);
    NC_TRY(find_bytes(r, t, v, bytes, &p));
    NC_TRY(check_crc(r, t, full, p, bytes));
    return nc_checkpoint_tensor(r->w, v->dtype, v->rank, v->dims, p, out);
}

static nc_code read_params(reader *r, const nc_flat_table *module, nc_flat_field f, bool trainable) {
    nc_flat_vector list;
    NC_TRY(nc_flat_list(r->w, module, f, 4, &list));
    for (size_t i = 0; i < list.n; i++) {
        nc_flat_table t;
        tensor v;
        nc_object *value = NULL;
        NC_TRY(nc_flat_list_table(r->w, &list, i, &t));
        NC_TRY(read_head(r, &t, &v));
        if (!r->c->nominal) NC_TRY(read_value(r, &t, &v, v.name, &value));
        NC_TRY(nc_checkpoint_add(r->w, r->c, v.name, v.dtype, value, trainable));
    }
    return NC_OK;
}

static nc_code read_moment(reader *r, const nc_flat_table *t, nc_parameter *p) {
    tensor v;
    int k = 0;
    NC_TRY(read_head(r, t, &v));
    while (k < NC_MOMENTS && strcmp(v.name, nc_checkpoint_moments[k]) != 0) k++;
    if (k == NC_MOMENTS)
        NC_FAIL(r->w, NC_E_UNSUPPORTED, "checkpoint: parameter '%s' has a moment '%s', expected momentum0 or momentum1",
                p->name, v.name);
    if (p->moments[k]) NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: parameter '%s' has two of '%s'", p->name, v.name);
    char *full = nc_arena_printf(&r->w->scratch, "%s of %s", v.name, p->name);
    NC_NEED(r->w, full);
    return read_value(r, t, &v, full, &p->moments[k]);
}

static nc_code read_states(reader *r, const nc_flat_table *group) {
    nc_flat_vector states;
    NC_TRY(nc_flat_list(r->w, group, nc_ort_group_optimizer_states, 4, &states));
    for (size_t i = 0; i < states.n; i++) {
        nc_flat_table state, t;
        nc_flat_vector moments;
        nc_bytes b;
        const char *name;
        NC_TRY(nc_flat_list_table(r->w, &states, i, &state));
        NC_TRY(nc_flat_string(r->w, &state, nc_ort_optimizer_state_param_name, &b));
        NC_TRY(text(r, b, "the name of a parameter with moments", &name));
        nc_parameter *p = nc_checkpoint_find(r->c, name);
        if (!p) NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: it has moments of '%s', which is no parameter", name);
        NC_TRY(nc_flat_list(r->w, &state, nc_ort_optimizer_state_momentums, 4, &moments));
        for (size_t k = 0; k < moments.n; k++) {
            NC_TRY(nc_flat_list_table(r->w, &moments, k, &t));
            NC_TRY(read_moment(r, &t, p));
        }
    }
    return NC_OK;
}

static nc_code read_optimizer(reader *r, const nc_flat_table *root) {
    nc_flat_vector groups;
    nc_flat_table group;
    nc_optimizer_state *o = &r->c->optimizer;
    NC_TRY(nc_flat_list(r->w, root, nc_ort_checkpoint_optimizer_groups, 4, &groups));
    if (groups.n == 0) return NC_OK;
    if (groups.n > 1)
        NC_FAIL(r->w, NC_E_UNSUPPORTED, "checkpoint: expected one group of parameters of the optimizer, got %zu",
                groups.n);
    NC_TRY(nc_flat_list_table(r->w, &groups, 0, &group));
    o->present = true;
    NC_TRY(nc_flat_i64(r->w, &group, nc_ort_group_step, &o->step));
    NC_TRY(nc_flat_f32(r->w, &group, nc_ort_group_initial_learning_rate, &o->initial_rate));
    o->rate = o->initial_rate;
    return read_states(r, &group);
}

static nc_code read_property(reader *r, const nc_flat_table *t, nc_property *p) {
    nc_bytes name, s;
    NC_TRY(nc_flat_string(r->w, t, nc_ort_property_name, &name));
    NC_TRY(text(r, name, "the name of a property", &p->name));
    if (p->kind == NC_PROPERTY_INT) NC_TRY(nc_flat_i64(r->w, t, nc_ort_property_value, &p->i));
    if (p->kind == NC_PROPERTY_FLOAT) NC_TRY(nc_flat_f32(r->w, t, nc_ort_property_value, &p->f));
    if (p->kind != NC_PROPERTY_STRING) return NC_OK;
    NC_TRY(nc_flat_string(r->w, t, nc_ort_property_value, &s));
    return text(r, s, "the text of a property", &p->s);
}

/* What the writer put among the properties; false: it is the user's. */
static bool take_own(nc_checkpoint *c, const nc_property *p) {
    bool is_int = p->kind == NC_PROPERTY_INT, is_float = p->kind == NC_PROPERTY_FLOAT;
    if (is_float && strcmp(p->name, NC_ORT_RATE) == 0) return c->optimizer.rate = p->f, true;
    if (is_int && strcmp(p->name, NC_ORT_WARMUP) == 0) return c->optimizer.warmup = p->i, true;
    if (is_int && strcmp(p->name, NC_ORT_TOTAL) == 0) return c->optimizer.total = p->i, true;
    if (is_int && strcmp(p->name, NC_ORT_SEED) == 0) return c->has_random = true, c->seed = (uint64_t)p->i, true;
    if (is_int && strcmp(p->name, NC_ORT_DRAWN) == 0) return c->has_random = true, c->drawn = (uint64_t)p->i, true;
    if (is_float && strcmp(p->name, NC_ORT_SCALE) == 0) return c->loss_scale = p->f, true;
    if (is_int && strcmp(p->name, NC_ORT_SCALE_UPDATES) == 0) return c->scale_updates = p->i, true;
    return false;
}

static nc_code read_properties(reader *r, const nc_flat_table *root) {
    const nc_flat_field fields[] = {nc_ort_property_bag_ints, nc_ort_property_bag_floats, nc_ort_property_bag_strings};
    const nc_property_kind kinds[] = {NC_PROPERTY_INT, NC_PROPERTY_FLOAT, NC_PROPERTY_STRING};
    bool has;
    nc_flat_table bag, t;
    NC_TRY(nc_flat_sub(r->w, root, nc_ort_checkpoint_property_bag, &has, &bag));
    for (int k = 0; has && k < 3; k++) {
        nc_flat_vector list;
        NC_TRY(nc_flat_list(r->w, &bag, fields[k], 4, &list));
        for (size_t i = 0; i < list.n; i++) {
            nc_property p = {.kind = kinds[k]};
            NC_TRY(nc_flat_list_table(r->w, &list, i, &t));
            NC_TRY(read_property(r, &t, &p));
            if (nc_checkpoint_property(r->c, p.name))
                NC_FAIL(r->w, NC_E_BAD_MODEL, "checkpoint: two properties are called '%s'", p.name);
            if (!take_own(r->c, &p)) NC_TRY(nc_checkpoint_set_property(r->w, r->c, &p));
        }
    }
    return NC_OK;
}

bool nc_checkpoint_is_ort(const void *bytes, size_t n) { return nc_flat_is((nc_bytes){bytes, n}, NC_ORT_CHECKPOINT); }

static nc_code open_file(nc_work *w, nc_bytes file, nc_flat_table *root, bool *has, nc_flat_table *module) {
    int32_t version = 0;
    NC_TRY(nc_flat_root(w, file, NC_ORT_CHECKPOINT, root));
    NC_TRY(nc_flat_i32(w, root, nc_ort_checkpoint_version, &version));
    if (version != NC_ORT_VERSION)
        NC_FAIL(w, NC_E_UNSUPPORTED, "checkpoint: expected version %d of onnxruntime's format, got %d", NC_ORT_VERSION,
                (int)version);
    return nc_flat_sub(w, root, nc_ort_checkpoint_module_state, has, module);
}

nc_code nc_checkpoint_ort_has_data(nc_work *w, const void *bytes, size_t n, bool *out) {
    nc_flat_table root, module;
    bool has, external = false;
    NC_TRY(open_file(w, (nc_bytes){bytes, n}, &root, &has, &module));
    if (has) NC_TRY(nc_flat_bool(w, &module, nc_ort_module_state_has_external_data, &external));
    *out = external;
    return NC_OK;
}

nc_code nc_checkpoint_read_ort(nc_work *w, const void *bytes, size_t n, const void *data, size_t n_data,
                               nc_checkpoint *c) {
    reader r = {.w = w, .c = c, .data = {data, n_data}, .room = n, .room_data = n_data};
    nc_flat_table root, module;
    bool has;
    NC_TRY(open_file(w, (nc_bytes){bytes, n}, &root, &has, &module));
    if (has) {
        NC_TRY(nc_flat_bool(w, &module, nc_ort_module_state_is_nominal_state, &c->nominal));
        NC_TRY(read_params(&r, &module, nc_ort_module_state_requires_grad_params, true));
        NC_TRY(read_params(&r, &module, nc_ort_module_state_frozen_params, false));
    }
    NC_TRY(read_optimizer(&r, &root));
    return read_properties(&r, &root);
}
