/* plan/instance.h: a segment's memory for one set of sizes: offsets of its arena slots, workspace, totals per place.
 * Offsets are made for capacities (sizes rounded up to buckets), so one instance serves every smaller actual size. */
#ifndef NC_PLAN_INSTANCE_H
#define NC_PLAN_INSTANCE_H

#include "plan/program.h"

typedef struct nc_instance {
    size_t *offset;    /* per block of the segment (nc_segment.blocks, nc_slot.block), within its place's memory */
    size_t *bytes;     /* per block: planned bytes */
    size_t *total;     /* per place */
    size_t bytes_self; /* of this struct and its arrays, for the cache's limit */
} nc_instance;

/* caps: a capacity for every symbol of the segment (known or bounded ones). Heap-allocated, freed with nc_free. */
NC_MUST nc_code nc_instance_create(nc_work *w, const nc_program *p, int i_seg, const int64_t *caps, const bool *known,
                                   nc_instance **out);
void nc_instance_print(nc_text *out, const nc_program *p, int i_seg, const nc_instance *x);

#endif
