/* onnx/save_node.c: nc_node to NodeProto: arguments by name, attributes, subgraphs, metadata. A node whose version is
 * not what the model's opset means becomes a call of a function that holds it alone and imports the opset it needs;
 * loading takes the function apart again. */
#include "onnx/saver.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const nc_saver *s, const nc_value *v) { return v ? s->names[v->id] : ""; }

/* An absent argument is an empty string: it holds its place. */
static void put_arg(nc_text *out, uint32_t number, const char *name) {
    nc_wire_put_bytes(out, number, name, strlen(name));
}

static nc_code save_meaning(nc_saver *s, const nc_node *n, int depth);

/* ---- attributes ---- */

static nc_code save_list(nc_saver *s, const nc_attr *a, int *type) {
    nc_text *out = s->out;
    switch (a->kind) {
    case NC_A_INTS:
        *type = NC_PB_A_INTS;
        nc_wire_put_ints(out, AttributeProto_ints, a->ints, (size_t)a->n);
        return NC_OK;
    case NC_A_FLOATS:
        *type = NC_PB_A_FLOATS;
        nc_wire_put_floats(out, AttributeProto_floats, a->floats, (size_t)a->n);
        return NC_OK;
    case NC_A_STRINGS:
        *type = NC_PB_A_STRINGS;
        for (int i = 0; i < a->n; i++) nc_wire_put_bytes(out, AttributeProto_strings, a->strings[i].p, a->strings[i].n);
        return NC_OK;
    default: NC_FAIL(s->w, NC_E_UNSUPPORTED, "attribute '%.200s' has a kind that cannot be saved", a->name);
    }
}

static nc_code save_attr_value(nc_saver *s, const nc_node *n, const nc_attr *a, int depth, int *type) {
    nc_text *out = s->out;
    switch (a->kind) {
    case NC_A_INT:
        *type = NC_PB_A_INT;
        nc_wire_put_int(out, AttributeProto_i, a->i);
        return NC_OK;
    case NC_A_FLOAT:
        *type = NC_PB_A_FLOAT;
        nc_wire_put_float(out, AttributeProto_f, a->f);
        return NC_OK;
    case NC_A_STRING:
        *type = NC_PB_A_STRING;
        nc_wire_put_bytes(out, AttributeProto_s, a->s.p, a->s.n);
        return NC_OK;
    case NC_A_TENSOR: *type = NC_PB_A_TENSOR; return nc_save_tensor(s, AttributeProto_t, NULL, a->tensor);
    case NC_A_TYPE: *type = NC_PB_A_TYPE; return nc_save_type(s, AttributeProto_tp, a->name, a->type);
    case NC_A_GRAPH: *type = NC_PB_A_GRAPH; return nc_save_graph(s, n->subs[a->sub].graph, AttributeProto_g, depth + 1);
    default: return save_list(s, a, type);
    }
}

/* The values that the attribute names are inputs, from `first` on: their names now. */
static nc_code save_named(nc_saver *s, const nc_node *n, const nc_attr *a, int first) {
    int count;
    bool list = a->kind == NC_A_STRINGS;
    nc_attr_strings(a, &count);
    nc_wire_mark mark = nc_wire_begin(s->out, NodeProto_attribute, 0);
    nc_wire_put_str(s->out, AttributeProto_name, a->name);
    for (int i = 0; i < count; i++)
        put_arg(s->out, list ? AttributeProto_strings : AttributeProto_s, name_of(s, n->in[first + i]));
    nc_wire_put_int(s->out, AttributeProto_type, list ? NC_PB_A_STRINGS : NC_PB_A_STRING);
    nc_wire_end(s->out, mark);
    return NC_OK;
}

/* The first input that the attribute names; -1: it names none. */
static int first_named(const nc_node *n, const char *attr) {
    int at = n->n_in - nc_node_n_named(n);
    for (const char *const *name = n->card->names_values; name && *name; name++) {
        if (strcmp(*name, attr) == 0) return at;
        at += nc_attr_n_strings(n, *name);
    }
    return -1;
}

static nc_code save_attr(nc_saver *s, const nc_node *n, const nc_attr *a, int depth) {
    int type = 0, named = first_named(n, a->name);
    if (named >= 0) return save_named(s, n, a, named);
    if (a->kind == NC_A_OTHER) { /* the whole message, name and type included */
        nc_wire_put_bytes(s->out, NodeProto_attribute, a->s.p, a->s.n);
        return NC_OK;
    }
    nc_wire_mark mark = nc_wire_begin(s->out, NodeProto_attribute, 0);
    nc_wire_put_str(s->out, AttributeProto_name, a->name);
    NC_TRY(save_attr_value(s, n, a, depth, &type));
    nc_wire_put_int(s->out, AttributeProto_type, type);
    nc_wire_end(s->out, mark);
    return NC_OK;
}

static void save_random_id(nc_saver *s, const nc_node *n) {
    char digits[24];
    if (!n->random_id) return;
    snprintf(digits, sizeof digits, "%lld", (long long)n->random_id);
    nc_wire_mark mark = nc_wire_begin(s->out, NodeProto_metadata_props, 0);
    nc_wire_put_str(s->out, StringStringEntryProto_key, NC_PB_RANDOM_KEY);
    nc_wire_put_str(s->out, StringStringEntryProto_value, digits);
    nc_wire_end(s->out, mark);
}

void nc_save_extra(nc_saver *s, nc_str extra) {
    if (extra.n) nc_text_add_n(s->out, extra.p, extra.n);
}

/* ---- nodes of another version than the model imports ---- */

static void odd_name(const nc_node *n, char *to, size_t bytes) {
    snprintf(to, bytes, "%s_v%d_%d", n->card->name, n->version->since, n->id);
}

static nc_code save_odd_call(nc_saver *s, const nc_node *n) {
    char name[300];
    if (n->n_subs)
        NC_FAIL(s->w, NC_E_UNSUPPORTED,
                "%s '%.100s' is of version %d, which the imported opset does not mean, and its graphs keep it out of a "
                "function",
                n->card->name, n->name, n->version->since);
    odd_name(n, name, sizeof name);
    nc_wire_put_str(s->out, NodeProto_op_type, name);
    nc_wire_put_str(s->out, NodeProto_domain, NC_PB_ODD_DOMAIN);
    if (!NC_PUSH(&s->w->scratch, s->odd, n)) NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static void put_formals(nc_saver *s, uint32_t number, char kind, nc_value *const *v, int n, bool holes) {
    char name[16];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%c%d", kind, i);
        put_arg(s->out, number, holes && !v[i] ? "" : name);
    }
}

static nc_code save_odd_function(nc_saver *s, const nc_node *n) {
    char name[300];
    odd_name(n, name, sizeof name);
    nc_wire_mark mark = nc_wire_begin(s->out, ModelProto_functions, 128);
    nc_wire_put_str(s->out, FunctionProto_name, name);
    put_formals(s, FunctionProto_input, 'x', n->in, n->n_in, false);
    put_formals(s, FunctionProto_output, 'y', n->out, n->n_out, false);
    nc_wire_mark node = nc_wire_begin(s->out, FunctionProto_node, 128);
    put_formals(s, NodeProto_input, 'x', n->in, n->n_in, true);
    put_formals(s, NodeProto_output, 'y', n->out, n->n_out, true);
    NC_TRY(save_meaning(s, n, 1));
    nc_wire_end(s->out, node);
    nc_wire_mark opset = nc_wire_begin(s->out, FunctionProto_opset_import, 0);
    nc_wire_put_str(s->out, OperatorSetIdProto_domain, n->card->domain);
    nc_wire_put_int(s->out, OperatorSetIdProto_version, n->version->since);
    nc_wire_end(s->out, opset);
    nc_wire_put_str(s->out, FunctionProto_domain, NC_PB_ODD_DOMAIN);
    nc_wire_end(s->out, mark);
    return NC_OK;
}

nc_code nc_save_odd_nodes(nc_saver *s) {
    for (int i = 0; i < s->odd.n; i++) NC_TRY(save_odd_function(s, s->odd.v[i]));
    return NC_OK;
}

/* Operator and attributes: what a node and its stand-in inside a function have in common. */
static nc_code save_meaning(nc_saver *s, const nc_node *n, int depth) {
    nc_wire_put_str(s->out, NodeProto_op_type, n->card->name);
    nc_wire_put_str(s->out, NodeProto_domain, n->card->domain);
    for (int i = 0; i < n->n_attrs; i++) NC_TRY(save_attr(s, n, &n->attrs[i], depth));
    return NC_OK;
}

nc_code nc_save_node(nc_saver *s, const nc_node *n, int depth) {
    const nc_opset *o = nc_save_opset_of(s, n);
    bool odd = nc_card_version(n->card, o->version) != n->version;
    nc_wire_mark mark = nc_wire_begin(s->out, GraphProto_node, 128);
    for (int i = 0; i < n->n_in - nc_node_n_named(n); i++) put_arg(s->out, NodeProto_input, name_of(s, n->in[i]));
    for (int i = 0; i < n->n_out; i++) put_arg(s->out, NodeProto_output, name_of(s, n->out[i]));
    nc_wire_put_str(s->out, NodeProto_name, n->name);
    if (odd)
        NC_TRY(save_odd_call(s, n));
    else
        NC_TRY(save_meaning(s, n, depth));
    save_random_id(s, n);
    nc_save_extra(s, n->extra);
    nc_wire_end(s->out, mark);
    return NC_OK;
}

void nc_save_identity(nc_saver *s, const char *from, const char *to) {
    nc_wire_mark mark = nc_wire_begin(s->out, GraphProto_node, 128);
    put_arg(s->out, NodeProto_input, from);
    put_arg(s->out, NodeProto_output, to);
    nc_wire_put_str(s->out, NodeProto_op_type, "Identity");
    nc_wire_end(s->out, mark);
}
