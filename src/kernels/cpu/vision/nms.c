/* kernels/cpu/vision/nms.c: non-maximum suppression, see sample.h. */
#include "kernels/cpu/vision/sample.h"

#include "kernels/cpu/index/index.h"

#include <math.h>

typedef struct box {
    float lo[2], hi[2];
} box;

static box box_at(const nck_nms *s, int64_t i) {
    const float *b = s->boxes + i * 4;
    if (s->center) return (box){{b[1] - b[3] / 2, b[0] - b[2] / 2}, {b[1] + b[3] / 2, b[0] + b[2] / 2}};
    return (box){{fminf(b[0], b[2]), fminf(b[1], b[3])}, {fmaxf(b[0], b[2]), fmaxf(b[1], b[3])}};
}

static float area(const box *b) { return (b->hi[0] - b->lo[0]) * (b->hi[1] - b->lo[1]); }

static bool overlaps(const nck_nms *s, int64_t i, int64_t j) {
    box a = box_at(s, i), b = box_at(s, j);
    float h = fminf(a.hi[0], b.hi[0]) - fmaxf(a.lo[0], b.lo[0]);
    float w = fminf(a.hi[1], b.hi[1]) - fmaxf(a.lo[1], b.lo[1]);
    if (h <= 0 || w <= 0) return false;
    float both = h * w, all = area(&a) + area(&b) - both;
    return all > 0 && both / all > s->iou;
}

int64_t nck_nms_run(const nck_nms *s, int64_t *kept, int64_t *workspace) {
    int64_t *order = workspace, n = 0;
    nck_topk sort = {.type = NC_FLOAT,
                     .outer = 1,
                     .axis = s->n,
                     .inner = 1,
                     .k = s->n,
                     .largest = true,
                     .x = s->scores,
                     .indices = order};
    nck_topk_run(&sort, workspace + s->n, NULL);
    for (int64_t i = 0; i < s->n && n < s->max; i++) {
        bool stays = !s->has_threshold || s->scores[order[i]] > s->threshold;
        for (int64_t k = 0; stays && k < n; k++) stays = !overlaps(s, order[i], kept[k]);
        if (stays) kept[n++] = order[i];
    }
    return n;
}
