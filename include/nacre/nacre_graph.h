/* nacre_graph.h: look into a model, and change it before a session takes it.
 *
 * Graphs, nodes and values belong to their model and are valid until it is changed or released. Names and texts are
 * borrowed from it. The rules of nacre.h hold. */
#ifndef NACRE_GRAPH_H
#define NACRE_GRAPH_H

#include "nacre/nacre.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_graph nacre_graph;
typedef struct nacre_node nacre_node;
typedef struct nacre_graph_value nacre_graph_value;

/* ---- the model ---- */

NACRE_API const nacre_graph *nacre_model_graph(const nacre_model *m); /* the main graph */
NACRE_API const char *nacre_model_producer(const nacre_model *m);     /* may be empty */
/* Versions of the file format and of the operator sets; 0 and NULL out of range. */
NACRE_API int64_t nacre_model_ir_version(const nacre_model *m);
NACRE_API size_t nacre_model_n_opsets(const nacre_model *m);
NACRE_API const char *nacre_model_opset(const nacre_model *m, size_t i, int64_t *version); /* domain; "": ai.onnx */
/* A model of its own, to be changed or made a session without touching this one. */
NACRE_API nacre_code nacre_model_clone(const nacre_model *m, nacre_model **out, nacre_error *err);
/* Types and shapes of all values; what the model says wrongly is an error that names the node. */
NACRE_API nacre_code nacre_model_infer(nacre_model *m, nacre_error *err);
/* Infers, then rewrites: level off, basic, extended, all; disable: passes by name. Inference only. */
NACRE_API nacre_code nacre_model_optimize(nacre_model *m, const char *level, const char *const *disable, size_t n,
                                          nacre_error *err);
/* The same as a session with these options would: level, disable, patterns; the others are not looked at. */
NACRE_API nacre_code nacre_model_optimize_as(nacre_model *m, const nacre_options *options, nacre_error *err);
/* The passes in the order they run: name, the lowest level that runs it, one line of what it does. NULL: no more. */
NACRE_API const char *nacre_pass_name(size_t i, const char **level, const char **doc);
/* Makes a value of the main graph an output, under its own name. A no-op where it is one. */
NACRE_API nacre_code nacre_model_add_output(nacre_model *m, const char *value, nacre_error *err);

/* ---- graphs ---- */

/* What a graph holds; i counts from 0, and NULL is out of range. */
NACRE_API const char *nacre_graph_name(const nacre_graph *g);
NACRE_API size_t nacre_graph_n_nodes(const nacre_graph *g);
NACRE_API const nacre_node *nacre_graph_first(const nacre_graph *g); /* in a valid order; NULL: none */
NACRE_API size_t nacre_graph_n_inputs(const nacre_graph *g);
NACRE_API size_t nacre_graph_n_outputs(const nacre_graph *g);
NACRE_API size_t nacre_graph_n_constants(const nacre_graph *g);
NACRE_API const nacre_graph_value *nacre_graph_input(const nacre_graph *g, size_t i);
NACRE_API const nacre_graph_value *nacre_graph_output(const nacre_graph *g, size_t i);
NACRE_API const char *nacre_graph_output_name(const nacre_graph *g, size_t i); /* as the caller of a session sees it */
NACRE_API const nacre_graph_value *nacre_graph_constant(const nacre_graph *g, size_t i);

/* ---- nodes ---- */

/* What a node says and is joined to; names may be empty. */
NACRE_API const nacre_node *nacre_node_next(const nacre_node *n); /* NULL: it was the last */
NACRE_API const char *nacre_node_name(const nacre_node *n);
NACRE_API const char *nacre_node_op(const nacre_node *n);
NACRE_API const char *nacre_node_domain(const nacre_node *n); /* "": ai.onnx */
NACRE_API int nacre_node_since(const nacre_node *n);          /* the version of its schema */
NACRE_API size_t nacre_node_n_inputs(const nacre_node *n);
NACRE_API size_t nacre_node_n_outputs(const nacre_node *n);
NACRE_API const nacre_graph_value *nacre_node_input(const nacre_node *n, size_t i);  /* NULL: absent */
NACRE_API const nacre_graph_value *nacre_node_output(const nacre_node *n, size_t i); /* NULL: absent */
NACRE_API size_t nacre_node_n_graphs(const nacre_node *n);                           /* bodies of If, Loop, Scan */
NACRE_API const nacre_graph *nacre_node_graph(const nacre_node *n, size_t i);

/* ---- values ---- */

/* A name for people. */
NACRE_API const char *nacre_graph_value_name(const nacre_graph_value *v);
/* "float[batch,4]", "seq(float[n])"; "?" where nothing is known. Truncated to bytes. */
NACRE_API void nacre_graph_value_type(const nacre_graph_value *v, char *text, size_t bytes);
NACRE_API int nacre_graph_value_is_constant(const nacre_graph_value *v);
NACRE_API int64_t nacre_graph_value_count(const nacre_graph_value *v); /* elements; -1: not a tensor of known size */
NACRE_API int64_t nacre_graph_value_bytes(const nacre_graph_value *v); /* -1: the same, or strings */

#ifdef __cplusplus
}
#endif

#endif
