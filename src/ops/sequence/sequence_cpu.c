/* ops/sequence/sequence_cpu.c: host kernels of sequences and optionals. A sequence whose last use this is gets changed
 * in place, so that growing one element by element costs O(1) each. */
#include "ops/sequence/sequence.h"

#include <string.h>

/* Position input i in [-n, n]; n when it is absent. `last`: the largest valid one. */
static nc_code read_position(nc_dyn *d, int i, int64_t n, int64_t last, int64_t absent, int64_t *out) {
    const nc_tensor *t = i < d->call->n_in && d->call->in[i]->data != NULL ? d->call->in[i] : NULL;
    *out = absent;
    if (t != NULL) *out = t->dtype == NC_INT32 ? *(const int32_t *)t->data : *(const int64_t *)t->data;
    int64_t asked = *out;
    if (*out < 0) *out += n;
    if (*out >= 0 && *out <= last) return NC_OK;
    return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op,
                       "position %lld is out of range for %lld elements", (long long)asked, (long long)n);
}

/* Input 0 as a list that may be changed. */
static nc_object *own_list(nc_dyn *d) {
    nc_object *list = d->in[0];
    if (d->moved != NULL && d->moved[0])
        d->in[0] = NULL;
    else
        nc_object_ref(list);
    return nc_object_own(list);
}

static nc_code empty(nc_dyn *d) {
    const nc_dtype *t = d->call->state;
    d->out[0] = nc_object_list(NC_OBJ_SEQUENCE, *t);
    return d->out[0] != NULL ? NC_OK : nc_sequence_no_memory(d);
}

static nc_code empty_prepare(nc_prep *p) {
    nc_dtype *t = nc_arena_alloc(p->arena, sizeof *t);
    NC_NEED(p->w, t);
    *t = nc_attr_has(p->node, "dtype") ? (nc_dtype)nc_attr_int(p->node, "dtype") : NC_FLOAT;
    p->state = t;
    return NC_OK;
}

static nc_code construct(nc_dyn *d) {
    d->out[0] = nc_object_list(NC_OBJ_SEQUENCE, d->call->n_in > 0 ? d->call->in[0]->dtype : NC_UNDEFINED);
    for (int i = 0; d->out[0] != NULL && i < d->call->n_in; i++) {
        nc_object *item = d->object(d, i);
        if (item == NULL || !nc_object_push(d->out[0], item)) return nc_sequence_no_memory(d);
    }
    return d->out[0] != NULL ? NC_OK : nc_sequence_no_memory(d);
}

static nc_code insert(nc_dyn *d) {
    int64_t at, n = d->in[0]->n;
    NC_TRY(read_position(d, 2, n, n, n, &at));
    nc_object *item = d->object(d, 1);
    if (item == NULL) return nc_sequence_no_memory(d);
    nc_object *list = own_list(d);
    if (list == NULL) {
        nc_object_unref(item);
        return nc_sequence_no_memory(d);
    }
    d->out[0] = list;
    if (!nc_object_push(list, item)) return nc_sequence_no_memory(d);
    memmove(&list->items[at + 1], &list->items[at], (size_t)(n - at) * sizeof(nc_object *));
    list->items[at] = item;
    return NC_OK;
}

static nc_code at(nc_dyn *d) {
    int64_t i;
    NC_TRY(read_position(d, 1, d->in[0]->n, d->in[0]->n - 1, 0, &i));
    d->out[0] = nc_object_ref(d->in[0]->items[i]);
    return NC_OK;
}

static nc_code erase(nc_dyn *d) {
    int64_t i, n = d->in[0]->n;
    NC_TRY(read_position(d, 1, n, n - 1, n - 1, &i));
    nc_object *list = own_list(d);
    if (list == NULL) return nc_sequence_no_memory(d);
    nc_object *item = list->items[i];
    memmove(&list->items[i], &list->items[i + 1], (size_t)(n - 1 - i) * sizeof(nc_object *));
    list->items[n - 1] = item;
    nc_object_unref(nc_object_pop(list));
    d->out[0] = list;
    return NC_OK;
}

static nc_code length(nc_dyn *d) {
    static const int64_t none[1];
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, NC_INT64, 0, none, &y));
    *(int64_t *)y.data = d->in[0]->n;
    return NC_OK;
}

/* ---- optionals ---- */

static nc_code present_prepare(nc_prep *p) {
    bool *present = nc_arena_alloc(p->arena, sizeof *present);
    NC_NEED(p->w, present);
    *present = p->node->n_in > 0 && p->node->in[0] != NULL;
    p->state = present;
    return NC_OK;
}

static nc_code make_optional(nc_dyn *d) {
    const bool *present = d->call->state;
    d->out[0] = nc_object_list(NC_OBJ_OPTIONAL, *present ? d->call->in[0]->dtype : NC_UNDEFINED);
    if (d->out[0] == NULL) return nc_sequence_no_memory(d);
    nc_object *item = *present ? d->object(d, 0) : NULL;
    if (*present && (item == NULL || !nc_object_push(d->out[0], item))) return nc_sequence_no_memory(d);
    return NC_OK;
}

static nc_code has_element(nc_dyn *d) {
    static const int64_t none[1];
    const bool *present = d->call->state;
    const nc_object *o = *present ? d->in[0] : NULL;
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, NC_BOOL, 0, none, &y));
    *(bool *)y.data = *present && (o == NULL || o->kind != NC_OBJ_OPTIONAL || o->n > 0);
    return NC_OK;
}

static nc_code get_element(nc_dyn *d) {
    nc_object *o = d->in[0];
    if (o != NULL && o->kind == NC_OBJ_OPTIONAL && o->n == 0)
        return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "the optional holds nothing");
    d->out[0] = o != NULL && o->kind == NC_OBJ_OPTIONAL ? nc_object_ref(o->items[0]) : d->object(d, 0);
    return d->out[0] != NULL ? NC_OK : nc_sequence_no_memory(d);
}

#define ROW(name, fn) \
    { .op = name, .kind = NC_K_DYNAMIC, .dynamic = fn }
const nc_binding nc_sequence_cpu[] = {
    {.op = "SequenceEmpty", .kind = NC_K_DYNAMIC, .prepare = empty_prepare, .dynamic = empty},
    ROW("SequenceConstruct", construct),
    ROW("SequenceInsert", insert),
    ROW("SequenceAt", at),
    ROW("SequenceErase", erase),
    ROW("SequenceLength", length),
    {.op = "ConcatFromSequence",
     .kind = NC_K_DYNAMIC,
     .prepare = nc_sequence_concat_prepare,
     .dynamic = nc_sequence_concat},
    {.op = "SplitToSequence", .kind = NC_K_DYNAMIC, .prepare = nc_sequence_split_prepare, .dynamic = nc_sequence_split},
    {.op = "Optional", .kind = NC_K_DYNAMIC, .prepare = present_prepare, .dynamic = make_optional},
    {.op = "OptionalHasElement", .kind = NC_K_DYNAMIC, .prepare = present_prepare, .dynamic = has_element},
    ROW("OptionalGetElement", get_element),
    {.op = "SequenceZeros", .domain = "nacre", .kind = NC_K_DYNAMIC, .dynamic = nc_sequence_zeros},
    {.op = "SequenceAdd", .domain = "nacre", .kind = NC_K_DYNAMIC, .dynamic = nc_sequence_add},
    {.op = "SequenceSizes",
     .domain = "nacre",
     .kind = NC_K_DYNAMIC,
     .prepare = nc_sequence_sizes_prepare,
     .dynamic = nc_sequence_sizes},
    {0}};
