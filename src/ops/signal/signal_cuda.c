/* ops/signal/signal_cuda.c: the CUDA binding of nacre.MelWeights, whose edges the host finds. DFT runs as what its card
 * is made of. */
#include "kernels/cuda/place.h"
#include "ops/signal/signal.h"

static nc_code mel_prepare(nc_prep *p) {
    nck_cuda_place *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    return nck_cuda_place_prepare(p->device, "triangles", NC_DOUBLE, sizeof(double), s, &p->w->diag);
}

static nc_code mel_run(const nc_call *c) {
    nc_mel_scale m;
    NC_TRY(nc_mel_scale_of(c, &m));
    for (int64_t first = 0; first < m.mels; first += NCK_CUDA_TRIANGLES) {
        nck_cuda_triangles t = {.first = first};
        for (; t.n < NCK_CUDA_TRIANGLES && first + t.n < m.mels; t.n++) t.edge[t.n] = nc_mel_edge(&m, first + t.n);
        for (int i = 0; i < 2; i++) t.edge[t.n + i] = nc_mel_edge(&m, first + t.n + i);
        NC_TRY(nck_cuda_triangles_run(c->state, nck_cuda_at_call(c), c->out[0]->dims[0], m.mels, &t, c->out[0]->data));
    }
    return NC_OK;
}

const nc_binding nc_signal_cuda[] = {{.op = "MelWeights", .domain = "nacre", .prepare = mel_prepare, .run = mel_run},
                                     {0}};
