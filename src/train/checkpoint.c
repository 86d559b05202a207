/* train/checkpoint.c: the struct that checkpoints are in memory. Knows no file. */
#include "train/checkpoint.h"

#include <string.h>

nc_code nc_checkpoint_create(nc_work *w, nc_checkpoint **out) {
    nc_checkpoint *c = nc_alloc_zero(1, sizeof *c);
    NC_NEED(w, c);
    nc_map_init(&c->names, &c->arena);
    *out = c;
    return NC_OK;
}

void nc_checkpoint_release(nc_checkpoint *c) {
    if (!c) return;
    for (int i = 0; i < c->params.n; i++) {
        nc_object_unref(c->params.v[i].value);
        for (int k = 0; k < NC_MOMENTS; k++) nc_object_unref(c->params.v[i].moments[k]);
    }
    nc_arena_release(&c->arena);
    nc_free(c);
}

static nc_code add(nc_work *w, nc_checkpoint *c, nc_parameter p) {
    if (nc_checkpoint_find(c, p.name)) NC_FAIL(w, NC_E_ARGUMENT, "checkpoint: two parameters are called '%s'", p.name);
    if (p.value && (p.value->kind != NC_OBJ_TENSOR || p.value->t.dtype != p.dtype))
        NC_FAIL(w, NC_E_TYPE, "checkpoint: parameter '%s': expected a tensor of %s, got %s", p.name,
                nc_dtype_name(p.dtype), p.value->kind == NC_OBJ_TENSOR ? nc_dtype_name(p.value->t.dtype) : "no tensor");
    NC_NEED(w, p.name = nc_arena_str(&c->arena, p.name));
    if (!nc_map_put(&c->names, p.name, (void *)(uintptr_t)(c->params.n + 1)) || !NC_PUSH(&c->arena, c->params, p))
        NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

nc_code nc_checkpoint_add(nc_work *w, nc_checkpoint *c, const char *name, nc_dtype dtype, nc_object *value,
                          bool trainable) {
    nc_code code = add(w, c, (nc_parameter){.name = name, .dtype = dtype, .value = value, .trainable = trainable});
    if (code != NC_OK) nc_object_unref(value);
    return code;
}

nc_parameter *nc_checkpoint_find(const nc_checkpoint *c, const char *name) {
    uintptr_t place = (uintptr_t)nc_map_get(&c->names, name);
    return place ? &c->params.v[place - 1] : NULL;
}

/* The place of a property; where it would come, when it is not there. */
static int place_of(const nc_checkpoint *c, const char *name, bool *there) {
    int low = 0, high = c->properties.n;
    while (low < high) {
        int mid = (low + high) / 2, order = strcmp(c->properties.v[mid].name, name);
        if (order == 0) return *there = true, mid;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *there = false;
    return low;
}

nc_code nc_checkpoint_set_property(nc_work *w, nc_checkpoint *c, const nc_property *p) {
    bool there;
    nc_property kept = *p;
    int at = place_of(c, p->name, &there);
    if (p->kind == NC_PROPERTY_STRING) NC_NEED(w, kept.s = nc_arena_str(&c->arena, p->s ? p->s : ""));
    if (there) {
        kept.name = c->properties.v[at].name;
        c->properties.v[at] = kept;
        return NC_OK;
    }
    NC_NEED(w, kept.name = nc_arena_str(&c->arena, p->name));
    if (!NC_PUSH(&c->arena, c->properties, kept)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    nc_property *v = c->properties.v + at;
    memmove(v + 1, v, (size_t)(c->properties.n - 1 - at) * sizeof *v);
    *v = kept;
    return NC_OK;
}

const nc_property *nc_checkpoint_property(const nc_checkpoint *c, const char *name) {
    bool there;
    int at = place_of(c, name, &there);
    return there ? &c->properties.v[at] : NULL;
}
