/* run/cache.c: instances by capacity. The first two values of a symbol are served exactly; from the third on it counts
 * as one that varies, and capacities are rounded up to powers of two (at least 16): token-by-token decoding makes a
 * dozen instances, not thousands. Sizes that do not grow with their symbols and would not fit get an instance of their
 * own.
 *
 * Every segment has the list of its own instances; a second list over all of them, used last first, bounds the bytes.
 * An instance is made without the session's lock: its entry stands in the list meanwhile, and others that want it wait
 * for it. */
#include "run/session.h"

#include "base/intmath.h"
#include "base/mem.h"

#include <string.h>

enum { BYTES_MAX = 64 << 20 };

static int64_t capacity(nc_sym_seen *seen, int64_t v) {
    for (int i = 0; i < seen->n; i++)
        if (seen->v[i] == v) return v;
    if (seen->n < 2) {
        seen->v[seen->n++] = v;
        return v;
    }
    int64_t cap = 16;
    while (cap < v && cap <= INT64_MAX / 2) cap *= 2;
    return nc_max64(cap, v);
}

/* ---- the two lists; s->lock is held ---- */

static nc_cached *find(nc_cached *c, const nc_segment *g, const int64_t *caps) {
    size_t bytes = (size_t)g->n_syms * sizeof *caps;
    while (c && bytes && memcmp(c->caps, caps, bytes) != 0) c = c->next;
    return c;
}

static void unlink_use(nc_session *s, nc_cached *c) {
    *(c->newer ? &c->newer->older : &s->newest) = c->older;
    *(c->older ? &c->older->newer : &s->oldest) = c->newer;
    c->newer = c->older = NULL;
}

static void link_use(nc_session *s, nc_cached *c) {
    c->older = s->newest;
    if (s->newest) s->newest->newer = c;
    s->newest = c;
    if (!s->oldest) s->oldest = c;
}

static void drop(nc_session *s, nc_cached *c) {
    nc_cached **at = &c->of->cached[c->seg];
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    unlink_use(s, c);
    if (c->instance) s->bytes_cache -= c->instance->bytes_self;
    nc_free(c->instance);
    nc_free(c);
}

static void drop_unused(nc_session *s, size_t bytes_max) {
    for (nc_cached *c = s->oldest, *newer; c && s->bytes_cache > bytes_max; c = newer) {
        newer = c->newer;
        if (!c->users) drop(s, c);
    }
}

/* ---- capacities ---- */

/* Programs that are planned later have more symbols. */
static nc_code see(nc_work *w, nc_session *s, int n) {
    if (n <= s->n_seen) return NC_OK;
    nc_sym_seen *all = nc_alloc_zero((size_t)n, sizeof *all);
    NC_NEED(w, all);
    if (s->n_seen) memcpy(all, s->seen, (size_t)s->n_seen * sizeof *all);
    nc_free(s->seen);
    s->seen = all, s->n_seen = n;
    return NC_OK;
}

/* Sizes such as n-m may be smaller at the capacities than they are; what does not fit is served exactly. */
static bool fits(const nc_segment *g, const int64_t *caps, const int64_t *values, const bool *known) {
    int64_t room, size;
    for (int i = 0; i < g->shrinking.n; i++)
        if (nc_dim_eval(g->shrinking.v[i], values, known, &size) &&
            (!nc_dim_eval(g->shrinking.v[i], caps, known, &room) || room < size))
            return false;
    return true;
}

/* by_sym: per symbol of the program, as evaluation needs them; key: those of the segment. */
static nc_code capacities(nc_work *w, nc_session *s, const nc_program *p, int seg, const int64_t *values,
                          const bool *known, int64_t *by_sym, int64_t *key) {
    const nc_segment *g = &p->segs[seg];
    NC_TRY(see(w, s, p->n_syms));
    for (int i = 0; i < g->n_syms; i++) {
        int sym = g->syms[i];
        by_sym[sym] = known[sym] ? capacity(&s->seen[sym], values[sym]) : 0;
    }
    if (!fits(g, by_sym, values, known))
        for (int i = 0; i < g->n_syms; i++) by_sym[g->syms[i]] = known[g->syms[i]] ? values[g->syms[i]] : 0;
    for (int i = 0; i < g->n_syms; i++) key[i] = by_sym[g->syms[i]];
    return NC_OK;
}

/* ---- making one ---- */

static nc_cached *new_entry(nc_session *s, nc_prepared *r, int seg, const int64_t *key) {
    const nc_segment *g = &r->program->segs[seg];
    nc_cached *c = nc_alloc_zero(1, sizeof *c + (size_t)g->n_syms * sizeof *key);
    if (!c) return NULL;
    c->caps = (int64_t *)(c + 1);
    if (g->n_syms) memcpy(c->caps, key, (size_t)g->n_syms * sizeof *key);
    c->of = r, c->seg = seg, c->next = r->cached[seg];
    r->cached[seg] = c;
    link_use(s, c);
    return c;
}

/* The lock is let go meanwhile. */
static nc_code make(nc_work *w, nc_session *s, nc_cached *c, const nc_program *p, int seg, const int64_t *by_sym,
                    const bool *known) {
    nc_instance *x = NULL;
    nc_lock_give(&s->lock);
    nc_code code = nc_instance_create(w, p, seg, by_sym, known, &x);
    nc_lock_take(&s->lock);
    c->instance = x, c->failed = code != NC_OK;
    pthread_cond_broadcast(&s->made);
    if (code != NC_OK) {
        if (!--c->users) drop(s, c);
        return code;
    }
    s->bytes_cache += x->bytes_self;
    s->stats.instances++;
    drop_unused(s, BYTES_MAX);
    return NC_OK;
}

static nc_code get(nc_work *w, nc_session *s, nc_prepared *r, int seg, const int64_t *values, const bool *known,
                   nc_cached **out) {
    const nc_program *p = r->program;
    const nc_segment *g = &p->segs[seg];
    int64_t *by_sym = nc_arena_array(&w->scratch, (size_t)p->n_syms + 1, sizeof *by_sym);
    int64_t *key = nc_arena_array(&w->scratch, (size_t)g->n_syms + 1, sizeof *key);
    NC_NEED(w, by_sym);
    NC_NEED(w, key);
    NC_TRY(capacities(w, s, p, seg, values, known, by_sym, key));
    nc_cached *c = find(r->cached[seg], g, key);
    if (c && c->failed && !c->users) {
        drop(s, c);
        c = NULL;
    }
    if (!c) {
        NC_NEED(w, c = new_entry(s, r, seg, key));
        c->users++; /* so that nobody drops it */
        NC_TRY(make(w, s, c, p, seg, by_sym, known));
    } else {
        c->users++;
        while (!c->instance && !c->failed) nc_lock_wait(&s->lock, &s->made);
        if (c->failed) {
            if (!--c->users) drop(s, c);
            NC_FAIL(w, NC_E_MEMORY, "another run failed to plan these sizes");
        }
    }
    unlink_use(s, c);
    link_use(s, c);
    *out = c;
    return NC_OK;
}

nc_code nc_cache_get(nc_work *w, nc_session *s, nc_prepared *r, int seg, const int64_t *values, const bool *known,
                     nc_cached **out) {
    nc_lock_take(&s->lock);
    nc_code code = get(w, s, r, seg, values, known, out);
    nc_lock_give(&s->lock);
    return code;
}

void nc_cache_release(nc_session *s, nc_cached *c) {
    if (!c) return;
    nc_lock_take(&s->lock);
    c->users--;
    nc_lock_give(&s->lock);
}

void nc_cache_trim(nc_session *s) {
    nc_lock_take(&s->lock);
    for (nc_cached *c = s->oldest, *newer; c; c = newer) {
        newer = c->newer;
        if (!c->users) drop(s, c);
    }
    nc_lock_give(&s->lock);
}

void nc_cache_forget(nc_session *s, nc_prepared *r) {
    if (!s || !r->cached) return;
    nc_lock_take(&s->lock);
    for (int i = 0; i < r->program->n_segs; i++)
        while (r->cached[i]) drop(s, r->cached[i]);
    nc_lock_give(&s->lock);
}
