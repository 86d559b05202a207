/* ops/quant/gather_blocks_cpu.c: GatherBlockQuantized on the CPU: only the codes, scales and zero points of the slices
 * that are asked for are read. Codes are narrow types, or bytes that hold one of 8 bits or two of 4. */
#include "ops/quant/nbits.h"

#include "base/narrow.h"
#include "base/real.h"

enum { DATA, INDICES, SCALES, ZEROS };

typedef struct gather_blocks {
    int64_t gather, quantize, block, bits;
} gather_blocks;

/* Data as (before, G, after) around the gathered axis; Q codes along the quantized one, `stride` codes apart. */
typedef struct gather_job {
    const nc_call *c;
    const gather_blocks *how;
    int64_t G, after, n_at, Q, stride, blocks;
} gather_job;

nc_code nc_gather_blocks_prepare(nc_prep *p) {
    gather_blocks *g = nc_arena_alloc(p->arena, sizeof *g);
    NC_NEED(p->w, g);
    *g = (gather_blocks){.gather = nc_attr_int(p->node, "gather_axis"),
                         .quantize = nc_attr_int(p->node, "quantize_axis"),
                         .block = nc_attr_int(p->node, "block_size"),
                         .bits = nc_attr_int(p->node, "bits")};
    p->state = g;
    p->unaligned_in = 1u << DATA;
    return NC_OK;
}

static float code_at(const nc_tensor *t, int64_t bits, int64_t i) {
    if (t->dtype == NC_UINT8) {
        uint8_t byte = ((const uint8_t *)t->data)[i * bits / 8];
        return (float)(bits == 8 ? byte : byte >> i % 2 * 4 & 15);
    }
    uint8_t code = nc_narrow_load(t->dtype, t->data, i);
    bool whole = t->dtype == NC_INT4 || t->dtype == NC_UINT4;
    return whole ? (float)nc_narrow_to_int(t->dtype, code) : nc_narrow_to_f32(t->dtype, code);
}

/* Of the block at `at` among the scales. Rows of zero points in bytes end on whole bytes. */
static float zero_at(const gather_job *j, int64_t at) {
    const nc_tensor *z = j->c->n_in > ZEROS && j->c->in[ZEROS]->data != NULL ? j->c->in[ZEROS] : NULL;
    int64_t bits = j->how->bits;
    bool bytes = j->c->in[DATA]->dtype == NC_UINT8;
    if (z == NULL) return bytes ? (float)(1 << (bits - 1)) : 0;
    if (!bytes || bits == 8) return code_at(z, bits, at);
    int64_t row = at / j->blocks, i = at % j->blocks, width = (j->blocks + 1) / 2 * 2;
    return code_at(z, bits, row * width + i);
}

static void store(const nc_tensor *y, int64_t i, float v) {
    switch (y->dtype) {
    case NC_FLOAT16: ((uint16_t *)y->data)[i] = nc_f32_to_f16(v); break;
    case NC_BFLOAT16: ((uint16_t *)y->data)[i] = nc_f32_to_bf16(v); break;
    default: nc_tensor_put(y, i, (double)v);
    }
}

static int64_t index_at(const gather_job *j, int64_t i) {
    const nc_tensor *t = j->c->in[INDICES];
    int64_t v = t->dtype == NC_INT32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
    return v < 0 ? v + j->G : v;
}

/* One gathered slice: `after` codes side by side. */
static void run_slice(void *ctx, int64_t i) {
    const gather_job *j = ctx;
    int64_t base = (i / j->n_at * j->G + index_at(j, i % j->n_at)) * j->after, to = i * j->after;
    for (int64_t e = 0; e < j->after; e++) {
        int64_t at = base + e, place = at / j->stride;
        int64_t scale = (place / j->Q * j->blocks + place % j->Q / j->how->block) * j->stride + at % j->stride;
        float code = code_at(j->c->in[DATA], j->how->bits, at);
        store(j->c->out[0], to + e, (code - zero_at(j, scale)) * (float)nc_tensor_get_any(j->c->in[SCALES], scale));
    }
}

static nc_code gather_blocks_check(const gather_job *j, int64_t n_codes) {
    const nc_call *c = j->c;
    int64_t want = j->Q > 0 ? n_codes / j->Q * j->blocks : 0;
    if (nc_tensor_numel(c->in[SCALES]) != want)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "scales has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[SCALES]), (long long)want);
    bool halves = c->in[DATA]->dtype == NC_UINT8 && j->how->bits == 4;
    if (halves) want = want / (j->blocks > 0 ? j->blocks : 1) * ((j->blocks + 1) / 2);
    if (c->n_in > ZEROS && c->in[ZEROS]->data != NULL && nc_tensor_numel(c->in[ZEROS]) != want)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "zero_points has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[ZEROS]), (long long)want);
    for (int64_t i = 0; i < j->n_at; i++)
        if (index_at(j, i) < 0 || index_at(j, i) >= j->G)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "index %lld is out of range for %lld slices",
                               (long long)index_at(j, i), (long long)j->G);
    return NC_OK;
}

nc_code nc_gather_blocks_run(const nc_call *c) {
    const nc_tensor *x = c->in[DATA];
    const gather_blocks *how = c->state;
    int g = (int)(how->gather < 0 ? how->gather + x->rank : how->gather);
    int q = (int)(how->quantize < 0 ? how->quantize + x->rank : how->quantize);
    int64_t per = x->dtype == NC_UINT8 ? 8 / how->bits : 1, before = 1;
    gather_job j = {
        .c = c, .how = how, .G = x->dims[g], .after = 1, .n_at = nc_tensor_numel(c->in[INDICES]), .stride = 1};
    for (int i = 0; i < x->rank; i++) {
        int64_t d = x->dims[i] * (i == q ? per : 1);
        if (i < g) before *= d;
        if (i > g) j.after *= d;
        if (i > q) j.stride *= d;
        if (i == q) j.Q = d;
    }
    j.blocks = (j.Q + how->block - 1) / how->block;
    NC_TRY(gather_blocks_check(&j, before * j.G * j.after));
    if (nc_tensor_numel(c->out[0]) > 0) nc_parallel(c->pool, before * j.n_at, run_slice, &j);
    return NC_OK;
}
