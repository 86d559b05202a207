/* ops/string/pick_cpu.c: Compress and Unique of strings: how many there will be is known only when they are read.
 * Unique along an axis is not served. */
#include "ops/string/string_cpu.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

typedef struct settings {
    int64_t axis;
    bool has_axis, sorted;
} settings;

nc_code nc_string_pick_prepare(nc_prep *p) {
    settings *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *axis = nc_node_attr(p->node, "axis"), *sorted = nc_node_attr(p->node, "sorted");
    *s =
        (settings){.axis = axis != NULL ? axis->i : 0, .has_axis = axis != NULL, .sorted = sorted == NULL || sorted->i};
    p->state = s;
    return NC_OK;
}

bool nc_string_unique_fits(const nc_node *n, const char **why) {
    *why = "strings are told apart one by one, not along an axis";
    return nc_node_attr(n, "axis") == NULL;
}

/* ---- Compress ---- */

nc_code nc_string_compress(nc_dyn *d) {
    const settings *s = d->call->state;
    const nc_tensor *x = nc_strings_of(d, 0), *keep = d->call->in[1];
    int axis = (int)(s->axis < 0 ? s->axis + x->rank : s->axis), rank = s->has_axis ? x->rank : 1;
    if (s->has_axis && (axis < 0 || axis >= x->rank))
        return nc_diag_set(d->call->diag, NC_E_SHAPE, d->call->node, d->call->op, "there is no axis %d", axis);
    int64_t dims[NC_MAX_RANK], inner = 1, outer = 1, n_flags = nc_tensor_numel(keep), kept = 0, at = 0;
    int64_t size = s->has_axis ? x->dims[axis] : nc_tensor_numel(x);
    for (int k = 0; s->has_axis && k < axis; k++) outer *= x->dims[k];
    for (int k = axis + 1; s->has_axis && k < x->rank; k++) inner *= x->dims[k];
    const bool *flags = keep->data;
    for (int64_t k = 0; k < size && k < n_flags; k++) kept += flags[k];
    for (int k = 0; k < rank; k++) dims[k] = s->has_axis && k != axis ? x->dims[k] : kept;
    nc_str *picked = nc_alloc((size_t)(outer * kept * inner + 1) * sizeof *picked);
    if (picked == NULL) return nc_strings_no_memory(d);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < size && k < n_flags; k++)
            for (int64_t i = 0; flags[k] && i < inner; i++)
                picked[at++] = ((const nc_str *)x->data)[(o * size + k) * inner + i];
    d->out[0] = nc_object_strings(rank, dims, picked);
    nc_free(picked);
    return d->out[0] != NULL ? NC_OK : nc_strings_no_memory(d);
}

/* ---- Unique ---- */

typedef struct entry {
    const nc_str *s;
    int64_t at, group;
} entry;

static int by_text(const void *a, const void *b) {
    const entry *x = a, *y = b;
    size_t n = x->s->n < y->s->n ? x->s->n : y->s->n;
    int c = n > 0 ? memcmp(x->s->p, y->s->p, n) : 0;
    if (c != 0) return c;
    if (x->s->n != y->s->n) return x->s->n < y->s->n ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Equal strings lie together; the first of them has the lowest place. Returns how many groups there are. */
static int64_t group(entry *e, int64_t n) {
    int64_t groups = 0;
    for (int64_t i = 0; i < n; i++) {
        bool same =
            i > 0 && e[i].s->n == e[i - 1].s->n && (e[i].s->n == 0 || memcmp(e[i].s->p, e[i - 1].s->p, e[i].s->n) == 0);
        e[i].group = same ? groups - 1 : groups++;
    }
    return groups;
}

/* Numbers groups anew by their first place: e is in the order of places. */
static void renumber(entry *e, int64_t n, int64_t *name, int64_t groups) {
    int64_t next = 0;
    for (int64_t g = 0; g < groups; g++) name[g] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (name[e[i].group] < 0) name[e[i].group] = next++;
        e[i].group = name[e[i].group];
    }
}

static nc_code put_counts(nc_dyn *d, const entry *e, int64_t n, int64_t groups) {
    for (int i = 1; i < d->call->n_out; i++) {
        nc_tensor y;
        int64_t len = i == 2 ? n : groups;
        NC_TRY(d->alloc(d, i, NC_INT64, 1, &len, &y));
        int64_t *v = y.data;
        for (int64_t k = 0; k < len; k++) v[k] = i == 1 ? -1 : 0;
        for (int64_t k = 0; k < n; k++) {
            if (i == 1 && v[e[k].group] < 0) v[e[k].group] = e[k].at;
            if (i == 2) v[k] = e[k].group;
            if (i == 3) v[e[k].group]++;
        }
    }
    return NC_OK;
}

static nc_code unique(nc_dyn *d, entry *e, int64_t *name, nc_str *picked, int64_t n) {
    const settings *s = d->call->state;
    const nc_str *x = nc_strings_of(d, 0)->data;
    for (int64_t i = 0; i < n; i++) e[i] = (entry){&x[i], i, 0};
    qsort(e, (size_t)n, sizeof *e, by_text);
    int64_t groups = group(e, n);
    qsort(e, (size_t)n, sizeof *e, by_place);
    if (!s->sorted) renumber(e, n, name, groups);
    for (int64_t i = n - 1; i >= 0; i--) picked[e[i].group] = *e[i].s;
    d->out[0] = nc_object_strings(1, &groups, picked);
    return d->out[0] != NULL ? put_counts(d, e, n, groups) : nc_strings_no_memory(d);
}

nc_code nc_string_unique(nc_dyn *d) {
    int64_t n = nc_tensor_numel(nc_strings_of(d, 0));
    entry *e = nc_alloc((size_t)(n + 1) * sizeof *e);
    int64_t *name = nc_alloc((size_t)(n + 1) * sizeof *name);
    nc_str *picked = nc_alloc((size_t)(n + 1) * sizeof *picked);
    bool there = e != NULL && name != NULL && picked != NULL;
    nc_code code = there ? unique(d, e, name, picked, n) : nc_strings_no_memory(d);
    nc_free(e);
    nc_free(name);
    nc_free(picked);
    return code;
}
