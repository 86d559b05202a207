/* transform/rewrite.h: the words passes are written with: asking what a node is, putting another in its place.
 *
 * A node that a pass makes is of the version that the model's own opset means, so that the saved model says the same;
 * an op that this opset does not have is not made, but by the words that say so. Types are taken over from what is
 * replaced: no inference. */
#ifndef NC_TRANSFORM_REWRITE_H
#define NC_TRANSFORM_REWRITE_H

#include "ir/card.h"
#include "ir/edit.h"

bool nc_rewrite_is(const nc_node *n, const char *op);       /* an op of ai.onnx; n may be NULL */
nc_node *nc_rewrite_def(const nc_value *v, const char *op); /* the node of that op behind v; NULL: another, or none */
bool nc_rewrite_unused(const nc_value *v);                  /* no use, no output, no version of a variable */
bool nc_rewrite_only(const nc_value *v);                    /* used once, and by a node */
bool nc_rewrite_tensor(const nc_value *v);                  /* a tensor of known rank */
bool nc_rewrite_same_type(const nc_value *a, const nc_value *b);
/* Output 0 may become another node's: it is the only one used, holds no version, and nothing else hangs on the node. */
bool nc_rewrite_free(const nc_node *n);
bool nc_rewrite_free_draw(const nc_node *n); /* the same, though it may draw numbers */
bool nc_rewrite_dead(const nc_node *n);      /* nobody uses what it gives, and it leaves nothing behind */
/* A constant whose value may be relied on: no variable, and no gradient will make it one (floats). */
bool nc_rewrite_fixed(const nc_value *v);

/* Element i as a number; false for types without one. */
bool nc_rewrite_number(const nc_literal *l, int64_t i, double *out);
bool nc_rewrite_all(const nc_literal *l, double want, bool negative_zero); /* every element is `want` */
bool nc_rewrite_ints(const nc_value *v, int64_t *out, int max, int *n);    /* a constant of integers */

/* The op as the model's opset means it; NULL: it has none, or takes no `elem` there. */
const nc_card *nc_rewrite_card(const nc_model *m, const char *op, nc_dtype elem, const nc_op_version **version);
const nc_card *nc_rewrite_card_in(const nc_model *m, const char *domain, const char *op, nc_dtype elem,
                                  const nc_op_version **version);
/* Puts `op` in n's place, with n's name if it was given one, and removes n. *out stays NULL, and nothing changes,
 * when the opset has no such op for in[0]'s type. */
NC_MUST nc_code nc_rewrite(nc_work *w, nc_node *n, const char *op, nc_value *const *in, int n_in, const nc_attr *attrs,
                           int n_attrs, nc_node **out);
/* The same with an op of another domain than ai.onnx, which the model need not import: saving adds what is missing. */
NC_MUST nc_code nc_rewrite_in(nc_work *w, nc_node *n, const char *domain, const char *op, nc_value *const *in, int n_in,
                              const nc_attr *attrs, int n_attrs, nc_node **out);
/* The same with an op that may be newer than the model's opset: it is then as its first version has it. */
NC_MUST nc_code nc_rewrite_newer(nc_work *w, nc_node *n, const char *domain, const char *op, nc_value *const *in,
                                 int n_in, const nc_attr *attrs, int n_attrs, nc_node **out);
/* A node of ai.onnx before n, of its stage, with one output of the type that is given; newer as above. *out stays NULL
 * when there is no such op for in[0]'s type. */
NC_MUST nc_code nc_rewrite_insert(nc_work *w, nc_node *n, const char *op, nc_value *const *in, int n_in,
                                  const nc_attr *attrs, int n_attrs, const nc_type *type, nc_value **out);
/* The same with an op of another domain. */
NC_MUST nc_code nc_rewrite_insert_in(nc_work *w, nc_node *n, const char *domain, const char *op, nc_value *const *in,
                                     int n_in, const nc_attr *attrs, int n_attrs, const nc_type *type, nc_value **out);
/* x may stand for n's output 0: it has its type, and an output of the graph holds what a variable was, not what it
 * becomes. */
bool nc_rewrite_can_skip(const nc_node *n, const nc_value *x);
/* n's output 0 is x from now on; n goes. */
void nc_rewrite_skip(nc_node *n, nc_value *x);
/* Removes the node behind v when nobody uses it any more, so that a long chain leaves no long list of uses. */
void nc_rewrite_drop(nc_value *v);

#endif
