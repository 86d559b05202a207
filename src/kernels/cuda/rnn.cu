/* cuda/rnn.cu: the elementwise part of recurrent layers, forward and backward; the products are gemm.h's. After
 * kernels/cpu/rnn: T steps, B rows, H hidden units, G gates: 1 (RNN), 3 (GRU: z r h), 4 (LSTM: i o f c). A thread has
 * one unit of one row. S is float or double, or a half type for widen and narrow alone. */
enum { RNN_PLAIN, RNN_GRU, RNN_LSTM };

struct rnn_act { /* mirrors act_args of rnn.c */
    int64_t fn;
    double alpha, beta;
};
struct rnn_rule { /* mirrors rule_args of rnn.c */
    rnn_act act[3];
    double clip;
    int kind, before_reset, input_forget, peepholes;
};
struct rnn_sizes { /* mirrors size_args of rnn.c */
    int64_t T, B, H, G, K, state_rs, y_t, y_b;
    int batch_first, reverse;
    const int32_t *lens;
};

/* In the order of NCK_RNN_FUNCTIONS. */
enum { TANH, SIGMOID, RELU, AFFINE, LEAKY_RELU, THRESHOLDED, SCALED_TANH, HARD_SIGMOID, ELU, SOFTSIGN, SOFTPLUS };

DEVICE A clipped(const rnn_rule &r, int i, A x) {
    if (r.clip == 0 || i == 2) return x;
    A most = (A)r.clip;
    return x > most ? most : x < -most ? -most : x;
}

DEVICE A activate(const rnn_rule &r, int i, A x) {
    const rnn_act &f = r.act[i];
    A alpha = (A)f.alpha, beta = (A)f.beta;
    x = clipped(r, i, x);
    switch (f.fn) {
    case TANH: return tanh(x);
    case SIGMOID: return (A)1 / ((A)1 + exp(-x));
    case RELU: return x < 0 ? (A)0 : x;
    case AFFINE: return alpha * x + beta;
    case LEAKY_RELU: return x < 0 ? alpha * x : x;
    case THRESHOLDED: return x > alpha ? x : (A)0;
    case SCALED_TANH: return alpha * tanh(beta * x);
    case HARD_SIGMOID: {
        A v = alpha * x + beta;
        return v < 0 ? (A)0 : v > 1 ? (A)1 : v;
    }
    case ELU: return x < 0 ? alpha * expm1(x) : x;
    case SOFTSIGN: return x / ((A)1 + fabs(x));
    default: return x > 30 ? x : log1p(exp(x));
    }
}

/* The derivative at x, whose value y is known. A clipped sum passes nothing on. */
DEVICE A slope(const rnn_rule &r, int i, A x, A y) {
    const rnn_act &f = r.act[i];
    A alpha = (A)f.alpha, beta = (A)f.beta, t;
    if (r.clip != 0 && i < 2 && !(fabs(x) <= (A)r.clip)) return 0;
    switch (f.fn) {
    case TANH: return (A)1 - y * y;
    case SIGMOID: return ((A)1 - y) * y;
    case RELU: return x > 0 ? (A)1 : (A)0;
    case AFFINE: return alpha;
    case LEAKY_RELU: return x < 0 ? alpha : (A)1;
    case THRESHOLDED: return x > alpha ? (A)1 : (A)0;
    case SCALED_TANH: t = tanh(beta * x); return ((A)1 - t * t) * (alpha * beta);
    case HARD_SIGMOID: return y > 0 && y < 1 ? alpha : (A)0;
    case ELU: return x < 0 ? alpha * exp(x) : (A)1;
    case SOFTSIGN: t = (A)1 + fabs(x); return (A)1 / (t * t);
    default: return (A)1 / ((A)1 + exp(-x));
    }
}

/* The time that row b works on in step s; -1: the row is over. Lengths that do not fit were reported. */
DEVICE int64_t time_of(const rnn_sizes &z, int64_t s, int64_t b) {
    int64_t n = z.lens ? z.lens[b] : z.T;
    if (n > z.T) n = z.T;
    if (s >= n) return -1;
    return z.reverse ? n - 1 - s : s;
}
DEVICE int64_t x_row(const rnn_sizes &z, int64_t t, int64_t b) { return z.batch_first ? b * z.T + t : t * z.B + b; }
DEVICE A load(const S *p, int64_t i) { return p ? (A)get(p[i]) : (A)0; }

extern "C" __global__ void widen(int64_t n, const S *__restrict__ x, float *y) {
    for (int64_t i = first_item(); i < n; i += item_step()) y[i] = (float)get(x[i]);
}
extern "C" __global__ void narrow(int64_t n, const float *__restrict__ x, S *y) {
    for (int64_t i = first_item(); i < n; i += item_step()) y[i] = to<S>::put(x[i]);
}

/* h (B,H) = h0 with rows state_rs apart, or 0; and the other way. */
extern "C" __global__ void rnn_start(fault_site site, rnn_sizes z, const S *__restrict__ h0, S *h) {
    for (int64_t i = first_item(); i < z.B * z.H; i += item_step()) {
        int64_t b = i / z.H, j = i - b * z.H;
        if (j == 0 && z.lens && (z.lens[b] < 0 || z.lens[b] > z.T)) report(site, z.lens[b], z.T + 1);
        h[i] = h0 ? h0[b * z.state_rs + j] : to<S>::put((A)0);
    }
}
extern "C" __global__ void rnn_store(rnn_sizes z, const S *__restrict__ h, S *to_) {
    for (int64_t i = first_item(); i < z.B * z.H; i += item_step()) {
        int64_t b = i / z.H;
        to_[b * z.state_rs + i - b * z.H] = h[i];
    }
}

/* The sum of gate g for unit j of row b: of the inputs (xw: T*B rows of G*H, as in x), of the state (gates (B, G*H)),
 * and of both biases (2*G*H). */
DEVICE A gate_sum(const rnn_sizes &z, const S *xw, const S *gates, const S *bias, int64_t row, int64_t b, int64_t g,
                  int64_t j) {
    int64_t GH = z.G * z.H, at = g * z.H + j;
    return (A)get(xw[row * GH + at]) + (A)get(gates[b * GH + at]) + load(bias, at) + load(bias, GH + at);
}

/* GRU without linear_before_reset, first half: rec (B,H) = r * h; rows that are over: 0. */
extern "C" __global__ void gru_reset(rnn_sizes z, rnn_rule r, int64_t s, const S *__restrict__ xw,
                                     const S *__restrict__ gates, const S *__restrict__ bias, const S *__restrict__ h,
                                     S *rec) {
    for (int64_t i = first_item(); i < z.B * z.H; i += item_step()) {
        int64_t b = i / z.H, j = i - b * z.H, t = time_of(z, s, b);
        A v = 0;
        if (t >= 0) v = activate(r, 0, gate_sum(z, xw, gates, bias, x_row(z, t, b), b, 1, j)) * (A)get(h[i]);
        rec[i] = to<S>::put(v);
    }
}

/* Sums of a step into kept; h, c and rec follow them. */
DEVICE void keep(const rnn_sizes &z, S *kept, int64_t s, int64_t b, int64_t j, int64_t k, A v) {
    if (kept) kept[((s * z.B + b) * z.K + k) * z.H + j] = to<S>::put(v);
}

DEVICE A lstm_unit(const rnn_sizes &z, const rnn_rule &r, const A *sum, const S *p, int64_t j, A &c) {
    A i = activate(r, 0, sum[0] + load(p, j) * c), f;
    f = r.input_forget ? (A)1 - i : activate(r, 0, sum[2] + load(p, 2 * z.H + j) * c);
    c = f * c + i * activate(r, 1, sum[3]);
    return activate(r, 0, sum[1] + load(p, z.H + j) * c) * activate(r, 2, c);
}

/* One step: h, c (B,H) to their next values, written to y and, where it is given, what a backward pass needs. rec: of
 * GRU without linear_before_reset what gru_reset made; with it it is made here. */
extern "C" __global__ void rnn_step(rnn_sizes z, rnn_rule r, int64_t s, const S *__restrict__ xw,
                                    const S *__restrict__ gates, const S *__restrict__ bias, const S *__restrict__ p,
                                    const S *__restrict__ rec, S *h, S *c, S *y, S *kept) {
    for (int64_t i = first_item(); i < z.B * z.H; i += item_step()) {
        int64_t b = i / z.H, j = i - b * z.H, t = time_of(z, s, b), GH = z.G * z.H;
        if (t < 0) {
            if (y) y[s * z.y_t + b * z.y_b + j] = to<S>::put((A)0);
            for (int k = 0; k < z.K; k++) keep(z, kept, s, b, j, k, 0);
            continue;
        }
        A sum[4], old = (A)get(h[i]), next, more = 0;
        int64_t row = x_row(z, t, b);
        for (int g = 0; g < z.G; g++) sum[g] = gate_sum(z, xw, gates, bias, row, b, g, j);
        if (r.kind == RNN_LSTM) {
            more = (A)get(c[i]);
            next = lstm_unit(z, r, sum, p, j, more);
            c[i] = to<S>::put(more);
        } else if (r.kind == RNN_GRU) {
            A zz = activate(r, 0, sum[0]), n = sum[2];
            more = r.before_reset ? (A)get(gates[b * GH + 2 * z.H + j]) + load(bias, GH + 2 * z.H + j) : (A)get(rec[i]);
            if (r.before_reset) {
                sum[2] = (A)get(xw[row * GH + 2 * z.H + j]) + load(bias, 2 * z.H + j);
                n = sum[2] + activate(r, 0, sum[1]) * more;
            }
            next = ((A)1 - zz) * activate(r, 1, n) + zz * old;
        } else {
            next = activate(r, 0, sum[0]);
        }
        h[i] = to<S>::put(next);
        if (y) y[t * z.y_t + b * z.y_b + j] = to<S>::put(next);
        for (int g = 0; g < z.G; g++) keep(z, kept, s, b, j, g, sum[g]);
        if (z.G > 1) keep(z, kept, s, b, j, z.G, more);
        keep(z, kept, s, b, j, z.K - 1, next);
    }
}

/* ---- backward ---- */

/* Value k of the step before s, or what was there at the start. */
DEVICE A kept_at(const rnn_sizes &z, const S *kept, int64_t s, int64_t b, int64_t j, int64_t k) {
    return (A)get(kept[((s * z.B + b) * z.K + k) * z.H + j]);
}
DEVICE A before(const rnn_sizes &z, const S *kept, int64_t s, int64_t b, int64_t j, int64_t k, const S *start) {
    return s > 0 ? kept_at(z, kept, s - 1, b, j, k) : load(start, b * z.state_rs + j);
}

/* Gradients of the gates' sums of a step: of the row of x (dg (T*B, G*H)), as one row of the batch (step (B, G*H)). */
DEVICE void put_gate(const rnn_sizes &z, S *dg, S *step, int64_t row, int64_t b, int64_t j, int g, A v) {
    int64_t GH = z.G * z.H, at = g * z.H + j;
    if (dg) dg[row * GH + at] = to<S>::put(v);
    if (step) step[b * GH + at] = to<S>::put(v);
}

struct rnn_back { /* mirrors back_args of rnn.c */
    const S *kept, *h0, *c0, *p, *dy;
    S *dg, *dgr;       /* (T*B, G*H); dgr: as the recurrent weights see it, of GRU with linear_before_reset */
    S *step, *step_r;  /* (B, G*H): those of this step */
    S *hp, *rh;        /* (T*B, H): the states that the products saw; times r, of GRU without linear_before_reset */
    S *dh, *dc, *drh;  /* (B,H) */
};

/* di, do, df, dc of the gates' sums, and dc to that of the cell before. */
DEVICE void lstm_back(const rnn_sizes &z, const rnn_rule &r, const rnn_back &k, int64_t s, int64_t b, int64_t j, A dh,
                      A &dc, A *d) {
    A C = before(z, k.kept, s, b, j, 4, k.c0), next = kept_at(z, k.kept, s, b, j, 4), sum[4];
    A pi = load(k.p, j), po = load(k.p, z.H + j), pf = load(k.p, 2 * z.H + j);
    for (int g = 0; g < 4; g++) sum[g] = kept_at(z, k.kept, s, b, j, g);
    sum[1] += po * next;
    A h = activate(r, 2, next), o = activate(r, 0, sum[1]);
    d[1] = slope(r, 0, sum[1], o) * (h * dh);
    dc += slope(r, 2, next, h) * dh * o + d[1] * po;
    sum[0] += pi * C, sum[2] += pf * C;
    A n = activate(r, 1, sum[3]), i = activate(r, 0, sum[0]), f = r.input_forget ? (A)1 - i : activate(r, 0, sum[2]);
    d[3] = slope(r, 1, sum[3], n) * dc * i;
    d[0] = slope(r, 0, sum[0], i) * (r.input_forget ? (n - C) * dc : n * dc);
    d[2] = r.input_forget ? (A)0 : slope(r, 0, sum[2], f) * (C * dc);
    dc = dc * f + d[0] * pi + d[2] * pf;
}

/* dz and dn, and what of dh goes on; with linear_before_reset dr and that of the recurrent part, else these wait for a
 * product (gru_back). */
DEVICE A gru_back_unit(const rnn_sizes &z, const rnn_rule &r, const rnn_back &k, int64_t s, int64_t b, int64_t j, A dh,
                       A *d, A &drec) {
    A h = before(z, k.kept, s, b, j, 4, k.h0), n_sum = kept_at(z, k.kept, s, b, j, 2), r_sum = 0, rr = 0, rec = 0;
    A z_sum = kept_at(z, k.kept, s, b, j, 0), zz = activate(r, 0, z_sum);
    if (r.before_reset) {
        rec = kept_at(z, k.kept, s, b, j, 3), r_sum = kept_at(z, k.kept, s, b, j, 1), rr = activate(r, 0, r_sum);
        n_sum += rr * rec;
    }
    A n = activate(r, 1, n_sum);
    d[2] = slope(r, 1, n_sum, n) * (((A)1 - zz) * dh);
    d[0] = slope(r, 0, z_sum, zz) * ((h - n) * dh);
    d[1] = r.before_reset ? slope(r, 0, r_sum, rr) * (rec * d[2]) : (A)0;
    drec = rr * d[2];
    return zz * dh;
}

/* A step backward: gradients of its sums, of the cell, and what of dh goes past the products, which are added to it
 * next. Rows that were over keep dh and dc and have no gradients of sums. */
extern "C" __global__ void rnn_back_step(rnn_sizes z, rnn_rule r, int64_t s, rnn_back k) {
    for (int64_t i = first_item(); i < z.B * z.H; i += item_step()) {
        int64_t b = i / z.H, j = i - b * z.H, t = time_of(z, s, b), row = x_row(z, t < 0 ? s : t, b);
        A d[4] = {0, 0, 0, 0}, drec = 0, h = 0;
        if (t >= 0) {
            A dh = (A)get(k.dh[i]) + load(k.dy, t * z.y_t + b * z.y_b + j), past = 0;
            h = before(z, k.kept, s, b, j, z.K - 1, k.h0);
            if (r.kind == RNN_LSTM) {
                A dc = (A)get(k.dc[i]);
                lstm_back(z, r, k, s, b, j, dh, dc, d);
                k.dc[i] = to<S>::put(dc);
            } else if (r.kind == RNN_GRU) {
                past = gru_back_unit(z, r, k, s, b, j, dh, d, drec);
            } else {
                A sum = kept_at(z, k.kept, s, b, j, 0);
                d[0] = slope(r, 0, sum, activate(r, 0, sum)) * dh;
            }
            k.dh[i] = to<S>::put(past);
        }
        for (int g = 0; g < z.G; g++) put_gate(z, k.dg, k.step, row, b, j, g, d[g]);
        k.hp[row * z.H + j] = to<S>::put(h);
        if (k.dgr)
            for (int g = 0; g < 3; g++) put_gate(z, k.dgr, k.step_r, row, b, j, g, g == 2 ? drec : d[g]);
        if (k.rh) k.rh[row * z.H + j] = to<S>::put(t < 0 ? (A)0 : kept_at(z, k.kept, s, b, j, 3));
    }
}

/* GRU without linear_before_reset, second half: dr from the gradient of r * h, and that part of dh. */
extern "C" __global__ void gru_back(rnn_sizes z, rnn_rule r, int64_t s, rnn_back k) {
    for (int64_t i = first_item(); i < z.B * z.H; i += item_step()) {
        int64_t b = i / z.H, j = i - b * z.H, t = time_of(z, s, b);
        if (t < 0) continue;
        A sum = kept_at(z, k.kept, s, b, j, 1), rr = activate(r, 0, sum), h = before(z, k.kept, s, b, j, 4, k.h0);
        A drh = (A)get(k.drh[i]);
        put_gate(z, k.dg, k.step, x_row(z, t, b), b, j, 1, slope(r, 0, sum, rr) * (drh * h));
        k.dh[i] = to<S>::put((A)get(k.dh[i]) + drh * rr);
    }
}

/* db (2*G*H) from dg and dgr (rows, G*H); sums in double, row after row. */
extern "C" __global__ void rnn_bias(int64_t rows, int64_t GH, const S *__restrict__ dg, const S *__restrict__ dgr,
                                    S *db) {
    for (int64_t j = first_item(); j < 2 * GH; j += item_step()) {
        const S *from = j < GH ? dg + j : dgr + j - GH;
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) sum += (double)get(from[i * GH]);
        db[j] = to<S>::put(sum);
    }
}

/* dp (3*H), of i and f by the cell before a step, of o by that behind it. */
extern "C" __global__ void rnn_peepholes(rnn_sizes z, rnn_back k, S *dp) {
    for (int64_t i = first_item(); i < 3 * z.H; i += item_step()) {
        int64_t g = i / z.H, j = i - g * z.H;
        double sum = 0;
        for (int64_t s = 0; s < z.T; s++)
            for (int64_t b = 0; b < z.B; b++) {
                int64_t t = time_of(z, s, b);
                if (t < 0) continue;
                A c = g == 1 ? kept_at(z, k.kept, s, b, j, 4) : before(z, k.kept, s, b, j, 4, k.c0);
                sum += (double)get(k.dg[x_row(z, t, b) * 4 * z.H + i]) * (double)c;
            }
        dp[i] = to<S>::put(sum);
    }
}
