/* ops/scatter/scatter_cuda.c: CUDA bindings of the scatter family over kernels/cuda/index.h. Updates are combined in
 * their order. Indices out of range are told when the stream is next waited for. */
#include "kernels/cuda/index.h"
#include "kernels/cuda/move.h"

#include "ops/card.h"
#include "ops/scatter/picking.h"

typedef struct picking {
    nc_picking how;
    nck_cuda_gather gather;
    nck_cuda_scatter scatter;
    nck_cuda_move move; /* of data to the result */
} picking;

/* What a row is; its `own`. */
typedef enum pick_kind { GATHERS, SCATTERS, ADDS } pick_kind;

static bool can_pick(const nc_node *n, const char **why) {
    const nc_type *t = n->out[0]->type != NULL ? n->out[0]->type : n->in[0]->type;
    *why = "elements of this type are not moved by a GPU kernel";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_move_define(nc_dtype_bytes(t->elem)) != NULL;
}

static bool can_combine(const nc_node *n, const char **why) {
    const nc_type *t = n->out[0]->type != NULL ? n->out[0]->type : n->in[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_type_name(t->elem) != NULL;
}

static nc_code pick_prepare(nc_prep *p) {
    picking *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (picking){0};
    const pick_kind kind = *(const pick_kind *)p->own;
    nc_dtype t = p->node->out[0]->type->elem;
    NC_TRY(nc_picking_read(p, &s->how));
    p->state = s;
    if (kind == GATHERS) {
        p->strided_in = 1;
        p->strided_out = 1;
        return nck_cuda_gather_prepare(p->device, nc_dtype_bytes(t), &s->gather, &p->w->diag);
    }
    if (kind == SCATTERS) p->over[0] = 1; /* indices and updates are read while the result is written */
    NC_TRY(nck_cuda_move_prepare(p->device, nc_dtype_bytes(t), &s->move, &p->w->diag));
    return nck_cuda_scatter_prepare(p->device, t, &s->scatter, &p->w->diag);
}

static nc_code gather_elements_run(const nc_call *c) {
    const picking *s = c->state;
    int axis = nc_picking_axis(&s->how, c->in[0]);
    NC_TRY(nc_picking_check_elements(c, axis));
    nck_cuda_pick p = nck_cuda_pick_elements(c->in[0], c->in[1], axis, c->out[0]);
    return nck_cuda_gather_run(&s->gather, c, &p, c->in[0]->data, c->in[1]->data, c->out[0]->data);
}

static nc_code gather_nd_run(const nc_call *c) {
    const picking *s = c->state;
    NC_TRY(nc_picking_check_batch(c, c->in[0], c->in[1], s->how.batch));
    nck_cuda_pick p = nck_cuda_pick_rows(c->in[0], c->in[1], (int)s->how.batch, c->out[0]);
    return nck_cuda_gather_run(&s->gather, c, &p, c->in[0]->data, c->in[1]->data, c->out[0]->data);
}

/* A key for each element of indices, or for each row of them, of which an empty one is a row too. */
static size_t scatter_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const picking *s = state;
    (void)n_in, (void)n_out;
    int64_t rows = 1, n = nc_tensor_numel(&in[1]);
    for (int k = 0; k < in[1].rank - 1; k++) rows *= in[1].dims[k];
    return nck_cuda_scatter_workspace(s->how.how, n > rows ? n : rows, nc_tensor_numel(&out[0]));
}

static nc_code copy_data(const nc_call *c) {
    const picking *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    if (x->data == y->data) return NC_OK;
    return nck_cuda_copy(&s->move, nck_cuda_at_call(c), y->rank, y->dims, x->data, x->strides, y->data, y->strides);
}

static nc_code scatter_elements_run(const nc_call *c) {
    const picking *s = c->state;
    const nc_tensor *y = c->out[0], *at = c->in[1];
    int axis = nc_picking_axis(&s->how, c->in[0]);
    NC_TRY(nc_picking_check_elements(c, axis));
    NC_TRY(copy_data(c));
    nck_cuda_pick p = nck_cuda_pick_elements(y, at, axis, NULL);
    nck_cuda_scatter_args a = {.how = s->how.how,
                               .outer = 1,
                               .axis = nc_tensor_numel(y),
                               .inner = 1,
                               .n = nc_tensor_numel(at),
                               .unit = 1,
                               .index = at->data,
                               .updates = c->in[2]->data,
                               .y = y->data};
    return nck_cuda_scatter_run(&s->scatter, c, &p, &a, c->workspace);
}

static nc_code put_rows(const nc_call *c, nck_combine how, int batch) {
    const picking *s = c->state;
    const nc_tensor *y = c->out[0], *at = c->in[1];
    int64_t n = 1, inner = 1, m = at->dims[at->rank - 1];
    for (int k = 0; k < at->rank - 1; k++) n *= at->dims[k];
    for (int64_t k = batch + m; k < y->rank; k++) inner *= y->dims[k];
    if (n == 0 || inner == 0) return NC_OK;
    nck_cuda_pick p = nck_cuda_pick_rows(y, at, batch, NULL);
    nck_cuda_scatter_args a = {.how = how,
                               .outer = 1,
                               .axis = nc_tensor_numel(y) / inner,
                               .inner = inner,
                               .n = n,
                               .unit = inner,
                               .index = at->data,
                               .updates = c->in[2]->data,
                               .y = y->data};
    return nck_cuda_scatter_run(&s->scatter, c, &p, &a, c->workspace);
}

static nc_code scatter_nd_run(const nc_call *c) {
    NC_TRY(nc_picking_check_rows(c, c->in[0], 0));
    NC_TRY(copy_data(c));
    return put_rows(c, ((const picking *)c->state)->how.how, 0);
}

static nc_code gather_nd_grad_run(const nc_call *c) {
    static const char zero[8];
    const picking *s = c->state;
    NC_TRY(nc_picking_check_batch(c, c->out[0], c->in[1], s->how.batch));
    NC_TRY(nc_picking_check_rows(c, c->out[0], s->how.batch));
    NC_TRY(nck_cuda_fill(&s->move, nck_cuda_at_call(c), c->out[0], zero));
    return put_rows(c, NCK_ADD, (int)s->how.batch);
}

#define ROW(fits_fn, kind) \
    .fits = fits_fn, .prepare = pick_prepare, .own = &(const pick_kind) { kind }
#define SCATTER(name, fn) \
    { .op = name, ROW(can_combine, SCATTERS), .workspace = scatter_workspace, .run = fn }
const nc_binding nc_scatter_cuda[] = {{.op = "GatherElements", ROW(can_pick, GATHERS), .run = gather_elements_run},
                                      {.op = "GatherND", ROW(can_pick, GATHERS), .run = gather_nd_run},
                                      {.op = "GatherNDGrad",
                                       .domain = "nacre",
                                       ROW(can_combine, ADDS),
                                       .workspace = scatter_workspace,
                                       .run = gather_nd_grad_run},
                                      SCATTER("ScatterElements", scatter_elements_run),
                                      SCATTER("Scatter", scatter_elements_run),
                                      SCATTER("ScatterND", scatter_nd_run),
                                      {0}};
