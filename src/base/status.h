/* base/status.h: result codes and the diagnostic that goes with a failure.
 *
 * Every fallible function returns nc_code and must be checked. A stage carries an nc_work: scratch memory and one
 * diagnostic. The first failure is recorded with NC_FAIL and forwarded with NC_TRY; later ones do not overwrite it.
 * The diagnostic lives in fixed storage, so reporting "out of memory" needs no memory. */
#ifndef NC_BASE_STATUS_H
#define NC_BASE_STATUS_H

#include "base/arena.h"

#include <stdarg.h>

#define NC_MUST __attribute__((warn_unused_result))
#define NC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

typedef enum nc_code {
#define X(name, number, text) NC_E_##name = number,
#include "base/codes.list"
#undef X
} nc_code;
#define NC_OK NC_E_OK

typedef struct nc_diag {
    nc_code code;
    char node[96];  /* name of the node or file that failed, may be empty */
    char op[64];    /* operator type, may be empty */
    char text[512]; /* what is wrong: expected, got */
} nc_diag;

typedef struct nc_work {
    nc_arena scratch; /* reset by the owner between stages */
    nc_diag diag;
    const char *at_node, *at_op; /* where we are: copied into diag when something fails; borrowed, may be NULL */
} nc_work;

void nc_work_init(nc_work *w);
void nc_work_release(nc_work *w);
/* Where a stage also takes NULL for "unknown" or "absent", a failed allocation since `failures` (nc_mem_failures) makes
 * whatever came out of it out of memory. */
NC_MUST nc_code nc_work_finish(nc_work *w, nc_code code, uint64_t failures);

const char *nc_code_name(nc_code code); /* "SHAPE" */
const char *nc_code_text(nc_code code); /* "shapes do not fit" */

/* Records the failure unless one is recorded already; always returns a code that is not NC_OK. w may be NULL. */
nc_code nc_fail(nc_work *w, nc_code code, const char *fmt, ...) NC_PRINTF(3, 4);
nc_code nc_diag_set(nc_diag *d, nc_code code, const char *node, const char *op, const char *fmt, ...) NC_PRINTF(5, 6);
/* One line for people: "Conv 'conv1': weight has 4 dims, input has 3 [SHAPE]". Returns buf. */
const char *nc_diag_print(const nc_diag *d, char *buf, size_t bytes);

#define NC_FAIL(w, code, ...) return nc_fail((w), (code), __VA_ARGS__)
#define NC_TRY(call)                          \
    do {                                      \
        nc_code nc_try_ = (call);             \
        if (nc_try_ != NC_OK) return nc_try_; \
    } while (0)
/* For allocations: fails with MEMORY when the expression is NULL. */
#define NC_NEED(w, ptr)                                                       \
    do {                                                                      \
        if ((ptr) == NULL) return nc_fail((w), NC_E_MEMORY, "out of memory"); \
    } while (0)

#endif
