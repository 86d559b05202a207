/* tests/grad_cards.h: for tests of gradients: the registry of ops.list with some ops of domain test. */
#ifndef NC_TESTS_GRAD_CARDS_H
#define NC_TESTS_GRAD_CARDS_H

#include "ir/graph.h"

extern const nc_registry nc_test_cards;

#endif
