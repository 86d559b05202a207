/* cuda/softmax_loss.cu: softmax and log-softmax along one axis, softmax cross-entropy, negative log-likelihood, and
 * their gradients.
 *
 * Tensors are dense (outer, C, inner). A row is the C elements of one (outer, inner); it belongs to one warp or one
 * block (join_row). Shifted by the row's maximum; a row of -inf alone, or one with +inf or NaN, gives NaN. W is the
 * stored type of losses, weights and log-probabilities, X that of the scores' gradient.
 * Accumulation: in A by a fixed tree; losses and weights over the positions in double. */
#ifndef W
#define W S
#endif
#ifndef X
#define X S
#endif
struct rows_shape {
    int64_t outer, C, inner;
};

DEVICE int64_t first_row(void) { return blockIdx.x * (int64_t)blockDim.y + threadIdx.y; }
DEVICE int64_t row_step(void) { return gridDim.x * (int64_t)blockDim.y; }
DEVICE int64_t row_start(const rows_shape &s, int64_t row) {
    return row / s.inner * s.C * s.inner + row % s.inner;
}

/* max and the sum of exp(x - max) of C elements that are `step` apart. */
DEVICE void row_norm(int64_t C, int64_t step, const S *x, A &top, A &sum) {
    top = -(A)INF;
    for (int64_t c = threadIdx.x; c < C; c += blockDim.x) top = join_max::of(top, (A)get(x[c * step]));
    top = join_row<join_max>(top);
    sum = 0;
    for (int64_t c = threadIdx.x; c < C; c += blockDim.x) sum += exp((A)get(x[c * step]) - top);
    sum = join_row<join_sum>(sum);
}

/* y may be x. */
extern "C" __global__ void softmax(rows_shape s, int logs, const S *x, S *y) {
    for (int64_t row = first_row(); row < s.outer * s.inner; row += row_step()) {
        int64_t start = row_start(s, row);
        A top, sum;
        row_norm(s.C, s.inner, x + start, top, sum);
        A log_sum = log(sum);
        for (int64_t c = threadIdx.x; c < s.C; c += blockDim.x) {
            A v = (A)get(x[start + c * s.inner]) - top;
            y[start + c * s.inner] = to<S>::put(logs ? v - log_sum : exp(v) / sum);
        }
    }
}

/* The same for rows of whole vectors that lie side by side (inner 1), all aligned, of at most HELD vectors a thread: a
 * row is read once. */
enum { V = 16 / sizeof(S), HELD = 32 / V };
extern "C" __global__ __launch_bounds__(256) void softmax_vectors(rows_shape s, int logs, const S *x, S *y) {
    for (int64_t row = first_row(); row < s.outer; row += row_step()) {
        vec<S, V> held[HELD];
        A top = -(A)INF, sum = 0;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            int64_t c = (threadIdx.x + k * (int64_t)blockDim.x) * V;
            if (c >= s.C) continue;
            held[k] = vec_at<V>(x + row * s.C + c);
#pragma unroll
            for (int i = 0; i < V; i++) top = join_max::of(top, (A)get(held[k].e[i]));
        }
        top = join_row<join_max>(top);
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if ((threadIdx.x + k * (int64_t)blockDim.x) * V < s.C)
#pragma unroll
                for (int i = 0; i < V; i++) sum += exp((A)get(held[k].e[i]) - top);
        sum = join_row<join_sum>(sum);
        A log_sum = log(sum);
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            int64_t c = (threadIdx.x + k * (int64_t)blockDim.x) * V;
            if (c >= s.C) continue;
#pragma unroll
            for (int i = 0; i < V; i++) {
                A v = (A)get(held[k].e[i]) - top;
                held[k].e[i] = to<S>::put(logs ? v - log_sum : exp(v) / sum);
            }
            *(vec<S, V> *)(y + row * s.C + c) = held[k];
        }
    }
}

/* softmax dx = y * (dy - sum(dy*y)), log-softmax dx = dy - exp(y) * sum(dy). dx may be dy or y. */
extern "C" __global__ void softmax_grad(rows_shape s, int logs, const S *dy, const S *y, S *dx) {
    for (int64_t row = first_row(); row < s.outer * s.inner; row += row_step()) {
        int64_t start = row_start(s, row);
        A sum = 0;
        for (int64_t c = threadIdx.x; c < s.C; c += blockDim.x) {
            A d = get(dy[start + c * s.inner]);
            sum += logs ? d : d * (A)get(y[start + c * s.inner]);
        }
        sum = join_row<join_sum>(sum);
        for (int64_t c = threadIdx.x; c < s.C; c += blockDim.x) {
            A d = get(dy[start + c * s.inner]), v = get(y[start + c * s.inner]);
            dx[start + c * s.inner] = to<S>::put(logs ? d - exp(v) * sum : v * (d - sum));
        }
    }
}

/* Labels (outer, inner), weights (C) or NULL. A label outside [0, C) that is not ignored cannot be reported from here:
 * its loss and its gradient are NaN, and nothing outside the tensors is touched. */
struct loss_args {
    rows_shape s;
    int64_t line, step; /* of the scores: from one of outer to the next, from class to class */
    const void *labels;
    const W *weights;
    int64_t ignore_index;
    int wide_labels, has_ignore, reduction; /* 0 none, 1 sum, 2 mean */
};

DEVICE int64_t scores_start(const loss_args &a, int64_t row) {
    return row / a.s.inner * a.line + row % a.s.inner;
}
DEVICE int64_t label_of(const loss_args &a, int64_t i) {
    return a.wide_labels ? ((const int64_t *)a.labels)[i] : ((const int32_t *)a.labels)[i];
}
DEVICE bool ignored(const loss_args &a, int64_t label) { return a.has_ignore && label == a.ignore_index; }
DEVICE double weight_of(const loss_args &a, int64_t label) {
    if (ignored(a, label)) return 0;
    if (label < 0 || label >= a.s.C) return __longlong_as_double(0x7ff8000000000000ll);
    return a.weights ? (double)get(a.weights[label]) : 1;
}

/* The weighted loss of a row whose maximum is top, from the element of its label; one thread writes it. */
DEVICE void put_loss(const loss_args &a, int64_t row, const S *x, A top, A log_sum, W *each, double *each_wide) {
    int64_t label = label_of(a, row);
    bool known = label >= 0 && label < a.s.C && !ignored(a, label);
    A picked = known ? (A)get(x[label * a.step]) - top - log_sum : (A)0;
    if (threadIdx.x != 0) return;
    double loss = ignored(a, label) ? 0 : -weight_of(a, label) * (double)picked;
    if (each) each[row] = to<W>::put((A)loss);
    if (each_wide) each_wide[row] = loss;
}

/* exp(x - base), x and base given times LOG2_E where it is a power of 2. */
#define LOG2_E 1.4426950408889634
DEVICE float scaled(float x) { return x * (float)LOG2_E; }
DEVICE double scaled(double x) { return x; }
DEVICE float power(float x, float base) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(fma(x, (float)LOG2_E, -base)));
    return y;
}
DEVICE double power(double x, double base) { return exp(x - base); }
/* What a part is lessened by: its maximum, or 0 where that is -inf. NaN is in no maximum; its power is NaN. */
DEVICE A base_of(A top) { return top == -(A)INF ? (A)0 : scaled(top); }

/* A maximum and the sum of the powers of what lies below it, of n elements more. */
template <int N> DEVICE void take_in(const A (&v)[N], A &top, A &sum) {
    A most = top, more = 0;
#pragma unroll
    for (int i = 0; i < N; i++) most = max(most, v[i]);
    A base = base_of(most);
#pragma unroll
    for (int i = 0; i < N; i++) more += power(v[i], base);
    sum = sum * power(top, base) + more;
    top = most;
}

/* How a row that lies side by side is read: `head` elements up to the first vector, whole vectors, the rest. Memory
 * that does not lie as the first one is read element by element. */
struct row_cut {
    int64_t head, tail; /* where vectors begin and end */
};
DEVICE row_cut cut_of(int64_t C, const void *x, const void *y) {
    int64_t over = (uint64_t)x % 16, head = over ? (16 - over) / (int64_t)sizeof(S) : 0;
    row_cut c;
    c.head = min(C, (uint64_t)y % 16 == (uint64_t)over ? head : C);
    c.tail = c.head + (C - c.head) / V * V;
    return c;
}
/* The elements outside of the vectors, f(column) for each of this thread. */
template <class F> DEVICE void each_outside(int64_t C, const row_cut &cut, F f) {
    for (int64_t c = threadIdx.x; c < cut.head; c += blockDim.x) f(c);
    for (int64_t c = cut.tail + threadIdx.x; c < C; c += blockDim.x) f(c);
}

/* A row's maximum and sum in one read, brought to a new scale with each AT_ONCE vectors. */
enum { AT_ONCE = 4 };
DEVICE void row_norm_vectors(int64_t C, const row_cut &cut, const S *x, A &top, A &sum) {
    A t = -(A)INF, s = 0;
    for (int64_t c = cut.head + threadIdx.x * V; c < cut.tail; c += AT_ONCE * V * (int64_t)blockDim.x) {
        vec<S, V> held[AT_ONCE];
        A v[AT_ONCE * V];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            held[k] = vec_of<V>(to<S>::put(-(A)INF));
            if (c + k * V * (int64_t)blockDim.x < cut.tail) held[k] = vec_at<V>(x + c + k * V * (int64_t)blockDim.x);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE * V; i++) v[i] = (A)get(held[i / V].e[i % V]);
        take_in<AT_ONCE * V>(v, t, s);
    }
    each_outside(C, cut, [&](int64_t c) {
        A v[1] = {(A)get(x[c])};
        take_in<1>(v, t, s);
    });
    top = join_row<join_max>(t);
    sum = join_row<join_sum>(s * power(t, base_of(top)));
}
DEVICE void loss_row_norm(const loss_args &a, const row_cut &cut, const S *x, A &top, A &sum) {
    if (a.step == 1) row_norm_vectors(a.s.C, cut, x, top, sum);
    else row_norm(a.s.C, a.step, x, top, sum);
}

/* log_prob (outer, C, inner) unless NULL; the weighted loss of each position to each (none) or each_wide (sum, mean);
 * the logarithms of the sums of exp(x), (outer, inner), unless NULL. */
extern "C" __global__ __launch_bounds__(256) void loss_rows(loss_args a, const S *x, W *log_prob, W *each,
                                                            double *each_wide, A *log_sums) {
    const rows_shape &s = a.s;
    for (int64_t row = first_row(); row < s.outer * s.inner; row += row_step()) {
        const S *from = x + scores_start(a, row);
        A top, sum;
        loss_row_norm(a, cut_of(s.C, from, from), from, top, sum);
        A log_sum = log(sum);
        put_loss(a, row, from, top, log_sum, each, each_wide);
        if (threadIdx.x == 0 && log_sums) log_sums[row] = top + log_sum;
        for (int64_t c = threadIdx.x; log_prob && c < s.C; c += blockDim.x)
            log_prob[row_start(s, row) + c * s.inner] = to<W>::put((A)get(from[c * a.step]) - top - log_sum);
    }
}

/* The same of log-probabilities x: of each position the element of its label alone. */
extern "C" __global__ void loss_picked(loss_args a, const S *x, W *each, double *each_wide) {
    for (int64_t row = first_item(); row < a.s.outer * a.s.inner; row += item_step()) {
        int64_t label = label_of(a, row);
        bool known = label >= 0 && label < a.s.C;
        double p = known ? (double)get(x[row_start(a.s, row) + label * a.s.inner]) : 0;
        double loss = ignored(a, label) ? 0 : -weight_of(a, label) * p;
        if (each) each[row] = to<W>::put((A)loss);
        if (each_wide) each_wide[row] = loss;
    }
}

/* One block. loss = sum of each_wide, divided by the sum of the weights of the labels for mean: NaN when all are
 * ignored. */
extern "C" __global__ __launch_bounds__(1024) void loss_join(loss_args a, const double *__restrict__ each_wide,
                                                             W *loss) {
    double sum = 0, norm = 0;
    for (int64_t i = threadIdx.x; i < a.s.outer * a.s.inner; i += blockDim.x) {
        sum += each_wide[i];
        if (a.reduction == 2) norm += weight_of(a, label_of(a, i));
    }
    sum = join_row<join_sum>(sum);
    norm = join_row<join_sum>(norm);
    if (threadIdx.x == 0) *loss = to<W>::put((A)(a.reduction == 2 ? sum / norm : sum));
}

/* One block. *norm = the sum of the weights of the labels. */
extern "C" __global__ __launch_bounds__(1024) void loss_norm(loss_args a, double *norm) {
    double v = 0;
    for (int64_t i = threadIdx.x; i < a.s.outer * a.s.inner; i += blockDim.x) v += weight_of(a, label_of(a, i));
    v = join_row<join_sum>(v);
    if (threadIdx.x == 0) *norm = v;
}

/* What (softmax - onehot) of a position is multiplied with. An ignored one is 0 even where dloss or 1/norm is not
 * finite. */
DEVICE A factor_of(const loss_args &a, int64_t position, int64_t label, const W *dloss, const double *norm) {
    if (ignored(a, label)) return 0;
    double f = weight_of(a, label) * (double)get(dloss[a.reduction == 0 ? position : 0]);
    return (A)(a.reduction == 2 ? f / *norm : f);
}

/* What exp(x) is lessened by and multiplied with to be the softmax of a row. */
struct row_share { A base, by; };
DEVICE row_share share_of(const loss_args &a, const row_cut &cut, const S *x, int64_t row, const A *log_sums) {
    row_share r;
    A top, sum;
    if (log_sums) {
        r.base = scaled(log_sums[row]), r.by = (A)1;
        return r;
    }
    loss_row_norm(a, cut, x, top, sum);
    r.base = base_of(top), r.by = (A)1 / sum;
    return r;
}

/* dx = (softmax(x) - onehot) * weight * dloss (/ norm for mean): a row is read twice, or once where log_sums, which may
 * be NULL, has what the loss found. dx lies as x does and may be x; what a line has behind its classes (inner 1) is not
 * read and becomes 0. */
extern "C" __global__ __launch_bounds__(256) void scores_grad(loss_args a, const W *__restrict__ dloss, const S *x,
                                                              const A *log_sums, const double *__restrict__ norm,
                                                              X *dx) {
    const rows_shape &s = a.s;
    for (int64_t row = first_row(); row < s.outer * s.inner; row += row_step()) {
        int64_t start = scores_start(a, row), label = label_of(a, row), step = V * (int64_t)blockDim.x;
        const S *from = x + start;
        X *into = dx + start;
        row_cut cut = cut_of(s.C, from, sizeof(S) == sizeof(X) ? (const void *)into : (const char *)from + 1);
        A f = factor_of(a, row, label, dloss, norm);
        bool none = ignored(a, label);
        row_share share = share_of(a, cut, from, row, log_sums);
        auto grad = [&](const S &v, int64_t c) {
            A p = power((A)get(v), share.base) * share.by - (A)(label == c);
            return to<X>::put(none ? (A)0 : p * f);
        };
        if (a.step != 1) cut.tail = cut.head = s.C;
        for (int64_t c = cut.head + threadIdx.x * V; c < cut.tail; c += AT_ONCE * step) {
            vec<S, V> held[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (c + k * step < cut.tail) held[k] = vec_at<V>(from + c + k * step);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                vec<X, V> d;
                if (c + k * step >= cut.tail) continue;
#pragma unroll
                for (int i = 0; i < V; i++) d.e[i] = grad(held[k].e[i], c + k * step + i);
                *(vec<X, V> *)(into + c + k * step) = d;
            }
        }
        each_outside(s.C, cut, [&](int64_t c) { into[c * a.step] = grad(from[c * a.step], c); });
        for (int64_t c = s.C + threadIdx.x; s.inner == 1 && c < a.line; c += blockDim.x) into[c] = to<X>::put((A)0);
    }
}

/* The same from exp(log_prob); by log_prob itself (picks) without exp(...). dx may be log_prob. */
extern "C" __global__ void loss_grad(loss_args a, int picks, const W *__restrict__ dloss, const S *log_prob,
                                     const double *__restrict__ norm, X *dx) {
    const rows_shape &s = a.s;
    int64_t n = s.outer * s.C * s.inner;
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t o = quotient(i, s.C * s.inner), c = quotient(i - o * s.C * s.inner, s.inner);
        int64_t position = o * s.inner + i - (o * s.C + c) * s.inner, label = label_of(a, position);
        A p = (picks ? (A)0 : exp((A)get(log_prob[i]))) - (A)(label == c);
        dx[i] = to<X>::put(ignored(a, label) ? (A)0 : p * factor_of(a, position, label, dloss, norm));
    }
}
