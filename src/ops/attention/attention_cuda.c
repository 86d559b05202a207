/* ops/attention/attention_cuda.c: CUDA bindings of the attention family: Attention, where its kernel takes it (else
 * it runs as what its card is made of), and RotaryEmbedding. */
#include "kernels/cuda/rotary.h"

#include "ops/attention/attention_cuda.h"
#include "ops/attention/rotary.h"
#include "ops/card.h"

typedef struct rotary {
    nc_rotary how;
    nck_cuda_rotary kernel;
} rotary;

static nc_code rotary_prepare(nc_prep *p) {
    rotary *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->how = nc_rotary_read(p->node);
    p->state = s;
    return nck_cuda_rotary_prepare(p->device, p->node->in[0]->type->elem, &s->kernel, &p->w->diag);
}

static nc_code rotary_run(const nc_call *c) {
    const rotary *s = c->state;
    nc_rotary_shape j;
    NC_TRY(nc_rotary_shape_of(&s->how, c, &j));
    if (nc_tensor_numel(c->in[0]) == 0) return NC_OK;
    const void *ids = c->n_in > 3 ? c->in[3]->data : NULL;
    nck_cuda_rotary_args a = {.batches = j.B,
                              .heads = j.H,
                              .rows = j.S,
                              .columns = j.D,
                              .turned = j.R,
                              .batch_step = j.batch,
                              .head_step = j.head,
                              .row_step = j.row,
                              .interleaved = s->how.interleaved,
                              .n_positions = ids != NULL ? c->in[1]->dims[0] : j.B * j.S};
    return nck_cuda_rotary_run(&s->kernel, c, &a, c->in[0]->data, c->in[1]->data, c->in[2]->data, ids, c->out[0]->data);
}

const nc_binding nc_attention_cuda[] = {{.op = "Attention",
                                         .types = T_FLOAT_ALL,
                                         .fits = nc_attention_cuda_fits,
                                         .prepare = nc_attention_cuda_prepare,
                                         .workspace = nc_attention_cuda_workspace,
                                         .run = nc_attention_cuda_run},
                                        {.op = "RotaryEmbedding",
                                         .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16),
                                         .prepare = rotary_prepare,
                                         .run = rotary_run},
                                        {0}};
