/* cuda/rank.cuh: elements as unsigned numbers of their own width, in their order, for texts that sort by digits. */
/* Numbers in the order of elements: NaN is the largest, both zeros are one. */
DEVICE uint64_t rank_of(double v, uint64_t bits, uint64_t sign) {
    if (v != v) return 2 * sign - 1;
    if (v == 0) return sign;
    return bits & sign ? ~bits & (2 * sign - 1) : bits | sign;
}
DEVICE uint64_t rank_of(double v) { return rank_of(v, (uint64_t)__double_as_longlong(v), 1ull << 63); }
DEVICE uint64_t rank_of(float v) { return rank_of((double)v, __float_as_uint(v), 1ull << 31); }
DEVICE uint64_t rank_of(f16 v) { return rank_of((double)get(v), v.bits, 1ull << 15); }
DEVICE uint64_t rank_of(bf16 v) { return rank_of((double)get(v), v.bits, 1ull << 15); }
DEVICE uint64_t rank_of(bool8 v) { return v.byte != 0; }
template <class T> DEVICE uint64_t rank_of(T v) {
    uint64_t low = (T)-1 < (T)0 ? 1ull << (8 * sizeof(T) - 1) : 0;
    return ((uint64_t)v + low) & (sizeof(T) < 8 ? (1ull << 8 * sizeof(T)) - 1 : ~0ull);
}
