/* tests/plugins/add.h: how the plugins here register their ops: one input and one output. */
#ifndef NC_TESTS_PLUGINS_ADD_H
#define NC_TESTS_PLUGINS_ADD_H

#include "nacre/nacre_plugin.h"

typedef nacre_code add_run(void *user, nacre_op_call *c, const nacre_op_api *api);

/* gives_line: the output is float[n], and known to be; else it has the type of the input. */
static inline nacre_code add_op(nacre_plugin_host *host, const char *domain, const char *name, int gives_line,
                                add_run *run) {
    static const nacre_type types[] = {NACRE_FLOAT};
    static const int ranks[] = {1};
    nacre_op op = {.size = sizeof op,
                   .domain = domain,
                   .name = name,
                   .since = 1,
                   .min_inputs = 1,
                   .max_inputs = 1,
                   .n_outputs = 1,
                   .output_types = gives_line ? types : NULL,
                   .output_ranks = gives_line ? ranks : NULL,
                   .run = run};
    return host->add_op(host, &op);
}

NACRE_API nacre_code nacre_plugin_register(nacre_plugin_host *host);

#endif
