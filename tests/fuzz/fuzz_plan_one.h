/* tests/fuzz/fuzz_plan_one.h: what fuzzing does with one model, as ONNX bytes or as text: it is loaded, inferred,
 * transformed, lowered and planned, with every operator there is, and given back. Shared by the fuzz target and the
 * replay test. Nothing is run: kernels get what planning accepted. */
#ifndef NC_TESTS_FUZZ_PLAN_ONE_H
#define NC_TESTS_FUZZ_PLAN_ONE_H

#include "base/mem.h"
#include "ir/text.h"
#include "onnx/load.h"
#include "run/session.h"

#include <string.h>

#define FUZZ_MAX_BYTES ((uint64_t)1 << 30) /* that the host may be asked for by one small model */

static nc_code fuzz_plan_read(nc_work *w, const uint8_t *data, size_t size, const nc_registry *r, nc_model **out) {
    bool text = size && (data[0] == '<' || data[0] == '(' || data[0] >= 'A');
    if (!text) return nc_onnx_load(w, data, size, NULL, NULL, r, out);
    char *s = nc_arena_strn(&w->scratch, (const char *)data, size);
    return s ? nc_graph_parse(w, s, r, out) : NC_E_MEMORY;
}

/* NULL, or what went wrong. */
__attribute__((unused)) static const char *fuzz_plan_one(const uint8_t *data, size_t size) {
    static nc_env *env;
    if (!env) env = nc_env_create(1);
    if (!env) return NULL;
    const char *wrong = NULL;
    for (int level = 0; level <= 3 && !wrong; level += 3) {
        nc_work w;
        nc_model *m = NULL;
        nc_session *s = NULL;
        nc_work_init(&w);
        uint64_t live = nc_mem_live(), bytes = nc_mem_bytes();
        nc_code code = fuzz_plan_read(&w, data, size, env->registry, &m);
        if (code == NC_OK) code = nc_session_create(&w, env, m, &(nc_session_options){.level = level}, &s);
        if (code != NC_OK && w.diag.code == NC_OK && code != NC_E_MEMORY) wrong = "it failed without a message";
        if (nc_mem_bytes() - bytes > FUZZ_MAX_BYTES) wrong = "it took more than a GiB";
        nc_session_destroy(s);
        nc_work_release(&w);
        if (!wrong && nc_mem_live() > live + 64) wrong = "memory was not given back";
    }
    return wrong;
}

#endif
