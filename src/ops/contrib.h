/* ops/contrib.h: what the cards of ONNX Runtime's own operators (domain com.microsoft) share. A card lies in the family
 * of its mathematics; most have no kernel and run, and are differentiated, as what they are made of. They take every
 * float type where ONNX Runtime takes some. */
#ifndef NC_OPS_CONTRIB_H
#define NC_OPS_CONTRIB_H

#include "ops/build.h"
#include "ops/card.h"

#define NC_MICROSOFT "com.microsoft"
#define T_F32 NC_BIT(NC_FLOAT)
#define T_I32 NC_BIT(NC_INT32)

/* Input i of n; NULL: absent. */
nc_value *nc_contrib_in(const nc_node *n, int i);
bool nc_contrib_wants(const nc_node *n, int i); /* output i of n is there */
/* An attribute of a number that has no default: `none` where it is absent. */
int64_t nc_contrib_int(const nc_node *n, const char *name, int64_t none);
double nc_contrib_float(const nc_node *n, const char *name, double none);

/* SHAPE unless input i, where its rank is known, has that many dims. */
NC_MUST nc_code nc_contrib_rank(nc_infer *c, int i, int rank);
/* SHAPE unless input i, where it is there, is a vector of `size` elements. */
NC_MUST nc_code nc_contrib_vector(nc_infer *c, int i, const nc_dim *size);

/* x in the type that sums of its elements are made in: f32 for the half types. */
nc_value *nc_contrib_wide(nc_builder *b, nc_value *x);
nc_value *nc_contrib_add(nc_builder *b, nc_value *x, nc_value *y); /* y NULL: x itself */
/* The gradient of Dropout from its mask of bools. Inputs i_ratio and the next of n say the ratio, 0.5 where it is
 * absent, and whether it drops at all, as it does where that is absent. */
nc_value *nc_contrib_dropout_grad(nc_builder *b, const nc_node *n, nc_value *dy, nc_value *mask, int i_ratio);
nc_value *nc_contrib_size(nc_builder *b, nc_value *x, int axis);   /* a dim of x, rank 1 int64 */

/* x (N,...,C) as (N,C,...), or with `back` the other way round: of a type, of a value of known rank. */
NC_MUST nc_code nc_contrib_turned(nc_infer *c, const nc_type *t, bool back, const nc_type **out);
nc_value *nc_contrib_turn(nc_builder *b, nc_value *x, bool back);
/* What `inner` infers; with `last` of input 0 with its channels in front, and output 0 turned back. */
NC_MUST nc_code nc_contrib_infer_turned(nc_infer *c, bool last, nc_code (*inner)(nc_infer *c));
/* The attributes of n without those named, at most 16, in `to`; how many. */
int nc_contrib_attrs(const nc_node *n, const char *const *without, int n_without, nc_attr *to);

/* Codes x as numbers, and numbers as codes of type t; zero NULL: 0. */
nc_value *nc_contrib_decoded(nc_builder *b, nc_value *x, nc_value *scale, nc_value *zero);
nc_value *nc_contrib_coded(nc_builder *b, nc_value *x, nc_value *scale, nc_value *zero, nc_dtype t);

/* The activations that fused ops name, with up to 2 numbers in the order of their attributes; NULL or "": none. */
NC_MUST nc_code nc_contrib_check_activation(nc_infer *c, const char *name, int n_numbers);
nc_value *nc_contrib_activation(nc_builder *b, const char *name, const float *numbers, nc_value *x);
/* The attribute of number i of an activation; NULL: it has no such number, or not as an attribute. */
const char *nc_contrib_activation_attr(const char *name, int i);

#endif
