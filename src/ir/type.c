/* ir/type.c: making, comparing and printing types. Reading them back is text_parse.c's. */
#include "ir/type.h"

#include <string.h>

const nc_type *nc_type_tensor(nc_arena *a, nc_dtype elem, int rank, const nc_dim *const *dims) {
    nc_type *t = nc_arena_alloc(a, sizeof *t);
    if (!t) return NULL;
    t->kind = NC_T_TENSOR;
    t->elem = elem;
    t->rank = rank;
    if (rank > 0) {
        for (int i = 0; i < rank; i++)
            if (!dims[i]) return NULL;
        t->dims = nc_arena_copy(a, dims, (size_t)rank * sizeof *dims);
        if (!t->dims) return NULL;
    }
    return t;
}

const nc_type *nc_type_holding(nc_arena *a, nc_type_kind kind, const nc_type *of) {
    nc_type *t = nc_arena_alloc(a, sizeof *t);
    if (!t) return NULL;
    t->kind = kind;
    t->rank = -1;
    t->of = of;
    return t;
}

static bool layout_equal(const nc_layout *a, const nc_layout *b) {
    if (a->block != b->block) return false;
    return a->block == 0 || (a->axis == b->axis && a->logical == b->logical);
}

bool nc_type_equal(const nc_type *a, const nc_type *b) {
    if (a == b) return true;
    if (!a || !b || a->kind != b->kind) return false;
    if (a->kind == NC_T_TAPE) return true;
    if (a->kind == NC_T_SEQUENCE || a->kind == NC_T_OPTIONAL) return nc_type_equal(a->of, b->of);
    if (a->elem != b->elem) return false;
    if (a->kind == NC_T_MAP) return nc_type_equal(a->of, b->of);
    if (a->rank != b->rank || !layout_equal(&a->layout, &b->layout)) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

const nc_type *nc_type_copy(nc_arena *a, nc_dims *to, const nc_type *t) {
    nc_type *c = nc_arena_copy(a, t, sizeof *t);
    if (!c) return NULL;
    const nc_dim **dims = NULL;
    if (t->rank > 0) {
        dims = nc_arena_array(a, (size_t)t->rank, sizeof *dims);
        for (int i = 0; dims && i < t->rank; i++)
            if (!(dims[i] = to ? nc_dim_carry(to, t->dims[i]) : t->dims[i])) return NULL;
        if (!dims) return NULL;
    }
    c->dims = dims;
    if (t->layout.logical && to && !(c->layout.logical = nc_dim_carry(to, t->layout.logical))) return NULL;
    if (t->of && !(c->of = nc_type_copy(a, to, t->of))) return NULL;
    return c;
}

static void print_tensor(nc_text *out, const nc_type *t) {
    nc_text_add(out, nc_dtype_name(t->elem));
    nc_text_add(out, "[");
    if (t->rank < 0) nc_text_add(out, "...");
    for (int i = 0; i < t->rank; i++) {
        if (i) nc_text_add(out, ",");
        nc_dim_print(out, t->dims[i]);
    }
    nc_text_add(out, "]");
    if (t->layout.block) {
        nc_text_addf(out, "{axis=%d,c=%d,C=", t->layout.axis, t->layout.block);
        nc_dim_print(out, t->layout.logical);
        nc_text_add(out, "}");
    }
}

static void print_inner(nc_text *out, const nc_type *t) {
    if (t)
        nc_type_print(out, t);
    else
        nc_text_add(out, "?");
    nc_text_add(out, ")");
}

void nc_type_print(nc_text *out, const nc_type *t) {
    switch (t->kind) {
    case NC_T_TENSOR: print_tensor(out, t); return;
    case NC_T_TAPE: nc_text_add(out, "tape"); return;
    case NC_T_SEQUENCE:
        nc_text_add(out, "seq(");
        print_inner(out, t->of);
        return;
    case NC_T_OPTIONAL:
        nc_text_add(out, "optional(");
        print_inner(out, t->of);
        return;
    case NC_T_MAP:
        nc_text_addf(out, "map(%s,", nc_dtype_name(t->elem));
        print_inner(out, t->of);
        return;
    case NC_T_SPARSE:
        nc_text_add(out, "sparse(");
        print_tensor(out, t);
        nc_text_add(out, ")");
        return;
    }
}
