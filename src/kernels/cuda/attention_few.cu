/* cuda/attention_few.cu: attention of few queries with keys in registers; see attention_few.cuh. Splits of a cluster
 * are joined in the shared memory of its first block, others by the block of them that is done last. The first keys
 * are under way before the kernel in front has ended, where it does not write them. */
/* Keys j, j + apart ... below end; those that are new from where they lie. */
DEVICE void hold_keys(const attn_args &a, const S *k, const S *v, const new_rows &fresh, int j, int apart, int end,
                      int c, int vectors, keys_held &x) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int64_t at = j + u * apart, i = new_row_of(fresh, (int)at);
        if (at >= end) break;
        bool old = i >= fresh.n;
        hold_line(old ? k + at * a.k.row : fresh.k + i * a.cols, a.k.column, c, (int)a.cols, vectors, x.k[u]);
        hold_line(old ? v + at * a.v.row : fresh.v + i * a.cols_v, a.v.column, c, (int)a.cols_v, vectors, x.v[u]);
    }
}
DEVICE void join_rows(few_row &r, float top, float sum, const float (&y)[V]) {
    float most = attn_larger(r.top, top), base = attn_base(most);
    float by = power_of_2(r.top - base), other = power_of_2(top - base);
    r.top = most;
    r.sum = fma(sum, other, r.sum * by);
#pragma unroll
    for (int e = 0; e < V; e++) r.y[e] = fma(y[e], other, r.y[e] * by);
}

/* Lines of all splits lie in `partial`, (batch * head of keys, rows / ROWS), or of a cluster in the shared memory of
 * its first block. */
DEVICE float *lines_here(const few_args &f) {
    return f.partial + (int64_t)(blockIdx.y * gridDim.z + blockIdx.z) * (OF_CLUSTER * LINES);
}
DEVICE void put_line(float *to, float v) {
#ifdef CLUSTERS
    uint32_t at = (uint32_t)__cvta_generic_to_shared(to), first;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(first) : "r"(at));
    asm volatile("st.shared::cluster.f32 [%0], %1;" : : "r"(first), "f"(v) : "memory");
#else
    *to = v;
#endif
}
DEVICE void put_split(float *line, int c, const few_row &x) {
#pragma unroll
    for (int e = 0; e < V; e++) put_line(line + c + e, x.y[e]);
    if (c == 0) put_line(line + COLS, x.top), put_line(line + COLS + 1, x.sum);
}

#ifndef CLUSTERS
/* Are all splits of this block's rows done? Of one block true: it is the last. */
DEVICE bool is_last_split(const few_args &f) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(f.counters + (blockIdx.y * gridDim.z + blockIdx.z), OF_CLUSTER - 1) == OF_CLUSTER - 1;
    __syncthreads();
    if (last) __threadfence();
    return last;
}
#endif

/* IN_CLUSTER: the splits are OF_CLUSTER, a cluster where there are such; keys and values lie in vectors. */
template <bool IN_CLUSTER> DEVICE void attend(const few_args &f) {
    __shared__ few_row others[WARPS][ROWS][LANES];
    __shared__ few_shared shared;
    const attn_args &a = f.a;
#ifdef CLUSTERS
    __shared__ float joined[OF_CLUSTER * LINES];
    float *lines = joined;
    if (IN_CLUSTER) asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
#else
    float *lines = lines_here(f);
#endif
    int first = blockIdx.z * ROWS, lane = threadIdx.x % LANES, slot = threadIdx.x % 32 / LANES, c = lane * V;
    int warp = threadIdx.x / 32, apart = WARPS * SLOTS * (int)f.n_splits, turn = AT_ONCE * apart;
    int from = (blockIdx.x * WARPS + warp) * SLOTS, own = from + slot;
    few_queries x;
    few_row rows[ROWS];
    row_place place = place_of_row(f, 0);
    const S *k = (const S *)a.k.data + place.batch * a.k.batch + place.keys * a.k.head;
    const S *v = (const S *)a.v.data + place.batch * a.v.batch + place.keys * a.v.head;
    keys_held held = {}, next = {};
    const int vectors = IN_CLUSTER || a.vectors;
    if (!f.ahead) wait_for_earlier();
    new_rows fresh = {};
    hold_keys(a, k, v, fresh, own, apart, (int)a.n_keys, c, vectors, held);
    hold_keys(a, k, v, fresh, own + turn, apart, (int)a.n_keys, c, vectors, next);
    if (f.ahead) wait_for_earlier();
    const S *query = query_here(f, first);
    S q = query ? *query : to<S>::put(0.0f);
    attn_head h = head_of_row(f, place);
    fresh = new_rows_here(f, place);
    int end = h.n_keys;
    hold_new(a, fresh, own, apart, end, c, vectors, held);
    hold_new(a, fresh, own + turn, apart, end, c, vectors, next);
    put_new_rows(a, h, fresh);
    share_rows(f, first, q, h, shared);
    hold_queries(shared, c, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) rows[r] = row_of_nothing();
    for (; from < end; from += turn, own += turn) {
        meet_keys(a, h, x, held, own, apart, end, rows);
        held = next;
        hold_keys(a, k, v, fresh, own + 2 * turn, apart, end, c, vectors, next);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        join_slots(rows[r]);
        if (slot == 0) others[warp][r][lane] = rows[r];
    }
    __syncthreads();
#ifdef CLUSTERS
    if (IN_CLUSTER) asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
#endif
#pragma unroll 1
    for (int r = warp; r < ROWS; r += WARPS) {
        if (slot != 0) continue;
        few_row all = others[0][r][lane];
#pragma unroll 1
        for (int w = 1; w < WARPS; w++) {
            few_row other = others[w][r][lane];
            join_rows(all, other.top, other.sum, other.y);
        }
        if (IN_CLUSTER)
            put_split(lines + blockIdx.x * LINES + r * LINE, c, all);
        else
#pragma unroll
            for (int e = 0; e < V; e++) put_result(f, first + r, c + e, all.y[e], all.sum);
    }
    if (!IN_CLUSTER) return;
#ifdef CLUSTERS
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    if (blockIdx.x != 0) return;
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
#else
    if (!is_last_split(f)) return;
#endif
    join_splits(f, first, lines);
}

/* Grids of (splits, batches * heads of keys, rows / ROWS), blocks of 256: one split, or OF_CLUSTER. */
extern "C" __global__ __launch_bounds__(256) void attend_few(const __grid_constant__ few_args f) {
    attend<false>(f);
}
#ifdef CLUSTERS
#define CLUSTER __cluster_dims__(8, 1, 1)
#else
#define CLUSTER
#endif
extern "C" __global__ __launch_bounds__(256, 2) CLUSTER void attend_splits(const __grid_constant__ few_args f) {
    attend<true>(f);
}
