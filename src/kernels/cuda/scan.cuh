/* cuda/scan.cuh: running sums over a block of at most 1,024 threads. */
/* The sum of v over this thread and those before it. */
DEVICE uint32_t sum_before_and(uint32_t v) {
    __shared__ uint32_t warps[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int d = 1; d < 32; d *= 2) {
        uint32_t up = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += up;
    }
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    for (int w = 0; w < warp; w++) v += warps[w];
    __syncthreads();
    return v;
}
