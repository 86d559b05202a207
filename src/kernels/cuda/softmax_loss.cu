/* cuda/softmax_loss.cu: softmax and log-softmax along one axis, softmax cross-entropy, and the gradients of both.
 *
 * Tensors are dense (outer, C, inner). A row is the C elements of one (outer, inner); it belongs to one warp or one
 * block (join_row). Shifted by the row's maximum; a row of -inf alone, or one with +inf or NaN, gives NaN.
 * Accumulation: in A by a fixed tree; losses and weights over the positions in double. */
struct rows_shape {
    int64_t outer, C, inner;
};

DEVICE int64_t first_row(void) { return blockIdx.x * (int64_t)blockDim.y + threadIdx.y; }
DEVICE int64_t row_step(void) { return gridDim.x * (int64_t)blockDim.y; }
DEVICE int64_t row_start(const rows_shape &s, int64_t row) {
    return row / s.inner * s.C * s.inner + row % s.inner;
}

/* max and the logarithm of the sum of exp(x - max). */
DEVICE void row_norm(const rows_shape &s, const S *x, A &top, A &sum) {
    top = -(A)INF;
    for (int64_t c = threadIdx.x; c < s.C; c += blockDim.x) top = join_max::of(top, (A)get(x[c * s.inner]));
    top = join_row<join_max>(top);
    sum = 0;
    for (int64_t c = threadIdx.x; c < s.C; c += blockDim.x) sum += exp((A)get(x[c * s.inner]) - top);
    sum = join_row<join_sum>(sum);
}

/* y may be x. */
extern "C" __global__ void softmax(rows_shape s, int logs, const S *x, S *y) {
    for (int64_t row = first_row(); row < s.outer * s.inner; row += row_step()) {
        int64_t start = row_start(s, row);
        A top, sum;
        row_norm(s, x + start, top, sum);
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
    const void *labels;
    const S *weights;
    int64_t ignore_index;
    int wide_labels, has_ignore, reduction; /* 0 none, 1 sum, 2 mean */
};

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
DEVICE void put_loss(const loss_args &a, int64_t row, const S *x, A top, A log_sum, S *each, double *each_wide) {
    int64_t label = label_of(a, row);
    bool known = label >= 0 && label < a.s.C && !ignored(a, label);
    A picked = known ? (A)get(x[label * a.s.inner]) - top - log_sum : (A)0;
    if (threadIdx.x != 0) return;
    double loss = ignored(a, label) ? 0 : -weight_of(a, label) * (double)picked;
    if (each) each[row] = to<S>::put((A)loss);
    if (each_wide) each_wide[row] = loss;
}

/* log_prob (outer, C, inner) unless NULL; the weighted loss of each position to each (none) or each_wide (sum, mean).
 * */
extern "C" __global__ void loss_rows(loss_args a, const S *x, S *log_prob, S *each, double *each_wide) {
    const rows_shape &s = a.s;
    for (int64_t row = first_row(); row < s.outer * s.inner; row += row_step()) {
        int64_t start = row_start(s, row);
        A top, sum;
        row_norm(s, x + start, top, sum);
        A log_sum = log(sum);
        put_loss(a, row, x + start, top, log_sum, each, each_wide);
        for (int64_t c = threadIdx.x; log_prob && c < s.C; c += blockDim.x)
            log_prob[start + c * s.inner] = to<S>::put((A)get(x[start + c * s.inner]) - top - log_sum);
    }
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

/* The same for rows of whole vectors that lie side by side (inner 1), all aligned: a row's maximum and sum in one
 * read, brought to a new scale with each AT_ONCE vectors. */
enum { AT_ONCE = 4 };
DEVICE void row_norm_vectors(int64_t C, const S *x, A &top, A &sum) {
    top = -(A)INF, sum = 0;
    for (int64_t c = threadIdx.x * V; c < C; c += AT_ONCE * V * (int64_t)blockDim.x) {
        vec<S, V> held[AT_ONCE];
        A most = top, more = 0;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            held[k] = vec_of<V>(to<S>::put(-(A)INF));
            if (c + k * V * (int64_t)blockDim.x < C) held[k] = vec_at<V>(x + c + k * V * (int64_t)blockDim.x);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE * V; i++) most = max(most, (A)get(held[i / V].e[i % V]));
        A base = base_of(most);
#pragma unroll
        for (int i = 0; i < AT_ONCE * V; i++) more += power((A)get(held[i / V].e[i % V]), base);
        sum = sum * power(top, base) + more;
        top = most;
    }
    A most = join_row<join_max>(top);
    sum = join_row<join_sum>(sum * power(top, base_of(most)));
    top = most;
}
extern "C" __global__ __launch_bounds__(256) void loss_vectors(loss_args a, const S *x, S *log_prob, S *each,
                                                               double *each_wide) {
    for (int64_t row = first_row(); row < a.s.outer; row += row_step()) {
        const S *from = x + row * a.s.C;
        A top, sum;
        row_norm_vectors(a.s.C, from, top, sum);
        A log_sum = log(sum);
        put_loss(a, row, from, top, log_sum, each, each_wide);
        for (int64_t c = threadIdx.x * V; log_prob && c < a.s.C; c += V * (int64_t)blockDim.x) {
            vec<S, V> v = vec_at<V>(from + c);
#pragma unroll
            for (int i = 0; i < V; i++) v.e[i] = to<S>::put((A)get(v.e[i]) - top - log_sum);
            *(vec<S, V> *)(log_prob + row * a.s.C + c) = v;
        }
    }
}

/* One block. loss = sum of each_wide, divided by the sum of the weights of the labels for mean: NaN when all are
 * ignored. */
extern "C" __global__ __launch_bounds__(1024) void loss_join(loss_args a, const double *__restrict__ each_wide,
                                                             S *loss) {
    double sum = 0, norm = 0;
    for (int64_t i = threadIdx.x; i < a.s.outer * a.s.inner; i += blockDim.x) {
        sum += each_wide[i];
        if (a.reduction == 2) norm += weight_of(a, label_of(a, i));
    }
    sum = join_row<join_sum>(sum);
    norm = join_row<join_sum>(norm);
    if (threadIdx.x == 0) *loss = to<S>::put((A)(a.reduction == 2 ? sum / norm : sum));
}

/* One block. *norm = the sum of the weights of the labels. */
extern "C" __global__ __launch_bounds__(1024) void loss_norm(loss_args a, double *norm) {
    double v = 0;
    for (int64_t i = threadIdx.x; i < a.s.outer * a.s.inner; i += blockDim.x) v += weight_of(a, label_of(a, i));
    v = join_row<join_sum>(v);
    if (threadIdx.x == 0) *norm = v;
}

/* dx = (exp(log_prob) - onehot) * weight * dloss (/ norm for mean). An ignored position is 0 even where dloss or 1/norm
 * is not finite. dx may be log_prob. */
extern "C" __global__ void loss_grad(loss_args a, const S *__restrict__ dloss, const S *log_prob,
                                     const double *__restrict__ norm, S *dx) {
    const rows_shape &s = a.s;
    int64_t n = s.outer * s.C * s.inner;
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t o = i / (s.C * s.inner), c = i / s.inner % s.C, position = o * s.inner + i % s.inner;
        int64_t label = label_of(a, position);
        A p = exp((A)get(log_prob[i]));
        if (ignored(a, label)) {
            dx[i] = to<S>::put((A)0);
            continue;
        }
        double f = weight_of(a, label) * (double)get(dloss[a.reduction == 0 ? position : 0]);
        if (a.reduction == 2) f /= *norm;
        dx[i] = to<S>::put((p - (A)(label == c)) * (A)f);
    }
}
