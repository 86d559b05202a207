/* tests/tolerances.h: the rows of tolerances.list for C tests: `nc_tol_kernel_f32`, and the comparison by one. The
 * numbers stand in the list alone. */
#ifndef NC_TESTS_TOLERANCES_H
#define NC_TESTS_TOLERANCES_H

#include <math.h>
#include <stdbool.h>

typedef struct nc_tolerance {
    double rel, abs;
} nc_tolerance;

#define TOL(name, relative, absolute, text) extern const nc_tolerance nc_tol_##name;
#include "tests/tolerances.list"
#undef TOL

static inline bool nc_close(double got, double want, nc_tolerance t) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    return got == want || fabs(got - want) <= t.abs + t.rel * fabs(want);
}

/* For sums of n terms: errors grow as the root of n. */
static inline nc_tolerance nc_tol_of_sum(nc_tolerance t, double n) {
    double k = 1 + sqrt(n);
    return (nc_tolerance){t.rel * k, t.abs * k};
}

#endif
