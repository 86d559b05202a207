/* ops/blocked.h: words for the hooks blocks and blocked of cards (ir/card.h): ops that work within a channel do so on
 * the channel-blocked layout [N, ceil(C/B), spatial..., B] as they are, with one more dim behind that they leave alone.
 */
#ifndef NC_OPS_BLOCKED_H
#define NC_OPS_BLOCKED_H

#include "ops/build.h"

/* Input i is of a type that is kept in blocks, of known rank, with two dims in front of at least one spatial one, and a
 * known number of channels, and output 0 has those dims but the ones that k drops: its bit is set. Else k->why says
 * what is missing. */
bool nc_blocks_input(const nc_node *n, int i, nc_blocking *k);

/* An axis of n's input 0 as its blocked form has it; -1: it is outside. */
int nc_blocks_axis(const nc_node *n, int64_t axis);

/* The node itself over blocked inputs; attributes of whole numbers named in `longer`, ended by NULL, get a number for
 * the dim behind: `more`, at the end of each of `parts` equal parts. */
typedef struct nc_blocked_attr {
    const char *name;
    int parts;
    int64_t more;
} nc_blocked_attr;
nc_value *nc_blocked_same(nc_builder *b, const nc_node *n, nc_value *const *in, const nc_blocked_attr *longer);

#endif
