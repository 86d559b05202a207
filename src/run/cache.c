/* run/cache.c: instances by capacity. The first two values of a symbol are served exactly; from the third on it counts
 * as one that varies, and capacities are rounded up to powers of two (at least 16): token-by-token decoding makes a
 * dozen instances, not thousands. Sizes that do not grow with their symbols and would not fit get an instance of their
 * own. Bounded in bytes: the instance unused longest goes first. One thread makes an instance while others that want it
 * wait. */
#include "run/session.h"

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
    return cap < v ? v : cap;
}

static nc_cached *find(nc_session *s, const nc_program *p, int seg, const int64_t *caps) {
    for (nc_cached *c = s->cache; c; c = c->next)
        if (c->program == p && c->seg == seg && memcmp(c->caps, caps, (size_t)p->n_syms * sizeof *caps) == 0) return c;
    return NULL;
}

static void drop(nc_session *s, nc_cached **at) {
    nc_cached *c = *at;
    *at = c->next;
    s->bytes_cache -= c->instance->bytes_self;
    nc_free(c->instance);
    nc_free(c->caps);
    nc_free(c);
}

static void shrink(nc_session *s) {
    while (s->bytes_cache > BYTES_MAX) {
        nc_cached **oldest = NULL;
        for (nc_cached **at = &s->cache; *at; at = &(*at)->next)
            if (!(*at)->users && (!oldest || (*at)->used_at < (*oldest)->used_at)) oldest = at;
        if (!oldest) return;
        drop(s, oldest);
    }
}

static nc_code make(nc_work *w, nc_session *s, const nc_program *p, int seg, const int64_t *caps, const bool *known,
                    nc_cached **out) {
    nc_instance *x;
    NC_TRY(nc_instance_create(w, p, seg, caps, known, &x));
    nc_cached *c = nc_alloc_zero(1, sizeof *c);
    int64_t *keep = nc_alloc(((size_t)p->n_syms + 1) * sizeof *keep);
    if (!c || !keep) {
        nc_free(c);
        nc_free(keep);
        nc_free(x);
        NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    memcpy(keep, caps, ((size_t)p->n_syms + 1) * sizeof *keep);
    *c = (nc_cached){.program = p, .seg = seg, .caps = keep, .instance = x, .next = s->cache};
    s->cache = c;
    s->bytes_cache += x->bytes_self;
    s->stats.instances++;
    shrink(s);
    *out = c;
    return NC_OK;
}

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

static nc_code get(nc_work *w, nc_session *s, const nc_program *p, int seg, const int64_t *values, const bool *known,
                   nc_cached **out) {
    int64_t *caps = nc_arena_array(&w->scratch, (size_t)p->n_syms + 1, sizeof *caps);
    NC_NEED(w, caps);
    NC_TRY(see(w, s, p->n_syms));
    for (int i = 0; i < p->n_syms; i++)
        caps[i] = p->segs[seg].syms[i] && known[i] ? capacity(&s->seen[i], values[i]) : 0;
    if (!fits(&p->segs[seg], caps, values, known))
        for (int i = 0; i < p->n_syms; i++)
            if (p->segs[seg].syms[i] && known[i]) caps[i] = values[i];
    nc_cached *c = find(s, p, seg, caps);
    if (c) c->users++; /* so that shrink leaves it */
    if (!c) {
        NC_TRY(make(w, s, p, seg, caps, known, &c));
        c->users++;
    }
    c->used_at = ++s->clock;
    *out = c;
    return NC_OK;
}

nc_code nc_cache_get(nc_work *w, nc_session *s, const nc_program *p, int seg, const int64_t *values, const bool *known,
                     nc_cached **out) {
    nc_lock_take(&s->lock);
    nc_code code = get(w, s, p, seg, values, known, out);
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
    for (nc_cached **at = &s->cache; *at;) {
        if ((*at)->users)
            at = &(*at)->next;
        else
            drop(s, at);
    }
    nc_lock_give(&s->lock);
}

static void forget(nc_session *s, const nc_program *p) {
    for (nc_cached **at = &s->cache; *at;) {
        if ((*at)->program == p)
            drop(s, at);
        else
            at = &(*at)->next;
    }
    for (int i = 0; i < p->n_instrs; i++)
        for (int k = 0; p->instrs[i].subs && k < p->instrs[i].node->n_subs; k++) forget(s, p->instrs[i].subs[k]);
}

void nc_cache_forget(nc_session *s, const nc_program *p) {
    nc_lock_take(&s->lock);
    forget(s, p);
    nc_lock_give(&s->lock);
}

void nc_cache_clear(nc_session *s) {
    while (s->cache) drop(s, &s->cache);
}
