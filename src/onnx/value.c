/* onnx/value.c: TensorProto, SequenceProto and OptionalProto to objects. Tensors are read by load_tensor.c into a model
 * that lives only here, then copied. */
#include "onnx/value.h"

#include "onnx/loader.h"

#include <string.h>

/* SequenceProto and OptionalProto share these numbers as far as they go. */
enum { FIELD_TENSOR = 3, FIELD_SPARSE = 4, FIELD_SEQUENCE = 5, FIELD_MAP = 6, FIELD_OPTIONAL = 7 };
enum { MAX_DEPTH = 8 };

static nc_code load(nc_loader *l, nc_bytes b, nc_object_kind kind, nc_object **out);

static nc_code load_tensor(nc_loader *l, nc_bytes b, nc_object **out) {
    nc_pb_tensor t;
    nc_literal *lit;
    const char *name;
    NC_TRY(nc_pb_read_tensor(l->w, b, &t));
    NC_TRY(nc_load_name(l, t.name, "TensorProto.name", &name));
    NC_TRY(nc_load_tensor(l, b, name, &t, &lit));
    nc_object *o = lit->dtype == NC_STRING ? nc_object_strings(lit->rank, lit->dims, lit->data)
                                           : nc_object_host_tensor(lit->dtype, lit->rank, lit->dims);
    NC_NEED(l->w, o);
    if (lit->dtype != NC_STRING && lit->bytes) memcpy(o->t.data, lit->data, lit->bytes);
    *out = o;
    return NC_OK;
}

static nc_code push(nc_loader *l, nc_object *list, nc_bytes b, nc_object_kind kind) {
    nc_object *item;
    NC_TRY(load(l, b, kind, &item));
    if (list->t.dtype == NC_UNDEFINED) list->t.dtype = item->t.dtype;
    if (!nc_object_push(list, item)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code load_items(nc_loader *l, nc_bytes b, nc_object *list) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_next(&r, &f)) {
        if (f.number == FIELD_SPARSE || f.number == FIELD_MAP)
            NC_FAIL(l->w, NC_E_UNSUPPORTED, "a value that holds %s", f.number == FIELD_MAP ? "maps" : "sparse tensors");
        if (f.number < FIELD_TENSOR || f.number > FIELD_OPTIONAL || f.wire != NC_WIRE_BYTES) continue;
        if (list->kind == NC_OBJ_OPTIONAL && list->n)
            NC_FAIL(l->w, NC_E_BAD_MODEL, "an optional holds more than one value");
        NC_TRY(push(l, list, f.b,
                    f.number == FIELD_TENSOR     ? NC_OBJ_TENSOR
                    : f.number == FIELD_SEQUENCE ? NC_OBJ_SEQUENCE
                                                 : NC_OBJ_OPTIONAL));
    }
    if (r.bad) NC_FAIL(l->w, NC_E_BAD_MODEL, "not a sequence or optional: %s", r.bad);
    return NC_OK;
}

static nc_code load(nc_loader *l, nc_bytes b, nc_object_kind kind, nc_object **out) {
    if (kind == NC_OBJ_TENSOR) return load_tensor(l, b, out);
    if (kind != NC_OBJ_SEQUENCE && kind != NC_OBJ_OPTIONAL)
        NC_FAIL(l->w, NC_E_UNSUPPORTED, "only tensors, sequences and optionals can be read");
    if (++l->depth > MAX_DEPTH) NC_FAIL(l->w, NC_E_LIMIT, "values nested more than %d deep", MAX_DEPTH);
    nc_object *list = nc_object_list(kind, NC_UNDEFINED);
    NC_NEED(l->w, list);
    nc_code code = load_items(l, b, list);
    l->depth--;
    if (code != NC_OK) {
        nc_object_unref(list);
        return code;
    }
    *out = list;
    return NC_OK;
}

nc_code nc_onnx_load_value(nc_work *w, const void *bytes, size_t n, nc_object_kind kind, nc_object **out) {
    nc_loader l = {.w = w, .m = nc_model_create(NULL)};
    NC_NEED(w, l.m);
    nc_code code = load(&l, (nc_bytes){bytes, n}, kind, out);
    nc_model_destroy(l.m);
    return code;
}
