/* train/checkpoint_ort_put.c: writes onnxruntime's checkpoints; the fields are in ort_checkpoint.h. The file is made in
 * memory: it stays below 2 GiB, where its offsets end; parameters go into a file of their own when they are large. */
#include "train/checkpoint_formats.h"
#include "train/ort_checkpoint.h"

#include <string.h>

#define MAX_FILE ((size_t)0x7FFFFFFF)

typedef struct writer {
    nc_work *w;
    const nc_checkpoint *c;
    nc_text out;
    const nc_checkpoint_sink *data; /* NULL: all stays inside */
    uint64_t at_data;
} writer;

static nc_flat_put number(nc_flat_field f, int bytes, uint64_t bits) { return (nc_flat_put){f.id, bytes, bits, 0}; }
static nc_flat_put offset(nc_flat_field f) { return (nc_flat_put){f.id, 0, 0, 0}; }
static void put_text(writer *x, size_t at, const char *s) { nc_flat_put_string(&x->out, at, s, strlen(s)); }

static nc_code room_for(writer *x, const char *name, size_t bytes) {
    if (bytes > MAX_FILE || x->out.n + bytes > MAX_FILE)
        NC_FAIL(x->w, NC_E_LIMIT,
                "checkpoint: with '%s' the file passes 2 GiB, where onnxruntime's format ends: save it as safetensors",
                name);
    return NC_OK;
}

/* Parameters lie at multiples of their elements' size, at least of 4. */
static nc_code put_external(writer *x, const nc_object *o, size_t bytes, uint64_t *at) {
    size_t unit = nc_dtype_bytes(o->t.dtype) > 4 ? 8 : 4, pad = (unit - x->at_data % unit) % unit;
    static const char zeros[8];
    if (pad) NC_TRY(x->data->add(x->w, x->data->to, zeros, pad));
    NC_TRY(x->data->add(x->w, x->data->to, o->t.data, bytes));
    *at = x->at_data + pad;
    x->at_data += pad + bytes;
    return NC_OK;
}

static void put_strings(writer *x, size_t at, const nc_object *o) {
    size_t n = (size_t)nc_tensor_numel(&o->t), first = nc_flat_put_offsets(&x->out, at, n);
    const nc_str *s = o->t.data;
    for (size_t i = 0; i < n; i++) nc_flat_put_string(&x->out, first + 4 * i, s[i].p ? s[i].p : "", s[i].n);
}

static nc_code put_string_tensor(writer *x, size_t at, const char *name, const nc_object *o) {
    if (!nc_is_dense(&o->t))
        NC_FAIL(x->w, NC_E_DATA, "checkpoint: '%s' has gaps or another order; make it dense", name);
    nc_flat_put f[] = {offset(nc_ort_tensor_name), offset(nc_ort_tensor_dims),
                       number(nc_ort_tensor_data_type, 4, NC_STRING), offset(nc_ort_tensor_string_data)};
    nc_flat_put_table(&x->out, at, f, 4);
    put_text(x, f[0].at, name);
    nc_flat_put_vector(&x->out, f[1].at, o->t.dims, (size_t)o->t.rank, 8);
    put_strings(x, f[3].at, o);
    return NC_OK;
}

/* A tensor that is there. name: in the file; full: to show. */
static nc_code put_tensor(writer *x, size_t at, const char *name, const char *full, const nc_object *o, bool outside) {
    size_t bytes;
    char crc[sizeof NC_ORT_CRC + 8] = NC_ORT_CRC;
    uint64_t place = 0;
    if (o->kind == NC_OBJ_TENSOR && o->t.dtype == NC_STRING) return put_string_tensor(x, at, name, o);
    NC_TRY(nc_checkpoint_bytes(x->w, full, o, &bytes));
    outside = outside && bytes >= NC_ORT_EXTERNAL_MIN;
    if (outside)
        NC_TRY(put_external(x, o, bytes, &place));
    else
        NC_TRY(room_for(x, full, bytes));
    nc_checkpoint_crc(o->t.data, bytes, crc + strlen(NC_ORT_CRC));
    nc_flat_put f[] = {offset(nc_ort_tensor_name), offset(nc_ort_tensor_doc_string), offset(nc_ort_tensor_dims),
                       number(nc_ort_tensor_data_type, 4, (uint64_t)o->t.dtype),
                       outside ? number(nc_ort_tensor_external_data_offset, 8, place) : offset(nc_ort_tensor_raw_data)};
    nc_flat_put_table(&x->out, at, f, 5);
    put_text(x, f[0].at, name);
    put_text(x, f[1].at, crc);
    nc_flat_put_vector(&x->out, f[2].at, o->t.dims, (size_t)o->t.rank, 8);
    if (!outside) nc_flat_put_vector(&x->out, f[4].at, o->t.data, bytes, 1);
    return NC_OK;
}

static nc_code put_param(writer *x, size_t at, const nc_parameter *p) {
    if ((int)p->dtype > NC_ORT_LAST_DTYPE)
        NC_FAIL(x->w, NC_E_UNSUPPORTED,
                "checkpoint: onnxruntime's format has no %s, the type of '%s': save it as safetensors",
                nc_dtype_name(p->dtype), p->name);
    if (p->value && !x->c->nominal) return put_tensor(x, at, p->name, p->name, p->value, x->data != NULL);
    if (!x->c->nominal) NC_FAIL(x->w, NC_E_DATA, "checkpoint: parameter '%s' has no contents, others have", p->name);
    nc_flat_put f[] = {offset(nc_ort_tensor_name), offset(nc_ort_tensor_dims),
                       number(nc_ort_tensor_data_type, 4, (uint64_t)p->dtype), offset(nc_ort_tensor_raw_data)};
    nc_flat_put_table(&x->out, at, f, 4);
    put_text(x, f[0].at, p->name);
    nc_flat_put_vector(&x->out, f[1].at, NULL, 0, 8); /* onnxruntime wants both to be there */
    nc_flat_put_vector(&x->out, f[3].at, NULL, 0, 1);
    return NC_OK;
}

static nc_code put_params(writer *x, size_t at, bool trainable) {
    size_t n = 0, slot;
    for (int i = 0; i < x->c->params.n; i++) n += x->c->params.v[i].trainable == trainable;
    slot = nc_flat_put_offsets(&x->out, at, n);
    for (int i = 0; i < x->c->params.n; i++) {
        if (x->c->params.v[i].trainable != trainable) continue;
        NC_TRY(put_param(x, slot, &x->c->params.v[i]));
        slot += 4;
    }
    return NC_OK;
}

static nc_code put_module(writer *x, size_t at) {
    nc_flat_put f[] = {offset(nc_ort_module_state_requires_grad_params), offset(nc_ort_module_state_frozen_params),
                       number(nc_ort_module_state_is_nominal_state, 1, x->c->nominal),
                       number(nc_ort_module_state_has_external_data, 1, x->data != NULL)};
    nc_flat_put_table(&x->out, at, f, 4);
    NC_TRY(put_params(x, f[0].at, true));
    return put_params(x, f[1].at, false);
}

static int n_moments(const nc_parameter *p) {
    int n = 0;
    for (int k = 0; k < NC_MOMENTS; k++) n += p->moments[k] != NULL;
    return n;
}

static nc_code put_state(writer *x, size_t at, const nc_parameter *p) {
    nc_flat_put f[] = {offset(nc_ort_optimizer_state_param_name), offset(nc_ort_optimizer_state_momentums)};
    nc_flat_put_table(&x->out, at, f, 2);
    put_text(x, f[0].at, p->name);
    size_t slot = nc_flat_put_offsets(&x->out, f[1].at, (size_t)n_moments(p));
    for (int k = 0; k < NC_MOMENTS; k++) {
        if (!p->moments[k]) continue;
        NC_TRY(put_tensor(x, slot, nc_checkpoint_moments[k], p->name, p->moments[k], false));
        slot += 4;
    }
    return NC_OK;
}

static nc_code put_optimizer(writer *x, size_t at) {
    const nc_optimizer_state *o = &x->c->optimizer;
    size_t n = 0, slot;
    nc_flat_put f[] = {offset(nc_ort_group_group_name), number(nc_ort_group_step, 8, (uint64_t)o->step),
                       number(nc_ort_group_initial_learning_rate, 4, nc_flat_bits(o->initial_rate)),
                       offset(nc_ort_group_optimizer_states)};
    nc_flat_put_table(&x->out, nc_flat_put_offsets(&x->out, at, 1), f, 4);
    put_text(x, f[0].at, "group0");
    for (int i = 0; i < x->c->params.n; i++) n += n_moments(&x->c->params.v[i]) > 0;
    slot = nc_flat_put_offsets(&x->out, f[3].at, n);
    for (int i = 0; i < x->c->params.n; i++) {
        if (!n_moments(&x->c->params.v[i])) continue;
        NC_TRY(put_state(x, slot, &x->c->params.v[i]));
        slot += 4;
    }
    return NC_OK;
}

typedef struct bag {
    nc_property own[7]; /* what the schema has no field for */
    int n_own;
} bag;

static const nc_property *property(const writer *x, const bag *b, int i) {
    return i < b->n_own ? &b->own[i] : &x->c->properties.v[i - b->n_own];
}

static void put_property(writer *x, size_t at, const nc_property *p) {
    nc_flat_put value = p->kind == NC_PROPERTY_INT     ? number(nc_ort_property_value, 8, (uint64_t)p->i)
                        : p->kind == NC_PROPERTY_FLOAT ? number(nc_ort_property_value, 4, nc_flat_bits(p->f))
                                                       : offset(nc_ort_property_value);
    nc_flat_put f[] = {offset(nc_ort_property_name), value};
    nc_flat_put_table(&x->out, at, f, 2);
    put_text(x, f[0].at, p->name);
    if (p->kind == NC_PROPERTY_STRING) put_text(x, f[1].at, p->s);
}

static void put_properties(writer *x, size_t at, const bag *b) {
    nc_flat_put f[] = {offset(nc_ort_property_bag_ints), offset(nc_ort_property_bag_floats),
                       offset(nc_ort_property_bag_strings)};
    const nc_property_kind kinds[] = {NC_PROPERTY_INT, NC_PROPERTY_FLOAT, NC_PROPERTY_STRING};
    int n = b->n_own + x->c->properties.n;
    nc_flat_put_table(&x->out, at, f, 3);
    for (int k = 0; k < 3; k++) {
        size_t count = 0, slot;
        for (int i = 0; i < n; i++) count += property(x, b, i)->kind == kinds[k];
        slot = nc_flat_put_offsets(&x->out, f[k].at, count);
        for (int i = 0; i < n; i++) {
            if (property(x, b, i)->kind != kinds[k]) continue;
            put_property(x, slot, property(x, b, i));
            slot += 4;
        }
    }
}

static void add_own(bag *b, const char *name, int64_t i) {
    b->own[b->n_own++] = (nc_property){.name = name, .kind = NC_PROPERTY_INT, .i = i};
}

static bag own_properties(const nc_checkpoint *c, bool with_optimizer) {
    bag b = {0};
    if (with_optimizer) {
        b.own[b.n_own++] = (nc_property){.name = NC_ORT_RATE, .kind = NC_PROPERTY_FLOAT, .f = c->optimizer.rate};
        if (c->optimizer.total) {
            add_own(&b, NC_ORT_WARMUP, c->optimizer.warmup);
            add_own(&b, NC_ORT_TOTAL, c->optimizer.total);
        }
    }
    if (c->has_random) {
        add_own(&b, NC_ORT_SEED, (int64_t)c->seed);
        add_own(&b, NC_ORT_DRAWN, (int64_t)c->drawn);
    }
    if (c->loss_scale > 0) {
        b.own[b.n_own++] = (nc_property){.name = NC_ORT_SCALE, .kind = NC_PROPERTY_FLOAT, .f = c->loss_scale};
        add_own(&b, NC_ORT_SCALE_UPDATES, c->scale_updates);
    }
    return b;
}

static nc_code put_file(writer *x, bool with_optimizer) {
    bag own = own_properties(x->c, with_optimizer);
    bool has_bag = own.n_own + x->c->properties.n > 0;
    nc_flat_put f[4] = {number(nc_ort_checkpoint_version, 4, NC_ORT_VERSION), offset(nc_ort_checkpoint_module_state)};
    int n = 2, i_groups = -1, i_bag = -1;
    if (with_optimizer) f[i_groups = n++] = offset(nc_ort_checkpoint_optimizer_groups);
    if (has_bag) f[i_bag = n++] = offset(nc_ort_checkpoint_property_bag);
    nc_flat_put_table(&x->out, nc_flat_begin(&x->out, NC_ORT_CHECKPOINT), f, n);
    NC_TRY(put_module(x, f[1].at));
    if (with_optimizer) NC_TRY(put_optimizer(x, f[i_groups].at));
    if (has_bag) put_properties(x, f[i_bag].at, &own);
    if (x->out.failed) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    return room_for(x, "names and properties", 0);
}

nc_code nc_checkpoint_write_ort(nc_work *w, const nc_checkpoint *c, bool with_optimizer, nc_checkpoint_sink to,
                                const nc_checkpoint_sink *data) {
    writer x = {.w = w, .c = c, .data = data};
    nc_code code = put_file(&x, with_optimizer && c->optimizer.present);
    if (code == NC_OK) code = to.add(w, to.to, x.out.s, x.out.n);
    nc_text_release(&x.out);
    return code;
}
