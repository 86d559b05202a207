/* autodiff/cards_testing.h: for tests of gradients: the registry of ops.list and, where that does not have them yet,
 * small cards of the ops that gradients emit. */
#ifndef NC_AUTODIFF_CARDS_TESTING_H
#define NC_AUTODIFF_CARDS_TESTING_H

#include "ir/graph.h"

extern const nc_registry nc_test_cards;

#endif
