/* onnx/loader.h: what the files of the loader share: load.c (model), load_graph.c, load_node.c, load_function.c,
 * load_attr.c, load_tensor.c, load_sparse.c, load_external.c, load_type.c, load_extra.c. Nobody else includes it. Names
 * in maps borrow from the file's bytes; C strings that editing needs are made in the work's scratch arena. */
#ifndef NC_ONNX_LOADER_H
#define NC_ONNX_LOADER_H

#include "ir/card.h"
#include "onnx/limits.h"
#include "onnx/load.h"
#include "onnx/proto.h"

/* A model-local function; its nodes are read anew for every call. */
typedef struct nc_function {
    nc_bytes b;
    const char *name;
    nc_bytes *in, *out; /* the formal names */
    int n_in, n_out;
    nc_opset *opsets;
    int n_opsets;
    bool open; /* a call of it is being read: another one now is recursion */
} nc_function;

/* One call of a function. */
typedef struct nc_call {
    const nc_function *fn;
    nc_map attrs;      /* -> nc_given: what references to the function's attributes mean */
    nc_map outs;       /* formal output -> the name that the caller gives it */
    int64_t random_id; /* in the call's metadata, not yet taken; 0: none */
} nc_call;

/* One graph, or one call's copy of a function body inside a graph, while it is being read: its names, captured ones
 * included, and those of the graphs around it. */
typedef struct nc_scope {
    struct nc_scope *up;
    nc_graph *g;
    nc_map names;       /* -> nc_value; the loader's `absent` for a function input that the caller leaves out */
    nc_map infos;       /* -> nc_bytes of the ValueInfoProto that value_info or output gives */
    nc_map makes;       /* what the nodes of a graph inside another give: hides the same names around it */
    nc_call *call;      /* NULL: not inside a function */
    const char *prefix; /* of names inside a call, "F_3/"; "" elsewhere */
    bool body;          /* the function's own nodes, not those of a graph inside it */
} nc_scope;

/* An attribute without references, and where the names of a graph in it are looked up. */
typedef struct nc_given {
    nc_bytes b;
    nc_scope *scope;
} nc_given;

typedef struct nc_loader {
    nc_work *w;
    nc_model *m;
    nc_buffer *keeps;
    const char *folder;         /* NULL: no external data */
    const char *real_folder;    /* where the model file really lies, links followed; may be NULL */
    nc_map files;               /* external location -> nc_buffer */
    const nc_onnx_given *given; /* NULL: nothing */
    nc_map taken;               /* initializers that the caller gave and the graph has, by name */
    nc_map functions;           /* "domain|name|overload" -> nc_function */
    int depth, n_open;          /* graphs in graphs; calls in calls */
    int64_t n_nodes, n_values, n_calls;
    size_t bytes_file;
    const char *prefix; /* of the symbols in types inside a call; NULL elsewhere */
    nc_value absent;
    int64_t max_random_id;
    NC_VEC(nc_node *) random; /* random nodes that bring no id, in file order */
} nc_loader;

/* A name as a C string in scratch; refuses NUL bytes and names that are too long. `what` is "NodeProto.name". */
NC_MUST nc_code nc_load_name(nc_loader *l, nc_bytes b, const char *what, const char **out);
NC_MUST nc_code nc_load_values(nc_loader *l, size_t n); /* books n new values against the limit */
/* Checks that what the model takes and `bytes` more are within what a file of this size may take. */
NC_MUST nc_code nc_load_room(nc_loader *l, size_t bytes);
NC_MUST nc_code nc_load_opsets(nc_loader *l, nc_bytes b, uint32_t number, size_t n, nc_opset **out, int *n_out);
/* The fields of message b that are not in `known` (bit = number), as they lie: they are saved back. Bit 0: it is a
 * NodeProto, whose random id does not count. */
#define NC_EXTRA_OF_NODE ((uint64_t)1)
NC_MUST nc_code nc_load_extra(nc_loader *l, nc_bytes b, uint64_t known, nc_str *out);

NC_MUST nc_code nc_load_graph(nc_loader *l, nc_bytes b, nc_scope *up, nc_graph *g);
/* The value called `name` as seen from s, captured where needed; NULL in *out: not defined. */
NC_MUST nc_code nc_scope_find(nc_loader *l, nc_scope *s, nc_bytes name, nc_value **out);
/* Makes v known as `name`; refused when the name is taken here. A graph around may have the same name for another. */
NC_MUST nc_code nc_scope_define(nc_loader *l, nc_scope *s, nc_bytes name, nc_value *v);
NC_MUST nc_code nc_scope_check_free(nc_loader *l, const nc_scope *s, nc_bytes name);
/* What a value or node called `name` here is called in the graph. */
NC_MUST nc_code nc_scope_label(nc_loader *l, const nc_scope *s, nc_bytes name, const char *what, const char **out);
NC_MUST nc_code nc_load_nodes(nc_loader *l, nc_scope *s, nc_bytes b, uint32_t number);
bool nc_scope_hides(const nc_scope *s, nc_bytes name); /* a node of s gives it: what is around s is not meant */
/* Does the node use a name that is not defined yet? */
NC_MUST nc_code nc_load_node_waits(nc_loader *l, const nc_scope *s, nc_bytes node, bool *out);
NC_MUST nc_code nc_load_sort(nc_loader *l, nc_bytes *nodes, int n); /* in place: makers before users */

NC_MUST nc_code nc_load_functions(nc_loader *l, nc_bytes b);
/* The function that a node calls; NULL: none, it is an operator. */
NC_MUST nc_code nc_load_find_function(nc_loader *l, const char *domain, const char *op, const char *overload,
                                      nc_function **out);
NC_MUST nc_code nc_load_call(nc_loader *l, nc_scope *s, nc_bytes b, const nc_pb_node *pb, nc_function *fn);
/* Follows ref_attr_name: g is the attribute meant, pa its fields under its own name. False in *there: the caller gives
 * none and the function has no default, so the attribute is absent. */
NC_MUST nc_code nc_load_resolve(nc_loader *l, nc_scope *s, nc_bytes b, nc_given *g, nc_pb_attribute *pa, bool *there);
NC_MUST nc_code nc_load_random_id(nc_loader *l, nc_bytes node, int64_t *out); /* 0: the metadata have none */
int64_t nc_scope_opset(const nc_loader *l, const nc_scope *s, const char *domain);
NC_MUST nc_code nc_load_args(nc_loader *l, nc_scope *s, nc_bytes b, nc_value **in);

NC_MUST nc_code nc_load_node(nc_loader *l, nc_scope *s, nc_bytes b);
/* Everything but graphs; lists and strings live in scratch, tensors and types in the model. */
NC_MUST nc_code nc_load_attr(nc_loader *l, nc_bytes b, const nc_pb_attribute *a, nc_attr *out);
/* The AttributeType, guessed from the fields present where old files do not say; refuses kinds that are not
 * supported. */
NC_MUST nc_code nc_load_attr_type(nc_loader *l, const nc_pb_attribute *a, int *out);
NC_MUST nc_code nc_load_tensor(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_literal **out);
/* As nc_load_tensor, with the contents of a tensor that the caller gives. */
NC_MUST nc_code nc_load_given(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_object *o,
                              nc_literal **out);
nc_object *nc_load_find_given(const nc_loader *l, const char *name); /* borrowed; NULL: the file's own is used */
NC_MUST nc_code nc_load_sparse(nc_loader *l, nc_bytes b, nc_bytes *name, nc_literal **out); /* made dense */
NC_MUST nc_code nc_load_external(nc_loader *l, nc_bytes b, const char *what, nc_literal *lit);
NC_MUST nc_code nc_load_map(nc_work *w, const char *path, nc_buffer **out); /* a mapped file as a counted buffer */
NC_MUST nc_code nc_load_dtype(nc_loader *l, int64_t number, const char *what, nc_dtype *out);
/* `name` is the value's, for fresh dims and messages. *out is NULL when the file leaves the type open; of a sparse
 * tensor it is the dense type, and nc_load_sparse_type tells what the file says. */
NC_MUST nc_code nc_load_type(nc_loader *l, nc_bytes b, const char *name, const nc_type **out);
NC_MUST nc_code nc_load_sparse_type(nc_loader *l, nc_bytes b, const char *name, const nc_type **out); /* or NULL */

#endif
