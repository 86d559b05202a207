/* onnx/loader.h: what the files of the loader share: load.c (model), load_graph.c, load_node.c, load_attr.c,
 * load_tensor.c, load_external.c, load_type.c. Nobody else includes it. Names in maps borrow from the file's bytes;
 * C strings that editing needs are made in the work's scratch arena. */
#ifndef NC_ONNX_LOADER_H
#define NC_ONNX_LOADER_H

#include "ir/card.h"
#include "onnx/limits.h"
#include "onnx/proto.h"

/* One graph while it is being read: its names, captured ones included, and those of the graphs around it. */
typedef struct nc_scope {
    struct nc_scope *up;
    nc_graph *g;
    nc_map names; /* -> nc_value */
    nc_map infos; /* -> nc_bytes of the TypeProto that value_info or output gives */
} nc_scope;

typedef struct nc_loader {
    nc_work *w;
    nc_model *m;
    nc_buffer *keeps;
    const char *folder;      /* NULL: no external data */
    const char *real_folder; /* where the model file really lies, links followed; may be NULL */
    nc_map files;            /* external location -> nc_buffer */
    nc_map functions;        /* "domain|name|overload" -> anything */
    int depth;
    int64_t n_nodes, n_values;
    int64_t max_random_id;
    NC_VEC(nc_node *) random; /* random nodes that bring no id, in file order */
} nc_loader;

/* A name as a C string in scratch; refuses NUL bytes and names that are too long. `what` is "NodeProto.name". */
NC_MUST nc_code nc_load_name(nc_loader *l, nc_bytes b, const char *what, const char **out);
NC_MUST nc_code nc_load_values(nc_loader *l, size_t n); /* books n new values against the limit */

NC_MUST nc_code nc_load_graph(nc_loader *l, nc_bytes b, nc_scope *up, nc_graph *g);
/* The value called `name` as seen from s, captured where needed; NULL in *out: not defined. */
NC_MUST nc_code nc_scope_find(nc_loader *l, nc_scope *s, nc_bytes name, nc_value **out);
/* Makes v known as `name`; refused when the name is taken here or in a graph around. */
NC_MUST nc_code nc_scope_define(nc_loader *l, nc_scope *s, nc_bytes name, nc_value *v);
NC_MUST nc_code nc_scope_check_free(nc_loader *l, const nc_scope *s, nc_bytes name);

NC_MUST nc_code nc_load_node(nc_loader *l, nc_scope *s, nc_bytes b);
/* Everything but graphs; lists and strings live in scratch, tensors and types in the model. */
NC_MUST nc_code nc_load_attr(nc_loader *l, nc_bytes b, const nc_pb_attribute *a, nc_attr *out);
/* The AttributeType, guessed from the fields present where old files do not say; refuses kinds that are not
 * supported. */
NC_MUST nc_code nc_load_attr_type(nc_loader *l, const nc_pb_attribute *a, int *out);
NC_MUST nc_code nc_load_tensor(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_literal **out);
NC_MUST nc_code nc_load_external(nc_loader *l, nc_bytes b, const char *what, nc_literal *lit);
NC_MUST nc_code nc_load_map(nc_work *w, const char *path, nc_buffer **out); /* a mapped file as a counted buffer */
NC_MUST nc_code nc_load_dtype(nc_loader *l, int64_t number, const char *what, nc_dtype *out);
/* `name` is the value's, for fresh dims and messages. *out is NULL when the file leaves the type open. */
NC_MUST nc_code nc_load_type(nc_loader *l, nc_bytes b, const char *name, const nc_type **out);

#endif
