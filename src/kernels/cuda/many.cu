/* cuda/many.cu: many tensors of floats, each stored as another type or added to another tensor. Storage types differ
 * from tensor to tensor; a sum is rounded once. The elements of all tensors are cut into pieces of MANY_PIECE, which
 * blocks take in turn: a small tensor is one piece, and none waits for another. */
enum { MANY_F32, MANY_F64, MANY_F16, MANY_BF16 };
#define MANY_TENSORS 126
#define MANY_PIECE 4096

struct many_tensor { /* mirrors many_tensor of many.c */
    void *y;
    const void *x;
    uint64_t n_types; /* elements * 16 + the type of x * 4 + that of y */
    uint64_t end;     /* pieces of this tensor and of those before it */
};
struct many_tensors { many_tensor of[MANY_TENSORS]; };

template <class Y, class X> DEVICE Y many_one(bool adds, Y old, X x) {
    return adds ? to<Y>::put(get(old) + get(x)) : to<Y>::put(get(x));
}

/* n elements of a piece; a thread asks for all its vectors before it uses the first. */
template <class Y, class X> DEVICE void many_of(Y *y, const X *x, bool adds, int n) {
    enum { N = 16 / (sizeof(X) > sizeof(Y) ? sizeof(X) : sizeof(Y)), AT_ONCE = 4 };
    bool aligned = ((uint64_t)y | (uint64_t)x) % 16 == 0;
    int vectors = aligned ? n / N : 0, step = (int)blockDim.x;
    for (int i = (int)threadIdx.x; i < vectors; i += AT_ONCE * step) {
        vec<X, N> from[AT_ONCE];
        vec<Y, N> sum[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (i + k * step >= vectors) continue;
            from[k] = vec_at<N>(x + N * (i + k * step));
            if (adds) sum[k] = vec_at<N>(y + N * (i + k * step));
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (i + k * step >= vectors) continue;
#pragma unroll
            for (int e = 0; e < N; e++) sum[k].e[e] = many_one(adds, sum[k].e[e], from[k].e[e]);
            *(vec<Y, N> *)(y + N * (i + k * step)) = sum[k];
        }
    }
    for (int i = N * vectors + (int)threadIdx.x; i < n; i += step)
        y[i] = many_one(adds, adds ? y[i] : Y(), x[i]);
}

template <class Y> DEVICE void many_from(const many_tensor &t, bool adds, int64_t at, int n) {
    Y *y = (Y *)t.y + at;
    switch (t.n_types >> 2 & 3) {
    case MANY_F64: return many_of(y, (const double *)t.x + at, adds, n);
    case MANY_F16: return many_of(y, (const f16 *)t.x + at, adds, n);
    case MANY_BF16: return many_of(y, (const bf16 *)t.x + at, adds, n);
    default: return many_of(y, (const float *)t.x + at, adds, n);
    }
}

/* The tensor that has a piece. */
DEVICE int many_find(const many_tensors &tensors, int n, uint64_t piece) {
    int low = 0;
    while (low < n - 1) {
        int middle = (low + n - 1) / 2;
        if (piece < tensors.of[middle].end)
            n = middle + 1;
        else
            low = middle + 1;
    }
    return low;
}

/* y = x, or where overwrite is not NULL and *overwrite is false y + x. */
extern "C" __global__ __launch_bounds__(256) void many(int64_t n, const uint8_t *overwrite, many_tensors tensors) {
    bool adds = overwrite != 0 && !*overwrite;
    for (uint64_t piece = blockIdx.x; piece < tensors.of[n - 1].end; piece += gridDim.x) {
        int k = many_find(tensors, (int)n, piece);
        const many_tensor &t = tensors.of[k];
        int64_t at = (int64_t)(piece - (k > 0 ? tensors.of[k - 1].end : 0)) * MANY_PIECE;
        int64_t left = (int64_t)(t.n_types >> 4) - at;
        int count = left < MANY_PIECE ? (int)left : MANY_PIECE;
        switch (t.n_types & 3) {
        case MANY_F64: many_from<double>(t, adds, at, count); break;
        case MANY_F16: many_from<f16>(t, adds, at, count); break;
        case MANY_BF16: many_from<bf16>(t, adds, at, count); break;
        default: many_from<float>(t, adds, at, count);
        }
    }
}
