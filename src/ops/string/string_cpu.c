/* ops/string/string_cpu.c: host kernels of strings. */
#include "ops/binding.h"

#include "base/mem.h"

#include <string.h>

static const nc_tensor *strings_of(const nc_dyn *d, int i) { return d->in[i] != NULL ? &d->in[i]->t : &d->call->in[i]; }

static nc_code no_memory(const nc_dyn *d) {
    return nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
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

static bool join(nc_object *z, int64_t i, const nc_str *a, const nc_str *b) {
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
    const nc_tensor *x = strings_of(d, 0), *y = strings_of(d, 1);
    int64_t dims[NC_MAX_RANK], sx[NC_MAX_RANK], sy[NC_MAX_RANK];
    int rank;
    if (!nc_broadcast(x->dims, x->rank, y->dims, y->rank, dims, &rank))
        return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "the shapes do not broadcast");
    nc_object *z = nc_object_host_tensor(NC_STRING, rank, dims);
    if (z == NULL) return no_memory(d);
    d->out[0] = z;
    nc_broadcast_strides(x, rank, dims, sx);
    nc_broadcast_strides(y, rank, dims, sy);
    const nc_str *a = x->data, *b = y->data;
    int64_t n = nc_tensor_numel(&z->t);
    for (int64_t i = 0; i < n; i++)
        if (!join(z, i, &a[offset_of(i, rank, dims, sx)], &b[offset_of(i, rank, dims, sy)])) return no_memory(d);
    return NC_OK;
}

static nc_code equal(nc_dyn *d) {
    const nc_tensor *x = strings_of(d, 0), *y = strings_of(d, 1);
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

const nc_binding nc_string_cpu[] = {{.op = "StringConcat", .kind = NC_K_DYNAMIC, .dynamic = concat},
                                    {.op = "Equal", .kind = NC_K_DYNAMIC, .types = NC_BIT(NC_STRING), .dynamic = equal},
                                    {0}};
