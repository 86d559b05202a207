/* cuda/attention_mma.cu: attention of one query whose heads share keys, on tensor cores: all rows of a head of keys in
 * one block, so that keys and values are read once; see attention_few.cuh, bulk.cuh. ROWS is 8 or 16, columns of q, k
 * and v are COLS, 64 or 128.
 *
 * The keys are dealt to the blocks of a cluster in turns of TURN, 16 a warp, copied by the GPU itself, the first ones
 * before the kernel in front has ended where it does not write them. A warp has the scores of its keys (key, row) and
 * its result (column, row); shares are rounded to S before they meet the values. Block r % OF_CLUSTER joins row r. */
#ifdef CLUSTERS
enum { TILE = 16, TURN = TILE * WARPS, TILES = COLS / TILE, GROUPS = ROWS / 8, MOST_STAGES = 3 };
enum { BOX = 64, BOXES = COLS / BOX, BOX_BYTES = TURN * 128, VALUES = BOXES * BOX_BYTES, STAGE = 2 * VALUES };

struct alignas(128) tensor_map { uint64_t words[16]; };
/* Mirrors mma_args in attention_few.c. */
struct mma_args {
    few_args f;
    tensor_map k, v; /* (batch, head of keys, key, column) */
};

/* c (16,8) += a (16,16) * b (16,8), in f32. */
DEVICE void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Four tiles of 8 lines of 16 bytes, whose lines the lanes name; and the same turned. */
DEVICE void read_tiles(uint32_t at, uint32_t (&b)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at) : "memory");
}
DEVICE void read_turned(uint32_t at, uint32_t (&b)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at) : "memory");
}

DEVICE void ask_box(uint32_t to, const tensor_map &map, int column, int key, const row_place &p, uint32_t bar) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];"
                 : : "r"(to), "l"(&map), "r"(column), "r"(key), "r"(p.keys), "r"(p.batch), "r"(bar) : "memory");
}
/* Turn i of this block: keys, then values; zeros behind the last key. */
DEVICE void ask_turn(const mma_args &m, const row_place &p, int i, uint32_t ring, uint32_t full) {
    int start = (i * OF_CLUSTER + blockIdx.x) * TURN, slot = i % (int)m.f.stages;
    uint32_t bar = full + 8 * slot, to = ring + slot * STAGE;
    bar_expect(bar, STAGE);
#pragma unroll
    for (int b = 0; b < BOXES; b++) {
        ask_box(to + b * BOX_BYTES, m.k, b * BOX, start, p, bar);
        ask_box(to + VALUES + b * BOX_BYTES, m.v, b * BOX, start, p, bar);
    }
}
/* Where 16 bytes c of a line lie. */
DEVICE uint32_t place_of(int line, int c) { return (c / 8 * TURN + line) * 128 + ((c % 8) ^ (line & 7)) * 16; }

DEVICE uint32_t pair_of(float x, float y) { return bits_of(to<S>::put(x)) | bits_of(to<S>::put(y)) << 16; }
/* Elements (lane / 4, 2 * (lane % 4) + 0, 1) of a tile to those of the turned one. */
DEVICE uint32_t turned(uint32_t x) {
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* What this lane multiplies and knows of rows 8 * g + 2 * (lane % 4) + e: q of row 8 * g + lane / 4; the largest score;
 * the sum of the shares of its own keys; y as multiply leaves it. */
struct rows_held {
    uint32_t q[GROUPS][TILES][2];
    float top[GROUPS][2], sum[GROUPS][2], y[GROUPS][TILES][4];
};
DEVICE void hold_rows(const few_args &f, const row_place &p, rows_held &x) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int row = 8 * g + lane / 4;
        const S *q = (const S *)f.a.q.data + p.batch * f.a.q.batch + (p.head + row) * f.a.q.head + 2 * (lane % 4);
        x.top[g][0] = x.top[g][1] = -INF, x.sum[g][0] = x.sum[g][1] = 0;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            x.q[g][i][0] = row < f.group ? *(const uint32_t *)(q + i * TILE) : 0;
            x.q[g][i][1] = row < f.group ? *(const uint32_t *)(q + i * TILE + 8) : 0;
#pragma unroll
            for (int e = 0; e < 4; e++) x.y[g][i][e] = 0;
        }
    }
}

/* Scores of keys key + lane / 4 and 8 behind it with group g become shares; what is known is brought to their scale. */
DEVICE void share_keys(const attn_args &a, const attn_head &h, const attn_seen &seen, int n_rows, int g, int key,
                       float (&s)[4], rows_held &x) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        int row = min(8 * g + 2 * (lane % 4) + e, n_rows - 1), j = key + lane / 4;
        const M *mask = h.mask ? h.mask + row * a.mask_strides[1] : h.mask;
#pragma unroll
        for (int o = e; o < 4; o += 2, j += 8) {
            bool sees = j >= seen.first && j < seen.end;
            s[o] = sees ? attn_score(a, h, seen, j, s[o], bias_of(a, mask, j)) : -INF;
        }
        float most = attn_larger(attn_larger(x.top[g][e], s[e]), s[e + 2]);
        for (int d = 4; d < 32; d <<= 1) most = attn_larger(most, __shfl_xor_sync(0xffffffffu, most, d));
        float base = attn_base(most), by = power_of_2(x.top[g][e] - base);
        s[e] = power_of_2(s[e] - base), s[e + 2] = power_of_2(s[e + 2] - base);
        x.top[g][e] = most;
        x.sum[g][e] = fma(x.sum[g][e], by, s[e] + s[e + 2]);
#pragma unroll
        for (int i = 0; i < TILES; i++) x.y[g][i][e] *= by, x.y[g][i][e + 2] *= by;
    }
}

/* The keys from `key` on of this warp, which lie from `line` on of the stage at near. */
DEVICE void meet_tile(const few_args &f, const attn_head &h, const attn_seen &seen, uint32_t near, int line, int key,
                      rows_held &x) {
    const int lane = threadIdx.x % 32;
    uint32_t k[TILES][4], v[TILES][4];
#pragma unroll
    for (int i = 0; i < TILES; i++) read_tiles(near + place_of(line + lane % 16, 2 * i + lane / 16), k[i]);
#pragma unroll
    for (int i = 0; i < TILES; i++)
        read_turned(near + VALUES + place_of(line + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2), v[i]);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        float s[4] = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < TILES; i++) multiply(s, k[i], x.q[g][i][0], x.q[g][i][1], S());
        share_keys(f.a, h, seen, (int)f.group, g, key, s, x);
        uint32_t first = turned(pair_of(s[0], s[1])), second = turned(pair_of(s[2], s[3]));
#pragma unroll
        for (int i = 0; i < TILES; i++) multiply(x.y[g][i], v[i], first, second, S());
    }
}

/* Lines of this warp's keys as they should be: the new one; values that nobody sees are 0, since 0 * NaN is none. */
DEVICE void mend_lines(const attn_seen &seen, int fresh, const line_held &new_k, const line_held &new_v,
                       unsigned char *near, int line, int key) {
    const int lane = threadIdx.x % 32;
    const bool here = fresh >= key && fresh < key + TILE;
    if (key >= seen.first && key + TILE <= seen.end && !here) return;
    for (int i = lane; i < TILE * LANES; i += 32) {
        int j = key + i % TILE;
        if (j < seen.first || j >= seen.end)
            *(line_held *)(near + VALUES + place_of(line + i % TILE, i / TILE)) = line_held{};
    }
    if (here && fresh >= seen.first && fresh < seen.end && lane < LANES) {
        *(line_held *)(near + place_of(line + fresh - key, lane)) = new_k;
        *(line_held *)(near + VALUES + place_of(line + fresh - key, lane)) = new_v;
    }
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); /* before the next copy comes there */
    __syncwarp();
}

/* What a warp knows of all rows. */
DEVICE void put_warp(const rows_held &x, float (&lines)[ROWS][LINE]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float *line = lines[8 * g + 2 * (lane % 4) + e], sum = x.sum[g][e];
            for (int d = 4; d < 32; d <<= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
            if (lane < 4) line[COLS] = x.top[g][e], line[COLS + 1] = sum;
#pragma unroll
            for (int i = 0; i < TILES; i++)
                line[i * TILE + lane / 4] = x.y[g][i][e], line[i * TILE + 8 + lane / 4] = x.y[g][i][e + 2];
        }
}
/* The same place in a block of the cluster. */
DEVICE uint32_t in_block(uint32_t at, int block) {
    uint32_t y;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(y) : "r"(at), "r"(block));
    return y;
}
DEVICE void send(uint32_t to, float v, uint32_t bar) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
                 : : "r"(to), "f"(v), "r"(bar) : "memory");
}
/* Row r of what the warps of this block know, to the line in the block that joins it; by one warp. */
DEVICE void send_row(const float (&warps)[WARPS][ROWS][LINE], int r, float *line, uint32_t there) {
    const int lane = threadIdx.x % 32;
    float top = -INF, sum = 0, by[WARPS];
#pragma unroll
    for (int w = 0; w < WARPS; w++) top = attn_larger(top, warps[w][r][COLS]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        by[w] = power_of_2(warps[w][r][COLS] - attn_base(top));
        sum = fma(warps[w][r][COLS + 1], by[w], sum);
    }
    uint32_t to = in_block(shared_at(line), r % OF_CLUSTER), bar = in_block(there, r % OF_CLUSTER);
#pragma unroll
    for (int c = lane; c < COLS; c += 32) {
        float y = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) y = fma(warps[w][r][c], by[w], y);
        send(to + 4 * c, y, bar);
    }
    if (lane < 2) send(to + 4 * (COLS + lane), lane == 0 ? top : sum, bar);
}
/* Element k of the rows that this block joins. */
DEVICE void join_row_of(const few_args &f, const float (&lines)[OF_CLUSTER][LINE], int k) {
    float top = -INF, y = 0, sum = 0;
#pragma unroll
    for (int s = 0; s < OF_CLUSTER; s++) top = attn_larger(top, lines[s][COLS]);
#pragma unroll
    for (int s = 0; s < OF_CLUSTER; s++) {
        float by = power_of_2(lines[s][COLS] - attn_base(top));
        y = fma(lines[s][k % COLS], by, y), sum = fma(lines[s][COLS + 1], by, sum);
    }
    put_result(f, (int)blockIdx.x + k / COLS * OF_CLUSTER, k % COLS, y, sum);
}

/* Grids of (OF_CLUSTER, batches * heads of keys), clusters along x, blocks of 256; f.stages * STAGE of shared memory
 * and 1,024 to align it. One new row at most. */
extern "C" __global__ __launch_bounds__(256, 2) __cluster_dims__(8, 1, 1)
void attend_mma(const __grid_constant__ mma_args m) {
    extern __shared__ unsigned char memory[];
    __shared__ float warps[WARPS][ROWS][LINE], joined[GROUPS][OF_CLUSTER][LINE];
    __shared__ uint64_t bars[MOST_STAGES + 1];
    const few_args &f = m.f;
    const attn_args &a = f.a;
    const int t = threadIdx.x, warp = t / 32, c = t % LANES * V, stages = (int)f.stages;
    const int n_rows = (int)f.group, own_rows = (n_rows - (int)blockIdx.x + OF_CLUSTER - 1) / OF_CLUSTER;
    const uint32_t ring = (shared_at(memory) + 1023) & ~1023u, full = shared_at(bars), there = full + 8 * MOST_STAGES;
    unsigned char *near = memory + (ring - shared_at(memory));
    const row_place place = place_of_row(f, 0);
    int asked = min(stages, ((int)a.n_keys - (int)blockIdx.x * TURN + OF_CLUSTER * TURN - 1) / (OF_CLUSTER * TURN));
    if (!f.ahead) wait_for_earlier();
    if (t == 0) {
        for (int i = 0; i <= MOST_STAGES; i++) bar_init(full + 8 * i, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
        if (own_rows > 0) bar_expect(there, own_rows * OF_CLUSTER * LINE * 4);
#pragma unroll 1
        for (int i = 0; i < asked; i++) ask_turn(m, place, i, ring, full);
    }
    __syncthreads();
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    if (f.ahead) wait_for_earlier();
    rows_held x;
    line_held new_k = {}, new_v = {};
    hold_rows(f, place, x);
    if (f.fresh.n) {
        int64_t line = place.batch * a.kv_heads + place.keys;
        hold_line(f.fresh.k + line * COLS, 1, c, COLS, true, new_k);
        hold_line(f.fresh.v + line * COLS, 1, c, COLS, true, new_v);
    }
    const attn_head h = head_of_row(f, place);
    const new_rows fresh = new_rows_here(f, place);
    const attn_seen seen = attn_seen_by(a, h, 0);
    if (fresh.n && blockIdx.x == 0 && t < LANES) {
        *(line_held *)((S *)h.k + fresh.first * a.k.row + c) = new_k;
        *(line_held *)((S *)h.v + fresh.first * a.v.row + c) = new_v;
    }
    int i = 0;
#pragma unroll 1
    for (int start = blockIdx.x * TURN; start < h.n_keys; start += OF_CLUSTER * TURN, i++) {
        int slot = i % stages, line = warp * TILE;
        bar_wait(full + 8 * slot, i / stages & 1);
        mend_lines(seen, fresh.n ? fresh.first : -1, new_k, new_v, near + slot * STAGE, line, start + line);
        meet_tile(f, h, seen, ring + slot * STAGE, line, start + line, x);
        if (start + stages * OF_CLUSTER * TURN >= h.n_keys) continue;
        __syncthreads();
        if (t == 0) ask_turn(m, place, asked++, ring, full);
    }
    put_warp(x, warps[warp]);
    __syncthreads();
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
    for (int r = warp; r < n_rows; r += WARPS) send_row(warps, r, joined[r / OF_CLUSTER][blockIdx.x], there);
    if (t == 0) /* a copy may not come when the block is gone */
        for (; i < asked; i++) bar_wait(full + 8 * (i % stages), i / stages & 1);
    if (own_rows <= 0) return;
    bar_wait(there, 0);
    for (int k = t; k < own_rows * COLS; k += WARPS * 32) join_row_of(f, joined[k / COLS], k);
}
#endif
