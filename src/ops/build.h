/* ops/build.h: emits ordinary nodes, for gradients, decompositions and passes. The one place that names the ops which
 * autodiff and passes make themselves.
 *
 * Errors stick: after a failure every call returns NULL and the code stands in b->code, so a formula is checked once at
 * its end. Every new node is inferred at once, so types can be asked of what was just built. */
#ifndef NC_OPS_BUILD_H
#define NC_OPS_BUILD_H

#include "ir/card.h"
#include "ir/edit.h"

struct nc_builder {
    nc_work *w;
    nc_graph *graph;
    nc_node *before;                          /* new nodes go before this one; NULL: at the end */
    nc_stage stage;                           /* given to new nodes */
    int place;                                /* likewise */
    nc_code (*infer)(nc_work *w, nc_node *n); /* infer/infer.h's nc_infer_node */
    /* autodiff/autodiff.h's nc_autodiff_emit: gradients of what was just built. NULL: this builder differentiates
     * nothing. */
    nc_code (*grad)(nc_builder *b, nc_value *const *ys, nc_value *const *dys, int n_y, nc_value *const *xs, int n_x,
                    nc_value **dxs);
    nc_code code; /* sticky */
};

nc_node *nc_build(nc_builder *b, const char *domain, const char *op, nc_value *const *in, int n_in, int n_out,
                  const nc_attr *attrs, int n_attrs);
/* Output i is left out where wanted[i] is false; NULL: all are there. */
nc_node *nc_build_wanted(nc_builder *b, const char *domain, const char *op, nc_value *const *in, int n_in,
                         const bool *wanted, int n_out, const nc_attr *attrs, int n_attrs);
/* The same of a card at hand. */
nc_node *nc_build_card(nc_builder *b, const nc_card *card, nc_value *const *in, int n_in, const bool *wanted, int n_out,
                       const nc_attr *attrs, int n_attrs);
nc_value *nc_build_card1(nc_builder *b, const nc_card *card, nc_value *const *in, int n_in, const nc_attr *attrs,
                         int n_attrs);
/* An op of ai.onnx in its newest version, whatever opset the model has: for pieces of ops of other domains, which no
 * opset of ai.onnx bounds. */
nc_node *nc_build_newest(nc_builder *b, const char *op, nc_value *const *in, int n_in, const bool *wanted, int n_out,
                         const nc_attr *attrs, int n_attrs);
nc_value *nc_build_newest1(nc_builder *b, const char *op, nc_value *const *in, int n_in, const nc_attr *attrs,
                           int n_attrs);
/* One output; inputs end with the count. */
nc_value *nc_build1(nc_builder *b, const char *op, int n_in, ...); /* nc_value * each */
nc_value *nc_build_attr1(nc_builder *b, const char *domain, const char *op, nc_value *const *in, int n_in,
                         const nc_attr *attrs, int n_attrs);

nc_value *nc_build_scalar(nc_builder *b, nc_dtype t, double v);  /* rank 0 constant */
nc_value *nc_build_ints(nc_builder *b, const int64_t *v, int n); /* rank 1 int64 constant */
nc_value *nc_build_int(nc_builder *b, int64_t v);                /* rank 0 int64 constant */
nc_value *nc_build_shape(nc_builder *b, nc_value *x);
nc_value *nc_build_zeros_like(nc_builder *b, nc_value *x); /* a tensor, or a sequence of tensors */
/* Sums of gradients: tensors, sequences and optionals of them. */
nc_value *nc_build_add(nc_builder *b, nc_value *x, nc_value *y);
nc_value *nc_build_cast(nc_builder *b, nc_value *x, nc_dtype to); /* x itself when it is that type */
nc_value *nc_build_transpose(nc_builder *b, nc_value *x, const int64_t *perm, int n);
nc_value *nc_build_swap_last(nc_builder *b, nc_value *x); /* transposes the last two axes */
nc_value *nc_build_reshape_like(nc_builder *b, nc_value *x, nc_value *like);
nc_value *nc_build_expand_like(nc_builder *b, nc_value *x, nc_value *like);
nc_value *nc_build_reduce_sum(nc_builder *b, nc_value *x, const int64_t *axes, int n, bool keepdims);
nc_value *nc_build_stop(nc_builder *b, nc_value *x); /* x, through which no gradient passes: nacre.StopGradient */
bool nc_build_is_stop(const nc_node *n);
bool nc_build_is_transpose(const nc_node *n);
bool nc_build_is_onnx(const nc_node *n); /* of ONNX's default domain */
bool nc_build_is_own(const nc_node *n);  /* of domain nacre: ONNX does not know it */
/* dy summed over what broadcasting added, so that it has like's shape: nothing, ReduceSum and Reshape, or (dims not
 * comparable before the run) nacre.SumTo. */
nc_value *nc_build_sum_to(nc_builder *b, nc_value *dy, nc_value *like);

/* The type of what comes out of a container (a tape): t with every dim that is an expression as a symbol of its own,
 * since an actual size binds a symbol but no expression. same: expression -> symbol, kept between calls; NULL: all
 * are new. */
const nc_type *nc_build_popped_type(nc_builder *b, const nc_type *t, nc_map *same);

/* Words for grad hooks. */
nc_value *nc_grad_x(nc_grad *g, int i);  /* forward input i, kept for backward */
nc_value *nc_grad_y(nc_grad *g, int i);  /* forward output i, kept for backward */
nc_value *nc_grad_dy(nc_grad *g, int i); /* NULL: no gradient arrives there */
/* Forward input i where only its dims are asked for: kept for backward only when they are not known before the run. */
nc_value *nc_grad_like(nc_grad *g, int i);
/* nc_build_sum_to(dy, forward input i), keeping that input only when its shape is needed in the run. */
nc_value *nc_grad_sum_to(nc_grad *g, nc_value *dy, int i);
void nc_grad_set(nc_grad *g, int i, nc_value *dx);
nc_code nc_grad_end(nc_grad *g); /* b's code: `return nc_grad_end(g);` */

/* ---- gradients by parts (ops/grad_parts.c) ---- */

/* Emits what n is made of, in differentiable ops: `in` stands for n's operands, NULL where absent; fills out. Unlike a
 * card's decompose it never runs in place of n: it is there to be differentiated. */
typedef nc_code (*nc_parts)(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out);

/* The gradient of a node through its parts, which the gradient's graph computes once more. */
nc_code nc_grad_by_parts(nc_grad *g, nc_parts parts);

/* The same of a gradient op, for gradients of gradients. Its inputs are the n_in operands of the op it is the gradient
 * of, n_dy gradients that arrive, and then what was kept of the forward pass, which has no gradient; its outputs are
 * the gradients of those operands. parts sees the gradient op's node, and the operands alone. */
nc_code nc_grad_twice_by_parts(nc_grad *g, int n_in, int n_dy, nc_parts parts);

/* What such a gradient op is made of, as its card's decompose: the parts, and their gradients. UNSUPPORTED where the
 * builder differentiates nothing. */
nc_code nc_grad_op_by_parts(nc_builder *b, const nc_node *n, int n_in, int n_dy, nc_parts parts, nc_value **out);

/* What a gradient takes in the place of n, whose card has no grad: its grad_form, or else its decomposition. */
nc_code nc_grad_pieces(nc_builder *b, const nc_node *n, nc_value **out);

#endif
