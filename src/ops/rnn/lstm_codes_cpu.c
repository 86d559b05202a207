/* ops/rnn/lstm_codes_cpu.c: DynamicQuantizeLSTM on the CPU, over kernels/cpu/rnn. Constant weights are packed once,
 * others in each run. */
#include "base/intmath.h"
#include "kernels/cpu/gemm/igemm.h"
#include "kernels/cpu/isa.h"
#include "ops/rnn/lstm_codes.h"
#include "ops/rnn/rnn_args.h"

enum { W = NC_RNN_W, R = NC_RNN_R, W_SCALE = 8, GATES = 4, MAX_DIRS = 2 };

typedef struct lstm_codes {
    nc_rnn_layer of;
    bool packed; /* call->packed holds W and R */
} lstm_codes;

static bool is_weights(const nc_value *v, int64_t dirs) {
    const nc_literal *lit = v->origin == NC_FROM_CONST ? v->lit : NULL;
    return lit != NULL && lit->rank == 3 && lit->n > 0 && lit->dims[0] == dirs;
}

static void pack_directions(const nc_tensor *w, void *dst) {
    size_t each = nck_igemm_packed_b_bytes(w->dims[1], w->dims[2]);
    for (int64_t d = 0; d < w->dims[0]; d++)
        nck_igemm_pack_b(w->dtype, w->dims[1], w->dims[2], (const char *)w->data + d * w->strides[0], w->strides[1],
                         w->strides[2], (char *)dst + (size_t)d * each, NULL);
}

static nc_code lstm_codes_fill(const void *state, const nc_tensor *src, void *dst) {
    (void)state;
    pack_directions(src, dst);
    return NC_OK;
}

nc_code nc_lstm_codes_prepare(nc_prep *p) {
    lstm_codes *l = nc_arena_alloc(p->arena, sizeof *l);
    NC_NEED(p->w, l);
    *l = (lstm_codes){.packed = !p->no_packs};
    NC_TRY(nc_rnn_layer_read(p->w, p->node, &l->of));
    l->of.turned = true;
    p->state = l;
    for (int i = W; i <= R; i++) l->packed &= is_weights(p->node->in[i], l->of.n_dirs);
    for (int i = W; l->packed && i <= R; i++) {
        const nc_literal *lit = p->node->in[i]->lit;
        const char *form =
            nc_arena_printf(p->arena, "igemm_b_each/1/%s/%s", nck_isa_get()->from.igemm, nc_dtype_name(lit->dtype));
        NC_NEED(p->w, form);
        p->pack[p->n_packs++] =
            (nc_pack){.input = i,
                      .form = form,
                      .bytes = (size_t)lit->dims[0] * nck_igemm_packed_b_bytes(lit->dims[1], lit->dims[2]),
                      .fill = lstm_codes_fill};
    }
    return NC_OK;
}

static size_t packed_bytes(const nc_tensor *w) {
    return (size_t)w->dims[0] * nck_igemm_packed_b_bytes(w->dims[1], w->dims[2]);
}

static size_t kernel_bytes(const nc_rnn_layer *l, const nc_tensor *x, const nc_tensor *r) {
    return nck_rnn_workspace(NCK_LSTM, NC_FLOAT, l->n_dirs, x->dims[0], x->dims[1], x->dims[2], r->dims[1],
                             NCK_RNN_CODES);
}

size_t nc_lstm_codes_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const lstm_codes *l = state;
    (void)n_in, (void)out, (void)n_out;
    return kernel_bytes(&l->of, &in[NC_RNN_X], &in[R]) + (l->packed ? 0 : packed_bytes(&in[W]) + packed_bytes(&in[R]));
}

/* One number of each direction, or one of each of its columns. */
static nc_code check_parameter(const nc_call *c, int i, const char *name, int64_t dirs, int64_t columns) {
    int64_t n = nc_tensor_numel(c->in[i]);
    if (n == dirs || n == dirs * columns) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s has %lld numbers, expected %lld or %lld", name,
                       (long long)n, (long long)dirs, (long long)(dirs * columns));
}

/* Direction d of W (i 0) or R (i 1), packed at `at`. */
static nck_rnn_codes codes_of(const nc_call *c, int i, int d, int64_t dirs, const char *at) {
    const nc_tensor *w = c->in[W + i], *scale = c->in[W_SCALE + 2 * i], *zero = c->in[W_SCALE + 2 * i + 1];
    int64_t scales = nc_tensor_numel(scale) / dirs, zeros = nc_tensor_numel(zero) / dirs;
    return (nck_rnn_codes){.type = w->dtype,
                           .packed = at + (size_t)d * (packed_bytes(w) / (size_t)dirs),
                           .scale = (const float *)scale->data + d * scales,
                           .zero = (const char *)zero->data + d * zeros,
                           .scales = scales,
                           .zeros = zeros};
}

nc_code nc_lstm_codes_run(const nc_call *c) {
    static const char *const names[] = {"W_scale", "W_zero_point", "R_scale", "R_zero_point"};
    const lstm_codes *l = c->state;
    nck_rnn_args dirs[MAX_DIRS];
    nck_rnn_codes codes[MAX_DIRS][2];
    NC_TRY(nc_rnn_check(c, &l->of));
    NC_TRY(nc_rnn_check_lengths(c, &l->of));
    for (int i = 0; i < 4; i++)
        NC_TRY(check_parameter(c, W_SCALE + i, names[i], l->of.n_dirs, GATES * c->in[R]->dims[1]));
    char *room = (char *)c->workspace + kernel_bytes(&l->of, c->in[NC_RNN_X], c->in[R]);
    for (int i = 0; i < 2; i++) {
        const char *at = l->packed ? c->packed[i] : room;
        if (!l->packed) pack_directions(c->in[W + i], room);
        for (int d = 0; d < l->of.n_dirs; d++) codes[d][i] = codes_of(c, i, d, l->of.n_dirs, at);
        if (!l->packed) room += packed_bytes(c->in[W + i]);
    }
    for (int d = 0; d < l->of.n_dirs; d++) {
        dirs[d] = nc_rnn_forward(c, &l->of, d);
        dirs[d].codes = codes[d];
    }
    nck_rnn(dirs, l->of.n_dirs, c->workspace, c->pool);
    return NC_OK;
}
