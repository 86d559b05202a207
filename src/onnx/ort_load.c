/* onnx/ort_load.c: onnxruntime's format to a ModelProto, table by table. The bytes are hostile: flat.h checks every
 * offset, graphs and types nest to a stated depth, and since many offsets may lead to one table, what is written is
 * bounded too. */
#include "base/map.h"
#include "onnx/limits.h"
#include "onnx/ort_format.h"
#include "onnx/proto.h"

#include <string.h>

typedef struct reader {
    nc_work *w;
    nc_text *out;
    size_t most; /* bytes that out and the scratch memory may have */
} reader;

/* Where the root lies, low byte first and always near, then four letters. No message of protobuf has two zeros
 * where the high bytes are. */
bool nc_ort_is_model(nc_bytes b) { return b.n >= 8 && !b.p[2] && !b.p[3] && nc_flat_is(b, NC_ORT_MODEL); }

static nc_code room(const reader *r, size_t bytes) {
    size_t has = r->out->n + r->w->scratch.total;
    if (has > r->most || bytes > r->most - has)
        NC_FAIL(r->w, NC_E_LIMIT, "flatbuffer: the model may take %zu MiB of memory, it needs more", r->most >> 20);
    return NC_OK;
}

static nc_code deeper(const reader *r, int depth, const char *what) {
    if (depth > NC_ONNX_MAX_DEPTH)
        NC_FAIL(r->w, NC_E_LIMIT, "flatbuffer: %s nest more than %d deep", what, NC_ONNX_MAX_DEPTH);
    return NC_OK;
}

static nc_code missing(const reader *r, nc_flat_field f) {
    NC_FAIL(r->w, NC_E_BAD_MODEL, "flatbuffer: %s is missing", f.name);
}

/* ---- fields that are the same on both sides ---- */

static nc_code string(const reader *r, const nc_flat_table *t, nc_flat_field f, uint32_t number) {
    nc_bytes s;
    NC_TRY(nc_flat_string(r->w, t, f, &s));
    NC_TRY(room(r, s.n));
    if (s.n) nc_wire_put_bytes(r->out, number, s.p, s.n);
    return NC_OK;
}

static nc_code integer(const reader *r, const nc_flat_table *t, nc_flat_field f, uint32_t number) {
    int64_t v = 0;
    NC_TRY(nc_flat_i64(r->w, t, f, &v));
    if (v) nc_wire_put_int(r->out, number, v);
    return NC_OK;
}

static nc_code strings(const reader *r, const nc_flat_table *t, nc_flat_field f, uint32_t number) {
    nc_flat_vector v;
    NC_TRY(nc_flat_list(r->w, t, f, 4, &v));
    for (size_t i = 0; i < v.n; i++) {
        nc_bytes s;
        NC_TRY(nc_flat_list_string(r->w, &v, i, &s));
        NC_TRY(room(r, s.n));
        nc_wire_put_bytes(r->out, number, s.p, s.n);
    }
    return NC_OK;
}

static nc_code integers(const reader *r, const nc_flat_table *t, nc_flat_field f, uint32_t number) {
    nc_flat_vector v;
    NC_TRY(nc_flat_list(r->w, t, f, 8, &v));
    NC_TRY(room(r, 10 * v.n));
    nc_wire_mark mark = nc_wire_begin(r->out, number, v.n);
    for (size_t i = 0; i < v.n; i++) nc_wire_put_varint(r->out, (uint64_t)nc_flat_list_i64(&v, i));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

typedef nc_code each_fn(const reader *r, const nc_flat_table *t, uint32_t number, int depth);

static nc_code tables(const reader *r, const nc_flat_table *t, nc_flat_field f, uint32_t number, int depth,
                      each_fn *each) {
    nc_flat_vector v;
    NC_TRY(nc_flat_list(r->w, t, f, 4, &v));
    for (size_t i = 0; i < v.n; i++) {
        nc_flat_table sub;
        NC_TRY(room(r, 0));
        NC_TRY(nc_flat_list_table(r->w, &v, i, &sub));
        NC_TRY(each(r, &sub, number, depth));
    }
    return NC_OK;
}

/* A field that must be there. */
static nc_code table(const reader *r, const nc_flat_table *t, nc_flat_field f, uint32_t number, int depth,
                     each_fn *each) {
    nc_flat_table sub;
    bool has;
    NC_TRY(nc_flat_sub(r->w, t, f, &has, &sub));
    return has ? each(r, &sub, number, depth) : missing(r, f);
}

/* ---- tensors ---- */

static nc_code tensor(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    (void)depth;
    nc_flat_vector raw;
    int32_t dtype = 0;
    int64_t external = -1;
    NC_TRY(nc_flat_list(r->w, t, nc_ort_tensor_raw_data, 1, &raw));
    NC_TRY(nc_flat_i32(r->w, t, nc_ort_tensor_data_type, &dtype));
    NC_TRY(nc_flat_i64(r->w, t, nc_ort_tensor_external_data_offset, &external));
    if (external >= 0)
        NC_FAIL(r->w, NC_E_UNSUPPORTED, "flatbuffer: a tensor of the model has its data in a file of its own");
    NC_TRY(room(r, raw.n));
    nc_wire_mark mark = nc_wire_begin(r->out, number, raw.n + 64);
    NC_TRY(integers(r, t, nc_ort_tensor_dims, TensorProto_dims));
    nc_wire_put_int(r->out, TensorProto_data_type, dtype);
    NC_TRY(strings(r, t, nc_ort_tensor_string_data, TensorProto_string_data));
    NC_TRY(string(r, t, nc_ort_tensor_name, TensorProto_name));
    if (raw.n) nc_wire_put_bytes(r->out, TensorProto_raw_data, raw.file.p + raw.at, raw.n);
    nc_wire_end(r->out, mark);
    return NC_OK;
}

/* The indices of a sparse tensor are of the narrowest integers that hold them; in ONNX they are int64. */
static nc_code indices(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    nc_flat_vector raw;
    int32_t dtype = 0;
    NC_TRY(nc_flat_list(r->w, t, nc_ort_tensor_raw_data, 1, &raw));
    NC_TRY(nc_flat_i32(r->w, t, nc_ort_tensor_data_type, &dtype));
    size_t bytes = dtype == NC_INT8 ? 1 : dtype == NC_INT16 ? 2 : dtype == NC_INT32 ? 4 : 0;
    if (!bytes) return tensor(r, t, number, depth);
    NC_TRY(room(r, raw.n / bytes * 8));
    nc_wire_mark mark = nc_wire_begin(r->out, number, raw.n / bytes * 8);
    NC_TRY(integers(r, t, nc_ort_tensor_dims, TensorProto_dims));
    nc_wire_put_int(r->out, TensorProto_data_type, NC_INT64);
    nc_wire_mark data = nc_wire_begin(r->out, TensorProto_raw_data, raw.n / bytes * 8);
    for (size_t i = 0; i < raw.n / bytes; i++) {
        const uint8_t *p = raw.file.p + raw.at + i * bytes;
        uint64_t u = 0;
        for (size_t k = 0; k < bytes; k++) u |= (uint64_t)p[k] << 8 * k;
        if (p[bytes - 1] & 0x80) u |= UINT64_MAX << (8 * bytes - 1); /* negative: said to be outside by who reads it */
        nc_text_add_n(r->out, (const char *)&u, 8);
    }
    nc_wire_end(r->out, data);
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code sparse(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(table(r, t, nc_ort_sparse_values, SparseTensorProto_values, depth, tensor));
    NC_TRY(table(r, t, nc_ort_sparse_indices, SparseTensorProto_indices, depth, indices));
    NC_TRY(integers(r, t, nc_ort_sparse_dims, SparseTensorProto_dims));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

/* ---- types ---- */

static nc_code dim(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    (void)depth;
    nc_flat_table value;
    bool has;
    uint8_t kind = NC_ORT_DIM_UNKNOWN;
    NC_TRY(nc_flat_sub(r->w, t, nc_ort_dim_value, &has, &value));
    if (has) NC_TRY(nc_flat_u8(r->w, &value, nc_ort_dim_value_dim_type, &kind));
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    int64_t size = 0;
    if (kind == NC_ORT_DIM_VALUE) {
        NC_TRY(nc_flat_i64(r->w, &value, nc_ort_dim_value_dim_value, &size));
        nc_wire_put_int(r->out, Dimension_dim_value, size);
    }
    if (kind == NC_ORT_DIM_PARAM) NC_TRY(string(r, &value, nc_ort_dim_value_dim_param, Dimension_dim_param));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code shape(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(tables(r, t, nc_ort_shape_dim, TensorShapeProto_dim, depth, dim));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code tensor_type(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    nc_flat_table sub;
    bool has;
    int32_t elem = 0;
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(nc_flat_i32(r->w, t, nc_ort_tensor_type_elem_type, &elem));
    nc_wire_put_int(r->out, TypeProto_Tensor_elem_type, elem);
    NC_TRY(nc_flat_sub(r->w, t, nc_ort_tensor_type_shape, &has, &sub));
    if (has) NC_TRY(shape(r, &sub, TypeProto_Tensor_shape, depth));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code type(const reader *r, const nc_flat_table *t, uint32_t number, int depth);

static nc_code sequence_type(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(table(r, t, nc_ort_sequence_type_elem_type, TypeProto_Sequence_elem_type, depth, type));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code map_type(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    int32_t key = 0;
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(nc_flat_i32(r->w, t, nc_ort_map_type_key_type, &key));
    nc_wire_put_int(r->out, TypeProto_Map_key_type, key);
    NC_TRY(table(r, t, nc_ort_map_type_value_type, TypeProto_Map_value_type, depth, type));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code type(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    uint8_t kind = NC_ORT_TYPE_NONE;
    NC_TRY(deeper(r, depth, "types"));
    NC_TRY(nc_flat_u8(r->w, t, nc_ort_type_value_type, &kind));
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    if (kind == NC_ORT_TYPE_TENSOR)
        NC_TRY(table(r, t, nc_ort_type_value, TypeProto_tensor_type, depth + 1, tensor_type));
    else if (kind == NC_ORT_TYPE_SEQUENCE)
        NC_TRY(table(r, t, nc_ort_type_value, TypeProto_sequence_type, depth + 1, sequence_type));
    else if (kind == NC_ORT_TYPE_MAP)
        NC_TRY(table(r, t, nc_ort_type_value, TypeProto_map_type, depth + 1, map_type));
    else if (kind != NC_ORT_TYPE_NONE)
        NC_FAIL(r->w, NC_E_UNSUPPORTED, "flatbuffer: a type is of kind %d; known are tensor, sequence and map", kind);
    nc_wire_end(r->out, mark);
    return NC_OK;
}

/* ---- nodes ---- */

static nc_code graph(const reader *r, const nc_flat_table *t, uint32_t number, int depth);

static nc_code floats(const reader *r, const nc_flat_table *t, nc_flat_field f, uint32_t number) {
    nc_flat_vector v;
    NC_TRY(nc_flat_list(r->w, t, f, 4, &v));
    NC_TRY(room(r, 8 * v.n));
    for (size_t i = 0; i < v.n; i++) nc_wire_put_float(r->out, number, nc_flat_list_f32(&v, i));
    return NC_OK;
}

static nc_code attribute_value(const reader *r, const nc_flat_table *t, int32_t kind, int depth) {
    float f = 0;
    int64_t i = 0;
    nc_bytes s;
    switch (kind) {
    case NC_PB_A_FLOAT:
        NC_TRY(nc_flat_f32(r->w, t, nc_ort_attribute_f, &f));
        nc_wire_put_float(r->out, AttributeProto_f, f);
        return NC_OK;
    case NC_PB_A_INT:
        NC_TRY(nc_flat_i64(r->w, t, nc_ort_attribute_i, &i));
        nc_wire_put_int(r->out, AttributeProto_i, i);
        return NC_OK;
    case NC_PB_A_STRING:
        NC_TRY(nc_flat_string(r->w, t, nc_ort_attribute_s, &s));
        NC_TRY(room(r, s.n));
        nc_wire_put_bytes(r->out, AttributeProto_s, s.p, s.n);
        return NC_OK;
    case NC_PB_A_TENSOR: return table(r, t, nc_ort_attribute_t, AttributeProto_t, depth, tensor);
    case NC_PB_A_GRAPH: return table(r, t, nc_ort_attribute_g, AttributeProto_g, depth + 1, graph);
    case NC_PB_A_FLOATS: return floats(r, t, nc_ort_attribute_floats, AttributeProto_floats);
    case NC_PB_A_INTS: return integers(r, t, nc_ort_attribute_ints, AttributeProto_ints);
    case NC_PB_A_STRINGS: return strings(r, t, nc_ort_attribute_strings, AttributeProto_strings);
    case NC_PB_A_TENSORS: return tables(r, t, nc_ort_attribute_tensors, AttributeProto_tensors, depth, tensor);
    case NC_PB_A_GRAPHS: return tables(r, t, nc_ort_attribute_graphs, AttributeProto_graphs, depth + 1, graph);
    default: NC_FAIL(r->w, NC_E_UNSUPPORTED, "flatbuffer: an attribute is of kind %d, which has no value", (int)kind);
    }
}

static nc_code attribute(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    int32_t kind = 0;
    NC_TRY(nc_flat_i32(r->w, t, nc_ort_attribute_type, &kind));
    nc_wire_mark mark = nc_wire_begin(r->out, number, kind == NC_PB_A_GRAPH ? 1 << 14 : 0);
    NC_TRY(string(r, t, nc_ort_attribute_name, AttributeProto_name));
    nc_wire_put_int(r->out, AttributeProto_type, kind);
    NC_TRY(attribute_value(r, t, kind, depth));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code node(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    int32_t kind = 0;
    nc_bytes op;
    NC_TRY(nc_flat_string(r->w, t, nc_ort_node_op_type, &op));
    NC_TRY(nc_flat_i32(r->w, t, nc_ort_node_type, &kind));
    if (kind != 0)
        NC_FAIL(r->w, NC_E_UNSUPPORTED, "flatbuffer: node '%.*s' was compiled by a provider of onnxruntime",
                op.n > 200 ? 200 : (int)op.n, (const char *)op.p);
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(strings(r, t, nc_ort_node_inputs, NodeProto_input));
    NC_TRY(strings(r, t, nc_ort_node_outputs, NodeProto_output));
    NC_TRY(string(r, t, nc_ort_node_name, NodeProto_name));
    NC_TRY(string(r, t, nc_ort_node_op_type, NodeProto_op_type));
    NC_TRY(tables(r, t, nc_ort_node_attributes, NodeProto_attribute, depth, attribute));
    NC_TRY(string(r, t, nc_ort_node_domain, NodeProto_domain));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

/* ---- graphs ---- */

static nc_code value(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    nc_flat_table sub;
    bool has;
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(string(r, t, nc_ort_value_name, ValueInfoProto_name));
    NC_TRY(nc_flat_sub(r->w, t, nc_ort_value_type, &has, &sub));
    if (has) NC_TRY(type(r, &sub, ValueInfoProto_type, depth));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

/* The graph's values with their types, by name. Those of graphs around it stand here too. */
static nc_code find_values(const reader *r, const nc_flat_table *t, nc_map *out) {
    nc_flat_vector v;
    NC_TRY(nc_flat_list(r->w, t, nc_ort_graph_node_args, 4, &v));
    NC_TRY(room(r, v.n * sizeof(nc_flat_table)));
    nc_flat_table *all = nc_arena_array(&r->w->scratch, v.n + 1, sizeof *all);
    NC_NEED(r->w, all);
    for (size_t i = 0; i < v.n; i++) {
        nc_bytes name;
        NC_TRY(nc_flat_list_table(r->w, &v, i, &all[i]));
        NC_TRY(nc_flat_string(r->w, &all[i], nc_ort_value_name, &name));
        if (name.n && !nc_map_put_bytes(out, name.p, name.n, &all[i])) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

/* The values that a list names, in its order: `required` ones in any case, the others if their type is known and
 * was not told before. */
static nc_code named_values(const reader *r, const nc_flat_table *t, nc_flat_field f, uint32_t number, int depth,
                            nc_map *values, bool required) {
    nc_flat_vector v;
    NC_TRY(nc_flat_list(r->w, t, f, 4, &v));
    for (size_t i = 0; i < v.n; i++) {
        nc_bytes name;
        NC_TRY(nc_flat_list_string(r->w, &v, i, &name));
        NC_TRY(room(r, name.n));
        const nc_flat_table *at = name.n ? nc_map_get_bytes(values, name.p, name.n) : NULL;
        if (at) {
            NC_TRY(value(r, at, number, depth));
        } else if (required) {
            nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
            nc_wire_put_bytes(r->out, ValueInfoProto_name, name.p, name.n);
            nc_wire_end(r->out, mark);
        }
        if (at && !required && !nc_map_put_bytes(values, name.p, name.n, NULL))
            NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code forget(const reader *r, const nc_flat_table *t, nc_flat_field f, nc_map *values) {
    nc_flat_vector v;
    NC_TRY(nc_flat_list(r->w, t, f, 4, &v));
    for (size_t i = 0; i < v.n; i++) {
        nc_bytes name;
        NC_TRY(nc_flat_list_string(r->w, &v, i, &name));
        if (name.n && !nc_map_put_bytes(values, name.p, name.n, NULL)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

/* Types of what the graph's own nodes make and no list has told. */
static nc_code inner_values(const reader *r, const nc_flat_table *t, int depth, nc_map *values) {
    nc_flat_vector nodes;
    NC_TRY(forget(r, t, nc_ort_graph_inputs, values));
    NC_TRY(forget(r, t, nc_ort_graph_outputs, values));
    NC_TRY(nc_flat_list(r->w, t, nc_ort_graph_nodes, 4, &nodes));
    for (size_t i = 0; i < nodes.n; i++) {
        nc_flat_table n;
        NC_TRY(nc_flat_list_table(r->w, &nodes, i, &n));
        NC_TRY(named_values(r, &n, nc_ort_node_outputs, GraphProto_value_info, depth, values, false));
    }
    return NC_OK;
}

static nc_code graph_fields(const reader *r, const nc_flat_table *t, int depth) {
    nc_map values;
    nc_map_init(&values, &r->w->scratch);
    NC_TRY(deeper(r, depth, "graphs"));
    NC_TRY(find_values(r, t, &values));
    nc_wire_put_str(r->out, GraphProto_name, "graph");
    NC_TRY(tables(r, t, nc_ort_graph_nodes, GraphProto_node, depth, node));
    NC_TRY(tables(r, t, nc_ort_graph_initializers, GraphProto_initializer, depth, tensor));
    NC_TRY(tables(r, t, nc_ort_graph_sparse_initializers, GraphProto_sparse_initializer, depth, sparse));
    NC_TRY(named_values(r, t, nc_ort_graph_inputs, GraphProto_input, depth, &values, true));
    NC_TRY(named_values(r, t, nc_ort_graph_outputs, GraphProto_output, depth, &values, true));
    return inner_values(r, t, depth, &values);
}

static nc_code graph(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    nc_wire_mark mark = nc_wire_begin(r->out, number, 1 << 14);
    NC_TRY(graph_fields(r, t, depth));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

/* ---- the model ---- */

static nc_code opset(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    (void)depth;
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(string(r, t, nc_ort_opset_domain, OperatorSetIdProto_domain));
    NC_TRY(integer(r, t, nc_ort_opset_version, OperatorSetIdProto_version));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code entry(const reader *r, const nc_flat_table *t, uint32_t number, int depth) {
    (void)depth;
    nc_wire_mark mark = nc_wire_begin(r->out, number, 0);
    NC_TRY(string(r, t, nc_ort_entry_key, StringStringEntryProto_key));
    NC_TRY(string(r, t, nc_ort_entry_value, StringStringEntryProto_value));
    nc_wire_end(r->out, mark);
    return NC_OK;
}

static nc_code header(const reader *r, const nc_flat_table *m) {
    NC_TRY(integer(r, m, nc_ort_model_ir_version, ModelProto_ir_version));
    NC_TRY(string(r, m, nc_ort_model_producer_name, ModelProto_producer_name));
    NC_TRY(string(r, m, nc_ort_model_producer_version, ModelProto_producer_version));
    NC_TRY(string(r, m, nc_ort_model_domain, ModelProto_domain));
    NC_TRY(integer(r, m, nc_ort_model_model_version, ModelProto_model_version));
    NC_TRY(string(r, m, nc_ort_model_doc_string, ModelProto_doc_string));
    NC_TRY(tables(r, m, nc_ort_model_opset_import, ModelProto_opset_import, 0, opset));
    return tables(r, m, nc_ort_model_metadata_props, ModelProto_metadata_props, 0, entry);
}

nc_code nc_ort_to_onnx(nc_work *w, nc_bytes file, nc_text *out) {
    reader r = {w, out, NC_ONNX_MAX_BYTES};
    if (file.n < (SIZE_MAX - r.most) / NC_ONNX_MAX_GROWTH) r.most += file.n * NC_ONNX_MAX_GROWTH;
    nc_flat_table session, m, g;
    bool has;
    NC_TRY(nc_flat_root(w, file, NC_ORT_MODEL, &session));
    NC_TRY(nc_flat_sub(w, &session, nc_ort_session_model, &has, &m));
    if (!has) return missing(&r, nc_ort_session_model);
    NC_TRY(header(&r, &m));
    NC_TRY(nc_flat_sub(w, &m, nc_ort_model_graph, &has, &g));
    if (!has) return missing(&r, nc_ort_model_graph);
    nc_wire_mark mark = nc_wire_begin(out, ModelProto_graph, file.n);
    NC_TRY(string(&r, &m, nc_ort_model_graph_doc_string, GraphProto_doc_string));
    NC_TRY(graph_fields(&r, &g, 1));
    nc_wire_end(out, mark);
    if (out->failed) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}
