/* ops/math/math_cpu.c: CPU bindings of the math family. Its ops are lanes, which nc_lane_cpu serves; Where also moves
 * complex numbers, which lanes do not know. */
#include "ops/card.h"
#include "ops/binding.h"
#include "ops/lane_prog.h"

#include <string.h>

static bool is_complex(const nc_node *n, const char **why) {
    *why = "not complex numbers";
    return n->out[0]->type != NULL && (NC_BIT(n->out[0]->type->elem) & T_COMPLEX);
}

static nc_code where_prepare(nc_prep *p) {
    p->strided_in = 7;
    return NC_OK;
}

typedef struct choice {
    const nc_call *c;
    int64_t strides[3][NC_MAX_RANK];
    size_t bytes;
} choice;

enum { CHUNK = 4096 };

static int64_t offset_of(const nc_tensor *y, int64_t i, const int64_t *strides) {
    int64_t at = 0;
    for (int k = y->rank - 1; k >= 0; i /= y->dims[k--]) at += i % y->dims[k] * strides[k];
    return at;
}

static void choose(void *ctx, int64_t item) {
    const choice *s = ctx;
    nc_tensor *const *in = s->c->in;
    const nc_tensor *y = s->c->out[0];
    int64_t n = nc_tensor_numel(y), end = (item + 1) * CHUNK < n ? (item + 1) * CHUNK : n;
    for (int64_t i = item * CHUNK; i < end; i++) {
        int from = ((const bool *)in[0]->data)[offset_of(y, i, s->strides[0])] ? 1 : 2;
        const char *x = (const char *)in[from]->data + (size_t)offset_of(y, i, s->strides[from]) * s->bytes;
        memcpy((char *)y->data + (size_t)i * s->bytes, x, s->bytes);
    }
}

static nc_code where_run(const nc_call *c) {
    choice s = {.c = c, .bytes = nc_dtype_bytes(c->out[0]->dtype)};
    NC_TRY(nc_lane_check(c));
    for (int k = 0; k < 3; k++) nc_broadcast_strides(c->in[k], c->out[0]->rank, c->out[0]->dims, s.strides[k]);
    nc_parallel(c->pool, (nc_tensor_numel(c->out[0]) + CHUNK - 1) / CHUNK, choose, &s);
    return NC_OK;
}

const nc_binding nc_math_cpu[] = {{.op = "Where", .fits = is_complex, .prepare = where_prepare, .run = where_run}, {0}};
