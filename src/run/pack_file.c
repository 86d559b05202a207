/* run/pack_file.c: packed weights kept in a file, so that the next session with the same model maps them.
 *
 * A file fits a session if the lowered graph and of every packed constant the form (which names kernel, version and
 * instruction set), the size and what it was made from are the same: the same place in an unchanged file, or an equal
 * hash; and if the hash of what is in the file says that it is whole. Else it is written anew, unless it is no
 * such file at all. Order: head, entries, padding, then each block at a multiple of 64 bytes; integers in the machine's
 * order, which the magic number tells. */
#include "run/pack_file.h"

#include "base/file.h"
#include "base/intmath.h"
#include "base/mem.h"
#include "ir/text.h"

#include <string.h>

#define MAGIC UINT64_C(0x31304b434150434e) /* "NCPACK01" where the low byte comes first */

enum { BLOCK_ALIGNMENT = 64 };

typedef struct head {
    uint64_t magic, key, n;
} head;

typedef struct entry {
    uint64_t form, source, content; /* hashes */
    uint64_t place;                 /* of the source in an unchanged file: where it is equal, it is not read; or 0 */
    uint64_t offset, bytes;
} entry;

typedef struct one {
    nc_prepared *of;
    int index;
    entry is; /* without source until it is asked for, without content and offset until it is packed */
} one;

typedef struct job {
    nc_work *w;
    one *all;
    int64_t n;
    const uint8_t *mapped;
    const entry *entries;
    atomic_bool differs;
    atomic_int failed; /* nc_code of a pack that could not be made */
} job;

static const nc_prog_pack *pack_of(const one *o) { return &o->of->program->packs[o->index]; }

/* Those that the host reads, of all subprograms, in order; with all == NULL they are counted. */
static int64_t collect(nc_prepared *r, one *all) {
    int64_t n = 0;
    for (int i = 0; i < r->program->n_packs; i++) {
        if (r->program->packs[i].place) continue;
        if (all) all[n] = (one){.of = r, .index = i};
        n++;
    }
    for (int i = 0; i < r->program->n_instrs; i++)
        for (int k = 0; r->subs[i] && k < r->program->instrs[i].node->n_subs; k++)
            n += collect(r->subs[i][k], all ? all + n : NULL);
    return n;
}

static uint64_t place_of(const nc_literal *l) {
    const nc_buffer *b = l->keeps;
    if (!b || b->file_id == 0 || l->bytes > b->bytes) return 0;
    uint64_t at = (uintptr_t)l->data - (uintptr_t)b->ptr;
    return at <= b->bytes - l->bytes ? nc_hash(&at, sizeof at, b->file_id) : 0;
}

static void describe(one *o) {
    const nc_prog_pack *k = pack_of(o);
    const nc_literal *l = k->value->lit;
    o->is.form = nc_hash(k->pack.form, strlen(k->pack.form), nc_hash(l->dims, (size_t)l->rank * sizeof *l->dims, 0));
    o->is.place = k->pack.by ? 0 : place_of(l); /* scales may change where codes do not */
    o->is.bytes = k->pack.bytes;
}

static uint64_t source_of(const one *o) {
    const nc_prog_pack *k = pack_of(o);
    const nc_literal *l = k->value->lit;
    uint64_t h = nc_hash(l->data, l->bytes, l->dtype);
    for (int i = 1; k->pack.by && i < k->pack.by->n_operands; i++) {
        l = k->pack.by->in[i] ? k->pack.by->in[i]->lit : NULL;
        if (l) h = nc_hash(l->data, l->bytes, h);
    }
    return h;
}

/* ---- reading ---- */

static bool entry_is_sound(const entry *e, size_t bytes_file) {
    return e->offset % BLOCK_ALIGNMENT == 0 && e->offset <= bytes_file && e->bytes <= bytes_file - e->offset;
}

/* What else lies at the path is not written over: it may be the model. */
static bool is_ours(const nc_mapping *m) {
    uint64_t magic;
    if (m->bytes == 0) return true;
    if (m->bytes < sizeof magic) return false;
    memcpy(&magic, m->p, sizeof magic);
    return magic == MAGIC;
}

static bool table_fits(const nc_mapping *m, uint64_t key, int64_t n) {
    head h;
    if (m->bytes < sizeof h) return false;
    memcpy(&h, m->p, sizeof h);
    if (h.key != key || h.n != (uint64_t)n) return false;
    if ((m->bytes - sizeof h) / sizeof(entry) < h.n) return false;
    const entry *e = (const entry *)(const void *)(m->p + sizeof h);
    for (int64_t i = 0; i < n; i++)
        if (!entry_is_sound(&e[i], m->bytes)) return false;
    return true;
}

static void compare(void *ctx, int64_t i) {
    job *j = ctx;
    const entry *is = &j->all[i].is, *e = &j->entries[i];
    if (atomic_load(&j->differs)) return;
    bool same = is->form == e->form && is->bytes == e->bytes;
    if (same && (is->place == 0 || is->place != e->place)) same = source_of(&j->all[i]) == e->source;
    if (!same || nc_hash(j->mapped + e->offset, e->bytes, 0) != e->content) atomic_store(&j->differs, true);
}

typedef struct shared_mapping {
    nc_mapping m;
    atomic_int users;
} shared_mapping;

static void release_block(nc_buffer *b) {
    shared_mapping *s = b->owner;
    if (--s->users > 0) return;
    nc_file_unmap(&s->m);
    nc_free(s);
}

/* The blocks of the mapping become the packs; it goes with the last of them. */
static nc_code adopt(nc_work *w, const job *j, nc_mapping *takes) {
    shared_mapping *s = nc_alloc_zero(1, sizeof *s);
    NC_NEED(w, s);
    s->m = *takes, s->users = 1;
    *takes = (nc_mapping){0};
    nc_buffer hold = {.owner = s};
    nc_code code = NC_OK;
    for (int64_t i = 0; i < j->n && code == NC_OK; i++) {
        const entry *e = &j->entries[i];
        nc_buffer *b = nc_buffer_wrap((void *)(uintptr_t)(s->m.p + e->offset), e->bytes, release_block, s);
        if (!b) {
            code = nc_fail(w, NC_E_MEMORY, "out of memory");
            break;
        }
        s->users++;
        b->file = true;
        atomic_store(&j->all[i].of->packs[j->all[i].index], b);
    }
    release_block(&hold);
    return code;
}

static nc_code read_file(job *j, nc_pool *pool, const char *path, uint64_t key, bool *fits) {
    nc_mapping m = {0};
    nc_work quiet;
    *fits = false;
    nc_work_init(&quiet);
    nc_code code = nc_file_map(&quiet, path, &m); /* one that cannot be read is written, which tells why it cannot */
    nc_work_release(&quiet);
    if (code != NC_OK) return NC_OK;
    if (!is_ours(&m)) {
        nc_file_unmap(&m);
        NC_FAIL(j->w, NC_E_ARGUMENT,
                "option packed_file: expected a path for packed weights, got '%s', which holds something else: give "
                "another path or remove it",
                path);
    }
    *fits = table_fits(&m, key, j->n);
    if (*fits) {
        j->mapped = m.p, j->entries = (const entry *)(const void *)(m.p + sizeof(head));
        nc_parallel(pool, j->n, compare, j);
        *fits = !atomic_load(&j->differs);
    }
    code = *fits ? adopt(j->w, j, &m) : NC_OK;
    nc_file_unmap(&m);
    return code;
}

/* ---- writing ---- */

static const void *packed_bytes(const one *o) { return atomic_load(&o->of->packs[o->index])->ptr; }

static void fill(void *ctx, int64_t i) {
    job *j = ctx;
    one *o = &j->all[i];
    const void *p;
    nc_work w;
    nc_work_init(&w);
    nc_code code = nc_prepared_pack(&w, o->of, o->index, &p);
    if (code == NC_OK)
        o->is.content = nc_hash(p, o->is.bytes, 0), o->is.source = source_of(o);
    else
        atomic_store(&j->failed, (int)code);
    nc_work_release(&w);
}

static nc_code add_padding(nc_work *w, nc_file_writer *f, uint64_t *at) {
    static const char zeros[BLOCK_ALIGNMENT];
    size_t n = nc_round_up_size(*at, BLOCK_ALIGNMENT) - *at;
    *at += n;
    return nc_file_add(w, f, zeros, n);
}

static nc_code write_all(nc_work *w, const job *j, nc_file_writer *f, uint64_t key) {
    head h = {MAGIC, key, (uint64_t)j->n};
    uint64_t at = sizeof h + (uint64_t)j->n * sizeof(entry);
    uint64_t offset = nc_round_up_size(at, BLOCK_ALIGNMENT);
    NC_TRY(nc_file_add(w, f, &h, sizeof h));
    for (int64_t i = 0; i < j->n; i++) {
        j->all[i].is.offset = offset;
        offset = nc_round_up_size(offset + j->all[i].is.bytes, BLOCK_ALIGNMENT);
        NC_TRY(nc_file_add(w, f, &j->all[i].is, sizeof(entry)));
    }
    for (int64_t i = 0; i < j->n; i++) {
        NC_TRY(add_padding(w, f, &at));
        NC_TRY(nc_file_add(w, f, packed_bytes(&j->all[i]), j->all[i].is.bytes));
        at += j->all[i].is.bytes;
    }
    return NC_OK;
}

static nc_code write_file(nc_work *w, const job *j, const char *path, uint64_t key) {
    nc_file_writer *f;
    NC_TRY(nc_file_begin(w, path, &f));
    nc_code code = write_all(w, j, f, key);
    if (code == NC_OK) return nc_file_end(w, f);
    nc_file_drop(f);
    return code;
}

/* A session can do without the file: a disk that is full or read-only is told, and the next start packs again. */
static void write_or_tell(const job *j, const char *path, uint64_t key) {
    nc_work w;
    nc_work_init(&w);
    if (write_file(&w, j, path, key) != NC_OK)
        nc_log(NC_LOG_WARNING, "packed_file: %s; the next session will pack its weights again", w.diag.text);
    nc_work_release(&w);
}

/* What the packed bytes depend on besides forms and sources: attributes and shapes, as the lowered graph has them. */
static nc_code graph_key(nc_work *w, const nc_model *m, uint64_t *key) {
    nc_text text = {0};
    nc_graph_print_typed(&text, m);
    bool ok = !text.failed;
    if (ok) *key = nc_hash(text.s, text.n, 0);
    nc_text_release(&text);
    if (!ok) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code read_or_write(job *j, nc_pool *pool, const nc_model *m, const char *path) {
    uint64_t key = 0;
    bool fits;
    NC_TRY(graph_key(j->w, m, &key));
    for (int64_t i = 0; i < j->n; i++) describe(&j->all[i]);
    NC_TRY(read_file(j, pool, path, key, &fits));
    if (fits) return NC_OK;
    nc_parallel(pool, j->n, fill, j);
    nc_code failed = (nc_code)atomic_load(&j->failed);
    if (failed != NC_OK) NC_FAIL(j->w, failed, "packing weights for '%s' failed", path);
    write_or_tell(j, path, key);
    return NC_OK;
}

nc_code nc_pack_file(nc_work *w, nc_prepared *r, const char *path) {
    job j = {.w = w, .n = collect(r, NULL)};
    if (j.n == 0) return NC_OK;
    NC_NEED(w, j.all = nc_alloc_zero((size_t)j.n, sizeof *j.all));
    collect(r, j.all);
    nc_code code = read_or_write(&j, r->env->pool, r->program->model, path);
    nc_free(j.all);
    return code;
}
