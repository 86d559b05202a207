/* ops/string/text_cpu.c: host kernels of StringSplit, StringNormalizer and RegexFullMatch. */
#include "ops/string/string_cpu.h"

#include "base/mem.h"
#include "ops/string/letter_case.h"
#include "ops/string/regex.h"

#include <string.h>

/* ---- StringSplit ---- */

typedef struct split_state {
    const char *by; /* bytes 0: runs of white space */
    size_t bytes;
    int64_t most; /* cuts; -1: no limit */
} split_state;

nc_code nc_string_split_prepare(nc_prep *p) {
    split_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *by = nc_node_attr(p->node, "delimiter"), *most = nc_node_attr(p->node, "maxsplit");
    *s = (split_state){.by = by != NULL ? by->s.p : "", .bytes = by != NULL ? by->s.n : 0, .most = -1};
    if (most != NULL) s->most = most->i;
    p->state = s;
    return NC_OK;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next part from *p on; false: there is none. `made` parts came before. *p is NULL behind the last. */
static bool next_part(const split_state *s, const char **p, const char *end, int64_t made, const char **part,
                      size_t *n) {
    const char *at = *p;
    if (at == NULL) return false;
    if (s->bytes == 0) {
        while (at < end && is_space(*at)) at++;
        if (at == end) return false;
    }
    *part = at;
    if (s->most >= 0 && made >= s->most) at = end;
    while (at < end &&
           !(s->bytes == 0 ? is_space(*at) : (size_t)(end - at) >= s->bytes && memcmp(at, s->by, s->bytes) == 0))
        at++;
    *n = (size_t)(at - *part);
    *p = at == end ? NULL : at + (s->bytes == 0 ? 1 : s->bytes);
    return true;
}

static int64_t count_parts(const split_state *s, const nc_str *x) {
    const char *p = x->p != NULL ? x->p : "", *end = p + x->n, *part;
    int64_t n = 0;
    size_t bytes;
    if (x->n == 0) return s->bytes == 0 ? 0 : 1;
    while (next_part(s, &p, end, n, &part, &bytes)) n++;
    return n;
}

static nc_code fill_parts(nc_dyn *d, const split_state *s, const nc_str *x, int64_t n, int64_t most) {
    for (int64_t i = 0; i < n; i++) {
        const char *p = x[i].p, *part;
        size_t bytes;
        for (int64_t k = 0; x[i].n > 0 && next_part(s, &p, x[i].p + x[i].n, k, &part, &bytes); k++)
            if (!nc_strings_put(d->out[0], i * most + k, part, bytes)) return nc_strings_no_memory(d);
    }
    return NC_OK;
}

nc_code nc_string_split(nc_dyn *d) {
    const nc_tensor *x = nc_strings_of(d, 0);
    const split_state *s = d->call->state;
    int64_t n = nc_tensor_numel(x), most = 0, dims[NC_MAX_RANK];
    nc_tensor counts;
    NC_TRY(d->alloc(d, 1, NC_INT64, x->rank, x->dims, &counts));
    for (int64_t i = 0; i < n; i++) {
        int64_t parts = count_parts(s, (const nc_str *)x->data + i);
        ((int64_t *)counts.data)[i] = parts;
        if (parts > most) most = parts;
    }
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank] = most;
    d->out[0] = nc_object_host_tensor(NC_STRING, x->rank + 1, dims);
    return d->out[0] != NULL ? fill_parts(d, s, x->data, n, most) : nc_strings_no_memory(d);
}

/* ---- StringNormalizer ---- */

typedef struct normalizer_state {
    const nc_str *stop;
    int n_stop;
    bool sensitive;
    nc_letter_case to;
} normalizer_state;

nc_code nc_string_normalizer_prepare(nc_prep *p) {
    normalizer_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *stop = nc_node_attr(p->node, "stopwords");
    const char *action = nc_attr_str(p->node, "case_change_action");
    *s = (normalizer_state){.sensitive = nc_attr_int(p->node, "is_case_sensitive") != 0};
    if (stop != NULL) s->stop = stop->strings, s->n_stop = stop->n;
    bool lower = strcmp(action, "LOWER") == 0, upper = strcmp(action, "UPPER") == 0;
    if (!lower && !upper && strcmp(action, "NONE") != 0)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "case_change_action is '%s', expected LOWER, UPPER or NONE", action);
    s->to = lower ? NC_CASE_LOWER : upper ? NC_CASE_UPPER : NC_CASE_KEEP;
    p->state = s;
    return NC_OK;
}

static bool is_stop(const normalizer_state *s, const nc_str *x) {
    for (int i = 0; i < s->n_stop; i++) {
        const nc_str *w = &s->stop[i];
        if (s->sensitive ? w->n == x->n && (x->n == 0 || memcmp(w->p, x->p, x->n) == 0)
                         : nc_equal_but_case(w->p, w->n, x->p, x->n))
            return true;
    }
    return false;
}

nc_code nc_string_normalizer(nc_dyn *d) {
    const nc_tensor *x = nc_strings_of(d, 0);
    const normalizer_state *s = d->call->state;
    const nc_str *in = x->data;
    int64_t n = nc_tensor_numel(x), kept = 0, dims[2] = {1, 1};
    if (x->rank != 1 && x->rank != 2)
        return nc_diag_set(d->call->diag, NC_E_SHAPE, d->call->node, d->call->op,
                           "the input has %d dims, expected [C] or [1, C]", x->rank);
    if (x->rank == 2 && x->dims[0] != 1)
        return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "the first dim is %lld, expected 1",
                           (long long)x->dims[0]);
    for (int64_t i = 0; i < n; i++) kept += !is_stop(s, &in[i]);
    dims[x->rank - 1] = kept > 0 ? kept : 1; /* nothing left: one empty string */
    nc_object *z = d->out[0] = nc_object_host_tensor(NC_STRING, x->rank, dims);
    if (z == NULL) return nc_strings_no_memory(d);
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        if (is_stop(s, &in[i])) continue;
        nc_str *y = (nc_str *)z->t.data + at;
        char *p = nc_letters_to(s->to, in[i].p, in[i].n, &y->n);
        if (p == NULL) return nc_strings_no_memory(d);
        nc_free(y->p);
        y->p = p;
        at++;
    }
    return NC_OK;
}

/* ---- RegexFullMatch ---- */

nc_code nc_regex_prepare(nc_prep *p) {
    const nc_attr *a = nc_node_attr(p->node, "pattern");
    const nc_regex *r;
    if (a == NULL) NC_FAIL(p->w, NC_E_BAD_GRAPH, "a pattern is needed");
    NC_TRY(nc_regex_compile(p->w, p->arena, a->s.p, a->s.n, &r));
    p->state = (void *)(uintptr_t)r;
    return NC_OK;
}

nc_code nc_regex_full_match(nc_dyn *d) {
    const nc_tensor *x = nc_strings_of(d, 0);
    const nc_str *in = x->data;
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, NC_BOOL, x->rank, x->dims, &y));
    int *scratch = nc_alloc(nc_regex_scratch(d->call->state) * sizeof *scratch);
    if (scratch == NULL) return nc_strings_no_memory(d);
    int64_t n = nc_tensor_numel(x);
    for (int64_t i = 0; i < n; i++)
        ((bool *)y.data)[i] = nc_regex_match(d->call->state, in[i].p != NULL ? in[i].p : "", in[i].n, scratch);
    nc_free(scratch);
    return NC_OK;
}
