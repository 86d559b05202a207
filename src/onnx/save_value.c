/* onnx/save_value.c: literals as TensorProto (raw_data, or string_data), types as TypeProto, values as
 * ValueInfoProto. A dim that is an expression is written as its text in dim_param: people can read it, other readers
 * see one more symbol. */
#include "onnx/saver.h"

#include <stdio.h>

bool nc_save_can_say(const nc_type *t) {
    if (!t) return false;
    switch (t->kind) {
    case NC_T_SPARSE:
    case NC_T_TENSOR: return t->elem != NC_UNDEFINED && t->layout.block == 0;
    case NC_T_SEQUENCE:
    case NC_T_OPTIONAL:
    case NC_T_MAP: return nc_save_can_say(t->of);
    default: return false;
    }
}

static void put_entry(nc_text *out, const char *key, const char *value) {
    nc_wire_mark mark = nc_wire_begin(out, TensorProto_external_data, 0);
    nc_wire_put_str(out, StringStringEntryProto_key, key);
    nc_wire_put_str(out, StringStringEntryProto_value, value);
    nc_wire_end(out, mark);
}

/* Large data starts on a page, so that readers can map it alone; the rest on a cache line. */
static nc_code save_outside(nc_saver *s, const nc_literal *lit) {
    static char zeros[4096]; /* not const: no bytes of the library */
    char offset[24], length[24];
    uint64_t align = lit->bytes >= 65536 ? 4096 : 64, gap = (align - s->bytes_data % align) % align;
    NC_TRY(nc_file_add(s->w, s->data, zeros, (size_t)gap));
    NC_TRY(nc_file_add(s->w, s->data, lit->data, lit->bytes));
    snprintf(offset, sizeof offset, "%llu", (unsigned long long)(s->bytes_data + gap));
    snprintf(length, sizeof length, "%zu", lit->bytes);
    s->bytes_data += gap + lit->bytes;
    put_entry(s->out, "location", s->data_name);
    put_entry(s->out, "offset", offset);
    put_entry(s->out, "length", length);
    nc_wire_put_int(s->out, TensorProto_data_location, 1);
    return NC_OK;
}

nc_code nc_save_tensor(nc_saver *s, uint32_t number, const char *name, const nc_literal *lit) {
    bool strings = lit->dtype == NC_STRING;
    nc_wire_mark mark = nc_wire_begin(s->out, number, strings || (name && s->data) ? 0 : lit->bytes);
    nc_wire_put_ints(s->out, TensorProto_dims, lit->dims, (size_t)lit->rank);
    nc_wire_put_int(s->out, TensorProto_data_type, lit->dtype);
    nc_wire_put_str(s->out, TensorProto_name, name);
    const nc_str *str = lit->data;
    for (int64_t i = 0; strings && i < lit->n; i++)
        nc_wire_put_bytes(s->out, TensorProto_string_data, str[i].p, str[i].n);
    bool outside = name && s->data && !strings && lit->bytes >= s->min_bytes;
    if (outside)
        NC_TRY(save_outside(s, lit));
    else if (!strings)
        nc_wire_put_bytes(s->out, TensorProto_raw_data, lit->data, lit->bytes);
    nc_save_extra(s, lit->extra);
    nc_wire_end(s->out, mark);
    return NC_OK;
}

static nc_code save_dim(nc_saver *s, const nc_dim *d) {
    int64_t c;
    nc_wire_mark mark = nc_wire_begin(s->out, TensorShapeProto_dim, 0);
    if (nc_dim_is_const(d, &c)) {
        nc_wire_put_int(s->out, Dimension_dim_value, c);
    } else if (nc_dim_sym_id(d) >= 0) {
        nc_wire_put_str(s->out, Dimension_dim_param, nc_dims_sym_name(s->m->dims, nc_dim_sym_id(d)));
    } else {
        nc_text text = {0};
        nc_dim_print(&text, d);
        bool failed = text.failed;
        nc_wire_put_str(s->out, Dimension_dim_param, text.s);
        nc_text_release(&text);
        if (failed) NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    }
    nc_wire_end(s->out, mark);
    return NC_OK;
}

static nc_code save_tensor_type(nc_saver *s, const nc_type *t) {
    nc_wire_mark mark =
        nc_wire_begin(s->out, t->kind == NC_T_SPARSE ? TypeProto_sparse_tensor_type : TypeProto_tensor_type, 0);
    nc_wire_put_int(s->out, TypeProto_Tensor_elem_type, t->elem);
    if (t->rank >= 0) {
        nc_wire_mark shape = nc_wire_begin(s->out, TypeProto_Tensor_shape, 0);
        for (int i = 0; i < t->rank; i++) NC_TRY(save_dim(s, t->dims[i]));
        nc_wire_end(s->out, shape);
    }
    nc_wire_end(s->out, mark);
    return NC_OK;
}

static nc_code save_holder(nc_saver *s, const char *name, const nc_type *t) {
    bool map = t->kind == NC_T_MAP;
    uint32_t field = map                        ? TypeProto_map_type
                     : t->kind == NC_T_SEQUENCE ? TypeProto_sequence_type
                                                : TypeProto_optional_type;
    nc_wire_mark mark = nc_wire_begin(s->out, field, 0);
    if (map) nc_wire_put_int(s->out, TypeProto_Map_key_type, t->elem);
    NC_TRY(nc_save_type(s, map ? TypeProto_Map_value_type : TypeProto_Sequence_elem_type, name, t->of));
    nc_wire_end(s->out, mark);
    return NC_OK;
}

nc_code nc_save_type(nc_saver *s, uint32_t number, const char *name, const nc_type *t) {
    if (!nc_save_can_say(t)) NC_FAIL(s->w, NC_E_UNSUPPORTED, "'%.200s' has a type that ONNX cannot say, or none", name);
    nc_wire_mark mark = nc_wire_begin(s->out, number, 0);
    bool tensor = t->kind == NC_T_TENSOR || t->kind == NC_T_SPARSE;
    NC_TRY(tensor ? save_tensor_type(s, t) : save_holder(s, name, t));
    nc_wire_end(s->out, mark);
    return NC_OK;
}

nc_code nc_save_value_info(nc_saver *s, uint32_t number, const char *name, const nc_type *t, nc_str extra) {
    nc_wire_mark mark = nc_wire_begin(s->out, number, 0);
    nc_wire_put_str(s->out, ValueInfoProto_name, name);
    if (t) NC_TRY(nc_save_type(s, ValueInfoProto_type, name, t));
    nc_save_extra(s, extra);
    nc_wire_end(s->out, mark);
    return NC_OK;
}
