/* ops/signal/signal.h: what the card and the binding of DFT share. */
#ifndef NC_OPS_SIGNAL_H
#define NC_OPS_SIGNAL_H

#include "ops/card.h"

/* The axis of a DFT node, made non-negative. axis_in: input 2 as inference sees it; NULL: as the graph has it. False:
 * not known, or not one before the last of `rank`. */
bool nc_dft_axis(const nc_node *n, const nc_infer_val *axis_in, int rank, int64_t *axis);

#endif
