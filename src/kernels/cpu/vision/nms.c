/* kernels/cpu/vision/nms.c: non-maximum suppression, see sample.h. Boxes whose score passes stand in a heap, so that no
 * more of them are put in order than are looked at; those that stay are kept ready for the next ones. */
#include "kernels/cpu/vision/sample.h"

typedef struct box {
    float lo[2], hi[2], area;
} box;

typedef struct candidate {
    int64_t i;
    float score;
} candidate;

size_t nck_nms_workspace(int64_t n) { return (size_t)n * (sizeof(candidate) + sizeof(box)); }

static float least(float a, float b) { return b < a ? b : a; }
static float most(float a, float b) { return b > a ? b : a; }

static box box_at(const nck_nms *s, int64_t i) {
    const float *b = s->boxes + i * 4;
    box x = {{least(b[0], b[2]), least(b[1], b[3])}, {most(b[0], b[2]), most(b[1], b[3])}, 0};
    if (s->center) x = (box){{b[1] - b[3] / 2, b[0] - b[2] / 2}, {b[1] + b[3] / 2, b[0] + b[2] / 2}, 0};
    x.area = (x.hi[0] - x.lo[0]) * (x.hi[1] - x.lo[1]);
    return x;
}

/* Does one of the n boxes at b overlap a too much? */
static bool is_covered(const box *a, const box *b, int64_t n, float iou) {
    for (; n > 0; n--, b++) {
        float h = least(a->hi[0], b->hi[0]) - most(a->lo[0], b->lo[0]);
        float w = least(a->hi[1], b->hi[1]) - most(a->lo[1], b->lo[1]);
        if (h <= 0 || w <= 0) continue;
        float both = h * w, all = a->area + b->area - both;
        if (all > 0 && both / all > iou) return true;
    }
    return false;
}

/* Of two scores the larger one, NaN counting as the largest; of equal ones the first. */
static bool is_before(const candidate *a, const candidate *b) {
    if (a->score > b->score || a->score < b->score) return a->score > b->score;
    bool nan_a = a->score != a->score, nan_b = b->score != b->score;
    return nan_a == nan_b ? a->i < b->i : nan_a;
}

static void sink(candidate *heap, int64_t n, int64_t at) {
    candidate x = heap[at];
    for (int64_t next; (next = 2 * at + 1) < n; at = next) {
        if (next + 1 < n && is_before(&heap[next + 1], &heap[next])) next++;
        if (!is_before(&heap[next], &x)) break;
        heap[at] = heap[next];
    }
    heap[at] = x;
}

static int64_t fill(const nck_nms *s, candidate *heap) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        heap[n] = (candidate){i, s->scores[i]};
        n += !s->has_threshold || s->scores[i] > s->threshold;
    }
    for (int64_t i = n / 2 - 1; i >= 0; i--) sink(heap, n, i);
    return n;
}

int64_t nck_nms_run(const nck_nms *s, int64_t *kept, void *workspace) {
    candidate *heap = workspace;
    box *boxes = (box *)(void *)(heap + s->n);
    int64_t n = 0;
    for (int64_t left = s->max > 0 ? fill(s, heap) : 0; left > 0 && n < s->max; left--) {
        int64_t i = heap[0].i;
        boxes[n] = box_at(s, i);
        if (!is_covered(&boxes[n], boxes, n, s->iou)) kept[n++] = i;
        heap[0] = heap[left - 1];
        sink(heap, left - 1, 0);
    }
    return n;
}
