/* tests/check.h: the C test harness. `TEST(name) { CHECK(a == b); }` in any *_test.c registers itself; all C tests link
 * into one program, `nacre_tests [--list | --slowest] [pattern...]`, that runs them in order of file and name and
 * closes with "N passed, N failed". */
#ifndef NC_TESTS_CHECK_H
#define NC_TESTS_CHECK_H

#include "tests/tolerances.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct nc_test {
    const char *file, *name;
    void (*fn)(void);
    struct nc_test *next;
} nc_test;

void nc_test_register(nc_test *t);
void nc_test_failed(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Marks the running test as not run, with the reason (no GPU here): reported apart, never counted as passed. */
void nc_test_not_run(const char *why);
/* The machine that tests of a GPU ran on: said once, at the end. */
void nc_test_ran_on(const char *device);
bool nc_test_has_failed(void); /* the test now running */
/* NC_EMULATED is set: every instruction costs twenty. Fewer rounds, the same kinds of cases. */
bool nc_test_emulated(void);

#define TEST(id)                                                   \
    static void test_##id(void);                                   \
    __attribute__((constructor)) static void register_##id(void) { \
        static nc_test t = {__FILE__, #id, test_##id, NULL};       \
        nc_test_register(&t);                                      \
    }                                                              \
    static void test_##id(void)

#define CHECK(cond)                                                   \
    do {                                                              \
        if (!(cond)) nc_test_failed(__FILE__, __LINE__, "%s", #cond); \
    } while (0)
/* Leaves the test when it fails: for what the rest needs. */
#define REQUIRE(cond)                                        \
    do {                                                     \
        if (!(cond)) {                                       \
            nc_test_failed(__FILE__, __LINE__, "%s", #cond); \
            return;                                          \
        }                                                    \
    } while (0)
#define CHECK_INT(got, want)                                                                         \
    do {                                                                                             \
        long long g_ = (long long)(got), w_ = (long long)(want);                                     \
        if (g_ != w_) nc_test_failed(__FILE__, __LINE__, "%s is %lld, expected %lld", #got, g_, w_); \
    } while (0)
/* tol: a row of tests/tolerances.h. */
#define CHECK_CLOSE(got, want, tol)                                                                          \
    do {                                                                                                     \
        double g_ = (double)(got), w_ = (double)(want);                                                      \
        if (!nc_close(g_, w_, (tol)))                                                                        \
            nc_test_failed(__FILE__, __LINE__, "%s is %.17g, expected %.17g within %s", #got, g_, w_, #tol); \
    } while (0)
/* tol: 0, or a bound that the test works out. */
#define CHECK_NEAR(got, want, tol)                                                           \
    do {                                                                                     \
        double g_ = (double)(got), w_ = (double)(want);                                      \
        if (!(fabs(g_ - w_) <= (tol)) && !(isnan(g_) && isnan(w_)) && g_ != w_)              \
            nc_test_failed(__FILE__, __LINE__, "%s is %.17g, expected %.17g", #got, g_, w_); \
    } while (0)
#define CHECK_STR(got, want)                                                                               \
    do {                                                                                                   \
        const char *g_ = (got), *w_ = (want);                                                              \
        if (!g_ || strcmp(g_, w_) != 0)                                                                    \
            nc_test_failed(__FILE__, __LINE__, "%s is:\n%s\nexpected:\n%s", #got, g_ ? g_ : "(null)", w_); \
    } while (0)

#endif
