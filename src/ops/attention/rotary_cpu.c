/* ops/attention/rotary_cpu.c: RotaryEmbedding on the CPU: x1' = cos x1 - sin x2, x2' = sin x1 + cos x2 for each pair of
 * columns of each head; pairs are halves of the row or, interleaved, neighbours. Columns past the rotated ones are
 * copied. f32; halves are widened. */
#include "ops/attention/attention_cpu.h"

#include <string.h>

typedef struct rotary {
    bool interleaved;
    int64_t heads, columns; /* 0: as X has them */
} rotary;

typedef struct rotary_job {
    const nc_call *c;
    bool interleaved;
    int64_t B, H, S, D, R;    /* R columns are rotated */
    int64_t batch, head, row; /* strides of X and Y */
    const float *cos, *sin;
    const int64_t *ids;
} rotary_job;

nc_code nc_rotary_prepare(nc_prep *p) {
    rotary *r = nc_arena_alloc(p->arena, sizeof *r);
    NC_NEED(p->w, r);
    *r = (rotary){.interleaved = nc_attr_int(p->node, "interleaved") != 0,
                  .columns = nc_attr_int(p->node, "rotary_embedding_dim")};
    if (nc_attr_has(p->node, "num_heads")) r->heads = nc_attr_int(p->node, "num_heads");
    p->state = r;
    return NC_OK;
}

/* All heads of one position. */
static void run_position(void *ctx, int64_t i) {
    const rotary_job *j = ctx;
    int64_t b = i / j->S, s = i % j->S, half = j->R / 2;
    int64_t at = (j->ids != NULL ? j->ids[i] : i) * half;
    const float *cosine = j->cos + at, *sine = j->sin + at;
    for (int64_t h = 0; h < j->H; h++) {
        int64_t place = b * j->batch + h * j->head + s * j->row, step = j->interleaved ? 2 : 1;
        const float *x = (const float *)j->c->in[0]->data + place;
        float *y = (float *)j->c->out[0]->data + place;
        for (int64_t k = 0; k < half; k++) {
            int64_t a = k * step, z = j->interleaved ? a + 1 : k + half;
            float x1 = x[a], x2 = x[z];
            y[a] = cosine[k] * x1 - sine[k] * x2;
            y[z] = sine[k] * x1 + cosine[k] * x2;
        }
        memcpy(y + j->R, x + j->R, (size_t)(j->D - j->R) * sizeof *y);
    }
}

static nc_code rotary_check(const rotary_job *j) {
    const nc_call *c = j->c;
    int64_t n = j->B * j->S, half = j->R / 2;
    for (int i = 1; i < 3; i++) {
        const nc_tensor *t = c->in[i];
        int64_t rows = j->ids != NULL ? t->dims[0] : t->rank == 3 ? t->dims[0] * t->dims[1] : -1;
        if (t->rank < 2 || t->dims[t->rank - 1] != half || (j->ids == NULL && rows != n) ||
            t->dims[0] != c->in[1]->dims[0])
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s has %lld columns, %lld are expected",
                               i == 1 ? "cos_cache" : "sin_cache", (long long)t->dims[t->rank - 1], (long long)half);
    }
    if (j->R % 2 != 0 || j->R > j->D)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld columns of %lld cannot be rotated",
                           (long long)j->R, (long long)j->D);
    if (j->ids == NULL) return NC_OK;
    if (nc_tensor_numel(c->in[3]) != n)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "position_ids has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[3]), (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (j->ids[i] < 0 || j->ids[i] >= c->in[1]->dims[0])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "position %lld is out of range for %lld rows",
                               (long long)j->ids[i], (long long)c->in[1]->dims[0]);
    return NC_OK;
}

nc_code nc_rotary_run(const nc_call *c) {
    const rotary *r = c->state;
    const nc_tensor *x = c->in[0];
    bool packed = x->rank == 3;
    if (packed && (r->heads < 1 || x->dims[2] % r->heads != 0))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld columns do not divide into %lld heads",
                           (long long)x->dims[2], (long long)r->heads);
    if (nc_tensor_numel(x) == 0) return NC_OK;
    rotary_job j = {.c = c,
                    .interleaved = r->interleaved,
                    .B = x->dims[0],
                    .H = packed ? r->heads : x->dims[1],
                    .S = x->dims[packed ? 1 : 2],
                    .D = packed ? x->dims[2] / r->heads : x->dims[3],
                    .cos = c->in[1]->data,
                    .sin = c->in[2]->data,
                    .ids = c->n_in > 3 ? c->in[3]->data : NULL};
    j.R = r->columns > 0 ? r->columns : j.D;
    j.batch = j.H * j.S * j.D;
    j.head = packed ? j.D : j.S * j.D;
    j.row = packed ? j.H * j.D : j.D;
    NC_TRY(rotary_check(&j));
    nc_parallel(nc_pool_for(c->pool, j.B * j.batch), j.B * j.S, run_position, &j);
    return NC_OK;
}
