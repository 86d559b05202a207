/* base/steps.c: the one counter of steps.h. */
#include "base/steps.h"

atomic_uint_least64_t nc_steps_counter;
