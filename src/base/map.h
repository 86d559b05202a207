/* base/map.h: a hash map from byte strings to pointers, in an arena. Keys are borrowed: they must live as long. */
#ifndef NC_BASE_MAP_H
#define NC_BASE_MAP_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct nc_map_slot {
    const char *key;
    size_t key_bytes;
    uint64_t hash;
    void *value;
} nc_map_slot;

typedef struct nc_map {
    nc_arena *arena; /* borrowed */
    nc_map_slot *slots;
    size_t n, cap;
} nc_map;

void nc_map_init(nc_map *m, nc_arena *arena);
void *nc_map_get(const nc_map *m, const char *key); /* NULL when absent */
void *nc_map_get_bytes(const nc_map *m, const void *key, size_t n);
bool nc_map_put(nc_map *m, const char *key, void *value); /* replaces; false: out of memory */
bool nc_map_put_bytes(nc_map *m, const void *key, size_t n, void *value);
uint64_t nc_hash(const void *p, size_t bytes, uint64_t seed); /* fast, not cryptographic; for large data too */

#endif
