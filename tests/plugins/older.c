/* tests/plugins/older.c: a library built against a header whose nacre_op ended earlier, and one of a later header whose
 * nacre_op is longer. What the older one lacks must be zero, not what lies behind it in memory. */
#include "add.h"

#include <stddef.h>
#include <string.h>

static nacre_code negate(void *user, nacre_op_call *c, const nacre_op_api *api) {
    nacre_op_tensor x, y;
    if (user) return api->fail(c, NACRE_FAIL, "user is not zero");
    nacre_code code = api->input(c, 0, &x);
    if (code == NACRE_OK) code = api->output(c, 0, x.type, x.rank, x.dims, &y);
    if (code != NACRE_OK) return code;
    int64_t n = 1;
    for (int d = 0; d < x.rank; d++) n *= x.dims[d];
    for (int64_t i = 0; i < n; i++) ((float *)y.data)[i] = -((const float *)x.data)[i];
    return NACRE_OK;
}

nacre_code nacre_plugin_register(nacre_plugin_host *host) {
    struct {
        nacre_op op;
        char behind[64];
    } given;
    memset(&given, 0x5A, sizeof given);
    nacre_op op = {.domain = "test.older", .since = 1, .min_inputs = 1, .max_inputs = 1, .n_outputs = 1, .run = negate};
    op.name = "Shorter", op.size = offsetof(nacre_op, user);
    memcpy(&given.op, &op, op.size);
    nacre_code code = host->add_op(host, &given.op);
    if (code != NACRE_OK) return code;
    op.name = "Longer", op.size = sizeof given;
    given.op = op;
    code = host->add_op(host, &given.op);
    if (code != NACRE_OK) return code;
    op.name = "Torn", op.size = offsetof(nacre_op, run); /* not even a kernel: no header was ever so short */
    return host->add_op(host, &op) == NACRE_ARGUMENT ? NACRE_OK : NACRE_FAIL;
}
