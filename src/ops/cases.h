/* ops/cases.h: one row per way an op is tested; <family>_cases_test.c holds the family's table. The same rows serve
 * the value test against the reference, the gradient test against finite differences, the comparison of all
 * instruction sets and devices with the portable one, and speed. Part of the test program only. */
#ifndef NC_OPS_CASES_H
#define NC_OPS_CASES_H

/* Rows leave out what is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

enum {
    NC_CASE_NO_GRAD = 1, /* integers, comparisons: no gradient to test */
    NC_CASE_EXACT = 2,   /* all instruction sets and devices give the same bits */
    NC_CASE_KINK = 4     /* the derivative jumps where an input is 0 or two are equal: tests keep away from there */
};

typedef struct nc_case_range {
    double lo, hi; /* both 0: as the input before it, the first one -2..2 */
} nc_case_range;

typedef struct nc_case {
    const char *name;    /* NULL ends the table */
    const char *graph;   /* ir/text.h; random inputs in the ranges below; all outputs are compared */
    nc_case_range in[4]; /* per graph input, further ones as the last */
    unsigned flags;
} nc_case;

#endif
