/* ops/signal/signal.h: what the card and the binding of DFT share, and the bindings of nacre.MelWeights. */
#ifndef NC_OPS_SIGNAL_H
#define NC_OPS_SIGNAL_H

#include "ops/binding.h"
#include "ops/card.h"

/* The axis that a DFT node's attribute, constant or default gives, as written; false: known in the run only. */
bool nc_dft_axis(const nc_node *n, int64_t *axis);

typedef struct nc_mel_scale {
    int64_t mels, length, rate;
    double low, step;
} nc_mel_scale;
/* Of a call of nacre.MelWeights, whose arguments the host reads; an error where edges are not in order. */
NC_MUST nc_code nc_mel_scale_of(const nc_call *c, nc_mel_scale *m);
/* The spectrum's bin where triangle edge i lies: triangle i rises from edge i to i + 1 and falls to i + 2. */
int64_t nc_mel_edge(const nc_mel_scale *m, int64_t i);

/* The axis and length of a DFT's call, `axis` being what the attributes say; fails where they do not fit. */
NC_MUST nc_code nc_dft_read(const nc_call *c, int64_t axis, bool inverse, bool onesided, int64_t *along,
                            int64_t *length);

#endif
