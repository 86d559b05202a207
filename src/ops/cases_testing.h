/* ops/cases_testing.h: what the tests of op families share. Rows of ops/cases.h run without a session: nodes one after
 * the other, each by its own binding on the host; a family's <family>_cases_test.c calls the three checks. Beside them
 * the checks of what inference says of a text graph. */
#ifndef NC_OPS_CASES_TESTING_H
#define NC_OPS_CASES_TESTING_H

#include "base/status.h"
#include "ops/cases.h"

/* Float graphs agree with the same graph in double; every case runs. */
void nc_cases_check_values(const nc_case *cases);
/* Every instruction set of this machine agrees with the portable one. */
void nc_cases_check_isas(const nc_case *cases);
/* For graphs of one node: its gradient against central differences in double, and gradient ops against their
 * decomposition. Says "not run" when a gradient needs an op that is not in the registry. */
void nc_cases_check_gradients(const nc_case *cases);

/* value NULL: the first output. A graph that is refused gives its whole diagnostic instead of a type. */
void nc_check_infers(const char *file, int line, const char *graph, const char *value, const char *want);
void nc_check_refused(const char *file, int line, const char *graph, nc_code code, const char *part);

#define CHECK_INFERS(graph, want) nc_check_infers(__FILE__, __LINE__, graph, NULL, want)
#define CHECK_INFERS_VALUE(graph, value, want) nc_check_infers(__FILE__, __LINE__, graph, value, want)
#define CHECK_REFUSED(graph, code, part) nc_check_refused(__FILE__, __LINE__, graph, code, part)

#endif
