/* onnx/testing.h: for the tests of onnx/ only: a registry of a few operators, and words to write ONNX messages by hand
 * (everything static, so that each test file has its own). */
#ifndef NC_ONNX_TESTING_H
#define NC_ONNX_TESTING_H

#include "ir/card.h"
#include "onnx/proto.h"

#include <string.h>

#define ANY NC_TYPES_ANYTHING
static const nc_param one_in[] = {{"X", ANY, 0, 0}, {NULL, 0, 0, 0}};
static const nc_param two_in[] = {{"A", ANY, 0, 0}, {"B", ANY, 0, 0}, {NULL, 0, 0, 0}};
static const nc_param clip_in[] = {
    {"X", ANY, 0, 0}, {"min", ANY, 0, NC_P_OPTIONAL}, {"max", ANY, 0, NC_P_OPTIONAL}, {NULL, 0, 0, 0}};
static const nc_param many[] = {{"V", ANY, 0, NC_P_OPTIONAL | NC_P_VARIADIC | NC_P_HETEROGENEOUS}, {NULL, 0, 0, 0}};
static const nc_param one_out[] = {{"Y", ANY, 0, 0}, {NULL, 0, 0, 0}};
static const nc_param drop_out[] = {{"Y", ANY, 0, 0}, {"mask", ANY, 0, NC_P_OPTIONAL}, {NULL, 0, 0, 0}};
static const nc_attr_spec if_attrs[] = {{.name = "then_branch", .kind = NC_A_GRAPH, .flags = NC_ATTR_REQUIRED},
                                        {.name = "else_branch", .kind = NC_A_GRAPH, .flags = NC_ATTR_REQUIRED},
                                        {0}};
static const nc_attr_spec all_attrs[] = {
    {.name = "i", .kind = NC_A_INT},         {.name = "f", .kind = NC_A_FLOAT},
    {.name = "s", .kind = NC_A_STRING},      {.name = "ints", .kind = NC_A_INTS},
    {.name = "floats", .kind = NC_A_FLOATS}, {.name = "strings", .kind = NC_A_STRINGS},
    {.name = "t", .kind = NC_A_TENSOR},      {.name = "type", .kind = NC_A_TYPE},
    {.name = "other", .kind = NC_A_OTHER},   {0}};
static const nc_op_version relu_v[] = {
    {.since = 14, .in = one_in, .out = one_out}, {.since = 6, .in = one_in, .out = one_out}, {0}};
static const nc_op_version identity_v[] = {{.since = 1, .in = one_in, .out = one_out}, {0}};
static const nc_op_version add_v[] = {{.since = 7, .in = two_in, .out = one_out}, {0}};
static const nc_op_version clip_v[] = {{.since = 11, .in = clip_in, .out = one_out}, {0}};
static const nc_op_version drop_v[] = {{.since = 13, .in = clip_in, .out = drop_out}, {0}};
static const nc_op_version if_v[] = {{.since = 1, .in = one_in, .out = many, .attr = if_attrs}, {0}};
static const nc_op_version all_v[] = {{.since = 1, .in = many, .out = many, .attr = all_attrs}, {0}};
static const nc_op_version step_v[] = {{.since = 1, .in = two_in, .out = one_out}, {0}};

static const nc_card test_cards[] = {
    {.name = "Relu", .versions = relu_v},
    {.name = "Add", .versions = add_v},
    {.name = "Identity", .versions = identity_v},
    {.name = "Clip", .versions = clip_v},
    {.name = "Dropout", .versions = drop_v, .traits = NC_RANDOM},
    {.name = "If", .versions = if_v, .traits = NC_CONTROL},
    {.name = "All", .domain = "test", .versions = all_v},
    {.name = "Step", .domain = "nacre", .versions = step_v, .traits = NC_IN_PLACE, .n_updates = 1},
};

static const nc_card *find_test_card(const nc_registry *r, const char *domain, const char *op) {
    (void)r;
    for (size_t i = 0; i < sizeof test_cards / sizeof *test_cards; i++) {
        const char *d = test_cards[i].domain ? test_cards[i].domain : "";
        if (strcmp(test_cards[i].name, op) == 0 && strcmp(d, domain) == 0) return &test_cards[i];
    }
    return NULL;
}

__attribute__((unused)) static const nc_registry test_registry = {.find = find_test_card};

/* ---- messages by hand ---- */

__attribute__((unused)) static void put_header(nc_text *t, int64_t ir, int64_t opset) {
    nc_wire_put_int(t, ModelProto_ir_version, ir);
    const char *domains[] = {"", "test", "nacre"};
    for (int i = 0; i < 3; i++) {
        nc_wire_mark m = nc_wire_begin(t, ModelProto_opset_import, 0);
        nc_wire_put_str(t, OperatorSetIdProto_domain, domains[i]);
        nc_wire_put_int(t, OperatorSetIdProto_version, i ? 1 : opset);
        nc_wire_end(t, m);
    }
}

/* dims: "2,n,?" ; NULL: no shape. elem 0: no type. */
__attribute__((unused)) static void put_value(nc_text *t, uint32_t number, const char *name, int elem,
                                              const char *dims) {
    nc_wire_mark m = nc_wire_begin(t, number, 0);
    nc_wire_put_str(t, ValueInfoProto_name, name);
    nc_wire_mark type = nc_wire_begin(t, ValueInfoProto_type, 0), tensor = nc_wire_begin(t, TypeProto_tensor_type, 0);
    nc_wire_put_int(t, TypeProto_Tensor_elem_type, elem);
    if (dims) {
        nc_wire_mark shape = nc_wire_begin(t, TypeProto_Tensor_shape, 0);
        while (*dims) {
            size_t n = strcspn(dims, ",");
            nc_wire_mark dim = nc_wire_begin(t, TensorShapeProto_dim, 0);
            if (*dims >= '0' && *dims <= '9')
                nc_wire_put_int(t, Dimension_dim_value, *dims - '0');
            else if (*dims != '?')
                nc_wire_put_bytes(t, Dimension_dim_param, dims, n);
            nc_wire_end(t, dim);
            dims += n + (dims[n] == ',');
        }
        nc_wire_end(t, shape);
    }
    nc_wire_end(t, tensor);
    nc_wire_end(t, type);
    nc_wire_end(t, m);
}

/* "a b -> y z"; "_" is an absent argument. */
__attribute__((unused)) static void put_args(nc_text *t, uint32_t in, uint32_t out, const char *args) {
    while (*args) {
        size_t n = strcspn(args, " ");
        if (n == 2 && memcmp(args, "->", 2) == 0)
            in = out;
        else
            nc_wire_put_bytes(t, in, args, n == 1 && *args == '_' ? 0 : n);
        args += n + (args[n] == ' ');
    }
}

__attribute__((unused)) static nc_wire_mark begin_node_in(nc_text *t, uint32_t number, const char *name, const char *op,
                                                          const char *domain, const char *args) {
    nc_wire_mark m = nc_wire_begin(t, number, 0);
    put_args(t, NodeProto_input, NodeProto_output, args);
    nc_wire_put_str(t, NodeProto_name, name);
    nc_wire_put_str(t, NodeProto_op_type, op);
    nc_wire_put_str(t, NodeProto_domain, domain);
    return m;
}

/* The node is left open for attributes. */
__attribute__((unused)) static nc_wire_mark begin_node(nc_text *t, const char *name, const char *op, const char *domain,
                                                       const char *args) {
    return begin_node_in(t, GraphProto_node, name, op, domain, args);
}

__attribute__((unused)) static void put_opset(nc_text *t, uint32_t number, const char *domain, int64_t version) {
    nc_wire_mark m = nc_wire_begin(t, number, 0);
    nc_wire_put_str(t, OperatorSetIdProto_domain, domain);
    nc_wire_put_int(t, OperatorSetIdProto_version, version);
    nc_wire_end(t, m);
}

/* A function of domain "my", left open for nodes (put_in_body) and defaults. */
__attribute__((unused)) static nc_wire_mark begin_function(nc_text *t, const char *name, const char *args,
                                                           int64_t opset) {
    nc_wire_mark m = nc_wire_begin(t, ModelProto_functions, 0);
    nc_wire_put_str(t, FunctionProto_name, name);
    put_args(t, FunctionProto_input, FunctionProto_output, args);
    put_opset(t, FunctionProto_opset_import, "", opset);
    put_opset(t, FunctionProto_opset_import, "my", 1);
    put_opset(t, FunctionProto_opset_import, "test", 1);
    nc_wire_put_str(t, FunctionProto_domain, "my");
    return m;
}

__attribute__((unused)) static void put_in_body(nc_text *t, const char *name, const char *op, const char *domain,
                                                const char *args) {
    nc_wire_end(t, begin_node_in(t, FunctionProto_node, name, op, domain, args));
}

/* An int attribute; with `ref` a reference to the function's attribute of that name instead of a value. */
__attribute__((unused)) static void put_int_attr(nc_text *t, uint32_t number, const char *name, int64_t v,
                                                 const char *ref) {
    nc_wire_mark m = nc_wire_begin(t, number, 0);
    nc_wire_put_str(t, AttributeProto_name, name);
    nc_wire_put_int(t, AttributeProto_type, NC_PB_A_INT);
    if (ref)
        nc_wire_put_str(t, AttributeProto_ref_attr_name, ref);
    else
        nc_wire_put_int(t, AttributeProto_i, v);
    nc_wire_end(t, m);
}

__attribute__((unused)) static void put_node(nc_text *t, const char *name, const char *op, const char *args) {
    nc_wire_end(t, begin_node(t, name, op, "", args));
}

__attribute__((unused)) static void put_entry(nc_text *t, uint32_t number, const char *key, const char *value) {
    nc_wire_mark m = nc_wire_begin(t, number, 0);
    nc_wire_put_str(t, StringStringEntryProto_key, key);
    nc_wire_put_str(t, StringStringEntryProto_value, value);
    nc_wire_end(t, m);
}

/* A float tensor of n elements with raw_data 1, 2, 3, ... */
__attribute__((unused)) static void put_floats(nc_text *t, uint32_t number, const char *name, int n) {
    float data[16];
    int64_t dim = n;
    for (int i = 0; i < n; i++) data[i] = (float)(i + 1);
    nc_wire_mark m = nc_wire_begin(t, number, 0);
    nc_wire_put_ints(t, TensorProto_dims, &dim, 1);
    nc_wire_put_int(t, TensorProto_data_type, NC_FLOAT);
    nc_wire_put_str(t, TensorProto_name, name);
    nc_wire_put_bytes(t, TensorProto_raw_data, data, (size_t)n * sizeof *data);
    nc_wire_end(t, m);
}

/* An If node whose branches add `then_name` to x and take Relu of x. */
__attribute__((unused)) static void put_if(nc_text *t, const char *then_out) {
    nc_wire_mark node = begin_node(t, "choose", "If", "", "c -> z");
    for (int k = 0; k < 2; k++) {
        nc_wire_mark a = nc_wire_begin(t, NodeProto_attribute, 0);
        nc_wire_put_str(t, AttributeProto_name, k ? "else_branch" : "then_branch");
        nc_wire_put_int(t, AttributeProto_type, NC_PB_A_GRAPH);
        nc_wire_mark g = nc_wire_begin(t, AttributeProto_g, 0);
        nc_wire_put_str(t, GraphProto_name, k ? "else_g" : "then_g");
        if (k)
            put_node(t, "", "Relu", "x -> other");
        else
            put_node(t, "", "Add", "x W -> then_y");
        put_value(t, GraphProto_output, k ? "other" : then_out, NC_FLOAT, "n,3");
        nc_wire_end(t, g);
        nc_wire_end(t, a);
    }
    nc_wire_end(t, node);
}

/* The model most tests start from: x -> Add W -> Relu -> Dropout -> y, and z = If(c). */
__attribute__((unused)) static void put_model(nc_text *t) {
    put_header(t, 8, 17);
    nc_wire_mark g = nc_wire_begin(t, ModelProto_graph, 0);
    nc_wire_put_str(t, GraphProto_name, "small");
    put_value(t, GraphProto_input, "x", NC_FLOAT, "n,3");
    put_value(t, GraphProto_input, "W", NC_FLOAT, "3");
    put_value(t, GraphProto_input, "c", NC_BOOL, "");
    put_floats(t, GraphProto_initializer, "W", 3);
    put_value(t, GraphProto_output, "y", NC_FLOAT, "n,?");
    put_value(t, GraphProto_output, "z", NC_FLOAT, NULL);
    put_value(t, GraphProto_value_info, "a", NC_FLOAT, "n,3");
    put_node(t, "add", "Add", "x W -> a");
    put_node(t, "", "Relu", "a -> b");
    put_node(t, "drop", "Dropout", "b -> y _");
    put_if(t, "then_y");
    nc_wire_end(t, g);
}

#endif
