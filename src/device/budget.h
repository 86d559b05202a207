/* device/budget.h: the memory that one session may hold on its devices: a hard cap and what is charged to it.
 *
 * Whoever allocates for a session charges its budget first and gives the bytes back when they are freed; the device's
 * own counters go on beside it. Counted, because an output may outlive its session. Thread-safe. */
#ifndef NC_DEVICE_BUDGET_H
#define NC_DEVICE_BUDGET_H

#include "base/status.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct nc_budget {
    atomic_int refs;
    size_t limit; /* 0: none */
    _Atomic size_t live, peak;
} nc_budget;

nc_budget *nc_budget_create(size_t limit); /* NULL: out of memory */
nc_budget *nc_budget_ref(nc_budget *b);    /* NULL is fine here and below: no budget, no cap */
void nc_budget_unref(nc_budget *b);
/* Charges bytes; LIMIT when the cap would be passed, and then nothing is charged. */
NC_MUST nc_code nc_budget_take(nc_budget *b, size_t bytes, nc_diag *diag);
void nc_budget_give(nc_budget *b, size_t bytes);

#endif
