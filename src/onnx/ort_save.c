/* onnx/ort_save.c: a ModelProto, as the saver wrote it, to onnxruntime's format. What that format wants beyond ONNX
 * is found here: the version of every operator, the edges between nodes, what graphs inside a node take from around
 * it, and the type of every value (names are unique over all graphs of a saved model, so one map holds them). */
#include "base/map.h"
#include "ir/card.h"
#include "onnx/limits.h"
#include "onnx/ort_format.h"
#include "onnx/proto.h"

#include <string.h>

#define VERSION_WITHOUT_KERNEL_TYPES "4"

typedef struct known { /* what tells a value's type: a TypeProto, or an initializer */
    nc_bytes type, tensor;
} known;

typedef struct writer {
    nc_work *w;
    const nc_registry *registry;
    nc_bytes model;
    nc_text *out;
    nc_map types; /* known, by name */
} writer;

typedef NC_VEC(nc_bytes) names;

#define NO_MEMORY(w) NC_FAIL((w)->w, NC_E_MEMORY, "out of memory")

static nc_flat_put offset(nc_flat_field f) { return (nc_flat_put){f.id, 0, 0, 0}; }
static nc_flat_put number(nc_flat_field f, int bytes, uint64_t bits) { return (nc_flat_put){f.id, bytes, bits, 0}; }
static void put_string(writer *w, size_t at, nc_bytes s) {
    nc_flat_put_string(w->out, at, s.n ? (const char *)s.p : "", s.n);
}
static int shown(nc_bytes s) { return s.n > 200 ? 200 : (int)s.n; }

static size_t count(nc_bytes message, uint32_t field) {
    nc_wire r;
    nc_field f;
    size_t n = 0;
    for (nc_wire_init(&r, message); nc_wire_each(&r, field, &f);) n++;
    return n;
}

static void put_strings(writer *w, size_t at, nc_bytes message, uint32_t field) {
    nc_wire r;
    nc_field f;
    size_t slot = nc_flat_put_offsets(w->out, at, count(message, field));
    for (nc_wire_init(&r, message); nc_wire_each(&r, field, &f); slot += 4) put_string(w, slot, f.b);
}

/* Repeated numbers, packed or not, of `bytes` bytes each in the file: varints for 8, floats for 4. */
static nc_code put_numbers(writer *w, size_t at, nc_bytes message, uint32_t field, int bytes) {
    nc_text all = {0};
    nc_wire r;
    nc_field f;
    for (nc_wire_init(&r, message); nc_wire_each(&r, field, &f);) {
        nc_wire in;
        uint64_t u = f.u;
        if (f.wire != NC_WIRE_BYTES) nc_text_add_n(&all, (const char *)&u, (size_t)bytes);
        if (f.wire != NC_WIRE_BYTES) continue;
        nc_wire_init(&in, f.b);
        while (in.p < in.end && (bytes == 8 ? nc_wire_varint(&in, &u) : nc_wire_fixed(&in, 4, &u)))
            nc_text_add_n(&all, (const char *)&u, (size_t)bytes);
    }
    bool failed = all.failed;
    nc_flat_put_vector(w->out, at, all.s, all.n / (size_t)bytes, (size_t)bytes);
    nc_text_release(&all);
    return failed ? nc_fail(w->w, NC_E_MEMORY, "out of memory") : NC_OK;
}

typedef nc_code each_fn(writer *w, size_t at, nc_bytes message);

static nc_code put_tables(writer *w, size_t at, nc_bytes message, uint32_t field, each_fn *each) {
    nc_wire r;
    nc_field f;
    size_t slot = nc_flat_put_offsets(w->out, at, count(message, field));
    for (nc_wire_init(&r, message); nc_wire_each(&r, field, &f); slot += 4) NC_TRY(each(w, slot, f.b));
    return NC_OK;
}

/* ---- tensors and types ---- */

static nc_code put_tensor(writer *w, size_t at, nc_bytes b) {
    nc_pb_tensor t;
    NC_TRY(nc_pb_read_tensor(w->w, b, &t));
    bool strings = t.data_type == NC_STRING;
    nc_flat_put f[] = {offset(nc_ort_tensor_name), offset(nc_ort_tensor_dims),
                       number(nc_ort_tensor_data_type, 4, (uint64_t)t.data_type),
                       offset(strings ? nc_ort_tensor_string_data : nc_ort_tensor_raw_data)};
    nc_flat_put_table(w->out, at, f, 4);
    put_string(w, f[0].at, t.name);
    NC_TRY(put_numbers(w, f[1].at, b, TensorProto_dims, 8));
    if (strings)
        put_strings(w, f[3].at, b, TensorProto_string_data);
    else
        nc_flat_put_vector(w->out, f[3].at, t.raw_data.p, t.raw_data.n, 1);
    return NC_OK;
}

static nc_code put_dim(writer *w, size_t at, nc_bytes b) {
    nc_pb_dim d;
    NC_TRY(nc_pb_read_dim(w->w, b, &d));
    bool sized = NC_PB_HAS(d, Dimension_dim_value), named = !sized && d.dim_param.n;
    nc_flat_put f[] = {offset(nc_ort_dim_value)};
    nc_flat_put_table(w->out, at, f, 1);
    int kind = sized ? NC_ORT_DIM_VALUE : named ? NC_ORT_DIM_PARAM : NC_ORT_DIM_UNKNOWN;
    nc_flat_put v[] = {number(nc_ort_dim_value_dim_type, 1, (uint64_t)kind),
                       number(nc_ort_dim_value_dim_value, 8, (uint64_t)d.dim_value),
                       offset(nc_ort_dim_value_dim_param)};
    nc_flat_put_table(w->out, f[0].at, v, named ? 3 : 2);
    if (named) put_string(w, v[2].at, d.dim_param);
    return NC_OK;
}

static nc_code put_tensor_type(writer *w, size_t at, nc_bytes b) {
    nc_pb_tensor_type t;
    NC_TRY(nc_pb_read_tensor_type(w->w, b, &t));
    bool ranked = NC_PB_HAS(t, TypeProto_Tensor_shape);
    nc_flat_put f[] = {number(nc_ort_tensor_type_elem_type, 4, (uint64_t)t.elem_type),
                       offset(nc_ort_tensor_type_shape)};
    nc_flat_put_table(w->out, at, f, ranked ? 2 : 1);
    if (!ranked) return NC_OK;
    nc_flat_put shape[] = {offset(nc_ort_shape_dim)};
    nc_flat_put_table(w->out, f[1].at, shape, 1);
    return put_tables(w, shape[0].at, t.shape, TensorShapeProto_dim, put_dim);
}

static nc_code put_type(writer *w, size_t at, nc_bytes b);

static nc_code put_sequence_type(writer *w, size_t at, nc_bytes b) {
    nc_pb_holder h;
    NC_TRY(nc_pb_read_holder(w->w, b, &h));
    nc_flat_put f[] = {offset(nc_ort_sequence_type_elem_type)};
    nc_flat_put_table(w->out, at, f, 1);
    return put_type(w, f[0].at, h.elem_type);
}

static nc_code put_map_type(writer *w, size_t at, nc_bytes b) {
    nc_pb_map m;
    NC_TRY(nc_pb_read_map(w->w, b, &m));
    nc_flat_put f[] = {number(nc_ort_map_type_key_type, 4, (uint64_t)m.key_type), offset(nc_ort_map_type_value_type)};
    nc_flat_put_table(w->out, at, f, 2);
    return put_type(w, f[1].at, m.value_type);
}

/* Nests as deep as the saver let it. */
static nc_code put_type(writer *w, size_t at, nc_bytes b) {
    nc_pb_type t;
    NC_TRY(nc_pb_read_type(w->w, b, &t));
    bool tensor = NC_PB_HAS(t, TypeProto_tensor_type), sequence = NC_PB_HAS(t, TypeProto_sequence_type);
    if (!tensor && !sequence && !NC_PB_HAS(t, TypeProto_map_type))
        NC_FAIL(w->w, NC_E_UNSUPPORTED, "onnxruntime's format has no word for optional and sparse types");
    int kind = tensor ? NC_ORT_TYPE_TENSOR : sequence ? NC_ORT_TYPE_SEQUENCE : NC_ORT_TYPE_MAP;
    nc_flat_put f[] = {number(nc_ort_type_value_type, 1, (uint64_t)kind), offset(nc_ort_type_value)};
    nc_flat_put_table(w->out, at, f, 2);
    if (tensor) return put_tensor_type(w, f[1].at, t.tensor_type);
    return sequence ? put_sequence_type(w, f[1].at, t.sequence_type) : put_map_type(w, f[1].at, t.map_type);
}

/* ---- what is known of values ---- */

static nc_code learn(writer *w, nc_bytes name, known what) {
    if (!name.n || nc_map_get_bytes(&w->types, name.p, name.n)) return NC_OK;
    known *k = nc_arena_array(&w->w->scratch, 1, sizeof *k);
    NC_NEED(w->w, k);
    *k = what;
    if (!nc_map_put_bytes(&w->types, name.p, name.n, k)) NO_MEMORY(w);
    return NC_OK;
}

static nc_code learn_values(writer *w, nc_bytes graph, uint32_t field) {
    nc_wire r;
    nc_field f;
    for (nc_wire_init(&r, graph); nc_wire_each(&r, field, &f);) {
        nc_pb_value v;
        NC_TRY(nc_pb_read_value(w->w, f.b, &v));
        if (v.type.n) NC_TRY(learn(w, v.name, (known){.type = v.type}));
    }
    return NC_OK;
}

static nc_code learn_graph(writer *w, nc_bytes graph);

static nc_code learn_node(writer *w, nc_bytes node) {
    nc_wire r;
    nc_field f;
    for (nc_wire_init(&r, node); nc_wire_each(&r, NodeProto_attribute, &f);) {
        nc_pb_attribute a;
        NC_TRY(nc_pb_read_attribute(w->w, f.b, &a));
        if (NC_PB_HAS(a, AttributeProto_g)) NC_TRY(learn_graph(w, a.g));
    }
    return NC_OK;
}

static nc_code learn_graph(writer *w, nc_bytes graph) {
    nc_pb_graph g;
    nc_wire r;
    nc_field f;
    NC_TRY(nc_pb_read_graph(w->w, graph, &g));
    NC_TRY(learn_values(w, graph, GraphProto_input));
    NC_TRY(learn_values(w, graph, GraphProto_output));
    NC_TRY(learn_values(w, graph, GraphProto_value_info));
    for (nc_wire_init(&r, graph); nc_wire_each(&r, GraphProto_initializer, &f);) {
        nc_pb_tensor t;
        NC_TRY(nc_pb_read_tensor(w->w, f.b, &t));
        NC_TRY(learn(w, t.name, (known){.tensor = f.b}));
    }
    for (nc_wire_init(&r, graph); nc_wire_each(&r, GraphProto_node, &f);) {
        nc_pb_node n;
        NC_TRY(nc_pb_read_node(w->w, f.b, &n));
        NC_TRY(learn_node(w, f.b));
    }
    return NC_OK;
}

/* The type of an initializer that no list tells of. */
static nc_code put_type_of_tensor(writer *w, size_t at, nc_bytes b) {
    nc_pb_tensor t;
    NC_TRY(nc_pb_read_tensor(w->w, b, &t));
    nc_text type = {0};
    nc_wire_mark outer = nc_wire_begin(&type, TypeProto_tensor_type, 0);
    nc_wire_put_int(&type, TypeProto_Tensor_elem_type, t.data_type);
    nc_wire_mark shape = nc_wire_begin(&type, TypeProto_Tensor_shape, 0);
    nc_wire r;
    nc_field f;
    for (nc_wire_init(&r, b); nc_wire_each(&r, TensorProto_dims, &f);) {
        nc_wire in;
        uint64_t u;
        nc_wire_init(&in, f.b); /* the saver packs them */
        while (in.p < in.end && nc_wire_varint(&in, &u)) {
            nc_wire_mark dim = nc_wire_begin(&type, TensorShapeProto_dim, 0);
            nc_wire_put_int(&type, Dimension_dim_value, (int64_t)u);
            nc_wire_end(&type, dim);
        }
    }
    nc_wire_end(&type, shape);
    nc_wire_end(&type, outer);
    nc_code code = type.failed ? nc_fail(w->w, NC_E_MEMORY, "out of memory")
                               : put_type(w, at, (nc_bytes){(const uint8_t *)type.s, type.n});
    nc_text_release(&type);
    return code;
}

/* An absent argument is a value without name and type. */
static nc_code put_value(writer *w, size_t at, nc_bytes name) {
    nc_flat_put f[] = {offset(nc_ort_value_name), offset(nc_ort_value_type)};
    nc_flat_put_table(w->out, at, f, name.n ? 2 : 1);
    put_string(w, f[0].at, name);
    if (!name.n) return NC_OK;
    const known *k = nc_map_get_bytes(&w->types, name.p, name.n);
    if (!k)
        NC_FAIL(w->w, NC_E_UNSUPPORTED,
                "the type of '%.*s' is not known, and onnxruntime's format needs it: infer first", shown(name),
                (const char *)name.p);
    return k->type.n ? put_type(w, f[1].at, k->type) : put_type_of_tensor(w, f[1].at, k->tensor);
}

/* ---- names of a graph ---- */

static nc_code add_name(writer *w, nc_bytes name, nc_map *seen, names *out) {
    if (!name.n || nc_map_get_bytes(seen, name.p, name.n)) return NC_OK;
    if (!nc_map_put_bytes(seen, name.p, name.n, (void *)(uintptr_t)name.p) || !NC_PUSH(&w->w->scratch, *out, name))
        NO_MEMORY(w);
    return NC_OK;
}

/* Names of a message's repeated field: strings, or messages whose name is their field `inside`. */
static nc_code add_names(writer *w, nc_bytes message, uint32_t field, uint32_t inside, nc_map *seen, names *out) {
    nc_wire r, in;
    nc_field f, name;
    for (nc_wire_init(&r, message); nc_wire_each(&r, field, &f);) {
        if (inside) {
            nc_wire_init(&in, f.b);
            if (!nc_wire_each(&in, inside, &name)) continue;
            f = name;
        }
        NC_TRY(add_name(w, f.b, seen, out));
    }
    return NC_OK;
}

static nc_code outer_names(writer *w, nc_bytes node, nc_map *seen, names *out);

/* What a graph uses without defining it; names are unique, so what it defines is no use of another's. */
static nc_code free_names(writer *w, nc_bytes graph, nc_map *seen, names *out) {
    nc_map own;
    names defined = {0};
    nc_wire r;
    nc_field f;
    nc_map_init(&own, &w->w->scratch);
    NC_TRY(add_names(w, graph, GraphProto_input, ValueInfoProto_name, &own, &defined));
    NC_TRY(add_names(w, graph, GraphProto_initializer, TensorProto_name, &own, &defined));
    for (nc_wire_init(&r, graph); nc_wire_each(&r, GraphProto_node, &f);)
        NC_TRY(add_names(w, f.b, NodeProto_output, 0, &own, &defined));
    names used = {0};
    for (nc_wire_init(&r, graph); nc_wire_each(&r, GraphProto_node, &f);) {
        NC_TRY(add_names(w, f.b, NodeProto_input, 0, &own, &used));
        NC_TRY(outer_names(w, f.b, &own, &used));
    }
    NC_TRY(add_names(w, graph, GraphProto_output, ValueInfoProto_name, &own, &used));
    for (int i = 0; i < used.n; i++) NC_TRY(add_name(w, used.v[i], seen, out));
    return NC_OK;
}

static nc_code outer_names(writer *w, nc_bytes node, nc_map *seen, names *out) {
    nc_wire r, in;
    nc_field f, g;
    for (nc_wire_init(&r, node); nc_wire_each(&r, NodeProto_attribute, &f);) {
        nc_wire_init(&in, f.b);
        if (nc_wire_each(&in, AttributeProto_g, &g)) NC_TRY(free_names(w, g.b, seen, out));
    }
    return NC_OK;
}

/* ---- nodes ---- */

static nc_code put_graph(writer *w, size_t at, nc_bytes graph);

static nc_code put_attribute_value(writer *w, size_t at, nc_bytes b, const nc_pb_attribute *a) {
    switch (a->type) {
    case NC_PB_A_STRING: put_string(w, at, a->s); return NC_OK;
    case NC_PB_A_TENSOR: return put_tensor(w, at, a->t);
    case NC_PB_A_GRAPH: return put_graph(w, at, a->g);
    case NC_PB_A_FLOATS: return put_numbers(w, at, b, AttributeProto_floats, 4);
    case NC_PB_A_INTS: return put_numbers(w, at, b, AttributeProto_ints, 8);
    case NC_PB_A_STRINGS: put_strings(w, at, b, AttributeProto_strings); return NC_OK;
    case NC_PB_A_TENSORS: return put_tables(w, at, b, AttributeProto_tensors, put_tensor);
    default: return NC_OK;
    }
}

static nc_code put_attribute(writer *w, size_t at, nc_bytes b) {
    static const int ids[] = {-1, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    nc_pb_attribute a;
    NC_TRY(nc_pb_read_attribute(w->w, b, &a));
    if (a.type < NC_PB_A_FLOAT || a.type > NC_PB_A_TENSORS)
        NC_FAIL(w->w, NC_E_UNSUPPORTED, "onnxruntime's format has no word for attribute '%.*s' (kind %d)",
                shown(a.name), (const char *)a.name.p, (int)a.type);
    nc_flat_put value = {ids[a.type], 0, 0, 0};
    if (a.type == NC_PB_A_FLOAT) value = number(nc_ort_attribute_f, 4, nc_flat_bits(a.f));
    if (a.type == NC_PB_A_INT) value = number(nc_ort_attribute_i, 8, (uint64_t)a.i);
    nc_flat_put f[] = {offset(nc_ort_attribute_name), number(nc_ort_attribute_type, 4, (uint64_t)a.type), value};
    nc_flat_put_table(w->out, at, f, 3);
    put_string(w, f[0].at, a.name);
    return put_attribute_value(w, f[2].at, b, &a);
}

/* The version that the model's imports give the operator, or NULL for one that the registry does not know. */
static const nc_op_version *version_of(writer *w, const nc_pb_node *n, int64_t *imported) {
    nc_wire r, in;
    nc_field f, domain, v;
    *imported = 1;
    for (nc_wire_init(&r, w->model); nc_wire_each(&r, ModelProto_opset_import, &f);) {
        nc_wire_init(&in, f.b);
        nc_bytes d = nc_wire_each(&in, OperatorSetIdProto_domain, &domain) ? domain.b : (nc_bytes){0};
        if (d.n != n->domain.n || (d.n && memcmp(d.p, n->domain.p, d.n) != 0)) continue;
        nc_wire_init(&in, f.b);
        if (nc_wire_each(&in, OperatorSetIdProto_version, &v)) *imported = (int64_t)v.u;
    }
    const char *name = nc_arena_strn(&w->w->scratch, (const char *)n->op_type.p, n->op_type.n);
    const char *d = n->domain.n ? nc_arena_strn(&w->w->scratch, (const char *)n->domain.p, n->domain.n) : "";
    const nc_card *card = NULL;
    for (const nc_registry *from = w->registry; from && name && d && !card; from = from->base)
        card = from->find(from, d, name);
    return card ? nc_card_version(card, *imported) : NULL;
}

/* How many of n arguments each parameter of the operator takes. */
static void put_arg_counts(writer *w, size_t at, const nc_op_version *v, int n) {
    nc_text counts = {0};
    int left = n;
    for (int i = 0; v ? v->in && v->in[i].name : left > 0; i++) {
        bool rest = v && v->in[i].flags & NC_P_VARIADIC;
        int32_t c = rest ? left : left > 0;
        left -= c;
        nc_text_add_n(&counts, (const char *)&c, 4);
    }
    nc_flat_put_vector(w->out, at, counts.s, counts.n / 4, 4);
    w->out->failed |= counts.failed;
    nc_text_release(&counts);
}

static void put_names(writer *w, size_t at, const names *all) {
    size_t slot = nc_flat_put_offsets(w->out, at, (size_t)all->n);
    for (int i = 0; i < all->n; i++) put_string(w, slot + 4 * (size_t)i, all->v[i]);
}

static nc_code put_node(writer *w, size_t at, nc_bytes b, uint32_t index) {
    nc_pb_node n;
    NC_TRY(nc_pb_read_node(w->w, b, &n));
    if (n.domain.n == strlen(NC_PB_ODD_DOMAIN) && memcmp(n.domain.p, NC_PB_ODD_DOMAIN, n.domain.n) == 0)
        NC_FAIL(w->w, NC_E_UNSUPPORTED,
                "onnxruntime's format has no functions, which node '%.*s' of another opset needs", shown(n.op_type),
                (const char *)n.op_type.p);
    int64_t imported;
    const nc_op_version *v = version_of(w, &n, &imported);
    names outer = {0};
    nc_map seen;
    nc_map_init(&seen, &w->w->scratch);
    NC_TRY(outer_names(w, b, &seen, &outer));
    nc_flat_put f[] = {offset(nc_ort_node_name),
                       offset(nc_ort_node_domain),
                       number(nc_ort_node_since_version, 4, (uint64_t)(v ? v->since : imported)),
                       number(nc_ort_node_index, 4, index),
                       offset(nc_ort_node_op_type),
                       offset(nc_ort_node_inputs),
                       offset(nc_ort_node_outputs),
                       offset(nc_ort_node_attributes),
                       offset(nc_ort_node_input_arg_counts),
                       offset(nc_ort_node_implicit_inputs)};
    nc_flat_put_table(w->out, at, f, 10);
    put_string(w, f[0].at, n.name);
    put_string(w, f[1].at, n.domain);
    put_string(w, f[4].at, n.op_type);
    put_strings(w, f[5].at, b, NodeProto_input);
    put_strings(w, f[6].at, b, NodeProto_output);
    NC_TRY(put_tables(w, f[7].at, b, NodeProto_attribute, put_attribute));
    put_arg_counts(w, f[8].at, v, (int)n.input);
    put_names(w, f[9].at, &outer);
    return NC_OK;
}

/* ---- edges ---- */

typedef struct edge { /* as the file has it: the node at the other end, its output, this one's input */
    uint32_t node;
    int32_t from, to;
} edge;

typedef struct ends {
    NC_VEC(edge) in, out;
} ends;

typedef struct producer {
    uint32_t node;
    int32_t output;
} producer;

static nc_code find_producers(writer *w, nc_bytes graph, nc_map *out) {
    nc_wire r, in;
    nc_field f, name;
    uint32_t node = 0;
    for (nc_wire_init(&r, graph); nc_wire_each(&r, GraphProto_node, &f); node++) {
        int32_t output = 0;
        for (nc_wire_init(&in, f.b); nc_wire_each(&in, NodeProto_output, &name); output++) {
            producer *p = nc_arena_array(&w->w->scratch, 1, sizeof *p);
            NC_NEED(w->w, p);
            *p = (producer){node, output};
            if (name.b.n && !nc_map_put_bytes(out, name.b.p, name.b.n, p)) NO_MEMORY(w);
        }
    }
    return NC_OK;
}

static nc_code add_edge(writer *w, ends *all, const nc_map *producers, uint32_t node, int32_t input, nc_bytes name) {
    const producer *p = name.n ? nc_map_get_bytes(producers, name.p, name.n) : NULL;
    if (!p) return NC_OK;
    if (!NC_PUSH(&w->w->scratch, all[node].in, ((edge){p->node, p->output, input})) ||
        !NC_PUSH(&w->w->scratch, all[p->node].out, ((edge){node, p->output, input})))
        NO_MEMORY(w);
    return NC_OK;
}

static nc_code find_edges(writer *w, nc_bytes graph, ends *all) {
    nc_map producers, seen;
    nc_wire r, in;
    nc_field f, name;
    uint32_t node = 0;
    nc_map_init(&producers, &w->w->scratch);
    NC_TRY(find_producers(w, graph, &producers));
    for (nc_wire_init(&r, graph); nc_wire_each(&r, GraphProto_node, &f); node++) {
        int32_t input = 0;
        for (nc_wire_init(&in, f.b); nc_wire_each(&in, NodeProto_input, &name); input++)
            NC_TRY(add_edge(w, all, &producers, node, input, name.b));
        names outer = {0};
        nc_map_init(&seen, &w->w->scratch);
        NC_TRY(outer_names(w, f.b, &seen, &outer));
        for (int i = 0; i < outer.n; i++) NC_TRY(add_edge(w, all, &producers, node, input + i, outer.v[i]));
    }
    return NC_OK;
}

static nc_code put_edges(writer *w, size_t at, nc_bytes graph, size_t n) {
    ends *all = nc_arena_array(&w->w->scratch, n + 1, sizeof *all);
    NC_NEED(w->w, all);
    NC_TRY(find_edges(w, graph, all));
    size_t slot = nc_flat_put_offsets(w->out, at, n);
    for (size_t i = 0; i < n; i++) {
        nc_flat_put f[] = {number(nc_ort_edge_node_index, 4, i), offset(nc_ort_edge_input_edges),
                           offset(nc_ort_edge_output_edges)};
        nc_flat_put_table(w->out, slot + 4 * i, f, 3);
        nc_flat_put_vector(w->out, f[1].at, all[i].in.v, (size_t)all[i].in.n, sizeof(edge));
        nc_flat_put_vector(w->out, f[2].at, all[i].out.v, (size_t)all[i].out.n, sizeof(edge));
    }
    return NC_OK;
}

/* ---- graphs and the model ---- */

static nc_code put_values(writer *w, size_t at, nc_bytes graph) {
    nc_map seen;
    names all = {0};
    nc_wire r;
    nc_field f;
    nc_map_init(&seen, &w->w->scratch);
    NC_TRY(add_names(w, graph, GraphProto_input, ValueInfoProto_name, &seen, &all));
    NC_TRY(add_names(w, graph, GraphProto_initializer, TensorProto_name, &seen, &all));
    for (nc_wire_init(&r, graph); nc_wire_each(&r, GraphProto_node, &f);) {
        NC_TRY(add_names(w, f.b, NodeProto_input, 0, &seen, &all));
        NC_TRY(add_names(w, f.b, NodeProto_output, 0, &seen, &all));
        NC_TRY(outer_names(w, f.b, &seen, &all));
    }
    NC_TRY(add_names(w, graph, GraphProto_output, ValueInfoProto_name, &seen, &all));
    if (!NC_PUSH(&w->w->scratch, all, (nc_bytes){0})) NO_MEMORY(w);
    size_t slot = nc_flat_put_offsets(w->out, at, (size_t)all.n);
    for (int i = 0; i < all.n; i++) NC_TRY(put_value(w, slot + 4 * (size_t)i, all.v[i]));
    return NC_OK;
}

static nc_code put_interface(writer *w, size_t at, nc_bytes graph, uint32_t field) {
    names all = {0};
    nc_map seen;
    nc_map_init(&seen, &w->w->scratch);
    NC_TRY(add_names(w, graph, field, ValueInfoProto_name, &seen, &all));
    put_names(w, at, &all);
    return NC_OK;
}

static nc_code put_graph(writer *w, size_t at, nc_bytes b) {
    nc_wire r;
    nc_field f;
    size_t n = count(b, GraphProto_node);
    nc_flat_put g[] = {offset(nc_ort_graph_initializers), offset(nc_ort_graph_node_args),
                       offset(nc_ort_graph_nodes),        number(nc_ort_graph_max_node_index, 4, n),
                       offset(nc_ort_graph_node_edges),   offset(nc_ort_graph_inputs),
                       offset(nc_ort_graph_outputs)};
    nc_flat_put_table(w->out, at, g, 7);
    NC_TRY(put_tables(w, g[0].at, b, GraphProto_initializer, put_tensor));
    NC_TRY(put_values(w, g[1].at, b));
    size_t slot = nc_flat_put_offsets(w->out, g[2].at, n);
    uint32_t index = 0;
    for (nc_wire_init(&r, b); nc_wire_each(&r, GraphProto_node, &f); index++, slot += 4)
        NC_TRY(put_node(w, slot, f.b, index));
    NC_TRY(put_edges(w, g[4].at, b, n));
    NC_TRY(put_interface(w, g[5].at, b, GraphProto_input));
    return put_interface(w, g[6].at, b, GraphProto_output);
}

static nc_code put_opset(writer *w, size_t at, nc_bytes b) {
    nc_pb_opset o;
    NC_TRY(nc_pb_read_opset(w->w, b, &o));
    nc_flat_put f[] = {offset(nc_ort_opset_domain), number(nc_ort_opset_version, 8, (uint64_t)o.version)};
    nc_flat_put_table(w->out, at, f, 2);
    put_string(w, f[0].at, o.domain);
    return NC_OK;
}

static nc_code put_entry(writer *w, size_t at, nc_bytes b) {
    nc_pb_entry e;
    NC_TRY(nc_pb_read_entry(w->w, b, &e));
    nc_flat_put f[] = {offset(nc_ort_entry_key), offset(nc_ort_entry_value)};
    nc_flat_put_table(w->out, at, f, 2);
    put_string(w, f[0].at, e.key);
    put_string(w, f[1].at, e.value);
    return NC_OK;
}

static nc_code put_model(writer *w, size_t at, const nc_pb_model *m) {
    nc_pb_graph g;
    NC_TRY(nc_pb_read_graph(w->w, m->graph, &g));
    nc_flat_put f[] = {number(nc_ort_model_ir_version, 8, (uint64_t)m->ir_version),
                       offset(nc_ort_model_opset_import),
                       offset(nc_ort_model_producer_name),
                       offset(nc_ort_model_producer_version),
                       offset(nc_ort_model_domain),
                       number(nc_ort_model_model_version, 8, (uint64_t)m->model_version),
                       offset(nc_ort_model_doc_string),
                       offset(nc_ort_model_graph),
                       offset(nc_ort_model_graph_doc_string),
                       offset(nc_ort_model_metadata_props)};
    nc_flat_put_table(w->out, at, f, 10);
    NC_TRY(put_tables(w, f[1].at, w->model, ModelProto_opset_import, put_opset));
    put_string(w, f[2].at, m->producer_name);
    put_string(w, f[3].at, m->producer_version);
    put_string(w, f[4].at, m->domain);
    put_string(w, f[6].at, m->doc_string);
    NC_TRY(put_graph(w, f[7].at, m->graph));
    put_string(w, f[8].at, g.doc_string);
    return put_tables(w, f[9].at, w->model, ModelProto_metadata_props, put_entry);
}

nc_code nc_ort_from_onnx(nc_work *w, nc_bytes model, const nc_registry *r, nc_text *out) {
    writer to = {.w = w, .registry = r, .model = model, .out = out};
    nc_pb_model m;
    nc_map_init(&to.types, &w->scratch);
    NC_TRY(nc_pb_read_model(w, model, &m));
    NC_TRY(learn_graph(&to, m.graph));
    nc_flat_put f[] = {offset(nc_ort_session_ort_version), offset(nc_ort_session_model)};
    nc_flat_put_table(out, nc_flat_begin(out, NC_ORT_MODEL), f, 2);
    nc_flat_put_string(out, f[0].at, VERSION_WITHOUT_KERNEL_TYPES, 1);
    NC_TRY(put_model(&to, f[1].at, &m));
    if (out->failed) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    if (out->n > NC_ONNX_MAX_FILE)
        NC_FAIL(w, NC_E_LIMIT, "in onnxruntime's format the model would have %zu bytes, more than 2 GiB: save as ONNX",
                out->n);
    return NC_OK;
}
