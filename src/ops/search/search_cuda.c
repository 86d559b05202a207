/* ops/search/search_cuda.c: the steps of searches run on the host, whatever their decoders run on. */
#include "ops/binding.h"

extern const nc_binding nc_search_cuda[];
const nc_binding nc_search_cuda[] = {{0}};
