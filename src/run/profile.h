/* run/profile.h: where the time of a session goes: every instruction's start, duration, stream and bytes. The one
 * source behind the trace and the table per op. Off: the executor tests one pointer.
 *
 * While it is on, the host waits for each instruction of a device before it issues the next, and nothing is captured:
 * durations are true, overlap between streams is lost. */
#ifndef NC_RUN_PROFILE_H
#define NC_RUN_PROFILE_H

#include "base/lock.h"
#include "base/text.h"
#include "plan/program.h"

typedef struct nc_profile_event {
    const nc_instr *instr;
    uint64_t start, ns; /* start counts from when the profile was made */
    uint64_t ns_self;   /* without the instructions of its subgraphs */
    uint64_t bytes;     /* read and written */
    int frame;          /* runs at the same time have different ones */
} nc_profile_event;

typedef struct nc_profile {
    nc_lock lock;
    uint64_t origin; /* of CLOCK_MONOTONIC, in ns */
    nc_profile_event *v;
    size_t n, cap;
    const nc_prog_stream *streams; /* borrowed from the program */
    int n_streams;
    uint64_t n_lost; /* past the limit, or out of memory: counted, not kept */
} nc_profile;

typedef struct nc_profile_op {
    char op[64];
    uint64_t calls, ns, bytes;
} nc_profile_op;

nc_profile *nc_profile_create(void); /* NULL: out of memory */
void nc_profile_destroy(nc_profile *p);
void nc_profile_reset(nc_profile *p);
uint64_t nc_profile_now(const nc_profile *p);
void nc_profile_add(nc_profile *p, const nc_profile_event *e);

/* "Conv", "nacre.Chain(Mul Add Relu)". */
void nc_profile_label(nc_text *out, const nc_node *n);
/* The JSON of chrome://tracing and Perfetto. */
void nc_profile_trace(nc_profile *p, nc_text *out);
/* One row per label, the longest first; freed with nc_free. */
NC_MUST nc_code nc_profile_ops(nc_profile *p, nc_profile_op **rows, size_t *n);

#endif
