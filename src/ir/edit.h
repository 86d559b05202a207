/* ir/edit.h: the only way to change a graph. Keeps uses, order and captures consistent. NULL or NC_E_MEMORY: out of
 * memory, the graph is then still valid but the edit may be half done: give the model up. Names are copied. A new value
 * without a name gets one from its node. */
#ifndef NC_IR_EDIT_H
#define NC_IR_EDIT_H

#include "ir/graph.h"

nc_value *nc_edit_input(nc_graph *g, const char *name, const nc_type *type);
/* An input of the main graph that nobody uses goes. */
void nc_edit_remove_input(nc_value *input);
/* What the input is when the caller gives nothing; NULL: it must be given. The struct is copied, data kept by
 * reference. */
NC_MUST nc_code nc_edit_set_initial(nc_value *input, const nc_literal *lit);
nc_value *nc_edit_const(nc_graph *g, const char *name,
                        const nc_literal *lit); /* literal struct is copied, data kept by reference */
/* A literal whose bytes are copied into the model's arena. */
const nc_literal *nc_edit_literal(nc_model *m, nc_dtype t, int rank, const int64_t *dims, const void *data);
/* No literal of the model has its bytes in b any more: the model's references to it are given up. */
void nc_edit_let_go(nc_model *m, nc_buffer *b);
int nc_edit_drop_consts(nc_graph *g); /* constants that nobody uses go; how many went */
nc_value *nc_edit_const_i64(nc_graph *g, const char *name, int rank, int64_t n,
                            const int64_t *v); /* rank 0 (n 1) or 1 */
/* The 0 of strings is the empty one; no other number is one. */
nc_value *nc_edit_const_scalar(nc_graph *g, const char *name, nc_dtype t, double v);
NC_MUST nc_code nc_edit_output(nc_graph *g, nc_value *v, const char *name); /* appends an output */
void nc_edit_set_output(nc_graph *g, int i, nc_value *v);
void nc_edit_remove_output(nc_graph *g, int i);
nc_value *nc_edit_variable(nc_graph *g, const char *name, const nc_type *type, const nc_literal *initial);
/* An input or constant becomes version 0 of a variable, in its place. */
NC_MUST nc_code nc_edit_make_variable(nc_value *input_or_const);
void nc_edit_set_version(nc_variable *var, nc_value *last); /* `last` is the newest version */

/* Adds a node before `before` (NULL: at the end). in may hold NULLs; outputs are new values, one per out_names entry:
 * NULL name array: all unnamed; an empty string: an absent output. */
nc_node *nc_edit_node(nc_graph *g, nc_node *before, const nc_card *card, const nc_op_version *version, const char *name,
                      nc_value *const *in, int n_in, const char *const *out_names, int n_out);
NC_MUST nc_code nc_edit_set_attr(nc_node *n, const nc_attr *attr); /* copies deeply; replaces one of the same name */
/* A new empty subgraph of n under attribute `attr`. */
nc_graph *nc_edit_subgraph(nc_node *n, const char *attr);
/* The inner value that stands for outer inside sub i of n; added at first use. */
nc_value *nc_edit_capture(nc_node *n, int i_sub, nc_value *outer);
/* A new output of n, or v as a further output of g, at place i: those behind it move up. */
nc_value *nc_edit_insert_out(nc_node *n, int i, const char *name);
NC_MUST nc_code nc_edit_insert_output(nc_graph *g, int i, nc_value *v, const char *name);
/* v as seen from g: itself, or a capture through every level in between. NULL also when v's graph does not enclose g.
 */
nc_value *nc_edit_reach(nc_graph *g, nc_value *v);
void nc_edit_set_in(nc_node *n, int i_operand, nc_value *v); /* v may be NULL */
NC_MUST nc_code nc_edit_add_in(nc_node *n, nc_value *v);     /* appends a regular input, before the captures */
nc_value *nc_edit_add_out(nc_node *n, const char *name);     /* appends an output value */
void nc_edit_replace(nc_value *old, nc_value *by);           /* all uses, graph outputs and variable ends */
void nc_edit_replace_uses_if(nc_value *old, nc_value *by, bool (*keep)(const nc_use *u, void *ctx),
                             void *ctx);                           /* uses where keep is true */
void nc_edit_move_before(nc_node *n, nc_node *before);             /* caller keeps the order valid; NULL: to the end */
void nc_edit_remove(nc_node *n);                                   /* its outputs must have no uses */
void nc_edit_remove_capture(nc_node *n, int i_sub, int i_capture); /* an unused inner value */
/* A copy of n with new outputs (subgraphs deep), inputs mapped by the caller afterwards; keeps random_id. */
nc_node *nc_edit_clone(nc_graph *g, nc_node *before, const nc_node *n);
/* The whole model anew, independent of the first (literal data shared by reference count). */
nc_model *nc_model_clone(const nc_model *m);
/* The same with g, which captures nothing, as the main graph. */
nc_model *nc_model_clone_graph(const nc_graph *g);
/* Sorts nodes topologically, keeping the present order where it is valid. BAD_GRAPH on a cycle. */
NC_MUST nc_code nc_edit_sort(nc_work *w, nc_graph *g);

#endif
