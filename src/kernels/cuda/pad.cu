/* cuda/pad.cu: a tensor with borders: constant, reflected, its edge repeated, or wrapped around. U, of the element's
 * size, is defined in front. */
#ifndef U
#define U uint32_t
#endif

/* Output axis k is dims[k] long; begin[k] elements lie before the sizes[k] of x. Mirrors nck_cuda_pad_args in pad.h. */
struct pad_args {
    int64_t rank, mode;
    int64_t dims[MAX_RANK], sizes[MAX_RANK], begin[MAX_RANK], strides[MAX_RANK];
};

/* The place in an axis of `size` that place i of the padded one shows; -1: the constant. */
DEVICE int64_t shown(int64_t mode, int64_t i, int64_t size) {
    if (i >= 0 && i < size) return i;
    if (mode == 0 || size == 0) return -1;
    if (mode == 2) return i < 0 ? 0 : size - 1;
    int64_t period = mode == 3 ? size : size > 1 ? 2 * (size - 1) : 1;
    i %= period;
    if (i < 0) i += period;
    return i < size ? i : period - i;
}

/* y is dense; the constant is *given, or `value` where given is NULL. */
extern "C" __global__ void pad(pad_args a, int64_t n, U value, const U *given, const U *__restrict__ x, U *y) {
    if (given) value = *given;
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t rest = i, at = 0;
        bool inside = true;
#pragma unroll 1
        for (int d = (int)a.rank - 1; d >= 0; d--) {
            int64_t q = rest / a.dims[d], k = shown(a.mode, rest - q * a.dims[d] - a.begin[d], a.sizes[d]);
            inside = inside && k >= 0;
            at += k * a.strides[d];
            rest = q;
        }
        y[i] = inside ? x[at] : value;
    }
}
