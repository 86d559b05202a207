/* onnx/proto.h: the messages of onnx.proto as tables: field numbers, kinds and names stand here once. Each table
 * gives an enum of numbers (NodeProto_input), a struct (nc_pb_node) and a reader (nc_pb_read_node). Repeated fields
 * hold how many there are; nc_wire_each walks them. Fields that nothing here uses are left out and skipped as
 * unknown. */
#ifndef NC_ONNX_PROTO_H
#define NC_ONNX_PROTO_H

#include "onnx/wire.h"

#define NC_PB_MODEL(X) \
    X(ModelProto, 1, INT, ir_version) X(ModelProto, 2, BYTES, producer_name) X(ModelProto, 3, BYTES, producer_version) \
    X(ModelProto, 4, BYTES, domain) X(ModelProto, 5, INT, model_version) X(ModelProto, 6, BYTES, doc_string) \
    X(ModelProto, 7, BYTES, graph) X(ModelProto, 8, MANY, opset_import) X(ModelProto, 14, MANY, metadata_props) \
    X(ModelProto, 20, MANY, training_info) X(ModelProto, 25, MANY, functions)
#define NC_PB_OPSET(X) X(OperatorSetIdProto, 1, BYTES, domain) X(OperatorSetIdProto, 2, INT, version)
#define NC_PB_ENTRY(X) X(StringStringEntryProto, 1, BYTES, key) X(StringStringEntryProto, 2, BYTES, value)
#define NC_PB_FUNCTION(X) \
    X(FunctionProto, 1, BYTES, name) X(FunctionProto, 4, MANY, input) X(FunctionProto, 5, MANY, output) \
    X(FunctionProto, 7, MANY, node) X(FunctionProto, 9, MANY, opset_import) X(FunctionProto, 10, BYTES, domain) \
    X(FunctionProto, 11, MANY, attribute_proto) X(FunctionProto, 13, BYTES, overload)
#define NC_PB_SPARSE(X) \
    X(SparseTensorProto, 1, BYTES, values) X(SparseTensorProto, 2, BYTES, indices) X(SparseTensorProto, 3, INTS, dims)
#define NC_PB_GRAPH(X) \
    X(GraphProto, 1, MANY, node) X(GraphProto, 2, BYTES, name) X(GraphProto, 5, MANY, initializer) \
    X(GraphProto, 10, BYTES, doc_string) \
    X(GraphProto, 11, MANY, input) X(GraphProto, 12, MANY, output) X(GraphProto, 13, MANY, value_info) \
    X(GraphProto, 15, MANY, sparse_initializer)
#define NC_PB_VALUE(X) X(ValueInfoProto, 1, BYTES, name) X(ValueInfoProto, 2, BYTES, type)
#define NC_PB_NODE(X) \
    X(NodeProto, 1, MANY, input) X(NodeProto, 2, MANY, output) X(NodeProto, 3, BYTES, name) \
    X(NodeProto, 4, BYTES, op_type) X(NodeProto, 5, MANY, attribute) X(NodeProto, 7, BYTES, domain) \
    X(NodeProto, 8, BYTES, overload) X(NodeProto, 9, MANY, metadata_props)
#define NC_PB_ATTRIBUTE(X) \
    X(AttributeProto, 1, BYTES, name) X(AttributeProto, 2, FLOAT, f) X(AttributeProto, 3, INT, i) \
    X(AttributeProto, 4, BYTES, s) X(AttributeProto, 5, BYTES, t) X(AttributeProto, 6, BYTES, g) \
    X(AttributeProto, 7, FLOATS, floats) X(AttributeProto, 8, INTS, ints) X(AttributeProto, 9, MANY, strings) \
    X(AttributeProto, 10, MANY, tensors) X(AttributeProto, 11, MANY, graphs) X(AttributeProto, 15, MANY, type_protos) \
    X(AttributeProto, 22, BYTES, sparse_tensor) X(AttributeProto, 23, MANY, sparse_tensors) \
    X(AttributeProto, 14, BYTES, tp) X(AttributeProto, 20, INT, type) X(AttributeProto, 21, BYTES, ref_attr_name)
#define NC_PB_TENSOR(X) \
    X(TensorProto, 1, INTS, dims) X(TensorProto, 2, INT, data_type) X(TensorProto, 3, BYTES, segment) \
    X(TensorProto, 4, FLOATS, float_data) X(TensorProto, 5, INTS, int32_data) X(TensorProto, 6, MANY, string_data) \
    X(TensorProto, 7, INTS, int64_data) X(TensorProto, 8, BYTES, name) X(TensorProto, 9, BYTES, raw_data) \
    X(TensorProto, 10, DOUBLES, double_data) X(TensorProto, 11, INTS, uint64_data) \
    X(TensorProto, 13, MANY, external_data) X(TensorProto, 14, INT, data_location)
#define NC_PB_TYPE(X) \
    X(TypeProto, 1, BYTES, tensor_type) X(TypeProto, 4, BYTES, sequence_type) X(TypeProto, 5, BYTES, map_type) \
    X(TypeProto, 7, BYTES, opaque_type) X(TypeProto, 8, BYTES, sparse_tensor_type) X(TypeProto, 9, BYTES, optional_type)
#define NC_PB_TENSOR_TYPE(X) X(TypeProto_Tensor, 1, INT, elem_type) X(TypeProto_Tensor, 2, BYTES, shape)
#define NC_PB_HOLDER(X) X(TypeProto_Sequence, 1, BYTES, elem_type) /* Sequence and Optional are alike */
#define NC_PB_MAP(X) X(TypeProto_Map, 1, INT, key_type) X(TypeProto_Map, 2, BYTES, value_type)
#define NC_PB_SHAPE(X) X(TensorShapeProto, 1, MANY, dim)
#define NC_PB_DIM(X) X(Dimension, 1, INT, dim_value) X(Dimension, 2, BYTES, dim_param)

#define NC_PB_MESSAGES(M) \
    M(model, NC_PB_MODEL) M(opset, NC_PB_OPSET) M(entry, NC_PB_ENTRY) M(function, NC_PB_FUNCTION) \
    M(graph, NC_PB_GRAPH) M(value, NC_PB_VALUE) M(node, NC_PB_NODE) M(attribute, NC_PB_ATTRIBUTE) \
    M(tensor, NC_PB_TENSOR) M(type, NC_PB_TYPE) M(tensor_type, NC_PB_TENSOR_TYPE) M(holder, NC_PB_HOLDER) \
    M(sparse, NC_PB_SPARSE) M(map, NC_PB_MAP) M(shape, NC_PB_SHAPE) M(dim, NC_PB_DIM)

#define NC_PB_C_INT int64_t
#define NC_PB_C_FLOAT float
#define NC_PB_C_BYTES nc_bytes
#define NC_PB_C_MANY size_t
#define NC_PB_C_INTS size_t
#define NC_PB_C_FLOATS size_t
#define NC_PB_C_DOUBLES size_t
#define NC_PB_NUMBER(message, number, kind, field) message##_##field = number,
#define NC_PB_MEMBER(message, number, kind, field) NC_PB_C_##kind field;
#define NC_PB_DECLARE(id, FIELDS)  \
    enum { FIELDS(NC_PB_NUMBER) }; \
    typedef struct nc_pb_##id {    \
        uint64_t has;              \
        FIELDS(NC_PB_MEMBER)       \
    } nc_pb_##id;                  \
    NC_MUST nc_code nc_pb_read_##id(nc_work *w, nc_bytes b, nc_pb_##id *out);
NC_PB_MESSAGES(NC_PB_DECLARE)

#define NC_PB_BIT(number) ((uint64_t)1 << (number))
#define NC_PB_HAS(msg, number) (((msg).has >> (number) & 1) != 0)

/* AttributeProto.AttributeType. */
enum {
    NC_PB_A_UNDEFINED, NC_PB_A_FLOAT, NC_PB_A_INT, NC_PB_A_STRING, NC_PB_A_TENSOR, NC_PB_A_GRAPH, NC_PB_A_FLOATS,
    NC_PB_A_INTS, NC_PB_A_STRINGS, NC_PB_A_TENSORS, NC_PB_A_GRAPHS, NC_PB_A_SPARSE, NC_PB_A_SPARSES, NC_PB_A_TYPE,
    NC_PB_A_TYPES
};

/* From this IR version on an initializer need not be an input; one that is, is an input's default. */
#define NC_ONNX_IR_FREE_INITIALIZERS 4
/* From this one on attributes say their type. */
#define NC_ONNX_IR_TYPED_ATTRIBUTES 2
/* The newest that is known here; tests/py/test_strict.py compares them with the package onnx. */
#define NC_ONNX_NEWEST_IR 14
#define NC_ONNX_NEWEST_OPSET 28

/* The domain of functions that hold one node of another opset. */
#define NC_PB_ODD_DOMAIN "nacre.opset"

/* The key under which a random node's id travels in NodeProto.metadata_props. */
#define NC_PB_RANDOM_KEY "nacre.random_id"

#endif
