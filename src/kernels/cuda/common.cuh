/* cuda/common.cuh: what every kernel text begins with: integer names, storage types and their conversions, offsets of
 * strided tensors, joins over a block. No #include: NVRTC gets one text and needs no header files.
 *
 * Conversions are those of the tile machine on the CPU: bool is x != 0; floats become integers towards zero, NaN as 0,
 * clamped to 64 bits; integers wrap; one rounding to the half types. */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };
struct bool8 { uint8_t byte; };

#define DEVICE __device__ __forceinline__
#define INF __int_as_float(0x7f800000)

/* A text that defines BEGINS_EARLY is placed on the GPU while the kernel in front of it still runs: every block of its
 * kernels waits here before it touches anything but constants. Only behind that wait may the next kernel be placed, so
 * that no more than two are there at a time, and all that was before the first of them is done.
 *
 * In a recording a kernel may open it to the next one before it waits itself. Then there may be several, all of that
 * recording, whose first kernel begins when all work before it is done: what one of them reads before its wait beside
 * constants nobody else in the recording writes. */
DEVICE void open_next(void) {
#if defined STANDIN || __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE void wait_for_earlier(void) {
#if defined STANDIN || __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    open_next();
}

/* The number that a stored element stands for. */
template <class S> DEVICE S get(S x) { return x; }
DEVICE float get(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
DEVICE float get(bf16 x) { return __uint_as_float((uint32_t)x.bits << 16); }
DEVICE int64_t get(bool8 x) { return x.byte != 0; }

DEVICE int64_t i64_of(double x) { return x != x ? 0 : __double2ll_rz(x); }
DEVICE int64_t i64_of(float x) { return i64_of((double)x); }
template <class C> DEVICE int64_t i64_of(C x) { return (int64_t)x; }
DEVICE uint64_t u64_of(double x) { return x >= 0 ? __double2ull_rz(x) : (uint64_t)i64_of(x); }
DEVICE uint64_t u64_of(float x) { return u64_of((double)x); }
template <class C> DEVICE uint64_t u64_of(C x) { return (uint64_t)x; }

DEVICE uint16_t bf16_bits(float x) {
#if defined STANDIN || __CUDA_ARCH__ >= 800
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    uint32_t u = __float_as_uint(x);
    return (uint16_t)(x != x ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}
/* One rounding: through the float beside x with an odd last bit, unless x is a float. */
DEVICE uint16_t bf16_bits(double x) {
    float f = (float)x;
    if ((double)f == x || x != x || isinf(f)) return bf16_bits(f);
    uint32_t u = __float_as_uint(f);
    if (fabs((double)f) > fabs(x)) u--;
    return bf16_bits(__uint_as_float(u | 1));
}

/* to<S>::put(x): the stored form of the number x. to<C>::put also makes compute types. */
template <class S> struct to { template <class C> static DEVICE S put(C x) { return (S)i64_of(x); } };
template <> struct to<float> { template <class C> static DEVICE float put(C x) { return (float)x; } };
template <> struct to<double> { template <class C> static DEVICE double put(C x) { return (double)x; } };
template <> struct to<uint64_t> { template <class C> static DEVICE uint64_t put(C x) { return u64_of(x); } };
template <> struct to<bool8> { template <class C> static DEVICE bool8 put(C x) { return bool8{(uint8_t)(x != 0)}; } };
template <> struct to<f16> {
    static DEVICE f16 put(float x) {
        f16 y;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
        return y;
    }
    template <class C> static DEVICE f16 put(C x) {
        f16 y;
        asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"((double)x));
        return y;
    }
};
template <> struct to<bf16> {
    static DEVICE bf16 put(float x) { return bf16{bf16_bits(x)}; }
    template <class C> static DEVICE bf16 put(C x) { return bf16{bf16_bits((double)x)}; }
};

/* N elements that are read or written at once, 16 bytes at most. */
template <class T, int N> struct alignas(sizeof(T) * N) vec { T e[N]; };
template <int N, class T> DEVICE vec<T, N> vec_at(const T *p) { return *(const vec<T, N> *)p; }
template <int N, class T> DEVICE vec<T, N> vec_of(T x) {
    vec<T, N> v;
#pragma unroll
    for (int i = 0; i < N; i++) v.e[i] = x;
    return v;
}

/* 16 bytes that are read once: they take no room in the L1, and what lies beside them comes into the L2. */
DEVICE vec<uint32_t, 4> once_at(const void *p) {
    vec<uint32_t, 4> w;
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.e[0]), "=r"(w.e[1]), "=r"(w.e[2]), "=r"(w.e[3])
                 : "l"(p));
    return w;
}

/* 16 bytes from the L2, which other multiprocessors may have written while this kernel was there already. */
DEVICE vec<uint32_t, 4> far_at(const void *p) {
    vec<uint32_t, 4> w;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.e[0]), "=r"(w.e[1]), "=r"(w.e[2]), "=r"(w.e[3])
                 : "l"(p));
    return w;
}

/* Element i of a word: what waits for its use as words takes fewer registers than as elements. */
DEVICE float element(uint32_t w, int i, f16 x) { return x.bits = (uint16_t)(w >> 16 * i), get(x); }
DEVICE float element(uint32_t w, int i, bf16) { return __uint_as_float(i ? w & 0xffff0000u : w << 16); }
DEVICE float element(uint32_t w, int, float) { return __uint_as_float(w); }

/* Dims of a walk through one or two tensors, outermost first. Mirrors nck_cuda_walk in launch.h. */
#define MAX_RANK 64
struct walk {
    int64_t rank;
    int64_t dims[MAX_RANK], strides[2][MAX_RANK];
};

/* The offset of element i in operand k. The loop stays a loop: its divisions would fill the code cache. Small numbers
 * take 32-bit divisions, which cost a quarter of the others. */
template <int N> DEVICE void walk_at(const walk &w, int64_t i, int64_t (&offset)[N]) {
    for (int k = 0; k < N; k++) offset[k] = 0;
#pragma unroll 1
    for (int d = (int)w.rank - 1; d > 0; d--) {
        int64_t q = i >> 32 == 0 && w.dims[d] >> 32 == 0 ? (uint32_t)i / (uint32_t)w.dims[d] : i / w.dims[d];
        int64_t r = i - q * w.dims[d];
        for (int k = 0; k < N; k++) offset[k] += r * w.strides[k][d];
        i = q;
    }
    for (int k = 0; k < N; k++) offset[k] += i * w.strides[k][0];
}
DEVICE int64_t walk_one(const walk &w, int64_t i) {
    int64_t offset[1];
    walk_at<1>(w, i, offset);
    return offset[0];
}

/* i / d, by a 32-bit division where both are small. */
DEVICE int64_t quotient(int64_t i, int64_t d) {
    return i >> 32 == 0 && d >> 32 == 0 ? (uint32_t)i / (uint32_t)d : i / d;
}

/* A table of rows and columns cut into tiles of blockDim.y rows and blockDim.x * TURNS columns, `across` of them side
 * by side; a block takes tiles in turn. A thread has column `column` of `row` and TURNS - 1 others, blockDim.x apart.
 * Mirrors nck_cuda_tiles in launch.h. */
enum { TURNS = 4 };
struct tile_place { int64_t row, column; };
DEVICE tile_place tile_at(int64_t tile, int64_t across) {
    int64_t down = quotient(tile, across);
    tile_place p;
    p.row = down * blockDim.y + threadIdx.y;
    p.column = (tile - down * across) * (blockDim.x * TURNS) + threadIdx.x;
    return p;
}

/* What is wrong with the data: the first report of a stream stays until the host reads it, when it next waits. Mirrors
 * nc_cuda_fault in device/cuda_api.h. */
struct fault {
    int set, unused;
    int64_t value, limit;
    char node[96], op[32];
};
/* Where a kernel reports, and as whom. Mirrors nck_cuda_site in launch.h. */
struct fault_site {
    fault *to;
    char node[96], op[32];
};
__device__ __noinline__ void report(const fault_site &s, int64_t value, int64_t limit) {
    if (atomicExch(&s.to->set, 1) != 0) return;
    s.to->value = value;
    s.to->limit = limit;
    for (int i = 0; i < (int)sizeof s.node; i++) s.to->node[i] = s.node[i];
    for (int i = 0; i < (int)sizeof s.op; i++) s.to->op[i] = s.op[i];
    __threadfence_system();
}

DEVICE int64_t first_item(void) { return blockIdx.x * (int64_t)blockDim.x + threadIdx.x; }
DEVICE int64_t item_step(void) { return gridDim.x * (int64_t)blockDim.x; }

/* Below 0 where a comes first, 0: equal. NaN counts as larger than anything, and as equal to itself. */
template <class A> DEVICE int order_of(A a, A b) {
    bool nan_a = a != a, nan_b = b != b;
    if (nan_a || nan_b) return nan_a - nan_b;
    return (a > b) - (a < b);
}

struct join_sum {
    template <class A> static DEVICE A of(A a, A b) { return a + b; }
};
struct join_prod {
    template <class A> static DEVICE A of(A a, A b) { return a * b; }
};
/* NaN in either gives NaN. */
struct join_max {
    template <class A> static DEVICE A of(A a, A b) { return b < a || a != a ? a : b; }
};
struct join_min {
    template <class A> static DEVICE A of(A a, A b) { return a < b || a != a ? a : b; }
};

/* The values of all threads of a row joined by a fixed tree; every thread of the row gets the result. A row is the
 * threads of one threadIdx.y: one warp, or the whole block (blockDim.y 1, blockDim.x a multiple of 32 up to 1024). */
template <class J, class A> DEVICE A join_row(A v) {
    for (int d = 16; d > 0; d >>= 1) v = J::of(v, __shfl_xor_sync(0xffffffffu, v, d));
    if (blockDim.x == 32) return v;
    __shared__ A warps[32];
    int n = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = warps[0];
    for (int i = 1; i < n; i++) v = J::of(v, warps[i]);
    __syncthreads();
    return v;
}
