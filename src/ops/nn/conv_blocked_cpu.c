/* ops/nn/conv_blocked_cpu.c: nacre.ConvBlocked on the CPU. Weights are packed once, or into the workspace of each run
 * where they are no constants or a session packs nothing; in Winograd's form where it wins.
 * What the body does to the result is a tile program; the common ones, a sum with another tensor and bounds, are done
 * in the kernel's registers. */
#include "base/intmath.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_wino.h"
#include "kernels/cpu/isa.h"
#include "ops/lane_prog.h"
#include "ops/nn/conv.h"
#include "ops/nn/nn_cpu.h"

#include <math.h>

enum { FIRST_MORE = 3 }; /* inputs from here on belong to the body */

typedef struct blocked {
    nc_conv_attrs attrs;
    nck_conv_form form;
    bool either; /* which form wins, this one or blocks, each run decides: packed weights are there for both */
    bool packed, has_body;
    nc_lane_prog lanes;
    nck_tile_prog prog;
    /* The body in registers: inputs of the body, 0 for none. Whole: nothing is left for the program. */
    bool whole, relu;
    int add, low, high;
} blocked;

bool nc_conv_blocked_fits(const nc_node *n, const char **why) {
    const nc_type *w = n->in[1]->type;
    *why = "one to three spatial dims are supported";
    return w != NULL && w->rank >= 3 && w->rank <= 5;
}

/* ---- the body ---- */

static bool is_dense_operand(const nc_node *n, int i) {
    const nc_type *t = n->in[FIRST_MORE + i - 1]->type, *y = n->out[0]->type;
    return nc_type_equal(t, y);
}

static bool is_scalar(const nc_node *n, int i) {
    const nc_type *t = n->in[FIRST_MORE + i - 1]->type;
    int64_t d;
    for (int k = 0; k < t->rank; k++)
        if (!nc_dim_is_const(t->dims[k], &d) || d != 1) return false;
    return true;
}

/* The other operand of a commutative lane that has register `r`; -1: it is no such operand. */
static int other_of(const nck_tile_op *op, int r) {
    return op->src[0] == r && op->src[1] != r ? op->src[1] : op->src[1] == r && op->src[0] != r ? op->src[0] : -1;
}

/* y = min(max(sum + add, low), high), each part optional, in this order. */
static void find_clamp(blocked *s, const nc_node *n) {
    int r = 0, i = 0, o;
    const nc_lane_prog *p = &s->lanes;
    if (i < p->n_op && p->op[i].lane == NCK_LANE_add && (o = other_of(&p->op[i], r)) > 0 && o < p->n_in &&
        is_dense_operand(n, o))
        s->add = o, r = p->op[i++].dst;
    if (i < p->n_op && p->op[i].lane == NCK_LANE_relu && p->op[i].src[0] == r)
        s->relu = true, r = p->op[i++].dst;
    else if (i < p->n_op && p->op[i].lane == NCK_LANE_max && (o = other_of(&p->op[i], r)) > 0 && o < p->n_in &&
             is_scalar(n, o))
        s->low = o, r = p->op[i++].dst;
    if (i < p->n_op && p->op[i].lane == NCK_LANE_min && (o = other_of(&p->op[i], r)) > 0 && o < p->n_in &&
        is_scalar(n, o))
        s->high = o, r = p->op[i++].dst;
    s->whole = i == p->n_op && p->out_reg[0] == r;
}

static nc_code read_body(nc_prep *p, blocked *s) {
    if (p->node->n_subs == 0) return NC_OK;
    if (!nc_lane_prog_body(&s->lanes, p->node->subs[0].graph))
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "no tile program: %s", s->lanes.why);
    if (s->lanes.compute != NC_FLOAT || s->lanes.n_out != 1 || s->lanes.n_in != p->node->n_in - FIRST_MORE + 1)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "the body needs one output and an input per input of the node from %d on",
                FIRST_MORE);
    s->has_body = true;
    s->prog = nc_lane_prog_tile(&s->lanes);
    find_clamp(s, p->node);
    if (!s->whole) s->add = s->low = s->high = 0, s->relu = false;
    if (s->add > 0) p->over[0] = 1u << (FIRST_MORE + s->add - 1);
    return NC_OK;
}

/* ---- weights ---- */

static nck_conv_shape weight_shape(const blocked *s, const int64_t *w, int rank) {
    nck_conv_shape c = {.type = NC_FLOAT, .K = w[0], .C = w[1] * s->attrs.group, .group = s->attrs.group};
    for (int i = 0; i < NCK_WINDOW_DIMS; i++)
        c.w.k[i] = rank - NCK_WINDOW_DIMS + i >= 2 ? w[rank - NCK_WINDOW_DIMS + i] : 1;
    return c;
}

static nc_code fill_form(const blocked *s, nck_conv_form form, const nc_tensor *src, void *dst) {
    nck_conv_shape c = weight_shape(s, src->dims, src->rank);
    nck_conv_pack_weights(&c, form, src->data, dst);
    return NC_OK;
}

static nc_code fill(const void *state, const nc_tensor *src, void *dst) {
    const blocked *s = state;
    return fill_form(s, s->form, src, dst);
}

static nc_code fill_blocks(const void *state, const nc_tensor *src, void *dst) {
    return fill_form(state, NCK_CONV_BLOCKS, src, dst);
}

static size_t weight_bytes(const blocked *s, nck_conv_form form, const int64_t *w, int rank) {
    nck_conv_shape c = weight_shape(s, w, rank);
    return nck_conv_packed_weights_bytes(&c, form);
}

static nc_code add_pack(nc_prep *p, nc_pack pack, const nc_literal *w, nck_conv_form form,
                        nc_code (*filler)(const void *state, const nc_tensor *src, void *dst)) {
    static const char *const names[] = {"", "/planes", "/winograd"};
    const blocked *s = p->state;
    pack.form = nc_arena_printf(p->arena, "conv_w/3/%s%s/float/%lld", nck_isa_get()->from.conv, names[form],
                                (long long)s->attrs.group);
    NC_NEED(p->w, pack.form);
    pack.bytes = weight_bytes(s, form, w->dims, w->rank), pack.fill = filler;
    p->pack[p->n_packs++] = pack;
    return NC_OK;
}

/* ---- Winograd's form ---- */

enum { PICTURE = 224 }; /* what symbols in sizes of images are taken for: most networks are made for about that */

/* The dim, or what it is at the guess. */
static int64_t size_at(const nc_dim *d, const int64_t *values, const bool *known, bool *guessed) {
    int64_t size;
    if (nc_dim_is_const(d, &size)) return size;
    *guessed = true;
    return nc_dim_eval(d, values, known, &size) ? size : PICTURE;
}

/* Takes the form where it wins. Where sizes are known only in runs, a guess decides whether it is worth its memory, and
 * each run whether it is taken: weights are there in both forms. */
static nc_code choose_wino(nc_prep *p, blocked *s) {
    const nc_type *w = p->node->in[1]->type, *y = p->node->out[0]->type;
    int n = nc_dims_n_syms(p->node->graph->model->dims);
    int64_t *values = nc_arena_array(&p->w->scratch, (size_t)n + 1, sizeof *values);
    bool *known = nc_arena_array(&p->w->scratch, (size_t)n + 1, sizeof *known), guessed = false;
    NC_NEED(p->w, values);
    NC_NEED(p->w, known);
    for (int i = 0; i < n; i++) values[i] = PICTURE, known[i] = true;
    int64_t dims[5];
    for (int i = 0; i < w->rank; i++)
        if (!nc_dim_is_const(w->dims[i], &dims[i])) return NC_OK;
    nck_conv_shape c = weight_shape(s, dims, w->rank);
    c.w.out[0] = 1;
    if (!nc_dim_is_const(y->dims[0], &c.N)) c.N = 1, guessed = true;
    for (int i = 0, d = 5 - w->rank; i < w->rank - 2; i++, d++) {
        c.w.out[d] = size_at(y->dims[2 + i], values, known, &guessed);
        c.w.stride[d] = s->attrs.strides[i];
        c.w.dil[d] = s->attrs.dilations[i];
    }
    if (!nck_conv_wino_wins(&c)) return NC_OK;
    s->form = NCK_CONV_WINO;
    s->either = guessed;
    return NC_OK;
}

nc_code nc_conv_blocked_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    nc_pack pack = {.input = 1};
    const nc_literal *w = nc_pack_source(n->in[1], &pack);
    int rank = n->in[1]->type->rank;
    blocked *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (blocked){.form = nc_attr_int(n, "planes") ? NCK_CONV_PLANES : NCK_CONV_BLOCKS,
                   .packed = w != NULL && !p->no_packs};
    p->state = s;
    if (nc_attr_int(n, "block") != nck_channel_block())
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "blocks of %lld channels, the kernels in use take %lld",
                (long long)nc_attr_int(n, "block"), (long long)nck_channel_block());
    NC_TRY(nc_conv_read_attrs(p->w, n, rank - 2, &s->attrs));
    NC_TRY(read_body(p, s));
    if (!p->no_winograd && s->form == NCK_CONV_BLOCKS && rank >= 4) NC_TRY(choose_wino(p, s));
    if (!s->packed) return NC_OK;
    NC_TRY(add_pack(p, pack, w, s->form, fill));
    return s->either ? add_pack(p, pack, w, NCK_CONV_BLOCKS, fill_blocks) : NC_OK;
}

/* ---- the run ---- */

static nck_conv_shape shape_of(const blocked *s, const nc_tensor *x, const nc_tensor *w, const nc_tensor *y) {
    return (nck_conv_shape){.type = NC_FLOAT,
                            .N = x->dims[0],
                            .C = w->dims[1] * s->attrs.group,
                            .K = w->dims[0],
                            .group = s->attrs.group,
                            .w = nc_window_kernel(&s->attrs, x->dims + 2, w->dims + 2, y->dims + 2)};
}

size_t nc_conv_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const blocked *s = state;
    nck_conv_shape c = shape_of(s, &in[0], &in[1], &out[0]);
    (void)n_in;
    (void)n_out;
    size_t strip = nck_conv_blocked_workspace(&c, s->form), weights = weight_bytes(s, s->form, in[1].dims, in[1].rank);
    if (s->either) {
        strip = nc_max_size(strip, nck_conv_blocked_workspace(&c, NCK_CONV_BLOCKS));
        weights = nc_max_size(weights, weight_bytes(s, NCK_CONV_BLOCKS, in[1].dims, in[1].rank));
    }
    return nc_align64(strip) + (s->packed ? 0 : weights);
}

static nck_conv_operand operand_of(const nc_tensor *t, const nc_tensor *y) {
    int64_t block = y->dims[y->rank - 1], pixels = 1, mine = 1;
    for (int i = 2; i < y->rank - 1; i++) pixels *= y->dims[i];
    if (nc_tensor_numel(t) == 1) return (nck_conv_operand){.data = t->data, .period = 1};
    for (int i = 2; i < t->rank - 1; i++) mine *= t->dims[i];
    nck_conv_operand o = {.data = t->data, .period = mine == pixels ? 0 : block, .block_step = mine * block};
    o.image = t->dims[0] == 1 ? 0 : t->dims[1] * o.block_step;
    return o;
}

static void fill_after(const blocked *s, const nc_call *c, nck_conv_after *after) {
    nc_tensor *const *more = c->in + FIRST_MORE - 1; /* by input of the body */
    if (s->whole) {
        after->add = s->add > 0 ? more[s->add]->data : NULL;
        after->clamps = s->relu || s->low > 0 || s->high > 0;
        after->low = s->relu ? 0 : s->low > 0 ? *(const float *)more[s->low]->data : -INFINITY;
        after->high = s->high > 0 ? *(const float *)more[s->high]->data : INFINITY;
        return;
    }
    after->prog = &s->prog;
    for (int i = 1; i < s->prog.n_in; i++) after->in[i] = operand_of(more[i], c->out[0]);
}

nc_code nc_conv_blocked_run(const nc_call *c) {
    const blocked *s = c->state;
    nck_conv_blocked_args a = {.shape = shape_of(s, c->in[0], c->in[1], c->out[0]),
                               .form = s->form,
                               .x = c->in[0]->data,
                               .bias = c->n_in > 2 ? c->in[2]->data : NULL,
                               .y = c->out[0]->data};
    int64_t blocks = s->form == NCK_CONV_PLANES ? a.shape.C : nc_ceil_div(a.shape.C, nck_channel_block());
    NC_TRY(nc_conv_check(c, &a.shape, c->in[0]->dims[1] == blocks ? a.shape.C : -1));
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    if (s->either && !nck_conv_wino_wins(&a.shape)) a.form = NCK_CONV_BLOCKS;
    void *packed = (char *)c->workspace + nc_align64(nck_conv_blocked_workspace(&a.shape, a.form));
    a.w = !s->packed ? packed : c->packed[s->either && a.form == NCK_CONV_BLOCKS];
    if (!s->packed) NC_TRY(fill_form(s, a.form, c->in[1], packed));
    nck_conv_after after = {.add = NULL};
    if (s->has_body) {
        fill_after(s, c, &after);
        a.after = &after;
    }
    nck_conv_blocked(&a, c->workspace, c->pool);
    return NC_OK;
}
