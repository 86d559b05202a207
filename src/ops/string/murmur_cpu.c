/* ops/string/murmur_cpu.c: MurmurHash3_x86_32, Austin Appleby's public-domain algorithm, over the bytes of each
 * element. */
#include "ops/string/string_cpu.h"

#include <string.h>

typedef struct murmur {
    uint32_t seed;
    nc_dtype to;
} murmur;

static uint32_t rotated(uint32_t x, int by) { return x << by | x >> (32 - by); }
static uint32_t scrambled(uint32_t k) { return rotated(k * 0xcc9e2d51u, 15) * 0x1b873593u; }

static uint32_t hash(const uint8_t *p, size_t n, uint32_t h) {
    size_t i = 0;
    uint32_t k, rest = 0;
    for (; i + 4 <= n; i += 4) {
        memcpy(&k, p + i, 4); /* little-endian, as every machine this runs on */
        h = rotated(h ^ scrambled(k), 13) * 5 + 0xe6546b64u;
    }
    for (size_t j = n; j > i; j--) rest = rest << 8 | p[j - 1];
    if (n > i) h ^= scrambled(rest);
    h ^= (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

nc_code nc_murmur_prepare(nc_prep *p) {
    murmur *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (murmur){(uint32_t)nc_attr_int(p->node, "seed"), nc_attr_int(p->node, "positive") ? NC_UINT32 : NC_INT32};
    p->state = s;
    return NC_OK;
}

nc_code nc_murmur(nc_dyn *d) {
    const murmur *s = d->call->state;
    const nc_tensor *x = nc_strings_of(d, 0);
    nc_object *y = nc_object_host_tensor(s->to, x->rank, x->dims);
    if (y == NULL) return nc_strings_no_memory(d);
    d->out[0] = y;
    size_t bytes = x->dtype == NC_STRING ? 0 : nc_dtype_bytes(x->dtype);
    uint32_t *to = y->t.data;
    for (int64_t i = 0, n = nc_tensor_numel(x); i < n; i++) {
        const nc_str *text = (const nc_str *)x->data + (bytes ? 0 : i);
        to[i] = bytes ? hash((const uint8_t *)x->data + (size_t)i * bytes, bytes, s->seed)
                      : hash((const uint8_t *)text->p, text->n, s->seed);
    }
    return NC_OK;
}
