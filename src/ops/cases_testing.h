/* ops/cases_testing.h: runs the rows of ops/cases.h without a session: nodes one after the other, each by its own
 * binding on the host. A family's <family>_cases_test.c calls the three checks from its tests. */
#ifndef NC_OPS_CASES_TESTING_H
#define NC_OPS_CASES_TESTING_H

#include "ops/cases.h"

/* Float graphs agree with the same graph in double; every case runs. */
void nc_cases_check_values(const nc_case *cases);
/* Every instruction set of this machine agrees with the portable one. */
void nc_cases_check_isas(const nc_case *cases);
/* For graphs of one node: its gradient against central differences in double, and gradient ops against their
 * decomposition. Says "not run" when a gradient needs an op that is not in the registry. */
void nc_cases_check_gradients(const nc_case *cases);

#endif
