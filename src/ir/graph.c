/* ir/graph.c: life of a model and lookups in it. Changes live in edit*.c, meaning of operators in card.c.
 *
 * A model owns one arena for everything it holds, one table of dims, and a reference to every buffer its literals point
 * into. */
#include "ir/graph.h"

#include "base/mem.h"
#include "base/near.h"
#include "ir/edit_core.h"

#include <string.h>

nc_model *nc_model_create(const nc_registry *borrows) {
    nc_model *m = nc_alloc_zero(1, sizeof *m);
    if (!m) return NULL;
    nc_arena_init(&m->arena);
    m->registry = borrows;
    m->next_random_id = 1;
    m->dims = nc_dims_create();
    if (m->dims) m->main = nc_edit_new_graph(m, NULL, "");
    if (!m->main) {
        nc_model_destroy(m);
        return NULL;
    }
    return m;
}

void nc_model_destroy(nc_model *m) {
    if (!m) return;
    for (int i = 0; i < m->buffers.n; i++) nc_buffer_unref(m->buffers.v[i]);
    nc_dims_destroy(m->dims);
    nc_arena_release(&m->arena);
    nc_free(m);
}

int64_t nc_model_opset(const nc_model *m, const char *domain) {
    if (!domain || strcmp(domain, "ai.onnx") == 0) domain = "";
    for (int i = 0; i < m->n_opsets; i++)
        if (strcmp(m->opsets[i].domain, domain) == 0) return m->opsets[i].version;
    return 0;
}

const nc_attr *nc_node_attr(const nc_node *n, const char *name) {
    for (int i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i];
    return NULL;
}

static nc_value *find_in(nc_value *const *v, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (v[i] && strcmp(v[i]->name, name) == 0) return v[i];
    return NULL;
}

nc_value *nc_graph_find(const nc_graph *g, const char *name) {
    nc_value *v = find_in(g->inputs.v, g->inputs.n, name);
    if (!v) v = find_in(g->consts.v, g->consts.n, name);
    for (int i = 0; !v && i < g->vars.n; i++) v = find_in(&g->vars.v[i]->first, 1, name);
    for (const nc_node *n = g->first; !v && n; n = n->next) v = find_in(n->out, n->n_out, name);
    if (!v) v = find_in(g->captures.v, g->captures.n, name);
    return v;
}

static void offer_all(nc_near *near, nc_value *const *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i]) nc_near_offer(near, v[i]->name);
}

nc_code nc_graph_need(nc_work *w, const nc_graph *g, const char *name, const char *what, nc_value **out) {
    char text[200];
    nc_near near = {.wanted = name};
    *out = nc_graph_find(g, name);
    if (*out) return NC_OK;
    offer_all(&near, g->inputs.v, g->inputs.n);
    offer_all(&near, g->consts.v, g->consts.n);
    for (int i = 0; i < g->vars.n; i++) nc_near_offer(&near, g->vars.v[i]->name);
    for (const nc_node *n = g->first; n; n = n->next) offer_all(&near, n->out, n->n_out);
    NC_FAIL(w, NC_E_ARGUMENT, "%s: the model has no value '%.100s'%s", what, name, nc_near_text(&near, text));
}

nc_node *nc_graph_find_node(const nc_graph *g, const char *name) {
    for (nc_node *n = g->first; n; n = n->next)
        if (strcmp(n->name, name) == 0) return n;
    return NULL;
}

/* Literal bytes may be unaligned, hence memcpy. uint64 beyond int64 wraps, as ONNX's own casts do. */
static int64_t read_int(const char *p, nc_dtype t) {
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
    } x;
    memcpy(&x, p, nc_dtype_bytes(t));
    switch (t) {
    case NC_INT8: return x.i8;
    case NC_UINT8: return x.u8;
    case NC_BOOL: return x.u8 != 0;
    case NC_INT16: return x.i16;
    case NC_UINT16: return x.u16;
    case NC_INT32: return x.i32;
    case NC_UINT32: return x.u32;
    default: return x.i64;
    }
}

bool nc_literal_ints(const nc_literal *l, int64_t *out, int64_t max, int64_t *n) {
    char c = nc_dtype_class(l->dtype);
    if ((c != 'I' && c != 'U' && c != 'B') || l->n > max) return false;
    size_t step = nc_dtype_bytes(l->dtype);
    if (step == 0 || step > sizeof(int64_t)) return false;
    for (int64_t i = 0; i < l->n; i++) out[i] = read_int((const char *)l->data + (size_t)i * step, l->dtype);
    *n = l->n;
    return true;
}
