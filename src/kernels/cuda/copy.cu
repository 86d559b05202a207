/* cuda/copy.cu: elements moved without computing: strided copy and fill. U, of the element's size, is defined in front.
 * dst and src do not overlap; written elements are distinct. */
#ifndef U
#define U uint32_t
#endif

extern "C" __global__ void copy(walk w, int64_t n, U *dst, const U *__restrict__ src) {
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t at[2];
        walk_at<2>(w, i, at);
        dst[at[0]] = src[at[1]];
    }
}

extern "C" __global__ void fill(walk w, int64_t n, U *dst, U value) {
    for (int64_t i = first_item(); i < n; i += item_step()) dst[walk_one(w, i)] = value;
}
