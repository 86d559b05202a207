/* cuda/optim.cu: one step of an optimizer over many tensors in place: SGD, SGD with momentum, and Adam with decoupled
 * weight decay in its two forms, after the formulas of kernels/cpu/optim/optim.c, in the same order. Rate, step, scale
 * and the signal are read from device memory, so that a captured step goes on counting. Storage types differ from
 * tensor to tensor. */
enum { OPTIM_F32, OPTIM_F64, OPTIM_F16, OPTIM_BF16 };
enum { OPTIM_SGD, OPTIM_MOMENTUM, OPTIM_ADAM }; /* moments that it has */

struct optim_tensor { /* mirrors optim_tensor of optim.c */
    void *w, *m, *v;
    const void *g;
    uint64_t n_types; /* elements * 256 + types, two bits each: w, m, v, g */
};
struct optim_rule { /* mirrors optim_rule of optim.c */
    double alpha, beta, epsilon, decay, dampening;
    const void *rate, *scale;
    const int64_t *step;
    const uint8_t *signal;
    int kind, decay_last, correct_bias, wide; /* wide: bit 0 rate is f64, bit 1 scale is */
    int64_t nesterov, n;
};
#define OPTIM_TENSORS 98
struct optim_tensors { optim_tensor of[OPTIM_TENSORS]; };

template <class C> DEVICE C load_as(const void *p, int type, int64_t i) {
    switch (type) {
    case OPTIM_F64: return (C)((const double *)p)[i];
    case OPTIM_F16: return (C)get(((const f16 *)p)[i]);
    case OPTIM_BF16: return (C)get(((const bf16 *)p)[i]);
    default: return (C)((const float *)p)[i];
    }
}
template <class C> DEVICE void store_as(void *p, int type, int64_t i, C v) {
    switch (type) {
    case OPTIM_F64: ((double *)p)[i] = (double)v; break;
    case OPTIM_F16: ((f16 *)p)[i] = to<f16>::put(v); break;
    case OPTIM_BF16: ((bf16 *)p)[i] = to<bf16>::put(v); break;
    default: ((float *)p)[i] = (float)v; break;
    }
}

/* What is the same for all elements. */
struct optim_numbers {
    double root, rate, keep, scale;
    double stays, taken; /* of momentum: of the old moment, of the gradient, all of which the first step takes */
};

DEVICE double number_at(const void *p, bool wide) { return wide ? *(const double *)p : (double)*(const float *)p; }

DEVICE optim_numbers numbers_of(const optim_rule &r) {
    double rate = number_at(r.rate, r.wide & 1), step = (double)*r.step;
    double first = r.correct_bias ? 1 - pow(r.alpha, step) : 1, second = r.correct_bias ? 1 - pow(r.beta, step) : 1;
    optim_numbers k;
    k.root = r.decay_last ? 1 : 1 / sqrt(second);
    k.rate = r.decay_last ? rate * sqrt(second) / first : rate / first;
    k.keep = 1 - rate * r.decay;
    k.scale = number_at(r.scale, r.wide & 2);
    if (r.kind == OPTIM_SGD) k.rate = rate * k.scale;
    if (r.kind == OPTIM_MOMENTUM) k.rate = rate;
    k.stays = *r.step <= 1 ? 0 : r.alpha;
    k.taken = *r.step <= 1 ? 1 : 1 - r.dampening;
    return k;
}

template <class C>
DEVICE void with_momentum(const optim_rule &r, const optim_numbers &k, const optim_tensor &t, int types, int64_t i) {
    int tw = types & 3, tm = types >> 2 & 3;
    C w = load_as<C>(t.w, tw, i), g = load_as<C>(t.g, types >> 6 & 3, i) * (C)k.scale + w * (C)r.decay;
    C m = k.stays != 0 ? load_as<C>(t.m, tm, i) * (C)k.stays + g * (C)k.taken : g * (C)k.taken;
    store_as<C>(t.w, tw, i, w - (r.nesterov ? g + m * (C)r.alpha : m) * (C)k.rate);
    store_as<C>(t.m, tm, i, m);
}

/* Adam's new weight; m and v become the new moments. */
template <class C> DEVICE C adam(const optim_rule &r, const optim_numbers &k, C w, C g, C &m, C &v) {
    g = g * (C)k.scale;
    m = m * (C)r.alpha + g * (C)(1 - r.alpha);
    v = v * (C)r.beta + g * g * (C)(1 - r.beta);
    C up = m * (C)k.rate / (sqrt(v) * (C)k.root + (C)r.epsilon);
    return r.decay_last ? (w - up) * (C)k.keep : w * (C)k.keep - up;
}

template <class C>
DEVICE void one_element(const optim_rule &r, const optim_numbers &k, const optim_tensor &t, int64_t i) {
    int types = (int)(t.n_types & 255), tw = types & 3, tm = types >> 2 & 3, tv = types >> 4 & 3, tg = types >> 6 & 3;
    if (r.kind == OPTIM_MOMENTUM) return with_momentum<C>(r, k, t, types, i);
    C w = load_as<C>(t.w, tw, i), g = load_as<C>(t.g, tg, i);
    if (r.kind == OPTIM_SGD) return store_as<C>(t.w, tw, i, w - g * (C)k.rate);
    C m = load_as<C>(t.m, tm, i), v = load_as<C>(t.v, tv, i);
    store_as<C>(t.w, tw, i, adam<C>(r, k, w, g, m, v));
    store_as<C>(t.m, tm, i, m);
    store_as<C>(t.v, tv, i, v);
}

/* Four elements of f32 each. */
DEVICE void four_elements(const optim_rule &r, const optim_numbers &k, const optim_tensor &t, int64_t i) {
    typedef vec<float, 4> four;
    four w = ((four *)t.w)[i], m = ((four *)t.m)[i], v = ((four *)t.v)[i], g = ((const four *)t.g)[i];
#pragma unroll
    for (int e = 0; e < 4; e++) w.e[e] = adam<float>(r, k, w.e[e], g.e[e], m.e[e], v.e[e]);
    ((four *)t.w)[i] = w, ((four *)t.m)[i] = m, ((four *)t.v)[i] = v;
}
DEVICE bool in_fours(const optim_rule &r, const optim_tensor &t) {
    uint64_t all = (uint64_t)t.w | (uint64_t)t.m | (uint64_t)t.v | (uint64_t)t.g;
    return r.kind == OPTIM_ADAM && (t.n_types & 255) == 0 && all % 16 == 0;
}

/* Every block goes over all tensors; where it begins in one is turned from tensor to tensor, so that many small ones
 * spread over the blocks. */
extern "C" __global__ void optim_step(optim_rule r, optim_tensors tensors) {
    __shared__ optim_numbers k;
    if (r.signal && !*r.signal) return;
    if (threadIdx.x == 0) k = numbers_of(r);
    __syncthreads();
    for (int64_t t = 0; t < r.n; t++) {
        const optim_tensor &of = tensors.of[t];
        int types = (int)(of.n_types & 255);
        bool wide = (types & 3) == OPTIM_F64 || (types >> 6 & 3) == OPTIM_F64 ||
                    (r.kind != OPTIM_SGD && (types >> 2 & 3) == OPTIM_F64);
        int64_t n = (int64_t)(of.n_types >> 8), block = (blockIdx.x + t * 7) % gridDim.x;
        int64_t first = block * blockDim.x + threadIdx.x, done = in_fours(r, of) ? n / 4 : 0;
        for (int64_t i = first; i < done; i += item_step()) four_elements(r, k, of, i);
        for (int64_t i = 4 * done + first; i < n; i += item_step())
            wide ? one_element<double>(r, k, of, i) : one_element<float>(r, k, of, i);
    }
}
