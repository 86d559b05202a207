/* onnx/save_names.c: one name for every value, unique over all graphs of the model, because ONNX finds captured
 * values by name. Main inputs and variables come first, then main outputs, so that what users see keeps its name;
 * the rest, outer graphs before inner ones, takes the value's own name, with a number behind it where that is taken. */
#include "onnx/saver.h"

#include <stdio.h>
#include <string.h>

static bool book(nc_saver *s, const char *name) { return nc_map_put(&s->used, name, (void *)(uintptr_t)name); }

const char *nc_save_new_name(nc_saver *s, const char *wish) {
    nc_arena *a = &s->w->scratch;
    const char *name = wish;
    /* The count lives with the wished name, so that a thousand values called "x" do not make a million lookups. */
    uint64_t *count = NULL;
    if (nc_map_get(&s->used, name) || nc_map_get(&s->outputs, name)) {
        char *key = nc_arena_printf(a, "\n%s", wish);
        if (!key) return NULL;
        count = nc_map_get(&s->used, key);
        if (!count) {
            count = nc_arena_alloc(a, sizeof *count);
            if (!count || !nc_map_put(&s->used, key, count)) return NULL;
            *count = 2;
        }
    }
    while (name && (nc_map_get(&s->used, name) || nc_map_get(&s->outputs, name)))
        name = nc_arena_printf(a, "%s_%llu", wish, (unsigned long long)(*count)++);
    return name && book(s, name) ? name : NULL;
}

static nc_code name_value(nc_saver *s, const nc_value *v) {
    if (!v || s->names[v->id]) return NC_OK;
    const char *wish = v->name;
    if (!wish || !*wish) wish = nc_arena_printf(&s->w->scratch, "v%d", v->id);
    NC_NEED(s->w, wish);
    s->names[v->id] = nc_save_new_name(s, wish);
    NC_NEED(s->w, s->names[v->id]);
    return NC_OK;
}

static nc_code name_exactly(nc_saver *s, const nc_value *v, const char *name, const char *what) {
    if (!name || !*name) NC_FAIL(s->w, NC_E_BAD_GRAPH, "%s has no name", what);
    if (nc_map_get(&s->used, name)) NC_FAIL(s->w, NC_E_BAD_GRAPH, "%s '%.200s': the name is taken", what, name);
    s->names[v->id] = name;
    if (!book(s, name)) NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code name_interface(nc_saver *s) {
    const nc_graph *g = s->m->main;
    for (int i = 0; i < g->inputs.n; i++) NC_TRY(name_exactly(s, g->inputs.v[i], g->inputs.v[i]->name, "input"));
    for (int i = 0; i < g->vars.n; i++) NC_TRY(name_exactly(s, g->vars.v[i]->first, g->vars.v[i]->name, "variable"));
    for (int i = 0; i < g->outputs.n; i++) {
        const nc_value *v = g->outputs.v[i];
        const char *name = g->output_names.v[i];
        if (nc_map_get(&s->outputs, name) && (!s->names[v->id] || strcmp(s->names[v->id], name) != 0))
            NC_FAIL(s->w, NC_E_BAD_GRAPH, "output '%.200s' is there twice, as two values", name);
        if (!s->names[v->id])
            NC_TRY(name_exactly(s, v, name, "output"));
        else if (strcmp(s->names[v->id], name) != 0 && nc_map_get(&s->used, name))
            NC_FAIL(s->w, NC_E_BAD_GRAPH, "output '%.200s': another value has that name", name);
        if (!nc_map_put(&s->outputs, name, (void *)(uintptr_t)name)) NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code name_graph(nc_saver *s, const nc_graph *g, int depth) {
    if (depth > NC_ONNX_MAX_DEPTH) NC_FAIL(s->w, NC_E_LIMIT, "graphs are nested deeper than %d", NC_ONNX_MAX_DEPTH);
    for (int i = 0; i < g->inputs.n; i++) NC_TRY(name_value(s, g->inputs.v[i]));
    for (int i = 0; i < g->consts.n; i++) NC_TRY(name_value(s, g->consts.v[i]));
    for (const nc_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_out; i++) NC_TRY(name_value(s, n->out[i]));
    for (const nc_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_subs; k++) {
            const nc_sub *sub = &n->subs[k];
            for (int i = 0; i < sub->n_captures; i++)
                s->names[sub->graph->captures.v[i]->id] = s->names[n->in[sub->first_capture + i]->id];
            NC_TRY(name_graph(s, sub->graph, depth + 1));
        }
    return NC_OK;
}

nc_code nc_save_name_all(nc_saver *s) {
    nc_map_init(&s->used, &s->w->scratch);
    nc_map_init(&s->outputs, &s->w->scratch);
    s->names = nc_arena_array(&s->w->scratch, (size_t)s->m->next_id + 1, sizeof *s->names);
    NC_NEED(s->w, s->names);
    NC_TRY(name_interface(s));
    return name_graph(s, s->m->main, 1);
}
