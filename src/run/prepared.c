/* run/prepared.c: constants where kernels can read them. On the host they are used where they are mapped if aligned for
 * their element or their readers do not mind, else copied once; on a device they are uploaded once. Packed forms are
 * made at first use. Pages that were copied or packed are given back (readers.c). */
#include "run/frame.h"
#include "run/session.h"
#include "run/upload.h"

#include "base/file.h"
#include "base/intmath.h"
#include "base/mem.h"

#include <string.h>

static bool stays(const nc_prog_const *k) {
    const nc_literal *l = k->value->lit;
    return k->packed_only || l->dtype == NC_STRING ||
           (!k->place && l->n && (k->unaligned || nc_dtype_is_aligned(l->dtype, l->data)));
}

static nc_code place_host_const(nc_work *w, nc_prepared *r, int i) {
    const nc_literal *l = r->program->consts[i].value->lit;
    nc_buffer *b = nc_device_buffer(r->program->places[0], r->budget, l->bytes ? l->bytes : 1, &w->diag);
    if (!b) return w->diag.code ? w->diag.code : nc_fail(w, NC_E_MEMORY, "out of memory");
    if (l->bytes) memcpy(b->ptr, l->data, l->bytes);
    r->const_buffers[i] = b;
    r->consts[i].data = b->ptr;
    nc_readers_forget(l, false);
    return NC_OK;
}

/* All constants of a device lie in one block, which each of them holds. */
static nc_code place_device_consts(nc_work *w, nc_prepared *r, int place, nc_upload *list) {
    const nc_program *p = r->program;
    nc_buffer *b = NULL;
    int n = 0;
    for (int i = 0; i < p->n_consts; i++)
        if (p->consts[i].place == place && !stays(&p->consts[i]))
            list[n++] = (nc_upload){.src = p->consts[i].value->lit->data, .bytes = p->consts[i].value->lit->bytes};
    if (n == 0) return NC_OK;
    NC_TRY(nc_upload_all(w, r->env->pool, p->places[place], r->budget, list, n, &b));
    for (int i = 0, k = 0; i < p->n_consts; i++) {
        if (p->consts[i].place != place || stays(&p->consts[i])) continue;
        r->consts[i].data = (char *)b->ptr + list[k++].offset;
        r->const_buffers[i] = nc_buffer_ref(b);
        nc_readers_forget(p->consts[i].value->lit, false);
    }
    nc_buffer_unref(b);
    return NC_OK;
}

static nc_code place_consts(nc_work *w, nc_prepared *r) {
    const nc_program *p = r->program;
    for (int i = 0; i < p->n_consts; i++) {
        const nc_literal *l = p->consts[i].value->lit;
        nc_tensor *t = &r->consts[i];
        nc_tensor_set(t, (void *)(uintptr_t)l->data, l->dtype, l->rank);
        memcpy(t->dims, l->dims, (size_t)l->rank * sizeof *t->dims);
        nc_dense_strides(t->dims, t->rank, t->strides);
        if (!p->consts[i].place && !stays(&p->consts[i])) NC_TRY(place_host_const(w, r, i));
    }
    if (p->n_places == 1 || !p->n_consts) return NC_OK;
    nc_upload *list = nc_alloc((size_t)p->n_consts * sizeof *list);
    NC_NEED(w, list);
    nc_code code = NC_OK;
    for (int place = 1; code == NC_OK && place < p->n_places; place++) code = place_device_consts(w, r, place, list);
    nc_free(list);
    return code;
}

/* The kernels that planning asked for. */
static nc_code wait_for_kernels(nc_work *w, const nc_program *p) {
    for (int i = 0; i < p->n_places; i++) {
        nc_device *d = p->places[i];
        if (d->table->compile_wait) NC_TRY(d->table->compile_wait(d, &w->diag));
    }
    return NC_OK;
}

static nc_code fill(nc_work *w, nc_env *env, nc_prepared *r) {
    const nc_program *p = r->program;
    NC_TRY(wait_for_kernels(w, p));
    NC_NEED(w, r->consts = nc_alloc_zero((size_t)p->n_consts + 1, sizeof *r->consts));
    NC_NEED(w, r->const_buffers = nc_alloc_zero((size_t)p->n_consts + 1, sizeof *r->const_buffers));
    NC_NEED(w, r->packs = nc_alloc_zero((size_t)p->n_packs + 1, sizeof *r->packs));
    NC_NEED(w, r->sole = nc_alloc_zero((size_t)p->n_packs + 1, sizeof *r->sole));
    NC_NEED(w, r->cached = nc_alloc_zero((size_t)p->n_segs + 1, sizeof *r->cached));
    NC_NEED(w, r->subs = nc_alloc_zero((size_t)p->n_instrs + 1, sizeof *r->subs));
    NC_NEED(w, r->variants = nc_alloc_zero((size_t)p->n_instrs + 1, sizeof *r->variants));
    NC_TRY(place_consts(w, r));
    for (int i = 0; i < p->n_instrs; i++) {
        if (!p->instrs[i].subs) continue;
        int n = p->instrs[i].node->n_subs;
        NC_NEED(w, r->subs[i] = nc_alloc_zero((size_t)n + 1, sizeof *r->subs[i]));
        for (int s = 0; s < n; s++) NC_TRY(nc_prepared_create(w, env, r->budget, p->instrs[i].subs[s], &r->subs[i][s]));
    }
    return NC_OK;
}

nc_code nc_prepared_create(nc_work *w, nc_env *env, nc_budget *borrows, const nc_program *p, nc_prepared **out) {
    nc_prepared *r = nc_alloc_zero(1, sizeof *r);
    NC_NEED(w, r);
    r->program = p, r->env = env, r->budget = borrows;
    nc_code code = fill(w, env, r);
    if (code != NC_OK) {
        nc_prepared_destroy(NULL, r);
        return code;
    }
    *out = r;
    return NC_OK;
}

/* What a device reads is the session's own upload, what lies in a file its own mapping; else what the host reads is the
 * environment's. */
static void drop_pack(const nc_prepared *r, int i_pack, nc_buffer *b) {
    if (!b) return;
    if (r->program->packs[i_pack].place || b->file)
        nc_buffer_unref(b);
    else
        nc_env_unpack(r->env, b);
}

void nc_prepared_destroy(nc_session *s, nc_prepared *r) {
    if (!r) return;
    for (int i = 0; r->variants && i < r->program->n_instrs; i++) nc_deferred_clear(s, &r->variants[i]);
    for (int i = 0; r->subs && i < r->program->n_instrs; i++) {
        for (int k = 0; r->subs[i] && k < r->program->instrs[i].node->n_subs; k++)
            nc_prepared_destroy(s, r->subs[i][k]);
        nc_free(r->subs[i]);
    }
    while (r->free_frames) {
        nc_frame *f = r->free_frames;
        r->free_frames = f->next;
        nc_frame_destroy(f);
    }
    nc_cache_forget(s, r);
    nc_free((void *)r->cached);
    for (int i = 0; r->const_buffers && i < r->program->n_consts; i++) nc_buffer_unref(r->const_buffers[i]);
    for (int i = 0; r->packs && i < r->program->n_packs; i++) drop_pack(r, i, atomic_load(&r->packs[i]));
    nc_free(r->consts);
    nc_free(r->const_buffers);
    nc_free((void *)r->packs);
    nc_free(r->sole);
    nc_free(r->subs);
    nc_free(r->variants);
    nc_free(r);
}

void nc_prepared_trim(nc_session *s, nc_prepared *r) {
    for (int i = 0; i < r->program->n_instrs; i++) nc_deferred_trim(s, &r->variants[i]);
    for (int i = 0; i < r->program->n_instrs; i++)
        for (int k = 0; r->subs[i] && k < r->program->instrs[i].node->n_subs; k++) nc_prepared_trim(s, r->subs[i][k]);
    nc_lock_take(&s->lock);
    nc_frame *f = r->free_frames;
    r->free_frames = NULL;
    nc_lock_give(&s->lock);
    for (nc_frame *next; f; f = next) {
        next = f->next;
        nc_frame_destroy(f);
    }
}

/* room: as nc_env_pack takes it. host: for what is uploaded. */
static nc_code fill_pack(nc_work *w, nc_prepared *r, const nc_prog_pack *k, nc_buffer *room, nc_buffer **host,
                         nc_buffer **out) {
    nc_tensor src = nc_literal_tensor(k->value->lit);
    nc_buffer *numbers = NULL;
    nc_code code = k->pack.by ? nc_pack_decode(w, k->pack.by, &src, &numbers) : NC_OK;
    if (code != NC_OK)
        nc_buffer_unref(room);
    else if (k->place)
        code = nc_env_pack_apart(r->env, w, &k->pack, k->state, &src, host);
    else
        code = nc_env_pack(r->env, w, &k->pack, k->state, &src, room, out);
    nc_buffer_unref(numbers);
    return code;
}

static nc_code make_pack(nc_work *w, nc_prepared *r, const nc_prog_pack *k, nc_buffer *room, nc_buffer **out) {
    nc_buffer *host = NULL;
    NC_TRY(fill_pack(w, r, k, room, &host, out));
    if (!host) return NC_OK;
    nc_upload one = {.src = host->ptr, .bytes = host->bytes};
    nc_code code = nc_upload_all(w, r->env->pool, r->program->places[k->place], r->budget, &one, 1, out);
    nc_buffer_unref(host);
    return code;
}

/* The first of several threads wins. What it was made of may go then, while others still read it: whatever they make is
 * dropped. */
static nc_code pack(nc_work *w, nc_prepared *r, int i_pack, nc_buffer *room, nc_buffer **out) {
    const nc_prog_pack *k = &r->program->packs[i_pack];
    nc_buffer *b, *none = NULL;
    NC_TRY(make_pack(w, r, k, room, &b));
    if (atomic_compare_exchange_strong(&r->packs[i_pack], &none, b)) {
        nc_readers_forget(k->value->lit, r->sole[i_pack]);
    } else {
        drop_pack(r, i_pack, b);
        b = none;
    }
    *out = b;
    return NC_OK;
}

nc_code nc_prepared_pack(nc_work *w, nc_prepared *r, int i_pack, const void **out) {
    nc_buffer *b = atomic_load_explicit(&r->packs[i_pack], memory_order_acquire);
    if (!b) NC_TRY(pack(w, r, i_pack, NULL, &b));
    *out = b->ptr;
    return NC_OK;
}

/* ---- all packed forms, in one block: few huge pages instead of many small ones, which cost a fault each ---- */

enum { ALIGN = 64 };

typedef struct packing {
    nc_prepared *r;
    nc_buffer *block; /* NULL: each has a block of its own */
    size_t *offsets;
} packing;

/* Uploads stay in the order of the run. */
static bool is_open(const nc_prepared *r, int64_t i) {
    return !r->program->packs[i].place && !atomic_load(&r->packs[i]);
}

static void release_part(nc_buffer *b) {
    nc_file_forget(b->ptr, b->bytes);
    nc_buffer_unref(b->owner);
}

/* Of the block; NULL: none. */
static nc_buffer *part_of(const packing *k, int64_t i) {
    if (!k->block) return NULL;
    char *p = (char *)k->block->ptr + k->offsets[i];
    nc_buffer *b = nc_buffer_wrap(p, k->r->program->packs[i].pack.bytes, release_part, k->block);
    if (b) nc_buffer_ref(k->block);
    return b;
}

static void pack_item(void *ctx, int64_t i) {
    packing *k = ctx;
    nc_buffer *ignored;
    nc_work w;
    if (!is_open(k->r, i)) return;
    nc_work_init(&w);
    nc_code code = pack(&w, k->r, (int)i, part_of(k, i), &ignored);
    (void)code; /* who needs it asks again, and reports */
    nc_work_release(&w);
}

/* Without memory for it all there is no block. */
static void reserve(packing *k) {
    const nc_program *p = k->r->program;
    size_t total = 0;
    k->offsets = nc_alloc((size_t)p->n_packs * sizeof *k->offsets);
    for (int i = 0; k->offsets && i < p->n_packs; i++) {
        k->offsets[i] = total;
        if (is_open(k->r, i)) total += nc_round_up_size(p->packs[i].pack.bytes, ALIGN);
    }
    if (total > 0) k->block = nc_buffer_host_zero(total);
}

void nc_prepared_pack_all(nc_prepared *r) {
    if (r->program->n_packs < 2 || atomic_exchange(&r->packed, true)) return;
    packing k = {.r = r};
    reserve(&k);
    nc_parallel(r->env->pool, r->program->n_packs, pack_item, &k);
    nc_buffer_unref(k.block);
    nc_free(k.offsets);
}
