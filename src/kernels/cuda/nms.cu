/* cuda/nms.cu: which boxes remain when those that overlap better ones go. A line is the scores of one class of one
 * image. Its boxes are taken piece by piece, by falling score: a piece is compared with those kept so far by many
 * blocks, then settled by one. */

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

/* Boxes are taken PIECE at a time, by falling score: order (lines, n). kept (lines, most) has those that remain, seen
 * (lines, most) where they lie, counts (lines) how many; covered (lines, PIECE): overlaps one of them. */
enum { PIECE = 512, KEPT = 256 };

/* The next of the piece that begins at `from`, against those kept so far; a block of 256 has KEPT of these, `tiles` at
 * most for a line. */
extern "C" __global__ __launch_bounds__(256) void nms_cover(nms_args a, int64_t from, int64_t tiles,
                                                            const float *__restrict__ boxes,
                                                            const int64_t *__restrict__ order,
                                                            const nms_box *__restrict__ seen,
                                                            const int64_t *__restrict__ counts, uint8_t *covered) {
    __shared__ nms_box held[KEPT];
    for (int64_t b = blockIdx.x; b < a.images * a.classes * tiles; b += gridDim.x) {
        int64_t line = b / tiles, first = b % tiles * KEPT, n = counts[line] - first;
        if (n > KEPT) n = KEPT;
        if ((int64_t)threadIdx.x < n) held[threadIdx.x] = seen[line * a.most + first + threadIdx.x];
        __syncthreads();
        for (int64_t i = threadIdx.x; n > 0 && i < PIECE && from + i < a.n; i += KEPT) {
            nms_box box = box_at(a, boxes + (line / a.classes * a.n + order[line * a.n + from + i]) * 4);
            bool over = false;
            for (int k = 0; k < n && !over; k++) over = overlaps(a, box, held[k]);
            if (over) covered[line * PIECE + i] = 1;
        }
        __syncthreads();
    }
}

/* Which of the piece remain, one after the other; a block of 512 has a line. */
extern "C" __global__ __launch_bounds__(512) void nms_settle(nms_args a, int64_t from, const float *__restrict__ boxes,
                                                             const float *__restrict__ scores,
                                                             const int64_t *__restrict__ order, nms_box *seen,
                                                             int64_t *kept, int64_t *counts, uint8_t *covered) {
    __shared__ nms_box piece[PIECE];
    __shared__ uint32_t over[PIECE][PIECE / 32], stays[PIECE / 32];
    __shared__ uint8_t gone[PIECE];
    int i = threadIdx.x, lane = i % 32;
    for (int64_t line = blockIdx.x; line < a.images * a.classes; line += gridDim.x) {
        int64_t found = counts[line], here = from + i < a.n ? order[line * a.n + from + i] : 0;
        bool there = from + i < a.n && !(a.has_threshold && !(scores[line * a.n + here] > a.threshold));
        if (from + i < a.n) piece[i] = box_at(a, boxes + (line / a.classes * a.n + here) * 4);
        gone[i] = !there || covered[line * PIECE + i];
        covered[line * PIECE + i] = 0;
        __syncthreads();
        for (int w = 0; w < PIECE / 32; w++) {
            uint32_t bits = 0;
            for (int k = 0; k < 32 && w * 32 + k < i && !gone[i]; k++)
                bits |= (uint32_t)overlaps(a, piece[i], piece[w * 32 + k]) << k;
            over[i][w] = bits;
        }
        __syncthreads();
        if (i < 32) {
            uint32_t mine = 0; /* lane w has word w of those that stay */
            int64_t left = a.most - found;
            for (int k = 0; k < PIECE && left > 0; k++) {
                bool hit = lane < PIECE / 32 && (over[k][lane < PIECE / 32 ? lane : 0] & mine) != 0;
                if (gone[k] || __any_sync(0xffffffffu, hit)) continue;
                if (lane == k / 32) mine |= 1u << k % 32;
                left--;
            }
            if (lane < PIECE / 32) stays[lane] = mine;
        }
        __syncthreads();
        int before = 0, all = 0;
        for (int w = 0; w < PIECE / 32; w++) {
            if (w < i / 32) before += __popc(stays[w]);
            all += __popc(stays[w]);
        }
        if (stays[i / 32] >> lane & 1) {
            int64_t at = line * a.most + found + before + __popc(stays[i / 32] & ((1u << lane) - 1));
            kept[at] = here, seen[at] = piece[i];
        }
        __syncthreads();
        if (i == 0) counts[line] = found + all;
    }
}

/* Nothing is kept yet. */
extern "C" __global__ void nms_begin(nms_args a, int64_t *counts, uint8_t *covered) {
    for (int64_t i = first_item(); i < a.images * a.classes * PIECE; i += item_step()) {
        covered[i] = 0;
        if (i % PIECE == 0) counts[i / PIECE] = 0;
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
