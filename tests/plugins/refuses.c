/* tests/plugins/refuses.c: adds an operator and then refuses to be loaded: nothing of it may stay. */
#include "add.h"

static nacre_code never(void *user, nacre_op_call *c, const nacre_op_api *api) {
    (void)user;
    return api->fail(c, NACRE_FAIL, "it should not be there");
}

nacre_code nacre_plugin_register(nacre_plugin_host *host) {
    nacre_code code = add_op(host, "test.refuses", "Never", 0, never);
    return code == NACRE_OK ? NACRE_STATE : code;
}
