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
DEVICE int many_bytes(int type) { return type == MANY_F64 ? 8 : type == MANY_F32 ? 4 : 2; }

/* Four elements as they lie: what waits for its use so takes few registers, whatever the type; f64 is none of them. */
typedef vec<uint32_t, 4> many_words;
DEVICE many_words many_read(const void *p, int type, int i) {
    if (type == MANY_F32) return ((const many_words *)p)[i];
    vec<uint32_t, 2> half = ((const vec<uint32_t, 2> *)p)[i];
    many_words w = {{half.e[0], half.e[1], 0, 0}};
    return w;
}
DEVICE float many_element(const many_words &w, int type, int e) {
    if (type == MANY_F32) return element(w.e[e], 0, 0.f);
    return type == MANY_F16 ? element(w.e[e / 2], e % 2, f16()) : element(w.e[e / 2], e % 2, bf16());
}
template <class H> DEVICE void many_write(void *p, int i, const float (&v)[4]) {
    vec<H, 4> w;
#pragma unroll
    for (int e = 0; e < 4; e++) w.e[e] = to<H>::put(v[e]);
    ((vec<H, 4> *)p)[i] = w;
}

/* A piece in vectors of 4, of which a thread asks for four before it uses the first. */
DEVICE void many_vectors(char *y, const char *x, int ty, int tx, bool adds, int vectors) {
    enum { AT_ONCE = 4 };
    int step = (int)blockDim.x;
    for (int i = (int)threadIdx.x; i < vectors; i += AT_ONCE * step) {
        many_words from[AT_ONCE], old[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (i + k * step >= vectors) continue;
            from[k] = many_read(x, tx, i + k * step);
            if (adds) old[k] = many_read(y, ty, i + k * step);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (i + k * step >= vectors) continue;
            float v[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                v[e] = many_element(from[k], tx, e);
                if (adds) v[e] = many_element(old[k], ty, e) + v[e];
            }
            if (ty == MANY_F32) many_write<float>(y, i + k * step, v);
            if (ty == MANY_F16) many_write<f16>(y, i + k * step, v);
            if (ty == MANY_BF16) many_write<bf16>(y, i + k * step, v);
        }
    }
}

/* The elements from `from` on, one by one; C is f64 where one of the types is. */
template <class C> DEVICE C many_load(const void *p, int type, int i) {
    switch (type) {
    case MANY_F64: return (C)((const double *)p)[i];
    case MANY_F16: return (C)get(((const f16 *)p)[i]);
    case MANY_BF16: return (C)get(((const bf16 *)p)[i]);
    default: return (C)((const float *)p)[i];
    }
}
template <class C> DEVICE void many_singles(void *y, const void *x, int ty, int tx, bool adds, int from, int n) {
    for (int i = from + (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        C v = many_load<C>(x, tx, i);
        if (adds) v = many_load<C>(y, ty, i) + v;
        switch (ty) {
        case MANY_F64: ((double *)y)[i] = (double)v; break;
        case MANY_F16: ((f16 *)y)[i] = to<f16>::put(v); break;
        case MANY_BF16: ((bf16 *)y)[i] = to<bf16>::put(v); break;
        default: ((float *)y)[i] = (float)v;
        }
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
        int count = left < MANY_PIECE ? (int)left : MANY_PIECE, ty = t.n_types & 3, tx = t.n_types >> 2 & 3;
        char *y = (char *)t.y + at * many_bytes(ty);
        const char *x = (const char *)t.x + at * many_bytes(tx);
        bool wide = ty == MANY_F64 || tx == MANY_F64;
        int vectors = !wide && ((uint64_t)y | (uint64_t)x) % 16 == 0 ? count / 4 : 0;
        many_vectors(y, x, ty, tx, adds, vectors);
        wide ? many_singles<double>(y, x, ty, tx, adds, 0, count)
             : many_singles<float>(y, x, ty, tx, adds, 4 * vectors, count);
    }
}
