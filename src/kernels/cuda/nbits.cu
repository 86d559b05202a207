/* cuda/nbits.cu: Y (M,N) = A (M,K) W' + bias, W (N,K) stored as codes of few bits in blocks with a scale each.
 *
 * Two forms. A code of 2, 4 or 8 bits, low bits first, is a number less its block's zero point; blocks lie in the rows
 * of W. TABLE: a code of 4 bits, high half first, is one of sixteen numbers; blocks lie one behind another, over the
 * ends of rows. Defined in front: CHUNK, codes that a thread takes at once (32, or 16 where blocks are so short); Z,
 * the type of zero points, where they are floats; NO_ZEROS, where there are none; TABLE.
 *
 * nbits_one and nbits_few read 4-bit codes as they lie, for few rows of A: a group of blockDim.x threads takes rows of
 * W, each thread CHUNK codes a turn, all of one block. nbits_decode makes rows of W numbers, for a product behind it.
 * Accumulation: in f32, by blocks, then over the threads by a fixed tree.
 *
 * nbits_fixed, for one row of a half type, has the products of a chunk by dot products of bytes, of which a GPU does
 * four at a time: numbers of A are integers of 16 bits times a power of two that the largest of the chunk gives. What
 * has eleven bits is exact down to a sixteenth of that one, and the sum over a chunk always is. */
#define BEGINS_EARLY 1
#ifndef CHUNK
#define CHUNK 32
#endif
#ifdef Z
#define FLOAT_ZEROS 1
#else
#define Z uint8_t
#endif

/* Mirrors nck_cuda_nbits_args in nbits.h. */
struct nbits_args {
    int64_t M, N, K, block, bits;
    int64_t blocks, shift; /* of a row; block is 1 << shift */
    const uint8_t *codes;
    const S *scales;
    const Z *zeros;
    const int32_t *group_of; /* (K): whose scale and zero point count; NULL: those of the code's own block */
    const S *bias;           /* (N) or NULL */
    const S *a;
    S *y;
    float numbers[16]; /* TABLE */
    int vectors;       /* rows of A are read in vectors */
    int constant;      /* codes, scales and zeros are */
};

/* ---- rows of W as numbers ---- */

DEVICE float zero_of(const nbits_args &q, int64_t n, int64_t b) {
#ifdef NO_ZEROS
    return (float)(1 << (q.bits - 1));
#elif defined FLOAT_ZEROS
    return (float)get(q.zeros[n * q.blocks + b]);
#else
    int64_t bytes = (q.blocks * q.bits + 7) / 8;
    return (float)(q.zeros[n * bytes + b * q.bits / 8] >> (b * q.bits % 8) & ((1 << q.bits) - 1));
#endif
}

#ifdef TABLE
DEVICE float number_at(const nbits_args &q, const fault_site &site, int64_t n, int64_t k) {
    int64_t i = n * q.K + k;
    int code = q.codes[i / 2] >> (i % 2 ? 0 : 4) & 15;
    return q.numbers[code] * (float)get(q.scales[i >> q.shift]);
}
#else
DEVICE float number_at(const nbits_args &q, const fault_site &site, int64_t n, int64_t k) {
    int64_t b = k >> q.shift, bytes = q.blocks * q.block * q.bits / 8;
    int code = q.codes[n * bytes + k * q.bits / 8] >> (k * q.bits % 8) & ((1 << q.bits) - 1);
    if (q.group_of) {
        b = q.group_of[k];
        if (b < 0 || b >= q.blocks) {
            report(site, b, q.blocks);
            return 0;
        }
    }
    return ((float)code - zero_of(q, n, b)) * (float)get(q.scales[n * q.blocks + b]);
}
#endif

/* w (rows,K) = rows of W from `first` on; eight numbers an item. */
extern "C" __global__ void nbits_decode(nbits_args q, fault_site site, int64_t first, int64_t rows, S *w) {
    wait_for_earlier();
    int64_t groups = (q.K + 7) / 8;
    for (int64_t i = first_item(); i < rows * groups; i += item_step()) {
        int64_t r = i / groups, k = i % groups * 8, end = min(k + 8, q.K);
        for (; k < end; k++) w[r * q.K + k] = to<S>::put(number_at(q, site, first + r, k));
    }
}

/* ---- codes as they lie ---- */

/* Code i of a word stands 4 * i bits up; the lowest five and, moved down by 20 bits, the other three become the
 * fraction of a float of 2^23 that stands for 2^23 + code * 16^UP(i), from which the zero point goes in one exact step.
 * A is lessened by 16^UP(i) instead. */
#define UP(i) ((i) < 5 ? (i) : (i) - 5)
#define MAGIC 0x4b000000u

#ifdef TABLE
DEVICE float lessened(float x, int i) { return x; }
DEVICE float turned(uint32_t w, int i, float zero, const float *lane_numbers) {
    return lane_numbers[(w >> (4 * (i ^ 1)) & 15) * 32];
}
#else
DEVICE float lessened(float x, int i) { return x * (1.0f / (1 << 4 * UP(i))); }
DEVICE float turned(uint32_t w, int i, float zero, const float *) {
    float up = (float)(1 << 4 * UP(i)), v = __uint_as_float(((i < 5 ? w : w >> 20) & 15u << 4 * UP(i)) | MAGIC);
#ifdef FLOAT_ZEROS
    return (v - 8388608.0f) - zero * up;
#else
    return v - (8388608.0f + zero * up);
#endif
}
#endif

/* Row m of A from k on, zeros behind its end. */
DEVICE void raw_a(const nbits_args &q, int64_t m, int k, float (&x)[CHUNK]) {
    enum { V = 16 / sizeof(S) };
    const S *row = q.a + m * q.K + k;
    if (q.vectors && k + CHUNK <= q.K) {
#pragma unroll
        for (int i = 0; i < CHUNK; i += V) {
            vec<S, V> v = vec_at<V>(row + i);
#pragma unroll
            for (int e = 0; e < V; e++) x[i + e] = (float)get(v.e[e]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; i++) x[i] = k + i < q.K ? (float)get(row[i]) : 0.0f;
}
DEVICE void hold_a(const nbits_args &q, int64_t m, int k, float (&x)[CHUNK]) {
    raw_a(q, m, k, x);
#pragma unroll
    for (int i = 0; i < CHUNK; i++) x[i] = lessened(x[i], i % 8);
}

/* A row of W: its codes, and where its scales begin; TABLE: which number of W is its first. */
struct w_line {
    const uint8_t *codes;
    int64_t row, first;
};
DEVICE w_line w_line_of(const nbits_args &q, int64_t n) {
    w_line l;
    l.row = n;
#ifdef TABLE
    l.first = n * q.K;
    l.codes = q.codes + l.first / 2;
#else
    l.first = n * q.blocks;
    l.codes = q.codes + (l.first << q.shift) / 2;
#endif
    return l;
}

/* The chunk of a row from k on: its words, scale and zero point. */
struct alignas(16) chunk_held {
    uint32_t w[CHUNK / 8];
    S scale;
    float zero;
};
DEVICE void hold_w(const nbits_args &q, const w_line &l, int k, chunk_held &h) {
#if CHUNK == 32
    *(vec<uint32_t, 4> *)&h.w = once_at(l.codes + k / 2);
#else
    *(vec<uint32_t, CHUNK / 8> *)&h.w = vec_at<CHUNK / 8>((const uint32_t *)(l.codes + k / 2));
#endif
#ifdef TABLE
    h.scale = q.scales[(l.first + k) >> q.shift];
    h.zero = 0;
#else
    h.scale = q.scales[l.first + (k >> q.shift)];
#ifdef NO_ZEROS
    h.zero = 8; /* of 4 bits */
#else
    h.zero = zero_of(q, l.row, k >> q.shift);
#endif
#endif
}

/* y (ROWS from row m on, COLS from column n on); the group's threads have their parts of the sums. */
template <int ROWS, int COLS>
DEVICE void store_sums(const nbits_args &q, int64_t m, int64_t n, float (&sum)[ROWS][COLS]) {
    __shared__ float part[4][ROWS * COLS];
    int warp = (threadIdx.y * blockDim.x + threadIdx.x) / 32, i = threadIdx.x;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            float v = sum[r][c];
            for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
            if (threadIdx.x % 32 == 0) part[warp][r * COLS + c] = v;
        }
    __syncthreads();
    int64_t row = m + i / COLS, col = n + i % COLS;
    if (i >= ROWS * COLS || row >= q.M || col >= q.N) return;
    int first = threadIdx.y * blockDim.x / 32;
    float v = part[first][i];
    for (int j = 1; j < (int)blockDim.x / 32; j++) v += part[first + j][i];
    q.y[row * q.N + col] = to<S>::put(q.bias ? v + (float)get(q.bias[col]) : v);
}

/* The first chunk of every column, of constants, is under way before the kernel in front has ended. */
template <int ROWS, int COLS> DEVICE void multiply(const nbits_args &q) {
    __shared__ float table[16][32];
    float sum[ROWS][COLS] = {{0}};
    int64_t n = (blockIdx.x * (int64_t)blockDim.y + threadIdx.y) * COLS, m = blockIdx.y * (int64_t)ROWS;
    int k = threadIdx.x * CHUNK, step = blockDim.x * CHUNK;
    w_line lines[COLS];
    chunk_held held[COLS] = {};
#ifdef TABLE
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < 16 * 32; i += blockDim.x * blockDim.y)
        table[i / 32][i % 32] = q.numbers[i / 32];
    __syncthreads();
#endif
    if (!q.constant) wait_for_earlier();
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        lines[c] = w_line_of(q, min(n + c, q.N - 1));
        if (k < q.K) hold_w(q, lines[c], k, held[c]);
    }
    if (q.constant) wait_for_earlier();
    for (; k < q.K; k += step) {
        float x[CHUNK];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            hold_a(q, min(m + r, q.M - 1), k, x);
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                float s = 0;
#pragma unroll
                for (int i = 0; i < CHUNK; i++)
                    s = fma(x[i], turned(held[c].w[i / 8], i % 8, held[c].zero, &table[0][threadIdx.x % 32]), s);
                sum[r][c] = fma(s, (float)get(held[c].scale), sum[r][c]);
            }
        }
#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (k + step < q.K) hold_w(q, lines[c], k + step, held[c]);
    }
    store_sums<ROWS, COLS>(q, m, n, sum);
}

/* Blocks of 128 threads in groups of 32, 64 or 128; grids of (N / (groups * columns), M / rows). */
extern "C" __global__ __launch_bounds__(128, 5) void nbits_one(nbits_args q) { multiply<1, 4>(q); }
extern "C" __global__ __launch_bounds__(128) void nbits_few(nbits_args q) { multiply<4, 2>(q); }

#ifdef FIXED
/* A chunk of A: four bytes a word, those of codes 0, 2, 4, 6 of a word of W and of 1, 3, 5, 7 in turn; PARTS vectors of
 * the high bytes, then of the low ones, each number of vectors (chunks of a row). */
enum { PARTS = CHUNK / 16, EVEN = 0x0f0f0f0f };
struct chunk_fixed {
    float by; /* what 1 stands for; not finite: so is a number of the chunk */
    int sum;
};

DEVICE uint32_t bytes_of(const int (&v)[8], int first, int down) {
    uint32_t w = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) w |= (uint32_t)(v[first + 2 * i] >> down & 255) << 8 * i;
    return w;
}

DEVICE void fix_chunk(const nbits_args &q, int i, int n, vec<uint32_t, 4> *parts, chunk_fixed *to) {
    float x[CHUNK];
    uint32_t top = 0;
    raw_a(q, 0, i * CHUNK, x);
#pragma unroll
    for (int e = 0; e < CHUNK; e++) top = max(top, __float_as_uint(x[e]) & 0x7fffffffu);
    /* The largest gets its highest bit at 2^14; so little that this is no float counts for less. */
    uint32_t power = max(top >> 23, 15u);
    float up = __uint_as_float((127 + 14 + 127 - power) << 23);
    chunk_fixed c;
    c.by = power == 255 ? INF : __uint_as_float((power - 14) << 23);
    c.sum = 0;
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        vec<uint32_t, 4> high, low;
#pragma unroll
        for (int w = 0; w < 2; w++) {
            int v[8];
#pragma unroll
            for (int e = 0; e < 8; e++) v[e] = __float2int_rn(x[(p * 2 + w) * 8 + e] * up), c.sum += v[e];
#pragma unroll
            for (int odd = 0; odd < 2; odd++)
                high.e[2 * w + odd] = bytes_of(v, odd, 8), low.e[2 * w + odd] = bytes_of(v, odd, 0);
        }
        parts[p * n + i] = high, parts[(PARTS + p) * n + i] = low;
    }
    to[i] = c;
}

/* A number of the chunk is not finite: as nbits_one has it. */
__device__ __noinline__ float meet_floats(const nbits_args &q, int64_t n, int k) {
    float x[CHUNK], s = 0;
    chunk_held h;
    hold_w(q, w_line_of(q, n), k, h);
    hold_a(q, 0, k, x);
#pragma unroll
    for (int i = 0; i < CHUNK; i++) s = fma(x[i], turned(h.w[i / 8], i % 8, h.zero, 0), s);
    return s;
}

/* The chunk's sum over its scale of W. */
DEVICE float meet_fixed(const vec<uint32_t, 4> (&x)[2 * PARTS], const chunk_fixed &c, const chunk_held &h) {
    int high = 0;
    uint32_t low = 0;
#pragma unroll
    for (int w = 0; w < CHUNK / 8; w++)
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            uint32_t codes = h.w[w] >> 4 * odd & EVEN;
            int at = w % 2 * 2 + odd;
            high = __dp4a((int)x[w / 2].e[at], (int)codes, high);
            low = __dp4a(x[PARTS + w / 2].e[at], codes, low);
        }
#ifdef FLOAT_ZEROS
    return (fma(-h.zero, (float)c.sum, (float)(high * 256 + (int)low))) * c.by;
#else
    return (float)(high * 256 + (int)low - (int)h.zero * c.sum) * c.by;
#endif
}

DEVICE void multiply_fixed(const nbits_args &q) {
    enum { COLS = 8 };
    extern __shared__ vec<uint32_t, 4> parts[];
    int n_chunks = (int)((q.K + CHUNK - 1) / CHUNK), i = threadIdx.x;
    chunk_fixed *fixed = (chunk_fixed *)(parts + 2 * PARTS * n_chunks);
    float sum[1][COLS] = {{0}};
    int64_t n = (blockIdx.x * (int64_t)blockDim.y + threadIdx.y) * COLS;
    w_line lines[COLS];
    chunk_held held[COLS] = {};
    if (!q.constant) wait_for_earlier();
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        lines[c] = w_line_of(q, min(n + c, q.N - 1));
        if (i < n_chunks) hold_w(q, lines[c], i * CHUNK, held[c]);
    }
    if (q.constant) wait_for_earlier();
    for (int j = threadIdx.y * blockDim.x + threadIdx.x; j < n_chunks; j += blockDim.x * blockDim.y)
        fix_chunk(q, j, n_chunks, parts, fixed);
    __syncthreads();
    for (; i < n_chunks; i += blockDim.x) {
        vec<uint32_t, 4> x[2 * PARTS];
        chunk_fixed f = fixed[i];
#pragma unroll
        for (int p = 0; p < 2 * PARTS; p++) x[p] = parts[p * n_chunks + i];
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            float s = f.by < INF ? meet_fixed(x, f, held[c]) : meet_floats(q, lines[c].row, i * CHUNK);
            sum[0][c] = fma(s, (float)get(held[c].scale), sum[0][c]);
            if (i + (int)blockDim.x < n_chunks) hold_w(q, lines[c], (i + blockDim.x) * CHUNK, held[c]);
        }
    }
    store_sums<1, COLS>(q, 0, n, sum);
}
#else
DEVICE void multiply_fixed(const nbits_args &) {}
#endif

/* Grids of N / (groups * 8), blocks as above; shared: bytes_fixed of nbits.c. */
extern "C" __global__ __launch_bounds__(128, 4) void nbits_fixed(const __grid_constant__ nbits_args q) {
    multiply_fixed(q);
}
