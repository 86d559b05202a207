/* base/steps.h: a count of small steps, for tests that ask whether work grows with the input or faster. Loops whose
 * length the input decides count here: fields read, slots of maps probed, uses and captures searched, patterns tried.
 * A clock would say something else on every machine; this says the same on all. */
#ifndef NC_BASE_STEPS_H
#define NC_BASE_STEPS_H

#include <stdatomic.h>
#include <stdint.h>

extern atomic_uint_least64_t nc_steps_counter; /* exact while one thread works */

/* Load and store, not one locked step: counting must cost next to nothing. */
static inline void nc_steps_add(uint64_t n) {
    uint64_t now = atomic_load_explicit(&nc_steps_counter, memory_order_relaxed);
    atomic_store_explicit(&nc_steps_counter, now + n, memory_order_relaxed);
}

static inline uint64_t nc_steps(void) { return atomic_load_explicit(&nc_steps_counter, memory_order_relaxed); }

#endif
