/* plan/predict.h: the memory a run will take, before it runs: every tensor in the arena with its bytes and life, one
 * that lies over another too, totals per place. Reads a program and sizes, changes nothing. */
#ifndef NC_PLAN_PREDICT_H
#define NC_PLAN_PREDICT_H

#include "plan/instance.h"

typedef struct nc_predicted_slot {
    const char *name, *op; /* of the value and of the node that makes it; name "workspace" where there is no value */
    int place, seg;
    int first, last; /* instructions: the one that makes it, the last that reads it or a view of it */
    size_t offset, bytes;
} nc_predicted_slot;

typedef struct nc_prediction {
    NC_VEC(nc_predicted_slot) slots; /* in the arena given */
    size_t frame[2];                 /* arena memory of a frame: host, devices; subprograms included */
    size_t consts[2], packed[2], state[2], outputs[2];
    int n_unknown; /* segments whose sizes or ranks are only found while running: not counted */
} nc_prediction;

/* values, known: per symbol, those of inputs and variables. */
NC_MUST nc_code nc_predict(nc_work *w, nc_arena *a, const nc_program *p, const int64_t *values, const bool *known,
                           nc_prediction *out);

#endif
