/* cuda/nms.cu: which boxes remain when those that overlap better ones go. A line is the scores of one class of one
 * image; a block takes its boxes by falling score, and its threads compare each with those kept so far. */

/* Mirrors nck_cuda_nms in nms.h. */
struct nms_args {
    int64_t images, classes, n, most;
    int center, has_threshold;
    float iou, threshold;
};
struct nms_box { float top, left, bottom, right; };

DEVICE nms_box box_at(const nms_args &a, const float *b) {
    if (a.center) return nms_box{b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
    return nms_box{fmin(b[0], b[2]), fmin(b[1], b[3]), fmax(b[0], b[2]), fmax(b[1], b[3])};
}
DEVICE float area(const nms_box &b) { return (b.bottom - b.top) * (b.right - b.left); }
DEVICE bool overlaps(const nms_args &a, const nms_box &x, const nms_box &y) {
    float h = fmin(x.bottom, y.bottom) - fmax(x.top, y.top), w = fmin(x.right, y.right) - fmax(x.left, y.left);
    if (h <= 0 || w <= 0) return false;
    float both = h * w, all = area(x) + area(y) - both;
    return all > 0 && both / all > a.iou;
}

/* order (lines, n): boxes by falling score. kept (lines, most), counts (lines). */
extern "C" __global__ void nms_keep(nms_args a, const float *__restrict__ boxes, const float *__restrict__ scores,
                                    const int64_t *__restrict__ order, int64_t *kept, int64_t *counts) {
    for (int64_t line = blockIdx.x; line < a.images * a.classes; line += gridDim.x) {
        const float *of = boxes + line / a.classes * a.n * 4;
        int64_t *mine = kept + line * a.most, found = 0;
        for (int64_t i = 0; i < a.n && found < a.most; i++) {
            int64_t next = order[line * a.n + i];
            if (a.has_threshold && !(scores[line * a.n + next] > a.threshold)) continue;
            nms_box box = box_at(a, of + next * 4);
            int covered = 0;
            for (int64_t k = threadIdx.x; k < found && !covered; k += blockDim.x)
                covered = overlaps(a, box, box_at(a, of + mine[k] * 4));
            if (__syncthreads_or(covered)) continue;
            if (threadIdx.x == 0) mine[found] = next;
            found++;
            __syncthreads();
        }
        if (threadIdx.x == 0) counts[line] = found;
    }
}

/* y (found, 3) = image, class and box of what is kept, line after line; sizes: its dims. */
extern "C" __global__ void nms_write(nms_args a, const int64_t *__restrict__ kept, const int64_t *__restrict__ counts,
                                     int64_t *y, int64_t *sizes) {
    int64_t lines = a.images * a.classes;
    for (int64_t line = blockIdx.x; line <= lines; line += gridDim.x) {
        int64_t before = 0;
        for (int64_t k = threadIdx.x; k < line; k += blockDim.x) before += counts[k];
        before = join_row<join_sum>(before);
        for (int64_t k = threadIdx.x; line < lines && k < counts[line]; k += blockDim.x) {
            int64_t *row = y + (before + k) * 3;
            row[0] = line / a.classes, row[1] = line % a.classes, row[2] = kept[line * a.most + k];
        }
        if (line == lines && threadIdx.x == 0) sizes[0] = before, sizes[1] = 3;
    }
}
