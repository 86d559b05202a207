/* ops/string/string_cpu.c: host kernels of strings. */
#include "ops/string/string_cpu.h"

#include "base/mem.h"

#include <string.h>

const nc_tensor *nc_strings_of(const nc_dyn *d, int i) { return d->in[i] != NULL ? &d->in[i]->t : d->call->in[i]; }

nc_code nc_strings_no_memory(const nc_dyn *d) {
    return nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
}

bool nc_strings_put(nc_object *z, int64_t i, const char *p, size_t n) {
    nc_str *out = (nc_str *)z->t.data + i;
    nc_str copy = {.p = nc_alloc(n + 1), .n = n};
    if (copy.p == NULL) return false;
    if (n > 0) memcpy(copy.p, p, n);
    copy.p[n] = '\0';
    nc_free(out->p);
    *out = copy;
    return true;
}

/* Element offsets of a broadcast operand, row-major over the result. */
static int64_t offset_of(int64_t i, int rank, const int64_t *dims, const int64_t *strides) {
    int64_t at = 0;
    for (int k = rank - 1; k >= 0; k--) {
        at += i % dims[k] * strides[k];
        i /= dims[k];
    }
    return at;
}

static bool string_join(nc_object *z, int64_t i, const nc_str *a, const nc_str *b) {
    nc_str *out = (nc_str *)z->t.data + i;
    nc_str both = {.p = nc_alloc(a->n + b->n + 1), .n = a->n + b->n};
    if (both.p == NULL) return false;
    if (a->n > 0) memcpy(both.p, a->p, a->n);
    if (b->n > 0) memcpy(both.p + a->n, b->p, b->n);
    both.p[both.n] = '\0';
    nc_free(out->p);
    *out = both;
    return true;
}

static nc_code concat(nc_dyn *d) {
    const nc_tensor *x = nc_strings_of(d, 0), *y = nc_strings_of(d, 1);
    int64_t dims[NC_MAX_RANK], sx[NC_MAX_RANK], sy[NC_MAX_RANK];
    int rank;
    if (!nc_broadcast(x->dims, x->rank, y->dims, y->rank, dims, &rank))
        return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "the shapes do not broadcast");
    nc_object *z = nc_object_host_tensor(NC_STRING, rank, dims);
    if (z == NULL) return nc_strings_no_memory(d);
    d->out[0] = z;
    nc_broadcast_strides(x, rank, dims, sx);
    nc_broadcast_strides(y, rank, dims, sy);
    const nc_str *a = x->data, *b = y->data;
    int64_t n = nc_tensor_numel(&z->t);
    for (int64_t i = 0; i < n; i++)
        if (!string_join(z, i, &a[offset_of(i, rank, dims, sx)], &b[offset_of(i, rank, dims, sy)]))
            return nc_strings_no_memory(d);
    return NC_OK;
}

static nc_code equal(nc_dyn *d) {
    const nc_tensor *x = nc_strings_of(d, 0), *y = nc_strings_of(d, 1);
    int64_t dims[NC_MAX_RANK], sx[NC_MAX_RANK], sy[NC_MAX_RANK];
    int rank;
    nc_tensor z;
    if (!nc_broadcast(x->dims, x->rank, y->dims, y->rank, dims, &rank))
        return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "the shapes do not broadcast");
    NC_TRY(d->alloc(d, 0, NC_BOOL, rank, dims, &z));
    nc_broadcast_strides(x, rank, dims, sx);
    nc_broadcast_strides(y, rank, dims, sy);
    int64_t n = nc_tensor_numel(&z);
    for (int64_t i = 0; i < n; i++) {
        const nc_str *a = (const nc_str *)x->data + offset_of(i, rank, dims, sx);
        const nc_str *b = (const nc_str *)y->data + offset_of(i, rank, dims, sy);
        ((bool *)z.data)[i] = a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n) == 0);
    }
    return NC_OK;
}

static nc_code where(nc_dyn *d) {
    const nc_tensor *in[3] = {d->call->in[0], nc_strings_of(d, 1), nc_strings_of(d, 2)};
    int64_t dims[NC_MAX_RANK], all[NC_MAX_RANK], strides[3][NC_MAX_RANK];
    int rank, rank_all;
    if (!nc_broadcast(in[1]->dims, in[1]->rank, in[2]->dims, in[2]->rank, dims, &rank) ||
        !nc_broadcast(in[0]->dims, in[0]->rank, dims, rank, all, &rank_all))
        return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "the shapes do not broadcast");
    nc_object *z = d->out[0] = nc_object_host_tensor(NC_STRING, rank_all, all);
    if (z == NULL) return nc_strings_no_memory(d);
    for (int k = 0; k < 3; k++) nc_broadcast_strides(in[k], rank_all, all, strides[k]);
    int64_t n = nc_tensor_numel(&z->t);
    for (int64_t i = 0; i < n; i++) {
        int from = ((const bool *)in[0]->data)[offset_of(i, rank_all, all, strides[0])] ? 1 : 2;
        const nc_str *s = (const nc_str *)in[from]->data + offset_of(i, rank_all, all, strides[from]);
        if (!nc_strings_put(z, i, s->p, s->n)) return nc_strings_no_memory(d);
    }
    return NC_OK;
}

/* Passes leave a Constant of strings a node when they are off. */
static nc_code constant_prepare(nc_prep *p) {
    p->state = (void *)(uintptr_t)p->node->out[0]->lit;
    return NC_OK;
}

static nc_code constant(nc_dyn *d) {
    const nc_literal *l = d->call->state;
    d->out[0] = nc_object_strings(l->rank, l->dims, l->data);
    return d->out[0] != NULL ? NC_OK : nc_strings_no_memory(d);
}

static bool is_text(const nc_node *n, const char **why) {
    *why = "not a constant of strings";
    return n->out[0]->lit != NULL && n->out[0]->lit->dtype == NC_STRING;
}

static bool takes_strings(const nc_node *n, const char **why) {
    *why = "not strings";
    return n->in[1]->type != NULL && n->in[1]->type->elem == NC_STRING;
}

#define DYNAMIC(name, fn) .op = name, .kind = NC_K_DYNAMIC, .dynamic = fn
const nc_binding nc_string_cpu[] = {
    {DYNAMIC("StringConcat", concat)},
    {DYNAMIC("Constant", constant), .fits = is_text, .prepare = constant_prepare},
    {DYNAMIC("Equal", equal), .types = NC_BIT(NC_STRING)},
    {DYNAMIC("Where", where), .fits = takes_strings},
    {DYNAMIC("Cast", nc_string_cast), .fits = nc_string_cast_fits},
    {DYNAMIC("CastLike", nc_string_cast), .fits = nc_string_cast_fits},
    {DYNAMIC("Compress", nc_string_compress), .types = NC_BIT(NC_STRING), .prepare = nc_string_pick_prepare},
    {DYNAMIC("Unique", nc_string_unique), .types = NC_BIT(NC_STRING), .fits = nc_string_unique_fits,
     .prepare = nc_string_pick_prepare},
    {DYNAMIC("StringSplit", nc_string_split), .prepare = nc_string_split_prepare},
    {DYNAMIC("StringNormalizer", nc_string_normalizer), .prepare = nc_string_normalizer_prepare},
    {DYNAMIC("RegexFullMatch", nc_regex_full_match), .prepare = nc_regex_prepare},
    {DYNAMIC("MurmurHash3", nc_murmur), .domain = "com.microsoft", .prepare = nc_murmur_prepare},
    {DYNAMIC("Tokenizer", nc_tokenizer), .domain = "com.microsoft", .prepare = nc_tokenizer_prepare},
    {DYNAMIC("TfIdfVectorizer", nc_tfidf), .prepare = nc_tfidf_prepare},
    {0}};
