/* run/sizing.c: sizes that the contents of host arguments tell before a segment starts (a Reshape to a computed shape):
 * the card's inference is asked again with actual dims and contents. The answer is kept with what it was asked for, so
 * that a run that asks the same again neither infers nor allocates. */
#include "run/frame.h"

#include "base/mem.h"
#include "infer/infer.h"

#include <string.h>

enum { BYTES_KEPT = 4096 }; /* questions longer than that are asked every time */

/* The last question about an instruction and its answer. */
typedef struct nc_sized {
    unsigned char *question;
    size_t bytes, cap;
    int64_t (*dims)[NC_MAX_RANK]; /* per output */
    bool valid;
} nc_sized;

void nc_sizing_release(nc_frame *f) {
    for (int i = 0; f->sized && i < f->program->n_instrs; i++) {
        nc_free(f->sized[i].question);
        nc_free(f->sized[i].dims);
    }
    nc_free(f->sized);
    f->sized = NULL;
}

/* Operand j as it will be. Those that this segment itself makes have no sizes yet; symbols say what they will be. Slots
 * are not touched: they may be bound already. */
static nc_code operand(nc_frame *f, const nc_instr *x, const nc_call *c, int j, nc_tensor *t) {
    const nc_program *p = f->program;
    const nc_slot *s = x->in[j] >= 0 ? &p->slots[x->in[j]] : NULL;
    bool made_here =
        s && s->seg == x->seg && s->storage != NC_S_INPUT && s->storage != NC_S_CONST && s->storage != NC_S_STATE;
    nc_tensor_copy(t, c->in[j]);
    if (!made_here || s->rank < 0) return NC_OK; /* what a dynamic kernel will make may be of any rank, or no tensor */
    nc_tensor_set(t, NULL, s->dtype, s->rank);
    for (int d = 0; d < t->rank; d++)
        if (!nc_dim_eval(p->dims[s->dims[d]], f->sym, f->known, &t->dims[d]) || t->dims[d] < 0)
            NC_FAIL(&f->work, NC_E_SHAPE, "the size of '%s' is unknown, negative or too large", s->value->name);
    nc_dense_strides(t->dims, t->rank, t->strides);
    return NC_OK;
}

static bool is_host_argument(const nc_instr *x, int j) {
    return j < 32 && j < x->n_in && x->in[j] >= 0 && (x->node->card->host_in >> j & 1);
}

/* Host arguments that a copy brings from a device must have arrived before they are read for sizes. */
static nc_code await_host_args(nc_frame *f, const nc_instr *x) {
    const nc_program *p = f->program;
    bool copied = false;
    for (int j = 0; p->n_streams > 1 && j < x->n_in; j++) {
        if (!is_host_argument(x, j)) continue;
        nc_storage from = p->slots[x->in[j]].storage;
        copied |= from != NC_S_INPUT && from != NC_S_CONST;
    }
    for (int s = 1; copied && s < p->n_streams; s++) {
        if (p->streams[s].kind != NC_STREAM_COPY || !f->streams[s]) continue;
        nc_device *d = p->places[p->streams[s].place];
        NC_TRY(d->table->stream_sync(d, f->streams[s], &f->work.diag));
    }
    return NC_OK;
}

/* ---- questions ---- */

static bool add(nc_sized *q, size_t *at, const void *p, size_t n, bool *same) {
    if (*at + n > BYTES_KEPT) return false;
    if (*at + n > q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 256;
        while (cap < *at + n) cap *= 2;
        unsigned char *more = nc_realloc(q->question, cap);
        if (!more) return false;
        q->question = more, q->cap = cap;
    }
    if (n && (*at + n > q->bytes || memcmp(q->question + *at, p, n) != 0)) *same = false;
    if (n && !*same) memcpy(q->question + *at, p, n);
    *at += n;
    return true;
}

/* Writes the question about x down: dims of all operands, contents of host arguments. *same: it is the last one. False:
 * it cannot be kept. */
static bool ask(nc_sized *q, const nc_instr *x, const nc_tensor *in, bool *same) {
    size_t at = 0;
    bool ok = true;
    *same = q->valid;
    for (int j = 0; j < x->n_in && ok; j++) {
        const nc_tensor *t = &in[j];
        int64_t head[3] = {t->dtype, t->rank, x->in[j] >= 0};
        ok = add(q, &at, head, sizeof head, same) && add(q, &at, t->dims, (size_t)t->rank * sizeof *t->dims, same);
        size_t bytes;
        if (!ok || !is_host_argument(x, j) || !t->data) continue;
        ok = t->dtype != NC_STRING && nc_is_dense(t) && nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes) &&
             add(q, &at, t->data, bytes, same);
    }
    if (at != q->bytes) *same = false;
    q->bytes = at;
    if (!*same) q->valid = false;
    return ok;
}

static nc_code infer_sizes(nc_frame *f, const nc_instr *x, const nc_tensor *in, nc_tensor *out) {
    nc_work *w = &f->work;
    bool *readable = nc_arena_array(&w->scratch, (size_t)x->n_in + 1, sizeof *readable);
    NC_NEED(w, readable);
    for (int j = 0; j < x->n_in; j++) readable[j] = is_host_argument(x, j);
    nc_dims *scratch = nc_dims_create();
    NC_NEED(w, scratch);
    nc_code code = nc_infer_run(w, x->node, scratch, &w->scratch, in, readable, x->node->n_in, out, x->n_out);
    nc_dims_destroy(scratch);
    return code;
}

static void keep_answer(nc_sized *q, const nc_instr *x, const nc_tensor *out) {
    if (!q->dims && !(q->dims = nc_alloc_zero((size_t)x->n_out + 1, sizeof *q->dims))) return;
    for (int o = 0; o < x->n_out; o++) memcpy(q->dims[o], out[o].dims, sizeof *q->dims);
    q->valid = true;
}

static nc_code size_instr(nc_frame *f, int i) {
    const nc_instr *x = &f->program->instrs[i];
    const nc_call *c = &f->calls[i];
    nc_sized *q = &f->sized[i];
    bool same;
    f->work.at_node = x->node->name, f->work.at_op = x->node->card->name;
    nc_tensor *in = nc_arena_array(&f->work.scratch, (size_t)(x->n_in + x->n_out) + 1, sizeof *in), *out = in + x->n_in;
    NC_NEED(&f->work, in);
    for (int j = 0; j < x->n_in; j++) NC_TRY(operand(f, x, c, j, &in[j]));
    NC_TRY(await_host_args(f, x));
    bool kept = ask(q, x, in, &same);
    if (!kept || !same) {
        NC_TRY(infer_sizes(f, x, in, out));
        if (kept) keep_answer(q, x, out);
        for (int o = 0; o < x->n_out; o++)
            if (x->out[o] >= 0) NC_TRY(nc_bind_dims(f, x->out[o], out[o].dims));
        return NC_OK;
    }
    for (int o = 0; o < x->n_out; o++)
        if (x->out[o] >= 0) NC_TRY(nc_bind_dims(f, x->out[o], q->dims[o]));
    return NC_OK;
}

nc_code nc_sizing_run(nc_frame *f, int seg) {
    const nc_segment *g = &f->program->segs[seg];
    if (!f->sized) {
        f->sized = nc_alloc_zero((size_t)f->program->n_instrs + 1, sizeof *f->sized);
        NC_NEED(&f->work, f->sized);
    }
    for (int k = 0; k < g->n_sizing; k++) NC_TRY(size_instr(f, g->sizing[k]));
    return NC_OK;
}
