/* ir/graph.h: the graph: values in SSA form, nodes in a valid order, subgraphs with explicit captures, variables.
 *
 * Read freely; change only through ir/edit.h. Everything belongs to the model's arena and goes with the model.
 *
 * - A value has one origin and a list of uses. Names are for people; identity is the pointer (and id, unique in the
 * model).
 * - A node's operands are its inputs, then the captures of its first subgraph, then of its second, ...: each capture
 * pairs an outer value (the operand) with an inner one (graph->captures[k]). No graph mentions a value of another
 * graph.
 * - A variable is a chain of values: version 0 has origin VARIABLE; an in-place op consumes version k and yields k+1,
 * which has the same `var`. What `var->last` holds at the end of a run is the variable's new content.
 * - `extra` is what a file says about a thing and the graph has no words for (documentation, metadata, fields of newer
 * formats), as the bytes that onnx/ read: copies keep it, onnx/ writes it back, nobody else looks into it. */
#ifndef NC_IR_GRAPH_H
#define NC_IR_GRAPH_H

#include "base/map.h"
#include "base/object.h"
#include "ir/type.h"

typedef struct nc_graph nc_graph;
typedef struct nc_node nc_node;
typedef struct nc_value nc_value;
typedef struct nc_card nc_card;             /* ir/card.h */
typedef struct nc_op_version nc_op_version; /* ir/card.h */

/* Constant data. Bytes may be mapped from a file and unaligned; strings are nc_str. */
typedef struct nc_literal {
    nc_dtype dtype;
    int rank;
    const int64_t *dims;
    int64_t n; /* elements */
    const void *data;
    size_t bytes;
    nc_buffer *keeps; /* what holds data, or NULL: the arena */
    nc_str extra;
} nc_literal;

typedef enum nc_attr_kind {
    NC_A_NONE,
    NC_A_INT,
    NC_A_FLOAT,
    NC_A_STRING,
    NC_A_INTS,
    NC_A_FLOATS,
    NC_A_STRINGS,
    NC_A_TENSOR,
    NC_A_TYPE,
    NC_A_GRAPH,
    NC_A_REF,
    NC_A_OTHER /* a kind that only files know (lists of tensors, graphs, types; sparse tensors): s holds its bytes */
} nc_attr_kind;

typedef struct nc_attr {
    const char *name;
    nc_attr_kind kind;
    int n; /* of ints, floats, strings */
    union {
        int64_t i;
        float f;
        nc_str s; /* STRING, OTHER */
        const int64_t *ints;
        const float *floats;
        const nc_str *strings;
        const nc_literal *tensor;
        const nc_type *type;
        int sub;         /* GRAPH: index into node->subs */
        const char *ref; /* REF: name of the enclosing function's attribute */
    };
} nc_attr;

typedef struct nc_use {
    nc_node *node;
    int i; /* operand index */
} nc_use;

typedef enum nc_origin { NC_FROM_NODE, NC_FROM_INPUT, NC_FROM_CONST, NC_FROM_CAPTURE, NC_FROM_VARIABLE } nc_origin;

typedef struct nc_variable {
    int id; /* index in graph->vars */
    const char *name;
    nc_value *first, *last;
    const nc_literal *initial; /* NULL: zeros, or empty along grow_axis */
    int grow_axis;             /* the axis along which `last` is longer than `first`; -1: size is fixed */
    bool internal;             /* made by a pass (random state), not listed to users */
} nc_variable;

enum { NC_MAX_ELEMS = 2 * NC_MAX_RANK }; /* elements that are followed: Pad has two numbers for each dim */

struct nc_value {
    int id;
    const char *name;
    nc_graph *graph;
    const nc_type *type; /* NULL before inference, if the model says nothing */
    nc_origin origin;
    nc_node *def;               /* FROM_NODE */
    int i_def;                  /* output index in def */
    const nc_literal *lit;      /* FROM_CONST; also set on node outputs that inference folded */
    const nc_literal *initial;  /* FROM_INPUT of the main graph: what it is when the caller gives nothing; or NULL */
    nc_variable *var;           /* this is a version of a variable */
    const nc_dim *const *elems; /* small integer tensors: what is known of their elements; NULL: nothing */
    int n_elems;
    NC_VEC(nc_use) uses;
    int n_outputs;  /* how many graph outputs this value is */
    bool free_rank; /* its rank is not known and may be another in every run: NC_FREE_RANK, or behind such a value */
    const nc_type *declared; /* what the model says of a free rank, or of a sparse tensor. NULL: nothing */
    int place;               /* set by placement: 0 host, 1 the session's device */
    nc_str extra;
};

/* The type that people and files are told: the one that the model declares, where runs decide about the rank or know
 * only the dense form of a sparse tensor. */
static inline const nc_type *nc_value_told(const nc_value *v) {
    bool open = v->type && v->type->kind == NC_T_TENSOR && v->type->rank < 0;
    bool told = v->declared && (open || v->declared->kind == NC_T_SPARSE);
    return told ? v->declared : v->type;
}

typedef struct nc_sub {
    const char *attr; /* "then_branch" */
    nc_graph *graph;
    int first_capture, n_captures; /* operand range */
} nc_sub;

typedef enum nc_stage { NC_STAGE_FORWARD, NC_STAGE_BACKWARD, NC_STAGE_UPDATE } nc_stage;

struct nc_node {
    int id;
    const char *name; /* never NULL; made up as Op_id when the model gives none */
    nc_graph *graph;
    nc_node *prev, *next;
    const nc_card *card;
    const nc_op_version *version;
    nc_value **in; /* n_operands; NULL where an optional input is absent */
    int *at_use;   /* per operand: where in the list of its value's uses this one stands */
    int n_in, n_operands;
    nc_value **out; /* NULL where an optional output is absent */
    int n_out;
    const nc_attr *attrs;
    int n_attrs;
    nc_sub *subs;
    int n_subs;
    int64_t random_id; /* of a random node: given at load, kept by every rewrite, clone and save; else 0 */
    nc_stage stage;
    bool recompute; /* marked: backward uses are served by a clone */
    bool open;      /* its operands are only expected to fit: the run asks its card again when their sizes are known */
    int place;      /* 0 host, 1 the session's device */
    void *lowered;  /* owned by plan/ while it lowers; NULL elsewhere */
    nc_str extra;
};

struct nc_graph {
    struct nc_model *model;
    nc_graph *parent; /* NULL for the main graph and function bodies */
    nc_node *owner;   /* whose subgraph this is */
    const char *name;
    nc_node *first, *last; /* a valid topological order, kept by edit.h */
    int n_nodes;
    NC_VEC(nc_value *) inputs;
    NC_VEC(nc_value *) captures;
    NC_VEC(nc_value *) outputs; /* outputs.v[i]; names the user sees are in output_names */
    NC_VEC(const char *) output_names;
    NC_VEC(nc_value *) consts;
    NC_VEC(nc_variable *) vars; /* main graph only */
    nc_str extra;
};

typedef struct nc_opset {
    const char *domain; /* "" is ai.onnx */
    int64_t version;
} nc_opset;

typedef struct nc_prop {
    const char *key, *value;
} nc_prop;

struct nc_grad; /* ir/card.h */

/* A gradient of the user's own, in the place of the card's. */
typedef struct nc_grad_rule {
    nc_code (*grad)(struct nc_grad *g, const struct nc_grad_rule *r); /* NULL: the card's stays */
    unsigned stops;                                                   /* bit i: none passes to input i */
} nc_grad_rule;

/* How text and file readers find cards; ops/ implements it, tests may extend it. NULL: unknown op or version. */
typedef struct nc_registry {
    const nc_card *(*find)(const struct nc_registry *r, const char *domain, const char *op);
    const struct nc_registry *base; /* asked when find of a layered registry does not know */
    const nc_grad_rule *(*rule)(const struct nc_registry *r, const nc_card *card); /* NULL: the layer has none */
} nc_registry;

/* The newest rule for the card; NULL: there is none. */
static inline const nc_grad_rule *nc_registry_rule(const nc_registry *r, const nc_card *card) {
    for (const nc_grad_rule *found; r; r = r->base)
        if (r->rule && (found = r->rule(r, card)) != NULL) return found;
    return NULL;
}

/* See ir/assume.h. */
typedef enum nc_assumption {
#define A(name, text) NC_ASSUME_##name,
#include "ir/assumptions.list"
#undef A
    NC_N_ASSUMPTIONS
} nc_assumption;

typedef struct nc_model {
    nc_arena arena;
    nc_dims *dims;
    nc_graph *main;
    const nc_registry *registry; /* borrowed */
    nc_opset *opsets;
    int n_opsets;
    int64_t ir_version;
    const char *producer_name, *producer_version, *domain, *doc;
    const char *graph_doc; /* of the main graph */
    int64_t model_version;
    NC_VEC(nc_prop) props;
    NC_VEC(nc_buffer *) buffers; /* what literals point into; unref'd with the model */
    int next_id;                 /* of values and nodes */
    int64_t next_random_id;
    nc_str extra;
    const char *assumed[NC_N_ASSUMPTIONS]; /* the first of each kind that the model made necessary; NULL: none */
    unsigned strict;                       /* the kinds that are refused: bit = nc_assumption */
    bool infers_only;   /* no gradient will be asked for: constants stay what they are, passes may use their values */
    bool stale_sizes;   /* a pass made an argument constant on which sizes hang: inferring again finds more of them */
    bool out_of_memory; /* an edit that returns nothing could not be done: give the model up; nc_verify reports it */
} nc_model;

nc_model *nc_model_create(const nc_registry *borrows); /* with an empty main graph; NULL: out of memory */
void nc_model_destroy(nc_model *m);
int64_t nc_model_opset(const nc_model *m, const char *domain); /* 0: not imported */

const nc_attr *nc_node_attr(const nc_node *n,
                            const char *name);                /* as written, without the card's default; NULL: absent */
nc_value *nc_graph_find(const nc_graph *g, const char *name); /* by name, linear; for tests and API edges */
/* By name; ARGUMENT: there is none, with names that look like it. what: "to be held" or the like, for the message. */
NC_MUST nc_code nc_graph_need(nc_work *w, const nc_graph *g, const char *name, const char *what, nc_value **out);
nc_node *nc_graph_find_node(const nc_graph *g, const char *name);
bool nc_literal_ints(const nc_literal *l, int64_t *out, int64_t max,
                     int64_t *n); /* any integer or bool type; false: other type or too many */

#endif
