/* kernels/cpu/quant/nbits_pack.c: weights of few bits as panels, see nbits_kernel.h. A panel has the words of its rows
 * side by side, then come those of the next words; scales and zero points, which are bytes or numbers here, lie the
 * same way in blocks of their own. Rows behind the last have zeros. */
#include "kernels/cpu/quant/nbits_panels.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"

#include <string.h>

static int64_t lanes_of(void) { return nck_isa_get()->nbits->lanes; }
static int64_t panels_of(const nck_nbits *w) { return nc_ceil_div(w->N, lanes_of()); }
int64_t nck_nbits_blocks(const nck_nbits *w) { return nc_ceil_div(w->K, w->block); }
static int64_t row_bytes(const nck_nbits *w) { return nck_nbits_blocks(w) * (w->block * w->bits / 8); }
static int64_t zero_bytes(const nck_nbits *w) { return nc_ceil_div(nck_nbits_blocks(w) * w->bits, 8); }

nck_nbits_each nck_nbits_each_of(const nck_nbits *w) {
    nck_nbits_each e = {.lanes = lanes_of(), .blocks = nck_nbits_blocks(w)};
    e.codes = (size_t)(row_bytes(w) * e.lanes);
    e.zeros = (size_t)(e.blocks * e.lanes);
    e.scales = e.zeros * sizeof(float);
    return e;
}

size_t nck_nbits_codes_bytes(const nck_nbits *w) { return (size_t)panels_of(w) * nck_nbits_each_of(w).codes; }
size_t nck_nbits_scales_bytes(const nck_nbits *w) { return (size_t)panels_of(w) * nck_nbits_each_of(w).scales; }
size_t nck_nbits_zeros_bytes(const nck_nbits *w) { return (size_t)panels_of(w) * nck_nbits_each_of(w).zeros; }

/* Rows of n words, `bytes` apart in src, as a panel. */
static void pack_words(int64_t rows, int64_t n, const char *src, int64_t bytes, char *dst) {
    int64_t lanes = lanes_of();
    if (rows < lanes) memset(dst, 0, (size_t)(n * lanes) * 4);
    for (int64_t i = 0; i < n; i++, src += 4, dst += lanes * 4)
        for (int64_t l = 0; l < rows; l++) memcpy(dst + l * 4, src + l * bytes, 4);
}

static int64_t rows_of(const nck_nbits *w, int64_t panel) { return nc_min64(lanes_of(), w->N - panel * lanes_of()); }

static void panel_codes(const nck_nbits *w, int64_t i, const void *codes, void *dst) {
    int64_t bytes = row_bytes(w);
    pack_words(rows_of(w, i), bytes / 4, (const char *)codes + i * lanes_of() * bytes, bytes, dst);
}

static void panel_scales(const nck_nbits *w, int64_t i, const void *scales, void *dst) {
    int64_t n = nck_nbits_blocks(w);
    pack_words(rows_of(w, i), n, (const char *)scales + i * lanes_of() * n * 4, n * 4, dst);
}

static void panel_zeros(const nck_nbits *w, int64_t i, const uint8_t *zeros, uint8_t *dst) {
    int64_t lanes = lanes_of(), bytes = zero_bytes(w), rows = rows_of(w, i);
    zeros += i * lanes * bytes;
    for (int64_t b = 0; b < nck_nbits_blocks(w); b++, dst += lanes)
        for (int64_t l = 0; l < lanes; l++) {
            int64_t bit = b * w->bits;
            dst[l] = (uint8_t)(l < rows ? zeros[l * bytes + bit / 8] >> bit % 8 & ((1 << w->bits) - 1) : 0);
        }
}

void nck_nbits_pack_codes(const nck_nbits *w, const void *codes, void *dst) {
    size_t each = nck_nbits_each_of(w).codes;
    for (int64_t i = 0; i < panels_of(w); i++) panel_codes(w, i, codes, (char *)dst + (size_t)i * each);
}

void nck_nbits_pack_scales(const nck_nbits *w, const void *scales, void *dst) {
    size_t each = nck_nbits_each_of(w).scales;
    for (int64_t i = 0; i < panels_of(w); i++) panel_scales(w, i, scales, (char *)dst + (size_t)i * each);
}

void nck_nbits_pack_zeros(const nck_nbits *w, const void *zeros, void *dst) {
    size_t each = nck_nbits_each_of(w).zeros;
    for (int64_t i = 0; i < panels_of(w); i++) panel_zeros(w, i, zeros, (uint8_t *)dst + (size_t)i * each);
}

size_t nck_nbits_panel_bytes(const nck_nbits *w) {
    nck_nbits_each e = nck_nbits_each_of(w);
    return w->packed ? 0 : nc_align64(e.codes) + 2 * nc_align64(e.scales);
}

static const void *part(const void *all, int64_t i, size_t each) {
    return all != NULL ? (const char *)all + (size_t)i * each : NULL;
}

nck_nbits_panel nck_nbits_panel_at(const nck_nbits *w, const nck_nbits_each *e, int64_t i, char *room) {
    nck_nbits_panel p = {.blocks = e->blocks, .block = w->block, .bits = w->bits};
    if (w->packed) {
        p.codes = part(w->codes, i, e->codes), p.scale = part(w->scales, i, e->scales);
        p.zero = part(w->zeros, i, e->zeros), p.float_zero = part(w->float_zeros, i, e->scales);
        return p;
    }
    char *scales = room + nc_align64(e->codes), *zeros = scales + nc_align64(e->scales);
    panel_codes(w, i, w->codes, room);
    panel_scales(w, i, w->scales, scales);
    p.codes = (const uint8_t *)room, p.scale = (const float *)scales;
    if (w->float_zeros != NULL) {
        panel_scales(w, i, w->float_zeros, zeros);
        p.float_zero = (const float *)zeros;
    } else if (w->zeros != NULL) {
        panel_zeros(w, i, w->zeros, (uint8_t *)zeros);
        p.zero = (const uint8_t *)zeros;
    }
    return p;
}
