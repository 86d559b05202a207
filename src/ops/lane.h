/* ops/lane.h: what every op whose card is a lane gets without writing it: inference, parameters, gradients, a kernel.
 *
 * The gradient of a unary lane op X is the op nacre.XGrad(dY, S), S being X's input or output; its card is made by the
 * registry from X's. Its own gradient comes from its decomposition Mul(dY, D(S)). */
#ifndef NC_OPS_LANE_H
#define NC_OPS_LANE_H

#include "ops/binding.h"
#include "ops/card.h"

/* Broadcasts the inputs. The element type is what the version's output says, where it names one type or an input; else
 * that of input 0. */
NC_MUST nc_code nc_lane_infer(nc_infer *c);

/* Before opset 7 input 1 could stand against dims of input 0 other than the last (`broadcast` with `axis`; a PRelu's
 * slope against the channels): how many dims of 1 it then lacks behind. 0: none, the only case a tile program serves;
 * -1: a rank that this needs is not known, or does not fit. */
int nc_lane_trailing(const nc_node *n);

/* A Cast between floats that are computed in f32: f16, bf16 and f32 itself. */
bool nc_lane_casts(const nc_node *n);
/* The formula of a node, by its number: its card's lane, or the identity for such a Cast; -1: none. */
int nc_lane_number(const nc_node *n);

/* The node's lane parameters, read through the card's defaults. */
void nc_lane_params(const nc_node *n, double params[2]);

/* The unary lane whose `_grad` lane this is; -1: none. */
int nc_lane_forward_of(int grad_lane);

/* The derivative by input i of a lane with derivatives, as ordinary nodes over `inputs` and `output` (those the
 * formula does not use may be NULL). A constant derivative is a scalar. NULL: b->code says why. */
nc_value *nc_lane_derivative(nc_builder *b, int lane, int i_input, nc_value *const *inputs, nc_value *output,
                             const double *params);

/* dy times the derivative, without the product where the derivative is 1 or -1. */
nc_value *nc_lane_pull(nc_builder *b, int lane, int i_input, nc_value *dy, nc_value *const *inputs, nc_value *output,
                       const double *params);

/* card->blocks of lanes. */
bool nc_lane_blocks(const nc_node *n, nc_blocking *k);

/* The gradient of a lane card that has no grad hook of its own. */
NC_MUST nc_code nc_lane_card_grad(nc_grad *g);

/* What the registry calls the gradient op of a unary lane card. */
#define NC_LANE_GRAD_NAME 48
void nc_lane_grad_name(const nc_card *card, char name[NC_LANE_GRAD_NAME]);

/* decompose of the cards nacre.XGrad. */
NC_MUST nc_code nc_lane_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out);

/* The bindings of all lane ops. An op of NULL: that device has none. */
extern const nc_binding nc_lane_cpu;
extern const nc_binding nc_lane_cuda;

/* The parts of nc_lane_cpu, which also serve nacre.Chain. */
bool nc_lane_cpu_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_lane_cpu_prepare(nc_prep *p);
NC_MUST nc_code nc_lane_cpu_run(const nc_call *c);

/* The same of nc_lane_cuda. */
bool nc_lane_cuda_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_lane_cuda_prepare(nc_prep *p);
NC_MUST nc_code nc_lane_cuda_run(const nc_call *c);
int nc_lane_cuda_rank(const nc_type *t); /* the most dims that a tensor can have when those of 1 are left out; >= 1 */

#endif
