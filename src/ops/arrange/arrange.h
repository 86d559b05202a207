/* ops/arrange/arrange.h: what the ops that lay elements out anew copy from where to where, for the bindings of every
 * device. Operands are dense. */
#ifndef NC_OPS_ARRANGE_H
#define NC_OPS_ARRANGE_H

#include "kernels/cpu/move/pad.h"
#include "ops/binding.h"

/* One strided copy of input 0 to output 0, strides in elements, from at_from and to at_to. */
typedef struct nc_arranged {
    int rank;
    int64_t dims[NC_MAX_RANK], from[NC_MAX_RANK], to[NC_MAX_RANK];
    int64_t at_from, at_to;
    bool fills; /* the output is zero before */
} nc_arranged;

NC_MUST nc_code nc_arrange_wrong(const nc_call *c, const char *text);
NC_MUST nc_code nc_arrange_tile(const nc_call *c, nc_arranged *out);
NC_MUST nc_code nc_arrange_center(const nc_call *c, nc_arranged *out);

typedef struct nc_depth {
    int64_t size;
    bool crd;
} nc_depth;
nc_depth nc_depth_read(const nc_node *n);
/* widens: DepthToSpace, else SpaceToDepth. */
NC_MUST nc_code nc_arrange_depth(const nc_depth *s, const nc_call *c, bool widens, nc_arranged *out);

typedef struct nc_padding {
    nck_pad_mode mode;
    bool by_attr;
    int64_t pads[2 * NC_MAX_RANK];
    int n;
    char value[8]; /* of the attribute, in data's type */
} nc_padding;
NC_MUST nc_code nc_padding_read(nc_prep *p, nc_padding *out);
/* How much is put before every axis of input 0, pads being input i_pads. */
NC_MUST nc_code nc_padding_begin_at(const nc_padding *s, const nc_call *c, int i_pads, int64_t *begin);
/* The same for Pad itself, whose sizes are checked too. */
NC_MUST nc_code nc_padding_begin(const nc_padding *s, const nc_call *c, int64_t *begin);
/* The constant that is an input; NULL: none. */
void *nc_padding_given(const nc_call *c);

#endif
