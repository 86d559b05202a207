/* cuda/topk.c: launchers of topk.cu, see topk.h. */
#include "kernels/cuda/topk.h"

#include "base/intmath.h"

/* Of short lines: picked one by one; sorted at once. Of long ones: elements of a tile, words sorted at once. */
enum { THREADS = 256, FEW = 64, MAX_LINES = 256, SHORT = 2048 };
enum { TILE = 4096, DIGIT = 8, DIGITS = 256, HALF = 32, MAX_WORDS = 1 << 25 };

/* Mirror those of topk.cu. */
typedef struct topk_args {
    int64_t outer, axis, inner, k, n_sorted;
    int largest, unused;
    int64_t first, lines;
} topk_args;
typedef struct topk_line {
    uint64_t key;
    uint32_t need, before, digits[DIGITS];
} topk_line;

nc_code nck_cuda_topk_prepare(nc_device *d, nc_dtype t, nck_cuda_topk *out, nc_diag *diag) {
    const struct {
        const char *name;
        nc_function **to;
    } all[] = {{"topk_pick", &out->pick},   {"topk_sort", &out->sort},     {"topk_begin", &out->begin},
               {"topk_count", &out->count}, {"topk_choose", &out->choose}, {"topk_tally", &out->tally},
               {"topk_add", &out->add},     {"topk_gather", &out->gather}, {"topk_words", &out->words},
               {"topk_put", &out->put}};
    if (nck_cuda_type_name(t) == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s is not sorted on a GPU", nc_dtype_name(t));
    out->bits = 8 * (int)nc_dtype_bytes(t);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_topk, t, NULL, all[i].name, all[i].to, diag));
    return nck_cuda_sort_prepare(d, &out->by_digits, diag);
}

static int64_t power_of_two(int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

/* ---- long lines ---- */

static bool is_gathered(int64_t axis, int64_t k) { return k <= axis / 2; }
static int64_t n_tiles(int64_t axis) { return nc_ceil_div(axis, TILE); }

/* Where a launch over some lines has what: words, lines, counts, chosen places. All grow with lines, axis and k. */
typedef struct rooms {
    size_t lines, counts, chosen, end;
} rooms;
static rooms rooms_of(int64_t lines, int64_t axis, int64_t k) {
    rooms r = {.lines = nck_cuda_sort_workspace(lines * nc_min64(axis, 2 * k))};
    if (r.lines == SIZE_MAX) return (rooms){.end = SIZE_MAX};
    r.lines = nc_align64(r.lines);
    r.counts = r.lines + (size_t)lines * sizeof(topk_line);
    r.chosen = r.counts + (size_t)(lines * n_tiles(axis) * 2) * sizeof(uint32_t);
    r.end = r.chosen + (size_t)(lines * k) * sizeof(uint32_t);
    return r;
}

/* Lines that are worked on together. */
static int64_t n_together(int64_t lines, int64_t axis) {
    int64_t room = MAX_WORDS / (axis > 0 ? axis : 1);
    return nc_min64(lines, room > 0 ? room : 1);
}

/* Booked whatever k is: a smaller one may be sorted where a larger one, of a longer axis, is picked. Each part is at
 * least that of rooms_of for the lines that are worked on together, and grows with lines, axis and k. */
size_t nck_cuda_topk_workspace(int64_t lines, int64_t axis, int64_t k) {
    size_t few = (size_t)nc_min64(lines, MAX_LINES) * (size_t)power_of_two(nc_min64(axis, SHORT)) * sizeof(int64_t);
    int64_t total = nc_min64(lines * axis, axis > MAX_WORDS ? axis : MAX_WORDS);
    size_t words = nck_cuda_sort_workspace(nc_min64(total, 2 * lines * k));
    if (axis <= SHORT) return few;
    if (words == SIZE_MAX) return SIZE_MAX;
    return nc_max_size(few, nc_align64(words)) +
           (size_t)nc_min64(lines, MAX_WORDS / SHORT) * (sizeof(topk_line) + 2 * sizeof(uint32_t)) +
           (size_t)(2 * (total / TILE + 1) + nc_min64(total, lines * k)) * sizeof(uint32_t);
}

/* The places of the first k of each line, in no order of values yet. */
static nc_code gather(const nck_cuda_topk *k, nck_cuda_at at, topk_args *p, const void *x, char *room) {
    rooms r = rooms_of(p->lines, p->axis, p->k);
    int64_t tiles = n_tiles(p->axis);
    void *of = room + r.lines, *counts = room + r.counts, *chosen = room + r.chosen;
    int shift = k->bits - DIGIT;
    uint32_t over = nck_cuda_blocks(at.device, p->lines * tiles, 1), each = nck_cuda_blocks(at.device, p->lines, 1);
    void *begin[] = {p, &of}, *count[] = {p, &tiles, &shift, &x, &of}, *choose[] = {p, &shift, &of};
    void *tally[] = {p, &tiles, &x, &of, &counts}, *add[] = {p, &tiles, &counts};
    void *take[] = {p, &tiles, &x, &of, &counts, &chosen};
    NC_TRY(nck_cuda_launch(at, k->begin, nck_cuda_blocks(at.device, p->lines * DIGITS, THREADS), THREADS, begin));
    for (; shift >= 0; shift -= DIGIT) {
        NC_TRY(nck_cuda_launch(at, k->count, over, THREADS, count));
        NC_TRY(nck_cuda_launch(at, k->choose, each, THREADS, choose));
    }
    NC_TRY(nck_cuda_launch(at, k->tally, over, THREADS, tally));
    NC_TRY(nck_cuda_launch(at, k->add, nck_cuda_blocks(at.device, 2 * p->lines, 1), THREADS, add));
    return nck_cuda_launch(at, k->gather, over, THREADS, take);
}

/* One sort of the words, by `bits` of the key from `shift` on or, with shift < 0, of the line. */
static nc_code sort_words(const nck_cuda_topk *k, nck_cuda_at at, topk_args *p, int64_t each, int shift, int bits,
                          const void *x, void *chosen, void *room, uint64_t **words) {
    uint64_t *to = room;
    int64_t n = p->lines * each;
    void *args[] = {p, &each, &shift, &x, &chosen, words, &to};
    NC_TRY(nck_cuda_launch(at, k->words, nck_cuda_blocks(at.device, n, THREADS), THREADS, args));
    return nck_cuda_sort_run(&k->by_digits, at, n, HALF, HALF + bits, room, words);
}

static nc_code run_long(const nck_cuda_topk *k, nck_cuda_at at, topk_args p, const nck_topk *t, char *room) {
    int64_t each = is_gathered(p.axis, p.k) ? p.k : p.axis;
    const void *x = t->x;
    void *values = t->values, *indices = t->indices, *chosen = NULL;
    uint64_t *words = NULL;
    if (each < p.axis) {
        NC_TRY(gather(k, at, &p, x, room));
        chosen = room + rooms_of(p.lines, p.axis, p.k).chosen;
    }
    for (int shift = 0; shift < k->bits; shift += HALF)
        NC_TRY(sort_words(k, at, &p, each, shift, k->bits < HALF ? k->bits : HALF, x, chosen, room, &words));
    if (p.lines > 1) NC_TRY(sort_words(k, at, &p, each, -1, nck_cuda_sort_bits(p.lines), x, chosen, room, &words));
    void *put[] = {&p, &each, &x, &chosen, &words, &values, &indices};
    return nck_cuda_launch(at, k->put, nck_cuda_blocks(at.device, p.lines * p.k, THREADS), THREADS, put);
}

nc_code nck_cuda_topk_run(const nck_cuda_topk *k, nck_cuda_at at, const nck_topk *t, void *workspace) {
    topk_args p = {t->outer, t->axis, t->inner, t->k, power_of_two(nc_min64(t->axis, SHORT)), t->largest, 0, 0, 0};
    int64_t lines = t->outer * t->inner, together = n_together(lines, t->axis);
    const void *x = t->x;
    void *values = t->values, *indices = t->indices, *args[] = {&p, &x, &values, &indices, &workspace};
    if (lines == 0 || t->k == 0) return NC_OK;
    if (t->axis > SHORT && rooms_of(together, t->axis, t->k).end == SIZE_MAX)
        return nc_diag_set(at.diag, NC_E_LIMIT, NULL, NULL, "lines of %lld elements are too long to sort",
                           (long long)t->axis);
    for (; t->axis > SHORT && p.first < lines; p.first += together) {
        p.lines = nc_min64(together, lines - p.first);
        NC_TRY(run_long(k, at, p, t, workspace));
    }
    if (t->axis > SHORT) return NC_OK;
    if (t->k <= FEW) return nck_cuda_launch(at, k->pick, nck_cuda_blocks(at.device, lines, 1), THREADS, args);
    return nck_cuda_launch(at, k->sort, (uint32_t)nc_min64(lines, MAX_LINES), THREADS, args);
}
