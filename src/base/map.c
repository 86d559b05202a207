/* base/map.c: open addressing with linear probing in a power-of-two table, at most three quarters full.
 * There is no removal, so a probe ends at the first empty slot. Outgrown tables stay in the arena until it is reset. */
#include "base/map.h"

#include "base/steps.h"

#include <string.h>

#define FIRST_CAP 16
#define K1 UINT64_C(0x9E3779B97F4A7C15) /* odd constants without structure: fractions of the golden ratio, e and pi */
#define K2 UINT64_C(0xB7E151628AED2A6B)
#define K3 UINT64_C(0x243F6A8885A308D3)

void nc_map_init(nc_map *m, nc_arena *arena) { *m = (nc_map){.arena = arena}; }

/* The slot that holds the key, or the empty one where it belongs. The table is never full. */
static nc_map_slot *find_slot(nc_map_slot *slots, size_t cap, const void *key, size_t n, uint64_t hash) {
    for (size_t i = (size_t)hash & (cap - 1);; i = (i + 1) & (cap - 1)) {
        nc_map_slot *s = &slots[i];
        nc_steps_add(1);
        if (s->key == NULL) return s;
        if (s->hash == hash && s->key_bytes == n && memcmp(s->key, key, n) == 0) return s;
    }
}

static bool grow(nc_map *m) {
    size_t cap = m->cap ? m->cap * 2 : FIRST_CAP;
    nc_map_slot *slots = nc_arena_array(m->arena, cap, sizeof *slots);
    if (slots == NULL) return false;
    for (size_t i = 0; i < m->cap; i++) {
        const nc_map_slot *old = &m->slots[i];
        if (old->key) *find_slot(slots, cap, old->key, old->key_bytes, old->hash) = *old;
    }
    m->slots = slots;
    m->cap = cap;
    return true;
}

void *nc_map_get(const nc_map *m, const char *key) { return nc_map_get_bytes(m, key, strlen(key)); }

void *nc_map_get_bytes(const nc_map *m, const void *key, size_t n) {
    if (m->n == 0) return NULL;
    if (n == 0) key = "";
    return find_slot(m->slots, m->cap, key, n, nc_hash(key, n, 0))->value;
}

bool nc_map_put(nc_map *m, const char *key, void *value) { return nc_map_put_bytes(m, key, strlen(key), value); }

bool nc_map_put_bytes(nc_map *m, const void *key, size_t n, void *value) {
    if (m->n >= m->cap / 4 * 3 && !grow(m)) return false;
    if (n == 0) key = "";
    uint64_t hash = nc_hash(key, n, 0);
    nc_map_slot *s = find_slot(m->slots, m->cap, key, n, hash);
    if (s->key == NULL) {
        *s = (nc_map_slot){.key = key, .key_bytes = n, .hash = hash};
        m->n++;
    }
    s->value = value;
    return true;
}

static uint64_t load64(const unsigned char *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

/* For a fixed word a bijection of the state, for a fixed state one of the word: a single change never cancels. */
static uint64_t absorb(uint64_t state, uint64_t word) { return rotate(state + word * K2, 29) * K1; }

static uint64_t finish(uint64_t h) {
    h = (h ^ h >> 32) * K2;
    h = (h ^ h >> 29) * K1;
    return h ^ h >> 32;
}

uint64_t nc_hash(const void *data, size_t bytes, uint64_t seed) {
    const unsigned char *p = data;
    size_t left = bytes;
    uint64_t h = seed ^ (uint64_t)bytes * K3;
    if (left >= 32) { /* four independent chains hide the latency of the multiplications */
        uint64_t a = h, b = h + K1, c = h + K2, d = h + K3;
        for (; left >= 32; left -= 32, p += 32) {
            a = absorb(a, load64(p));
            b = absorb(b, load64(p + 8));
            c = absorb(c, load64(p + 16));
            d = absorb(d, load64(p + 24));
        }
        h = absorb(absorb(absorb(finish(a), b), c), d);
    }
    for (; left >= 8; left -= 8, p += 8) h = absorb(h, load64(p));
    uint64_t tail = 0;
    if (left > 0) memcpy(&tail, p, left);
    return finish(absorb(h, tail));
}
