/* device/cuda_memory.c: the caching allocator, see cuda_memory.h.
 *
 * Sizes are rounded up to one of eight steps between powers of two, so that sizes near each other share blocks, from
 * 64 MiB on to one of 64, so that little is lost; a request takes the smallest free block that is at most a quarter
 * larger than it (twice, below 1 MiB). Blocks are not cut and not joined: a run's memory is one block per segment, so
 * there are few of them. The driver gives pieces of 2 MiB, so that blocks of some MiB, as parameters and their moments
 * are, would lose a third: they are parts of slabs, each a quarter of all before it, and go back with their slab. When
 * the driver has no memory left, all free blocks are given back to it and it is asked once more. */
#include "device/cuda_memory.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/memory.h"

enum { N_BINS = 64, SMALL = 1 << 20, LARGE = 1 << 26, LEAST = 512 };
enum { PART_LEAST = 1 << 19, PART_MOST = 1 << 24, PIECE = 2 << 20, SLAB_MOST = 1 << 26 }; /* of slabs */

/* A piece of the driver's that blocks are parts of, one behind the other. */
typedef struct slab {
    CUdeviceptr start;
    size_t bytes, used;
    size_t n_parts, n_free; /* blocks in it, and how many of them are free */
    struct slab *next;
} slab;

typedef struct block {
    slab *of; /* NULL: a piece of the driver's of its own */
    CUdeviceptr start;
    size_t room, asked;
    bool lent;             /* its address was shown outside */
    nc_cuda_point *points; /* of a free block: what must be passed before it is used again */
    bool unmarked;         /* freed during a capture: no points were taken yet */
    uint64_t freed_on;     /* with unmarked: a stream's id, or 0 */
    struct block *next;
} block;

struct nc_cuda_memory {
    nc_lock lock; /* guards all below */
    nc_cuda_order order;
    nc_block_table live; /* data: the block */
    block *bins[N_BINS]; /* free blocks by the power of two below their room */
    block *unmarked;
    size_t keep, kept;
    slab *slabs;
    size_t bytes_slabs;
};

static void warn(CUresult r, const char *function) {
    nc_diag diag = {0};
    if (nc_cuda_check(r, function, &diag) != NC_OK) nc_log(NC_LOG_WARNING, "cuda: %s", diag.text);
}

static nc_code no_memory(nc_diag *diag) { return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory"); }

static int bin_of(size_t room) { return 63 - __builtin_clzll((unsigned long long)room); }

static size_t room_for(size_t bytes) {
    if (bytes <= LEAST) return LEAST;
    size_t power = (size_t)1 << bin_of(bytes), step = power / (power < LARGE ? 8 : 64);
    if (step < LEAST) step = LEAST;
    return bytes > SIZE_MAX - step ? bytes : (bytes + step - 1) / step * step;
}

/* ---- free blocks; the lock is held ---- */

/* The last of its parts is gone. */
static void release_slab(nc_cuda_memory *m, slab *s) {
    slab **at = &m->slabs;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    m->bytes_slabs -= s->bytes;
    warn(m->order.cuda->api->cuMemFree_v2(s->start), "cuMemFree_v2");
    nc_free(s);
}

static void release_block(nc_cuda_memory *m, block *b) {
    nc_cuda_points_drop(&m->order, &b->points);
    if (b->of == NULL)
        warn(m->order.cuda->api->cuMemFree_v2(b->start), "cuMemFree_v2");
    else if (--b->of->n_parts == 0)
        release_slab(m, b->of);
    nc_free(b);
}

/* A part of a slab that is in use stays: its room could not be had again before the slab goes. */
static bool may_go(const block *b) { return b->of == NULL || b->of->n_free == b->of->n_parts; }

static void keep_block(nc_cuda_memory *m, block *b) {
    block **bin = b->unmarked ? &m->unmarked : &m->bins[bin_of(b->room)];
    b->next = *bin;
    *bin = b;
    m->kept += b->room;
    if (b->of != NULL) b->of->n_free++;
}

static void unlink_block(nc_cuda_memory *m, block **at) {
    block *b = *at;
    *at = b->next;
    m->kept -= b->room;
    if (b->of != NULL) b->of->n_free--;
}

/* Where the points cannot be taken the GPU is lost or out of memory: waiting for everything is left. */
static void mark(nc_cuda_memory *m, const nc_stream *only, block *b) {
    CUresult r = nc_cuda_points_take(&m->order, only, b->lent, &b->points);
    if (r == 0) return;
    warn(r, "cuEventRecord");
    warn(m->order.cuda->api->cuCtxSynchronize(), "cuCtxSynchronize");
}

static const nc_stream *stream_of(const nc_cuda_memory *m, uint64_t id) {
    const nc_stream *s = m->order.streams;
    while (id != 0 && s != NULL && s->id != id) s = s->next;
    return id != 0 ? s : NULL;
}

/* Blocks that were freed during a capture get their points. A stream that is gone was waited for. */
static void mark_late(nc_cuda_memory *m) {
    if (m->unmarked == NULL || !nc_cuda_turn_try_wait()) return;
    while (m->unmarked != NULL) {
        block *b = m->unmarked;
        const nc_stream *only = stream_of(m, b->freed_on);
        unlink_block(m, &m->unmarked);
        if (only != NULL || b->freed_on == 0) mark(m, only, b);
        b->unmarked = false;
        keep_block(m, b);
    }
    nc_cuda_turn_wait_end();
}

static block *find_free(nc_cuda_memory *m, uint64_t stream, size_t room) {
    block **best = NULL;
    size_t most = room < SMALL ? 2 * room : room + room / 4;
    for (int i = bin_of(room); i < N_BINS && (size_t)1 << i <= most; i++)
        for (block **at = &m->bins[i]; *at != NULL; at = &(*at)->next)
            if ((*at)->room >= room && (*at)->room <= most && (best == NULL || (*at)->room < (*best)->room) &&
                nc_cuda_points_passed(&m->order, &(*at)->points, stream))
                best = at;
    if (best == NULL) return NULL;
    block *b = *best;
    unlink_block(m, best);
    nc_cuda_points_drop(&m->order, &b->points);
    return b;
}

/* Gives free blocks back to the driver until at most `most` bytes are left; `waits`: also those still in use. */
static void shrink(nc_cuda_memory *m, size_t most, bool waits) {
    for (int i = N_BINS - 1; i >= 0 && m->kept > most; i--)
        for (block **at = &m->bins[i]; *at != NULL && m->kept > most;) {
            block *b = *at;
            if (!may_go(b)) {
                at = &b->next;
                continue;
            }
            bool passed = nc_cuda_points_passed(&m->order, &b->points, 0);
            if (!passed && waits) warn(nc_cuda_points_wait(&m->order, &b->points), "cuEventSynchronize");
            if (passed || waits) {
                unlink_block(m, at);
                release_block(m, b);
            } else {
                at = &b->next;
            }
        }
}

/* ---- the driver ---- */

static nc_code ask_driver(nc_cuda_memory *m, size_t room, CUdeviceptr *out, nc_diag *diag) {
    const nc_cuda_api *api = m->order.cuda->api;
    CUresult r = api->cuMemAlloc_v2(out, room);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && nc_cuda_memory_kept(m) > 0) {
        nc_cuda_memory_trim(m);
        r = api->cuMemAlloc_v2(out, room);
    }
    return nc_cuda_check(r, "cuMemAlloc_v2", diag);
}

/* ---- parts of slabs ---- */

static bool is_part(const nc_cuda_memory *m, size_t room) {
    return m->keep > 0 && room >= PART_LEAST && room <= PART_MOST;
}

/* The next part of a slab that has room for it; the lock is held. */
static bool take_part(nc_cuda_memory *m, block *b) {
    slab *s = m->slabs;
    while (s != NULL && s->bytes - s->used < b->room) s = s->next;
    if (s == NULL) return false;
    b->of = s, b->start = s->start + s->used;
    s->used += b->room, s->n_parts++;
    return true;
}

static nc_code new_part(nc_cuda_memory *m, block *b, nc_diag *diag) {
    nc_lock_take(&m->lock);
    bool found = take_part(m, b);
    size_t bytes = m->bytes_slabs / 4;
    nc_lock_give(&m->lock);
    if (found) return NC_OK;
    slab *s = nc_alloc_zero(1, sizeof *s);
    if (s == NULL) return no_memory(diag);
    if (bytes > SLAB_MOST) bytes = SLAB_MOST;
    s->bytes = ((bytes > b->room ? bytes : b->room) + PIECE - 1) / PIECE * PIECE;
    nc_code code = ask_driver(m, s->bytes, &s->start, diag);
    if (code != NC_OK) {
        nc_free(s);
        return code;
    }
    nc_lock_take(&m->lock);
    s->next = m->slabs, m->slabs = s, m->bytes_slabs += s->bytes;
    take_part(m, b); /* this one has room */
    nc_lock_give(&m->lock);
    return NC_OK;
}

static nc_code new_block(nc_cuda_memory *m, size_t room, block **out, nc_diag *diag) {
    block *b = nc_alloc_zero(1, sizeof *b);
    if (b == NULL) return no_memory(diag);
    b->room = room;
    nc_code code = is_part(m, room) ? new_part(m, b, diag) : ask_driver(m, room, &b->start, diag);
    if (code == NC_OK)
        *out = b;
    else
        nc_free(b);
    return code;
}

nc_cuda_memory *nc_cuda_memory_create(const nc_cuda *borrows, size_t keep) {
    nc_cuda_memory *m = nc_alloc_zero(1, sizeof *m);
    if (m == NULL) return NULL;
    m->order.cuda = borrows;
    m->keep = keep;
    nc_lock_init(&m->lock, NC_LOCK_DEVICE, NULL, NULL);
    return m;
}

void nc_cuda_memory_destroy(nc_cuda_memory *m) {
    if (m == NULL) return;
    mark_late(m);
    for (size_t i = 0; i < m->live.n; i++) release_block(m, m->live.v[i].data);
    shrink(m, 0, true); /* slabs have no part in use any more */
    nc_blocks_release(&m->live);
    nc_cuda_order_release(&m->order);
    nc_lock_release(&m->lock);
    nc_free(m);
}

nc_code nc_cuda_memory_alloc(nc_cuda_memory *m, const nc_stream *s, size_t bytes, CUdeviceptr *out, nc_diag *diag) {
    size_t asked = bytes ? bytes : 1, room = m->keep > 0 ? room_for(asked) : asked;
    nc_lock_take(&m->lock);
    mark_late(m);
    block *b = find_free(m, s != NULL ? s->id : 0, room);
    nc_lock_give(&m->lock);
    if (b == NULL) NC_TRY(new_block(m, room, &b, diag));
    b->asked = bytes;
    b->lent = false;
    nc_lock_take(&m->lock);
    bool ok = nc_blocks_add(&m->live, (nc_block){(uintptr_t)b->start, bytes, b});
    if (ok)
        *out = b->start;
    else
        release_block(m, b);
    nc_lock_give(&m->lock);
    return ok ? NC_OK : no_memory(diag);
}

bool nc_cuda_memory_free(nc_cuda_memory *m, const nc_stream *s, CUdeviceptr p, size_t *bytes) {
    nc_block found;
    nc_lock_take(&m->lock);
    bool known = nc_blocks_remove(&m->live, (void *)(uintptr_t)p, &found);
    if (known) {
        block *b = found.data;
        *bytes = b->asked;
        b->unmarked = !nc_cuda_turn_try_wait();
        b->freed_on = s != NULL ? s->id : 0;
        if (!b->unmarked) {
            mark(m, s, b);
            nc_cuda_turn_wait_end();
        }
        keep_block(m, b);
        if (m->kept > m->keep) shrink(m, m->keep, m->keep == 0);
    }
    nc_lock_give(&m->lock);
    return known;
}

void nc_cuda_memory_lend(nc_cuda_memory *m, CUdeviceptr p) {
    nc_lock_take(&m->lock);
    const nc_block *found = nc_blocks_find(&m->live, (void *)(uintptr_t)p);
    if (found != NULL) ((block *)found->data)->lent = true;
    nc_lock_give(&m->lock);
}

void nc_cuda_memory_trim(nc_cuda_memory *m) {
    nc_lock_take(&m->lock);
    mark_late(m);
    shrink(m, 0, true);
    nc_lock_give(&m->lock);
}

size_t nc_cuda_memory_kept(nc_cuda_memory *m) {
    nc_lock_take(&m->lock);
    size_t kept = m->kept;
    nc_lock_give(&m->lock);
    return kept;
}

void nc_cuda_memory_add_stream(nc_cuda_memory *m, nc_stream *s) {
    nc_lock_take(&m->lock);
    nc_cuda_order_add(&m->order, s);
    nc_lock_give(&m->lock);
}

void nc_cuda_memory_remove_stream(nc_cuda_memory *m, nc_stream *s) {
    nc_lock_take(&m->lock);
    nc_cuda_order_remove(&m->order, s);
    nc_lock_give(&m->lock);
}
