/* tests/cuda/device.cuh: CUDA's words for the host's C++ compiler; nvrtc.c puts this text before a kernel's. The
 * driver's stand-in runs the threads of a block as fibers, one at a time, so atomics are plain; shared memory is
 * thread-local storage of the thread that runs them all. No #include: kernel text defines names of the standard
 * headers itself. */
#define STANDIN 1 /* no instruction of tensor cores, no copy that is done later */
#define __CUDACC_RTC__ 1
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __global__
#define __grid_constant__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ thread_local

typedef __SIZE_TYPE__ size_t;

/* ---- vectors ---- */
#define STANDIN_VECTORS(T, name)                                                                                  \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                                            \
    struct name##3 { T x, y, z; };                                                                                \
    struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; };                            \
    static inline name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                                      \
    static inline name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }                              \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
STANDIN_VECTORS(signed char, char)
STANDIN_VECTORS(unsigned char, uchar)
STANDIN_VECTORS(short, short)
STANDIN_VECTORS(unsigned short, ushort)
STANDIN_VECTORS(int, int)
STANDIN_VECTORS(unsigned, uint)
STANDIN_VECTORS(long long, longlong)
STANDIN_VECTORS(unsigned long long, ulonglong)
STANDIN_VECTORS(float, float)
STANDIN_VECTORS(double, double)
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

/* ---- the thread that runs now; mirrors `now` in driver.h ---- */
struct standin_now {
    uint3 thread, block, block_dim, grid_dim;
    void *dynamic_shared;
    void (*sync)();
    unsigned long long (*warp)(int what, unsigned mask, unsigned long long value, int lane);
    int (*sync_join)(int what, int value);
    unsigned (*lane_mask)();
    int waited;
};
static standin_now *standin_at;
#define STANDIN_EXPORT __attribute__((visibility("default")))
extern "C" STANDIN_EXPORT void standin_bind(standin_now *at) { standin_at = at; }
static thread_local char standin_anchor[16];
extern "C" STANDIN_EXPORT void standin_touch() { *(volatile char *)standin_anchor = 0; }
#define threadIdx (standin_at->thread)
#define blockIdx (standin_at->block)
#define blockDim (standin_at->block_dim)
#define gridDim (standin_at->grid_dim)
static const int warpSize = 32;

static inline void __syncthreads() { standin_at->sync(); }
static inline int __syncthreads_count(int p) { return standin_at->sync_join(1, p); }
static inline int __syncthreads_and(int p) { return standin_at->sync_join(2, p); }
static inline int __syncthreads_or(int p) { return standin_at->sync_join(3, p); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline unsigned __activemask() { return standin_at->lane_mask(); }
static inline void __nanosleep(unsigned) {}
[[noreturn]] static inline void __trap() { __builtin_trap(); }

/* ---- warps; the numbers are those of driver_block.c ---- */
static inline int standin_lane() {
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) { standin_at->warp(0, mask, 0, 0); }
template <class T> static inline T standin_shuffle(unsigned mask, T v, int lane) {
    static_assert(sizeof(T) <= 8, "a shuffle moves 8 bytes at most");
    unsigned long long word = 0;
    __builtin_memcpy(&word, &v, sizeof v);
    word = standin_at->warp(1, mask, word, lane);
    __builtin_memcpy(&v, &word, sizeof v);
    return v;
}
/* Lanes outside the segment of `width` give the caller's own value. */
template <class T> static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
    int me = standin_lane();
    return standin_shuffle(mask, v, me / width * width + (from & (width - 1)));
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int me = standin_lane(), from = me - (int)by;
    return standin_shuffle(mask, v, from < me / width * width ? me : from);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
    int me = standin_lane(), from = me + (int)by;
    return standin_shuffle(mask, v, from >= me / width * width + width ? me : from);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32) {
    int me = standin_lane(), from = me ^ by;
    return standin_shuffle(mask, v, from >= me / width * width + width ? me : from);
}
static inline unsigned __ballot_sync(unsigned mask, int p) { return (unsigned)standin_at->warp(2, mask, p != 0, 0); }
static inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
static inline unsigned __match_any_sync(unsigned mask, int v) {
    unsigned same = 0;
    for (int i = 0; i < 32; i++) same |= (unsigned)(__shfl_sync(mask, v, i) == v) << i;
    return same & mask;
}
static inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }
#define STANDIN_REDUCE(T, name, what) \
    static inline T __reduce_##name##_sync(unsigned mask, T v) {          \
        return (T)standin_at->warp(what, mask, (unsigned)v, 0);           \
    }
STANDIN_REDUCE(int, add, 3)
STANDIN_REDUCE(unsigned, add, 3)
STANDIN_REDUCE(int, min, 4)
STANDIN_REDUCE(int, max, 5)
STANDIN_REDUCE(unsigned, min, 6)
STANDIN_REDUCE(unsigned, max, 7)
STANDIN_REDUCE(unsigned, and, 8)
STANDIN_REDUCE(unsigned, or, 9)
STANDIN_REDUCE(unsigned, xor, 10)

/* ---- atomics: the old value ---- */
#define STANDIN_ATOMIC(name, formula)                                                                    \
    template <class T, class V> static inline T atomic##name(T *p, V given) {                            \
        T old = *p, v = (T)given;                                                                        \
        *p = (formula);                                                                                  \
        return old;                                                                                      \
    }
STANDIN_ATOMIC(Add, old + v)
STANDIN_ATOMIC(Sub, old - v)
STANDIN_ATOMIC(Min, v < old ? v : old)
STANDIN_ATOMIC(Max, v > old ? v : old)
STANDIN_ATOMIC(Exch, v)
STANDIN_ATOMIC(And, old &v)
STANDIN_ATOMIC(Or, old | v)
STANDIN_ATOMIC(Xor, old ^ v)
STANDIN_ATOMIC(Inc, old >= v ? 0 : old + 1)
STANDIN_ATOMIC(Dec, old == 0 || old > v ? v : old - 1)
template <class T> static inline T atomicCAS(T *p, T expected, T v) {
    T old = *p;
    if (old == expected) *p = v;
    return old;
}
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }

/* ---- bits ---- */
#define STANDIN_AS(name, To, From)                    \
    static inline To name(From x) {                   \
        To y;                                         \
        static_assert(sizeof x == sizeof y, "");      \
        __builtin_memcpy(&y, &x, sizeof y);           \
        return y;                                     \
    }
STANDIN_AS(__int_as_float, float, int)
STANDIN_AS(__float_as_int, int, float)
STANDIN_AS(__uint_as_float, float, unsigned)
STANDIN_AS(__float_as_uint, unsigned, float)
STANDIN_AS(__longlong_as_double, double, long long)
STANDIN_AS(__double_as_longlong, long long, double)
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++) y |= (x >> i & 1) << (31 - i);
    return y;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned by) {
    return (unsigned)(((unsigned long long)hi << 32 | lo) >> (by & 31));
}
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }

/* ---- mathematics: C's names for double, overloaded for float as CUDA does ---- */
#define STANDIN_MATH1(name)                                            \
    extern "C" double name(double) noexcept;                           \
    extern "C" float name##f(float) noexcept;                          \
    static inline float name(float x) { return __builtin_##name##f(x); }
#define STANDIN_MATH2(name)                                            \
    extern "C" double name(double, double) noexcept;                   \
    extern "C" float name##f(float, float) noexcept;                   \
    static inline float name(float x, float y) { return __builtin_##name##f(x, y); }
STANDIN_MATH1(exp) STANDIN_MATH1(exp2) STANDIN_MATH1(expm1) STANDIN_MATH1(log) STANDIN_MATH1(log2)
STANDIN_MATH1(log10) STANDIN_MATH1(log1p) STANDIN_MATH1(sqrt) STANDIN_MATH1(cbrt) STANDIN_MATH1(sin)
STANDIN_MATH1(cos) STANDIN_MATH1(tan) STANDIN_MATH1(asin) STANDIN_MATH1(acos) STANDIN_MATH1(atan)
STANDIN_MATH1(sinh) STANDIN_MATH1(cosh) STANDIN_MATH1(tanh) STANDIN_MATH1(asinh) STANDIN_MATH1(acosh)
STANDIN_MATH1(atanh) STANDIN_MATH1(erf) STANDIN_MATH1(erfc) STANDIN_MATH1(fabs) STANDIN_MATH1(floor)
STANDIN_MATH1(ceil) STANDIN_MATH1(trunc) STANDIN_MATH1(round) STANDIN_MATH1(rint) STANDIN_MATH1(nearbyint)
STANDIN_MATH1(tgamma) STANDIN_MATH1(lgamma)
STANDIN_MATH2(pow) STANDIN_MATH2(fmod) STANDIN_MATH2(fmin) STANDIN_MATH2(fmax) STANDIN_MATH2(atan2)
STANDIN_MATH2(hypot) STANDIN_MATH2(copysign) STANDIN_MATH2(remainder)
static inline void sincospi(double x, double *s, double *c) {
    *s = __builtin_sin(3.14159265358979323846 * x);
    *c = __builtin_cos(3.14159265358979323846 * x);
}
static inline void sincospif(float x, float *s, float *c) {
    double sine, cosine;
    sincospi(x, &sine, &cosine);
    *s = (float)sine, *c = (float)cosine;
}
static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
static inline float rsqrtf(float x) { return rsqrt(x); }
static inline int abs(int x) { return x < 0 ? -x : x; }
static inline long long llabs(long long x) { return x < 0 ? -x : x; }
static inline float abs(float x) { return __builtin_fabsf(x); }
static inline double abs(double x) { return __builtin_fabs(x); }
template <class T> static inline bool isnan(T x) { return x != x; }
template <class T> static inline bool isinf(T x) { return __builtin_isinf(x) != 0; }
template <class T> static inline bool isfinite(T x) { return __builtin_isfinite(x) != 0; }
template <class T> static inline bool signbit(T x) { return __builtin_signbit(x) != 0; }
#define STANDIN_MINMAX(T)                                                     \
    static inline T min(T a, T b) { return a < b ? a : b; }                   \
    static inline T max(T a, T b) { return a > b ? a : b; }
STANDIN_MINMAX(int) STANDIN_MINMAX(unsigned) STANDIN_MINMAX(long) STANDIN_MINMAX(unsigned long)
STANDIN_MINMAX(long long) STANDIN_MINMAX(unsigned long long)
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double min(double a, double b) { return __builtin_fmin(a, b); }
static inline double max(double a, double b) { return __builtin_fmax(a, b); }
static inline float __expf(float x) { return __builtin_expf(x); }
static inline float __logf(float x) { return __builtin_logf(x); }
static inline float __sinf(float x) { return __builtin_sinf(x); }
static inline float __cosf(float x) { return __builtin_cosf(x); }
static inline float __powf(float x, float y) { return __builtin_powf(x, y); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
static inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }

/* ---- conversions: out of range goes to the nearest, NaN as PTX has it ---- */
static inline long long __double2ll_rz(double x) {
    if (x != x) return (long long)0x8000000000000000ull;
    return x >= 0x1p63 ? 0x7fffffffffffffffll : x < -0x1p63 ? (long long)0x8000000000000000ull : (long long)x;
}
static inline unsigned long long __double2ull_rz(double x) {
    if (x != x) return 0x8000000000000000ull;
    return x >= 0x1p64 ? 0xffffffffffffffffull : x <= 0 ? 0 : (unsigned long long)x;
}
static inline int __float2int_rz(float x) {
    return x != x ? 0 : x >= 0x1p31f ? 0x7fffffff : x < -0x1p31f ? -0x7fffffff - 1 : (int)x;
}
static inline int __float2int_rn(float x) { return __float2int_rz(__builtin_rintf(x)); }
static inline int __double2int_rz(double x) {
    return x != x ? 0 : x >= 0x1p31 ? 0x7fffffff : x < -0x1p31 ? -0x7fffffff - 1 : (int)x;
}
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c += (int)(signed char)(a >> i) * (int)(signed char)(b >> i);
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 255u) * (b >> i & 255u);
    return c;
}
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline double __ll2double_rn(long long x) { return (double)x; }

/* ---- PTX, one instruction per asm statement: nvrtc.c makes a call of standin_ptx_ and its name of it ---- */
static inline float standin_half_to_float(unsigned short h) {
    unsigned e = h >> 10 & 31, m = h & 1023u;
    float y = e == 31 ? __int_as_float((int)(0x7f800000u | m << 13 | (m ? 0x400000u : 0)))
              : e     ? __int_as_float((int)((e + 112) << 23 | m << 13))
                      : (float)m * 0x1p-24f;
    return h >> 15 ? -y : y;
}
/* One rounding, to nearest even. */
static inline unsigned short standin_double_to_half(double x) {
    unsigned sign = (unsigned)((unsigned long long)__double_as_longlong(x) >> 48 & 0x8000u);
    double a = __builtin_fabs(x);
    if (x != x) return 0x7fff;
    if (a >= 65520) return (unsigned short)(sign | 0x7c00u);
    if (a < 0x1p-14) return (unsigned short)(sign | (unsigned)__builtin_rint(a * 0x1p24));
    int e = __builtin_ilogb(a);
    unsigned m = (unsigned)__builtin_rint(__builtin_ldexp(a, 10 - e));
    return (unsigned short)(sign | (((unsigned)(e + 15) << 10) + (m - 1024)));
}
static inline unsigned short standin_float_to_bfloat(float x) {
    unsigned u = __float_as_uint(x);
    return (unsigned short)(x != x ? 0x7fffu : (u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
static inline void standin_ptx_cvt_f32_f16(float &y, unsigned short x) { y = standin_half_to_float(x); }
static inline void standin_ptx_cvt_rn_f16_f32(unsigned short &y, float x) { y = standin_double_to_half((double)x); }
static inline void standin_ptx_cvt_rn_f16_f64(unsigned short &y, double x) { y = standin_double_to_half(x); }
static inline void standin_ptx_cvt_rn_bf16_f32(unsigned short &y, float x) { y = standin_float_to_bfloat(x); }
static inline void standin_ptx_cvt_f32_bf16(float &y, unsigned short x) { y = __uint_as_float((unsigned)x << 16); }
static inline void standin_ptx_ex2_approx_f32(float &y, float x) { y = __builtin_exp2f(x); }
static inline void standin_ptx_rcp_approx_f32(float &y, float x) { y = 1.0f / x; }
static inline void standin_ptx_griddepcontrol_wait_() { standin_at->waited = 1; }
static inline void standin_ptx_griddepcontrol_launch_dependents_() {}
static inline void standin_ptx_ld_global_L1__no_allocate_L2__128B_v4_u32(unsigned &a, unsigned &b, unsigned &c,
                                                                         unsigned &d, const void *p) {
    const unsigned *from = (const unsigned *)p;
    a = from[0], b = from[1], c = from[2], d = from[3];
}
static inline void standin_ptx_ld_global_cg_v4_u32(unsigned &a, unsigned &b, unsigned &c, unsigned &d, const void *p) {
    standin_ptx_ld_global_L1__no_allocate_L2__128B_v4_u32(a, b, c, d, p);
}

/* ---- half types, as cuda_fp16.h and cuda_bf16.h name them ---- */
struct __half {
    unsigned short bits;
    __half() = default;
    __half(float x) : bits(standin_double_to_half((double)x)) {}
    operator float() const { return standin_half_to_float(bits); }
};
struct __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) : bits(standin_float_to_bfloat(x)) {}
    operator float() const { return __uint_as_float((unsigned)bits << 16); }
};
static inline float __half2float(__half x) { return (float)x; }
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline float __bfloat162float(__nv_bfloat16 x) { return (float)x; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }

/* ---- kernels as the driver finds them; mirrors `kernel` in driver_module.c ---- */
struct standin_kernel {
    const char *name;
    int n_params, max_threads;
    const size_t *bytes;
    void (*call)(void **args);
};
template <int... I> struct standin_indices {};
template <int N, int... I> struct standin_count : standin_count<N - 1, N - 1, I...> {};
template <int... I> struct standin_count<0, I...> {
    typedef standin_indices<I...> type;
};
template <auto F, class T> struct standin_entry;
template <auto F, class... P> struct standin_entry<F, void (*)(P...)> {
    static constexpr int n = (int)sizeof...(P);
    static constexpr size_t bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};
    template <int... I> static void unpack(void **args, standin_indices<I...>) { F(*(P *)args[I]...); }
    static void call(void **args) { unpack(args, typename standin_count<n>::type()); }
};
#define STANDIN_KERNEL(name, max_threads)                                                                      \
    {#name, standin_entry<name, decltype(&name)>::n, max_threads, standin_entry<name, decltype(&name)>::bytes, \
     standin_entry<name, decltype(&name)>::call},
