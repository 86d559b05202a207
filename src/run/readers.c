/* run/readers.c: who reads a constant's plain bytes after the session was made. Pages of a mapped file are given back
 * whenever their bytes were packed: who reads them again gets them again. Pages of a copy are gone for good, so they
 * are given back only where no other constant and no other pack lies over the same bytes. Looked up once, by address:
 * passes let several literals share bytes. */
#include "run/session.h"

#include "base/file.h"

#include <stdlib.h>

enum { LEAST = 16 << 10 }; /* bytes of a constant whose pages are worth a call of the system */

typedef struct reader {
    uintptr_t from, to;
    const nc_literal *lit;
    bool *sole; /* of a pack */
    bool done;  /* was copied or packed when the session was made */
} reader;

typedef NC_VEC(reader) readers;

void nc_readers_forget(const nc_literal *l, bool sole) {
    const nc_buffer *b = l->keeps;
    if (!b || !(b->file || (sole && b->private)) || l->bytes > b->bytes) return;
    uintptr_t start = (uintptr_t)b->ptr, at = (uintptr_t)l->data;
    if (at >= start && at - start <= b->bytes - l->bytes) nc_file_forget(l->data, l->bytes);
}

static nc_code add(nc_work *w, readers *list, const nc_literal *l, bool *sole, bool done) {
    uintptr_t from = (uintptr_t)l->data;
    reader r = {.from = from, .to = from + l->bytes, .lit = l, .sole = sole, .done = done};
    if (l->bytes && !NC_PUSH(&w->scratch, *list, r)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* What a kernel's own body holds. */
static nc_code add_bodies(nc_work *w, const nc_node *n, readers *list) {
    for (int k = 0; k < n->n_subs; k++)
        for (int i = 0; i < n->subs[k].graph->consts.n; i++)
            NC_TRY(add(w, list, n->subs[k].graph->consts.v[i]->lit, NULL, false));
    return NC_OK;
}

/* What makes numbers of codes reads its other inputs whenever it packs. */
static nc_code add_scales(nc_work *w, const nc_node *by, readers *list) {
    for (int i = 1; by && i < by->n_operands; i++)
        if (by->in[i]) NC_TRY(add(w, list, by->in[i]->lit, NULL, false));
    return NC_OK;
}

/* `all`: false where a body that is planned when it is reached may read any constant, or a state that is made later. */
static nc_code collect(nc_work *w, const nc_prepared *r, readers *list, bool *all) {
    const nc_program *p = r->program;
    *all &= p->n_states == 0;
    for (int i = 0; i < p->n_consts; i++)
        if (!p->consts[i].packed_only)
            NC_TRY(add(w, list, p->consts[i].value->lit, NULL, r->const_buffers[i] != NULL));
    for (int i = 0; i < p->n_packs; i++) {
        NC_TRY(add(w, list, p->packs[i].value->lit, &r->sole[i], atomic_load(&r->packs[i]) != NULL));
        NC_TRY(add_scales(w, p->packs[i].pack.by, list));
    }
    for (int i = 0; i < p->n_instrs; i++) {
        *all &= !nc_is_deferred(p->instrs[i].node);
        if (!r->subs[i]) NC_TRY(add_bodies(w, p->instrs[i].node, list));
        for (int k = 0; r->subs[i] && k < p->instrs[i].node->n_subs; k++)
            NC_TRY(collect(w, r->subs[i][k], list, all));
    }
    return NC_OK;
}

static int by_address(const void *a, const void *b) {
    const reader *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Another model may have been made of this one, and hold the same buffer. */
static bool is_held_elsewhere(const nc_model *m, nc_buffer *b) {
    int n = 0;
    for (int i = 0; i < m->buffers.n; i++) n += m->buffers.v[i] == b;
    return atomic_load(&b->refs) != n;
}

nc_code nc_readers_find(nc_work *w, nc_prepared *r) {
    readers list = {0};
    bool all = true;
    const nc_model *m = r->program->model;
    uintptr_t end = 0;
    NC_TRY(collect(w, r, &list, &all));
    if (!all || list.n == 0) return NC_OK;
    qsort(list.v, (size_t)list.n, sizeof *list.v, by_address);
    for (int i = 0; i < list.n; i++) {
        reader *x = &list.v[i];
        bool apart = x->from >= end && (i + 1 == list.n || x->to <= list.v[i + 1].from);
        end = x->to > end ? x->to : end;
        nc_buffer *b = x->lit->bytes >= LEAST ? x->lit->keeps : NULL;
        if (!apart || !b || !b->private || is_held_elsewhere(m, b)) continue;
        if (x->sole) *x->sole = true;
        if (x->done) nc_readers_forget(x->lit, true);
    }
    return NC_OK;
}
