/* ops/sequence/sequence.h: types of what sequences hold. A symbol inside a sequence's element type says "some size":
 * it is never the same as that symbol outside, since elements may differ. */
#ifndef NC_OPS_SEQUENCE_SEQUENCE_H
#define NC_OPS_SEQUENCE_SEQUENCE_H

#include "ops/binding.h"
#include "ops/card.h"

/* What a sequence of elements of type a can be said to hold when one of type b joins. Either may be NULL: unknown. */
NC_MUST nc_code nc_sequence_join(nc_infer *c, const nc_type *a, const nc_type *b, const nc_type **out);
/* One element of a sequence: open dims are new symbols. */
NC_MUST nc_code nc_sequence_item(nc_infer *c, const nc_type *of, const nc_type **out);
/* Output i is a sequence of `of`. */
NC_MUST nc_code nc_sequence_out(nc_infer *c, int i, const nc_type *of);

/* Gradients. */
NC_MUST nc_code nc_sequence_construct_grad(nc_grad *g);
NC_MUST nc_code nc_sequence_insert_grad(nc_grad *g);
NC_MUST nc_code nc_sequence_at_grad(nc_grad *g);
NC_MUST nc_code nc_sequence_erase_grad(nc_grad *g);
NC_MUST nc_code nc_sequence_concat_grad(nc_grad *g);
NC_MUST nc_code nc_sequence_split_grad(nc_grad *g);
NC_MUST nc_code nc_optional_grad(nc_grad *g);
NC_MUST nc_code nc_optional_get_grad(nc_grad *g);

/* Host kernels, bound in sequence_cpu.c. */
NC_MUST nc_code nc_sequence_concat_prepare(nc_prep *p);
NC_MUST nc_code nc_sequence_concat(nc_dyn *d);
NC_MUST nc_code nc_sequence_split_prepare(nc_prep *p);
NC_MUST nc_code nc_sequence_split(nc_dyn *d);
NC_MUST nc_code nc_sequence_zeros(nc_dyn *d);
NC_MUST nc_code nc_sequence_add(nc_dyn *d);
NC_MUST nc_code nc_sequence_sizes_prepare(nc_prep *p);
NC_MUST nc_code nc_sequence_sizes(nc_dyn *d);
/* Records that memory ran out; returns MEMORY. */
nc_code nc_sequence_no_memory(nc_dyn *d);

#endif
