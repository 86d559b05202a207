/* transform/transform.c: the pass manager: which passes run, over which graphs, how often. Knows no pass but by
 * passes.list. */
#include "transform/transform.h"

#include "base/log.h"
#include "transform/rules.h"

#include <string.h>

enum { BEFORE = 1, AFTER = 2, BOTH = 3, INFER = 4, KNOWN = 4 | 8, NEWER = 4 | 8, RULES = 4, MAX_ROUNDS = 16 };

/* What runs before a gradient, beside BEFORE, where it is known which constants training changes. */
enum { TRAINED = 8 };

/* What a pass of a phase does, and what where newer ops are welcome. */
#define RUN_BEFORE(name) nc_pass_##name
#define RUN_BOTH(name) nc_pass_##name
#define RUN_INFER(name) nc_pass_##name
#define RUN_KNOWN(name) nc_pass_##name
#define RUN_NEWER(name) nc_pass_##name
#define RUN_RULES(name) NULL
#define WITH_NEWER_BEFORE(name) nc_pass_##name
#define WITH_NEWER_BOTH(name) nc_pass_##name
#define WITH_NEWER_INFER(name) nc_pass_##name
#define WITH_NEWER_KNOWN(name) nc_pass_##name
#define WITH_NEWER_NEWER(name) nc_pass_##name##_newer
#define WITH_NEWER_RULES(name) NULL

static const struct {
    const char *name;
    int level, phase;
    nc_pass run, newer; /* NULL: the user's rules */
    const char *doc;
} passes[] = {
#define PASS(name, level, phase, doc) {#name, level, phase, RUN_##phase(name), WITH_NEWER_##phase(name), doc},
#include "transform/passes.list"
#undef PASS
};
enum { N_PASSES = sizeof passes / sizeof passes[0] };

const char *nc_transform_name(int i, int *level, const char **doc) {
    if (i < 0 || i >= N_PASSES) return NULL;
    if (level != NULL) *level = passes[i].level;
    if (doc != NULL) *doc = passes[i].doc;
    return passes[i].name;
}

static bool is_in(const char *name, const char *const *list, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0) return true;
    return false;
}

static nc_code check_names(nc_work *w, const char *const *off, int n_off) {
    for (int i = 0; i < n_off; i++) {
        bool known = false;
        for (int k = 0; k < N_PASSES; k++) known |= strcmp(passes[k].name, off[i]) == 0;
        if (known) continue;
        nc_text names = {0};
        for (int k = 0; k < N_PASSES; k++) nc_text_addf(&names, "%s%s", k > 0 ? ", " : "", passes[k].name);
        nc_code code =
            nc_fail(w, NC_E_ARGUMENT, "no pass is called '%s'; there are %s", off[i], names.s ? names.s : "");
        nc_text_release(&names);
        return code;
    }
    return NC_OK;
}

/* What a pass leaves in scratch is of no use to the next: all of them work in the same few pages. */
static nc_code run_one(nc_work *w, nc_graph *g, nc_pass run, const nc_rules *rules, int *n_changes) {
    nc_arena_mark before = nc_arena_here(&w->scratch);
    if (run != NULL)
        NC_TRY(run(w, g, n_changes));
    else if (rules != NULL)
        NC_TRY(nc_pattern_apply(w, g, rules->rows, rules->n, n_changes));
    nc_arena_back(&w->scratch, before);
    return NC_OK;
}

/* Inner graphs first: what they no longer capture is free outside. */
static nc_code over_graphs(nc_work *w, nc_graph *g, nc_pass run, const nc_rules *rules, int *n_changes) {
    for (nc_node *n = g->first; n != NULL; n = n->next)
        for (int i = 0; i < n->n_subs; i++) NC_TRY(over_graphs(w, n->subs[i].graph, run, rules, n_changes));
    return run_one(w, g, run, rules, n_changes);
}

static int phase_of(const nc_model *m, const nc_transform_options *o) {
    if (o->after_gradient) return AFTER;
    return BEFORE | (o->trains ? TRAINED : m->infers_only ? INFER : 0);
}

static bool is_on(int k, int phase, const nc_transform_options *o) {
    return passes[k].level <= o->level && (passes[k].phase & phase) && !is_in(passes[k].name, o->off, o->n_off);
}

/* Round by round, until each pass has found nothing to do since the last change. */
nc_code nc_transform(nc_work *w, nc_model *m, const nc_transform_options *o) {
    int phase = phase_of(m, o), total[N_PASSES] = {0}, in_vain = 0;
    NC_TRY(check_names(w, o->off, o->n_off));
    if (o->rules != NULL) NC_TRY(nc_rules_check(w, m, o->rules));
    for (int i = 0; i < MAX_ROUNDS * N_PASSES && in_vain < N_PASSES; i++) {
        int k = i % N_PASSES, n = 0;
        if (is_on(k, phase, o))
            NC_TRY(over_graphs(w, m->main, o->newer ? passes[k].newer : passes[k].run, o->rules, &n));
        if (m->out_of_memory) NC_FAIL(w, NC_E_MEMORY, "out of memory");
        total[k] += n;
        in_vain = n > 0 ? 0 : in_vain + 1;
    }
    for (int k = 0; k < N_PASSES; k++)
        if (total[k] > 0) nc_log(NC_LOG_INFO, "transform: %s changed %d", passes[k].name, total[k]);
    return NC_OK;
}
