/* ops/signal/signal.h: what the card and the binding of DFT share. */
#ifndef NC_OPS_SIGNAL_H
#define NC_OPS_SIGNAL_H

#include "ops/card.h"

/* The axis that a DFT node's attribute, constant or default gives, as written; false: known in the run only. */
bool nc_dft_axis(const nc_node *n, int64_t *axis);

#endif
