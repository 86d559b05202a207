/* ops/attention/rotary_cpu.c: RotaryEmbedding on the CPU: x1' = cos x1 - sin x2, x2' = sin x1 + cos x2 for each pair of
 * columns of each head; pairs are halves of the row or, interleaved, neighbours. Columns past the rotated ones are
 * copied. f32; halves are widened. */
#include "ops/attention/attention_cpu.h"
#include "ops/attention/rotary.h"

#include <string.h>

typedef struct rotary_job {
    const nc_call *c;
    bool interleaved;
    nc_rotary_shape shape;
    const float *cos, *sin;
    const int64_t *ids;
} rotary_job;

nc_code nc_rotary_prepare(nc_prep *p) {
    nc_rotary *r = nc_arena_alloc(p->arena, sizeof *r);
    NC_NEED(p->w, r);
    *r = nc_rotary_read(p->node);
    p->state = r;
    return NC_OK;
}

/* All heads of one position. */
static void run_position(void *ctx, int64_t i) {
    const rotary_job *j = ctx;
    const nc_rotary_shape *t = &j->shape;
    int64_t b = i / t->S, s = i % t->S, half = t->R / 2;
    int64_t at = (j->ids != NULL ? j->ids[i] : i) * half;
    const float *cosine = j->cos + at, *sine = j->sin + at;
    for (int64_t h = 0; h < t->H; h++) {
        int64_t place = b * t->batch + h * t->head + s * t->row, step = j->interleaved ? 2 : 1;
        const float *x = (const float *)j->c->in[0]->data + place;
        float *y = (float *)j->c->out[0]->data + place;
        for (int64_t k = 0; k < half; k++) {
            int64_t a = k * step, z = j->interleaved ? a + 1 : k + half;
            float x1 = x[a], x2 = x[z];
            y[a] = cosine[k] * x1 - sine[k] * x2;
            y[z] = sine[k] * x1 + cosine[k] * x2;
        }
        memcpy(y + t->R, x + t->R, (size_t)(t->D - t->R) * sizeof *y);
    }
}

static nc_code check_positions(const rotary_job *j) {
    const nc_call *c = j->c;
    for (int64_t i = 0; j->ids != NULL && i < j->shape.B * j->shape.S; i++)
        if (j->ids[i] < 0 || j->ids[i] >= c->in[1]->dims[0])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "position %lld is out of range for %lld rows",
                               (long long)j->ids[i], (long long)c->in[1]->dims[0]);
    return NC_OK;
}

nc_code nc_rotary_run(const nc_call *c) {
    const nc_rotary *r = c->state;
    rotary_job j = {.c = c,
                    .interleaved = r->interleaved,
                    .cos = c->in[1]->data,
                    .sin = c->in[2]->data,
                    .ids = c->n_in > 3 ? c->in[3]->data : NULL};
    NC_TRY(nc_rotary_shape_of(r, c, &j.shape));
    if (nc_tensor_numel(c->in[0]) == 0) return NC_OK;
    NC_TRY(check_positions(&j));
    nc_parallel(nc_pool_for(c->pool, j.shape.B * j.shape.batch), j.shape.B * j.shape.S, run_position, &j);
    return NC_OK;
}
