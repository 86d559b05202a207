/* cuda/bulk.cuh: words of copies that the GPU makes by itself into shared memory, and of barriers that count their
 * bytes, in blocks of a cluster too; for texts that lie behind the same condition. */
#define PREFERS_SHARED 1 /* kernels of such a text beside others leave all of the L1 to shared memory */
#if !defined STANDIN && __CUDA_ARCH__ >= 900
DEVICE uint32_t shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
/* The same place in the first block of the cluster. */
DEVICE uint32_t in_first(uint32_t at) {
    uint32_t y;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(y) : "r"(at));
    return y;
}

/* Barriers that count arrivals and bytes; each of their phases has a parity. */
DEVICE void bar_init(uint32_t bar, int n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(bar), "r"(n) : "memory");
}
DEVICE void bar_expect(uint32_t bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(bar), "r"(bytes) : "memory");
}
DEVICE void bar_arrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(bar) : "memory");
}
DEVICE void bar_wait(uint32_t bar, int parity) {
    uint32_t done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(bar), "r"(parity) : "memory");
}
#endif
