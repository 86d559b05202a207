/* tests/parts_testing.h: builders for tests of cards whose gradients go through the parts of an op, see
 * ops/grad_parts.c. */
#ifndef NC_TESTS_PARTS_TESTING_H
#define NC_TESTS_PARTS_TESTING_H

#include "autodiff/autodiff.h"
#include "ops/build.h"

/* At the end of the graph, of the backward pass. */
static inline nc_builder test_parts_builder(nc_work *w, nc_graph *g, nc_code (*infer)(nc_work *w, nc_node *n)) {
    return (nc_builder){.w = w, .graph = g, .stage = NC_STAGE_BACKWARD, .infer = infer, .grad = nc_autodiff_emit};
}

#endif
