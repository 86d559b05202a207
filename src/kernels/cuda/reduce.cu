/* cuda/reduce.cu: sum, mean, product, max and min over any axes of a strided tensor. J names the join: sum, prod, max
 * or min.
 *
 * The reduced elements of an output, in row-major order, are cut into segments of equal length. Kernel `rows` gives
 * each (output, segment) to one block; `columns` gives 32 neighbouring outputs to one block, for tensors whose
 * innermost dim is kept, so that a warp reads one line, and `column_vectors` 32 vectors of them. Partial results
 * (segments, outputs) are joined by `join`. Every join is a fixed tree of dims alone. Accumulation: in A (text.h): f32
 * and half types in f32, f64 in f64, integers in int64. */
#define PASTE2(a, b) a##b
#define PASTE(a, b)  PASTE2(a, b)
#ifndef J
#define J sum
#endif
typedef PASTE(join_, J) joiner;

/* partial (segments, outputs). Threads of a block are one row of join_row. */
extern "C" __global__ void rows(walk kept, walk reduced, int64_t n_out, int64_t n_reduced, int64_t segment, A nothing,
                                const S *__restrict__ x, A *partial) {
    int64_t n_segments = (n_reduced + segment - 1) / segment;
    for (int64_t item = blockIdx.x; item < n_out * n_segments; item += gridDim.x) {
        int64_t o = item % n_out, s = item / n_out;
        const S *at = x + walk_one(kept, o);
        int64_t end = min(n_reduced, (s + 1) * segment);
        A v = nothing;
        for (int64_t i = s * segment + threadIdx.x; i < end; i += blockDim.x)
            v = joiner::of(v, to<A>::put(get(at[walk_one(reduced, i)])));
        v = join_row<joiner>(v);
        if (threadIdx.x == 0) partial[s * n_out + o] = v;
    }
}

/* Blocks of (32, 8): x over outputs, y over the reduced elements of a segment. */
extern "C" __global__ void columns(walk kept, walk reduced, int64_t n_out, int64_t n_reduced, int64_t segment,
                                   A nothing, const S *__restrict__ x, A *partial) {
    __shared__ A tile[8][32];
    int64_t n_groups = (n_out + 31) / 32, n_segments = (n_reduced + segment - 1) / segment;
    for (int64_t item = blockIdx.x; item < n_groups * n_segments; item += gridDim.x) {
        int64_t o = item % n_groups * 32 + threadIdx.x, s = item / n_groups;
        int64_t end = min(n_reduced, (s + 1) * segment);
        A v = nothing;
        if (o < n_out) {
            const S *at = x + walk_one(kept, o);
            for (int64_t i = s * segment + threadIdx.y; i < end; i += 8)
                v = joiner::of(v, to<A>::put(get(at[walk_one(reduced, i)])));
        }
        tile[threadIdx.y][threadIdx.x] = v;
        __syncthreads();
        for (int d = 4; d > 0; d >>= 1) {
            if (threadIdx.y < d)
                tile[threadIdx.y][threadIdx.x] =
                    joiner::of(tile[threadIdx.y][threadIdx.x], tile[threadIdx.y + d][threadIdx.x]);
            __syncthreads();
        }
        if (threadIdx.y == 0 && o < n_out) partial[s * n_out + o] = tile[0][threadIdx.x];
        __syncthreads();
    }
}

/* The same of a matrix whose lines are `line` elements apart, all whole and aligned vectors. */
enum { V = 16 / sizeof(S) };
extern "C" __global__ void column_vectors(int64_t line, int64_t n_out, int64_t n_reduced, int64_t segment, A nothing,
                                          const S *__restrict__ x, A *partial) {
    __shared__ A tile[8][32][V + 1];
    int64_t n_groups = (n_out + 32 * V - 1) / (32 * V), n_segments = (n_reduced + segment - 1) / segment;
    for (int64_t item = blockIdx.x; item < n_groups * n_segments; item += gridDim.x) {
        int64_t o = (item % n_groups * 32 + threadIdx.x) * V, s = item / n_groups;
        int64_t end = min(n_reduced, (s + 1) * segment);
        A v[V];
        for (int k = 0; k < V; k++) v[k] = nothing;
#pragma unroll 4
        for (int64_t i = o < n_out ? s * segment + threadIdx.y : end; i < end; i += 8) {
            vec<S, V> here = vec_at<V>(x + i * line + o);
#pragma unroll
            for (int k = 0; k < V; k++) v[k] = joiner::of(v[k], to<A>::put(get(here.e[k])));
        }
        for (int k = 0; k < V; k++) tile[threadIdx.y][threadIdx.x][k] = v[k];
        __syncthreads();
        for (int d = 4; d > 0; d >>= 1) {
            for (int k = 0; threadIdx.y < d && k < V; k++)
                tile[threadIdx.y][threadIdx.x][k] =
                    joiner::of(tile[threadIdx.y][threadIdx.x][k], tile[threadIdx.y + d][threadIdx.x][k]);
            __syncthreads();
        }
        for (int k = 0; threadIdx.y == 0 && o < n_out && k < V; k++)
            partial[s * n_out + o + k] = tile[0][threadIdx.x][k];
        __syncthreads();
    }
}

/* out (n_out) = partial (n_segments, n_out) joined, divided by divisor unless that is 0. One warp each; the warps of a
 * block are its rows. */
extern "C" __global__ void join(int64_t n_out, int64_t n_segments, A divisor, A nothing, const A *__restrict__ partial,
                                S *out) {
    for (int64_t o = blockIdx.x * (int64_t)blockDim.y + threadIdx.y; o < n_out; o += gridDim.x * (int64_t)blockDim.y) {
        A v = nothing;
        for (int64_t s = threadIdx.x; s < n_segments; s += 32) v = joiner::of(v, partial[s * n_out + o]);
        v = join_row<joiner>(v);
        if (threadIdx.x == 0) out[o] = to<S>::put(divisor != 0 ? v / divisor : v);
    }
}
