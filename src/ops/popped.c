/* ops/popped.c: types of values that come back from a tape. Their sizes are found when they are popped: see the
 * comment in ops/build.h. */
#include "ops/build.h"

static const nc_dim *bindable(nc_model *m, const nc_dim *d, nc_map *same) {
    if (nc_dim_is_const(d, NULL) || nc_dim_sym_id(d) >= 0) return d;
    const nc_dim *sym = same ? nc_map_get_bytes(same, &d, sizeof d) : NULL;
    if (sym) return sym;
    sym = nc_dim_fresh(m->dims, "popped");
    if (!sym || !same) return sym;
    const nc_dim **key = nc_arena_copy(same->arena, &d, sizeof d);
    return key && nc_map_put_bytes(same, key, sizeof *key, (void *)sym) ? sym : NULL;
}

const nc_type *nc_build_popped_type(nc_builder *b, const nc_type *t, nc_map *same) {
    if (b->code != NC_OK) return NULL;
    if (!t || t->kind != NC_T_TENSOR || t->rank < 0) return t;
    nc_model *m = b->graph->model;
    const nc_dim *dims[NC_MAX_RANK];
    const nc_type *out = NULL;
    bool ok = true;
    for (int i = 0; i < t->rank && ok; i++) ok = (dims[i] = bindable(m, t->dims[i], same)) != NULL;
    if (ok) out = nc_type_tensor(&m->arena, t->elem, t->rank, dims);
    if (!out) b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
    return out;
}
