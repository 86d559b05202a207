/* cuda/attention_bulk.cu: attention of few queries over dense keys and values, which the GPU copies into shared
 * memory by itself, the first ones before the kernel in front has ended where it does not write them; see
 * attention_few.cuh. The keys are dealt to the blocks of a cluster in turns of TURN; its first block joins what they
 * know. */
#ifdef CLUSTERS
enum { OF_TURN = WARPS * SLOTS, TURN = OF_TURN * AT_ONCE, MOST_STAGES = 3, LINE_BYTES = COLS * sizeof(S) };
enum { STAGE = 2 * TURN * LINE_BYTES };

DEVICE void ask_lines(uint32_t to, const S *from, int bytes, uint32_t bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 : : "r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
/* Turn i of this block: keys from start on, values behind their whole room. */
DEVICE void ask_turn(const attn_args &a, const S *k, const S *v, int i, int stages, uint32_t ring, uint32_t full) {
    int start = (i * OF_CLUSTER + blockIdx.x) * TURN, n = min((int)TURN, (int)a.n_keys - start), slot = i % stages;
    int bytes = n * (int)a.cols * (int)sizeof(S), bytes_v = n * (int)a.cols_v * (int)sizeof(S);
    bar_expect(full + 8 * slot, bytes + bytes_v);
    ask_lines(ring + slot * STAGE, k + start * a.cols, bytes, full + 8 * slot);
    ask_lines(ring + slot * STAGE + STAGE / 2, v + start * a.cols_v, bytes_v, full + 8 * slot);
}

DEVICE void hold_near(const S *line, int c, int n, line_held &x) {
    if (c < n)
        x = *(const line_held *)(line + c);
    else
        x = line_held{};
}

DEVICE void put_near(S *line, int c, int n, const line_held &x) {
    if (c < n) *(line_held *)(line + c) = x;
}

/* What the warps of this block know, to the first block of the cluster, element by element. */
DEVICE void send_split(const float (&warps)[WARPS][ROWS][LINE], float *lines, uint32_t there) {
    int r = threadIdx.x / COLS, c = threadIdx.x % COLS;
    if (r >= ROWS) return;
    float top = -INF, v[3] = {0, 0, 0};
#pragma unroll
    for (int w = 0; w < WARPS; w++) top = attn_larger(top, warps[w][r][COLS]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        float by = power_of_2(warps[w][r][COLS] - attn_base(top));
        v[0] = fma(warps[w][r][c], by, v[0]), v[2] = fma(warps[w][r][COLS + 1], by, v[2]);
    }
    v[1] = top;
    float *line = lines + blockIdx.x * LINES + r * LINE;
#pragma unroll
    for (int i = 0; i < 3; i++)
        if (i == 0 || c == 0)
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
                         : : "r"(in_first(shared_at(line + (i == 0 ? c : COLS + i - 1)))), "f"(v[i]),
                           "r"(in_first(there)) : "memory");
}

/* Grids of (OF_CLUSTER, batches * heads of keys, rows / ROWS), clusters along x, blocks of 256; f.stages * STAGE of
 * shared memory and 128 to align it. */
extern "C" __global__ __launch_bounds__(256, 2) __cluster_dims__(8, 1, 1)
void attend_bulk(const __grid_constant__ few_args f) {
    extern __shared__ unsigned char memory[];
    __shared__ float warps[WARPS][ROWS][LINE], joined[OF_CLUSTER * LINES];
    __shared__ few_shared shared;
    __shared__ uint64_t bars[MOST_STAGES + 1];
    const attn_args &a = f.a;
    const int t = threadIdx.x, lane = t % LANES, warp = t / 32, c = lane * V, stages = (int)f.stages;
    const int first = blockIdx.z * ROWS, own = warp * SLOTS + t % 32 / LANES;
    const uint32_t ring = (shared_at(memory) + 127) & ~127u, full = shared_at(bars), there = full + 8 * MOST_STAGES;
    const S *near = (const S *)(memory + (ring - shared_at(memory)));
    const row_place place = place_of_row(f, 0);
    const S *k = (const S *)a.k.data + place.batch * a.k.batch + place.keys * a.k.head;
    const S *v = (const S *)a.v.data + place.batch * a.v.batch + place.keys * a.v.head;
    int asked = min(stages, ((int)a.n_keys - (int)blockIdx.x * TURN + OF_CLUSTER * TURN - 1) / (OF_CLUSTER * TURN));
    const S *query = query_here(f, first);
    if (!f.ahead) wait_for_earlier();
    if (t == 0) {
        for (int i = 0; i <= MOST_STAGES; i++) bar_init(full + 8 * i, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
        bar_expect(there, OF_CLUSTER * LINES * 4);
#pragma unroll 1
        for (int i = 0; i < asked; i++) ask_turn(a, k, v, i, stages, ring, full);
    }
    __syncthreads();
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    if (f.ahead) wait_for_earlier();
    line_held new_k = {}, new_v = {}; /* of a single new row */
    if (f.fresh.n == 1) {
        int64_t line = place.batch * a.kv_heads + place.keys;
        hold_line(f.fresh.k + line * a.cols, 1, c, (int)a.cols, true, new_k);
        hold_line(f.fresh.v + line * a.cols_v, 1, c, (int)a.cols_v, true, new_v);
    }
    const S q = query ? *query : to<S>::put(0.0f);
    const attn_head h = head_of_row(f, place);
    const new_rows fresh = new_rows_here(f, place);
    few_queries x;
    few_row rows[ROWS];
    share_rows(f, first, q, h, shared);
    if (fresh.n == 1 && blockIdx.x == 0 && blockIdx.z == 0 && t < LANES) {
        put_near((S *)k + fresh.first * a.cols, c, (int)a.cols, new_k);
        put_near((S *)v + fresh.first * a.cols_v, c, (int)a.cols_v, new_v);
    }
    if (fresh.n > 1) put_new_rows(a, h, fresh);
    hold_queries(shared, c, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) rows[r] = row_of_nothing();
    int i = 0, end = h.n_keys;
#pragma unroll 1
    for (int start = blockIdx.x * TURN; start < end; start += OF_CLUSTER * TURN, i++) {
        const S *lines = near + i % stages * (STAGE / sizeof(S));
        keys_held held;
        bar_wait(full + 8 * (i % stages), i / stages & 1);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            hold_near(lines + (own + u * OF_TURN) * (int)a.cols, c, (int)a.cols, held.k[u]);
            hold_near(lines + TURN * COLS + (own + u * OF_TURN) * (int)a.cols_v, c, (int)a.cols_v, held.v[u]);
            if (fresh.n == 1 && start + own + u * OF_TURN == fresh.first) held.k[u] = new_k, held.v[u] = new_v;
        }
        if (fresh.n > 1) hold_new(a, fresh, start + own, OF_TURN, end, c, true, held);
        meet_keys(a, h, x, held, start + own, OF_TURN, end, rows);
        if (start + stages * OF_CLUSTER * TURN >= end) continue;
        __syncthreads();
        if (t == 0) ask_turn(a, k, v, asked++, stages, ring, full);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        join_slots(rows[r]);
        if (t % 32 >= LANES) continue;
#pragma unroll
        for (int e = 0; e < V; e++) warps[warp][r][c + e] = rows[r].y[e];
        if (lane == 0) warps[warp][r][COLS] = rows[r].top, warps[warp][r][COLS + 1] = rows[r].sum;
    }
    __syncthreads();
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
    send_split(warps, joined, there);
    if (t == 0) /* a copy may not come when the block is gone */
        for (; i < asked; i++) bar_wait(full + 8 * (i % stages), i / stages & 1);
    if (blockIdx.x != 0) return;
    bar_wait(there, 0);
    join_splits(f, first, joined);
}
#endif
