/* cuda/rnn.c: launchers of rnn.cu and the products between them, see rnn.h. */
#include "kernels/cuda/rnn.h"

enum { THREADS = 128, ALIGN = 256 };

/* Mirror rnn_act, rnn_rule, rnn_sizes and rnn_back of rnn.cu. */
typedef struct act_args {
    int64_t fn;
    double alpha, beta;
} act_args;
typedef struct rule_args {
    act_args act[3];
    double clip;
    int kind, before_reset, input_forget, peepholes;
} rule_args;
typedef struct size_args {
    int64_t T, B, H, G, K, state_rs, y_t, y_b;
    int batch_first, reverse;
    const int32_t *lens;
} size_args;
typedef struct back_args {
    const void *kept, *h0, *c0, *p, *dy;
    void *dg, *dgr, *step, *step_r, *hp, *rh, *dh, *dc, *drh;
} back_args;

nc_code nck_cuda_rnn_prepare(nc_device *d, nc_dtype t, nck_cuda_gemm_cache *cache, nck_cuda_rnn *out, nc_diag *diag) {
    const struct {
        const char *entry;
        nc_function **to;
    } all[] = {{"rnn_start", &out->start}, {"rnn_store", &out->store},         {"gru_reset", &out->reset},
               {"rnn_step", &out->step},   {"rnn_back_step", &out->back_step}, {"gru_back", &out->back_reset},
               {"rnn_bias", &out->bias},   {"rnn_peepholes", &out->peepholes}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_rnn, t, NULL, all[i].entry, all[i].to, diag));
    return nck_cuda_gemm_prepare(d, t, cache, &out->gemm, diag);
}

nc_code nck_cuda_widen_prepare(nc_device *d, nc_dtype t, nck_cuda_widen *out, nc_diag *diag) {
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_rnn, t, NULL, "widen", &out->widen, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_rnn, t, NULL, "narrow", &out->narrow, diag);
}

nc_code nck_cuda_widen_run(nc_function *f, nck_cuda_at at, int64_t n, const void *x, void *y) {
    void *args[] = {&n, &x, &y};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}

/* ---- what both ways share ---- */

static rule_args rule_of(const nck_rnn_rule *r) {
    rule_args a = {.clip = r->clip,
                   .kind = (int)r->kind,
                   .before_reset = r->linear_before_reset,
                   .input_forget = r->input_forget,
                   .peepholes = r->peepholes};
    for (int i = 0; i < 3; i++) a.act[i] = (act_args){(int64_t)r->act[i].fn, r->act[i].alpha, r->act[i].beta};
    return a;
}

static size_args sizes_of(const nck_rnn_args *a) {
    nck_rnn_kind kind = a->cell->rule.kind;
    return (size_args){.T = a->T,
                       .B = a->B,
                       .H = a->H,
                       .G = nck_rnn_gates(kind),
                       .K = nck_rnn_kept(kind),
                       .state_rs = a->state_rs,
                       .y_t = a->y_t,
                       .y_b = a->y_b,
                       .batch_first = a->batch_first,
                       .reverse = a->reverse,
                       .lens = a->lens};
}

static char *take(char **at, int64_t elements, size_t es) {
    char *p = *at;
    *at += ((size_t)elements * es + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static nc_code launch(const nc_call *c, nc_function *f, int64_t n, void **args) {
    return nck_cuda_launch(nck_cuda_at_call(c), f, nck_cuda_blocks(c->device, n, THREADS), THREADS, args);
}

static const void *shifted(const nck_rnn_args *a, const void *p, int64_t elements) {
    return (const char *)p + elements * (int64_t)nc_dtype_bytes(a->type);
}

static nck_cuda_matrix matrix(const void *p, int64_t rs, int64_t cs) {
    return (nck_cuda_matrix){.data = (void *)(uintptr_t)p, .rs = rs, .cs = cs};
}

/* y (M,N) = x (M,K) times w (K,N), plus beta * y. */
static nc_code product(const nck_cuda_rnn *k, const nc_call *c, int64_t M, int64_t N, int64_t K, nck_cuda_matrix x,
                       nck_cuda_matrix w, nck_cuda_matrix y, double beta) {
    nck_cuda_gemm_args g = {.n_batch = 1, .M = M, .N = N, .K = K, .alpha = 1, .beta = beta, .a = x, .b = w, .c = y};
    return nck_cuda_gemm_run(&k->gemm, nck_cuda_at_call(c), &g);
}

static nc_code start_state(const nck_cuda_rnn *k, const nc_call *c, size_args z, const void *from, void *to) {
    nck_cuda_site site = nck_cuda_site_of(c);
    void *args[] = {&site, &z, &from, &to};
    return launch(c, k->start, z.B * z.H, args);
}

static nc_code store_state(const nck_cuda_rnn *k, const nc_call *c, size_args z, const void *from, void *to) {
    void *args[] = {&z, &from, &to};
    return to != NULL ? launch(c, k->store, z.B * z.H, args) : NC_OK;
}

/* ---- forward ---- */

typedef struct room {
    char *xw, *gates, *h, *c, *rec;
} room;

static size_t lay_out(room *r, nck_rnn_kind kind, nc_dtype t, int64_t T, int64_t B, int64_t H, char *at) {
    char *begin = at;
    int64_t GH = nck_rnn_gates(kind) * H;
    size_t es = nc_dtype_bytes(t);
    r->xw = take(&at, T * B * GH, es);
    r->gates = take(&at, B * GH, es);
    r->h = take(&at, B * H, es);
    r->c = take(&at, B * H, es);
    r->rec = take(&at, B * H, es);
    return (size_t)(at - begin);
}

size_t nck_cuda_rnn_workspace(nck_rnn_kind kind, nc_dtype t, int64_t T, int64_t B, int64_t H) {
    static char origin;
    room r;
    return lay_out(&r, kind, t, T, B, H, &origin);
}

/* Columns [first, first + n) of gates (B, G*H) = state (B,H) times those rows of the recurrent weights. */
static nc_code gates_of(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_args *a, const room *r,
                        const void *state, int64_t first, int64_t n) {
    int64_t GH = nck_rnn_gates(a->cell->rule.kind) * a->H;
    return product(k, c, a->B, n, a->H, matrix(state, a->H, 1), matrix(shifted(a, a->r, first * a->H), 1, a->H),
                   matrix(shifted(a, r->gates, first), GH, 1), 0);
}

static nc_code run_step(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_args *a, const room *r, int64_t s) {
    rule_args rule = rule_of(&a->cell->rule);
    size_args z = sizes_of(a);
    const void *bias = a->b, *p = a->cell->rule.peepholes ? a->p : NULL;
    void *y = a->y, *kept = a->kept, *xw = r->xw, *gates = r->gates, *h = r->h, *cell = r->c, *rec = r->rec;
    bool apart = rule.kind == NCK_GRU && !rule.before_reset;
    NC_TRY(gates_of(k, c, a, r, h, 0, apart ? 2 * a->H : z.G * a->H));
    if (apart) {
        void *args[] = {&z, &rule, &s, &xw, &gates, &bias, &h, &rec};
        NC_TRY(launch(c, k->reset, z.B * z.H, args));
        NC_TRY(gates_of(k, c, a, r, rec, 2 * a->H, a->H));
    }
    void *args[] = {&z, &rule, &s, &xw, &gates, &bias, &p, &rec, &h, &cell, &y, &kept};
    return launch(c, k->step, z.B * z.H, args);
}

nc_code nck_cuda_rnn_run(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_args *a, void *workspace) {
    nck_rnn_kind kind = a->cell->rule.kind;
    int64_t GH = nck_rnn_gates(kind) * a->H;
    room r;
    if (a->B == 0 || a->H == 0) return NC_OK;
    lay_out(&r, kind, a->type, a->T, a->B, a->H, workspace);
    NC_TRY(product(k, c, a->T * a->B, GH, a->I, matrix(a->x, a->I, 1), matrix(a->w, 1, a->I), matrix(r.xw, GH, 1), 0));
    NC_TRY(start_state(k, c, sizes_of(a), a->h0, r.h));
    NC_TRY(start_state(k, c, sizes_of(a), a->c0, r.c));
    for (int64_t s = 0; s < a->T; s++) NC_TRY(run_step(k, c, a, &r, s));
    NC_TRY(store_state(k, c, sizes_of(a), r.h, a->y_h));
    return store_state(k, c, sizes_of(a), r.c, a->y_c);
}

/* ---- backward ---- */

static size_t lay_out_back(back_args *k, nck_rnn_kind kind, nc_dtype t, int64_t T, int64_t B, int64_t H, char *at) {
    char *begin = at;
    int64_t GH = nck_rnn_gates(kind) * H;
    size_t es = nc_dtype_bytes(t);
    bool gru = kind == NCK_GRU;
    k->dg = take(&at, T * B * GH, es);
    k->dgr = gru ? take(&at, T * B * GH, es) : NULL;
    k->step = take(&at, B * GH, es);
    k->step_r = gru ? take(&at, B * GH, es) : NULL;
    k->hp = take(&at, T * B * H, es);
    k->rh = gru ? take(&at, T * B * H, es) : NULL;
    k->dh = take(&at, B * H, es);
    k->dc = take(&at, B * H, es);
    k->drh = take(&at, B * H, es);
    return (size_t)(at - begin);
}

size_t nck_cuda_rnn_grad_workspace(nck_rnn_kind kind, nc_dtype t, int64_t T, int64_t B, int64_t H) {
    static char origin;
    back_args k;
    return lay_out_back(&k, kind, t, T, B, H, &origin);
}

/* dh += columns [first, first + n) of a step's gradients times those rows of the recurrent weights; to: dh or another
 * (B,H), then without what is there. */
static nc_code back_product(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_args *a, const void *step,
                            int64_t first, int64_t n, void *to, double beta) {
    int64_t GH = nck_rnn_gates(a->cell->rule.kind) * a->H;
    return product(k, c, a->B, a->H, n, matrix(shifted(a, step, first), GH, 1),
                   matrix(shifted(a, a->r, first * a->H), a->H, 1), matrix(to, a->H, 1), beta);
}

static nc_code back_step(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_args *a, back_args *b, int64_t s) {
    rule_args rule = rule_of(&a->cell->rule);
    size_args z = sizes_of(a);
    int64_t H = a->H;
    void *args[] = {&z, &rule, &s, b};
    NC_TRY(launch(c, k->back_step, z.B * H, args));
    if (rule.kind != NCK_GRU || rule.before_reset)
        return back_product(k, c, a, b->step_r != NULL ? b->step_r : b->step, 0, z.G * H, b->dh, 1);
    NC_TRY(back_product(k, c, a, b->step, 2 * H, H, b->drh, 0));
    NC_TRY(launch(c, k->back_reset, z.B * H, args));
    return back_product(k, c, a, b->step, 0, 2 * H, b->dh, 1);
}

/* out (M,N) = columns [first, first + M) of d (T*B, G*H), transposed, times rows (T*B, N). */
static nc_code weight_product(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_args *a, const void *d,
                              int64_t first, int64_t M, const void *rows, int64_t N, void *out) {
    int64_t GH = nck_rnn_gates(a->cell->rule.kind) * a->H;
    if (out == NULL) return NC_OK;
    return product(k, c, M, N, a->T * a->B, matrix(shifted(a, d, first), 1, GH), matrix(rows, N, 1),
                   matrix(shifted(a, out, first * N), N, 1), 0);
}

static nc_code weight_grads(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_grad_args *g, const back_args *b) {
    const nck_rnn_args *a = g->a;
    int64_t H = a->H, G = nck_rnn_gates(a->cell->rule.kind), GH = G * H;
    const void *dgr = b->dgr != NULL ? b->dgr : b->dg, *rh = b->rh != NULL ? b->rh : b->hp;
    NC_TRY(weight_product(k, c, a, b->dg, 0, GH, a->x, a->I, g->dw));
    NC_TRY(weight_product(k, c, a, dgr, 0, G == 3 ? 2 * H : GH, b->hp, H, g->dr));
    if (G == 3) NC_TRY(weight_product(k, c, a, dgr, 2 * H, H, rh, H, g->dr));
    if (g->dx == NULL) return NC_OK;
    return product(k, c, a->T * a->B, a->I, GH, matrix(b->dg, GH, 1), matrix(a->w, a->I, 1), matrix(g->dx, a->I, 1),
                   g->adds);
}

static nc_code small_grads(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_grad_args *g, back_args *b) {
    const nck_rnn_args *a = g->a;
    size_args z = sizes_of(a);
    int64_t rows = a->T * a->B, GH = z.G * a->H;
    const void *dgr = b->dgr != NULL ? b->dgr : b->dg;
    void *db = g->db, *dp = g->dp, *of_bias[] = {&rows, &GH, &b->dg, &dgr, &db}, *of_holes[] = {&z, b, &dp};
    if (db != NULL) NC_TRY(launch(c, k->bias, 2 * GH, of_bias));
    if (dp != NULL) NC_TRY(launch(c, k->peepholes, 3 * a->H, of_holes));
    NC_TRY(store_state(k, c, z, b->dh, g->dh0));
    return store_state(k, c, z, b->dc, g->dc0);
}

nc_code nck_cuda_rnn_grad_run(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_grad_args *g, void *workspace) {
    const nck_rnn_args *a = g->a;
    const nck_rnn_rule *rule = &a->cell->rule;
    back_args b = {.kept = a->kept, .h0 = a->h0, .c0 = a->c0, .p = rule->peepholes ? a->p : NULL, .dy = g->dy};
    lay_out_back(&b, rule->kind, a->type, a->T, a->B, a->H, workspace);
    if (!rule->linear_before_reset) b.dgr = b.step_r = NULL;
    if (rule->linear_before_reset) b.rh = NULL;
    NC_TRY(start_state(k, c, sizes_of(a), g->dy_h, b.dh));
    NC_TRY(start_state(k, c, sizes_of(a), g->dy_c, b.dc));
    for (int64_t s = a->T - 1; s >= 0; s--) NC_TRY(back_step(k, c, a, &b, s));
    NC_TRY(weight_grads(k, c, g, &b));
    return small_grads(k, c, g, &b);
}
