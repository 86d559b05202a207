/* onnx/ort_format.h: models in onnxruntime's own format (.ort), by way of the bytes of a ModelProto: what the
 * loader reads is made of the flatbuffer, and what the saver wrote becomes one, so that both formats mean the same.
 *
 * Files are written as version 4 of the format: there onnxruntime finds the type parameters of the kernels in its
 * own schemas, so every full build reads them (a minimal build has no schemas and wants a file of its own
 * converter). What the format has no words for (functions, optional values, values of unknown type) is refused by
 * name. */
#ifndef NC_ONNX_ORT_FORMAT_H
#define NC_ONNX_ORT_FORMAT_H

#include "ir/graph.h"
#include "onnx/flat.h"

#define NC_ORT_MODEL "ORTM"

bool nc_ort_is_model(nc_bytes b);
/* Appends a ModelProto to out, which the caller releases. */
NC_MUST nc_code nc_ort_to_onnx(nc_work *w, nc_bytes file, nc_text *out);
/* The other way, from what onnx/save.h writes; the registry tells versions of operators. */
NC_MUST nc_code nc_ort_from_onnx(nc_work *w, nc_bytes model, const nc_registry *r, nc_text *out);

/* The tables' fields by their numbers in the schema. */
#define FIELD(table, name, id) \
    static const nc_flat_field nc_ort_##table##_##name __attribute__((unused)) = {id, #table "." #name};
FIELD(session, ort_version, 0)
FIELD(session, model, 1)
FIELD(model, ir_version, 0)
FIELD(model, opset_import, 1)
FIELD(model, producer_name, 2)
FIELD(model, producer_version, 3)
FIELD(model, domain, 4)
FIELD(model, model_version, 5)
FIELD(model, doc_string, 6)
FIELD(model, graph, 7)
FIELD(model, graph_doc_string, 8)
FIELD(model, metadata_props, 9)
FIELD(opset, domain, 0)
FIELD(opset, version, 1)
FIELD(entry, key, 0)
FIELD(entry, value, 1)
FIELD(graph, initializers, 0)
FIELD(graph, node_args, 1)
FIELD(graph, nodes, 2)
FIELD(graph, max_node_index, 3)
FIELD(graph, node_edges, 4)
FIELD(graph, inputs, 5)
FIELD(graph, outputs, 6)
FIELD(graph, sparse_initializers, 7)
FIELD(node, name, 0)
FIELD(node, doc_string, 1)
FIELD(node, domain, 2)
FIELD(node, since_version, 3)
FIELD(node, index, 4)
FIELD(node, op_type, 5)
FIELD(node, type, 6)
FIELD(node, inputs, 8)
FIELD(node, outputs, 9)
FIELD(node, attributes, 10)
FIELD(node, input_arg_counts, 11)
FIELD(node, implicit_inputs, 12)
FIELD(edge, node_index, 0)
FIELD(edge, input_edges, 1)
FIELD(edge, output_edges, 2)
FIELD(attribute, name, 0)
FIELD(attribute, doc_string, 1)
FIELD(attribute, type, 2)
FIELD(attribute, f, 3)
FIELD(attribute, i, 4)
FIELD(attribute, s, 5)
FIELD(attribute, t, 6)
FIELD(attribute, g, 7)
FIELD(attribute, floats, 8)
FIELD(attribute, ints, 9)
FIELD(attribute, strings, 10)
FIELD(attribute, tensors, 11)
FIELD(attribute, graphs, 12)
FIELD(tensor, name, 0)
FIELD(tensor, doc_string, 1)
FIELD(tensor, dims, 2)
FIELD(tensor, data_type, 3)
FIELD(tensor, raw_data, 4)
FIELD(tensor, string_data, 5)
FIELD(tensor, external_data_offset, 6)
FIELD(sparse, values, 0)
FIELD(sparse, indices, 1)
FIELD(sparse, dims, 2)
FIELD(value, name, 0)
FIELD(value, doc_string, 1)
FIELD(value, type, 2)
FIELD(type, denotation, 0)
FIELD(type, value_type, 1)
FIELD(type, value, 2)
FIELD(tensor_type, elem_type, 0)
FIELD(tensor_type, shape, 1)
FIELD(sequence_type, elem_type, 0)
FIELD(map_type, key_type, 0)
FIELD(map_type, value_type, 1)
FIELD(shape, dim, 0)
FIELD(dim, value, 0)
FIELD(dim_value, dim_type, 0)
FIELD(dim_value, dim_value, 1)
FIELD(dim_value, dim_param, 2)
#undef FIELD

enum { NC_ORT_TYPE_NONE, NC_ORT_TYPE_TENSOR, NC_ORT_TYPE_SEQUENCE, NC_ORT_TYPE_MAP }; /* type.value_type */
enum { NC_ORT_DIM_UNKNOWN, NC_ORT_DIM_VALUE, NC_ORT_DIM_PARAM };                      /* dim_value.dim_type */

#endif
