/* cuda/rotary.cu: pairs of columns turned by the angles of their row's position: x1' = cos x1 - sin x2,
 * x2' = sin x1 + cos x2. Columns behind the turned ones are copied. Computed in A. */
#define BEGINS_EARLY 1

/* x and y: `batches` of `heads` of `rows` of `columns`, by their strides; the first `turned` columns are turned, in
 * pairs of neighbours (interleaved) or of halves. Mirrors nck_cuda_rotary_args in rotary.h. */
struct rotary_args {
    int64_t batches, heads, rows, columns, turned, batch_step, head_step, row_step, interleaved, n_positions;
};

/* cosine, sine (positions, turned / 2); ids (batches, rows), NULL: every row has its own. y may be x. One item is a
 * pair or, behind those, a column. */
extern "C" __global__ void rotary(rotary_args a, fault_site site, const S *x, const S *cosine,
                                  const S *sine, const int64_t *ids, S *y) {
    wait_for_earlier();
    int64_t half = a.turned / 2, items = a.columns - half, n = a.batches * a.heads * a.rows * items;
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t k = i % items, row = i / items % a.rows, head = i / items / a.rows % a.heads;
        int64_t batch = i / items / a.rows / a.heads;
        int64_t start = batch * a.batch_step + head * a.head_step + row * a.row_step;
        if (k >= half) {
            y[start + k + half] = x[start + k + half];
            continue;
        }
        int64_t at = batch * a.rows + row;
        if (ids) at = ids[at];
        if (at < 0 || at >= a.n_positions) {
            report(site, at, a.n_positions);
            continue;
        }
        int64_t first = start + (a.interleaved ? 2 * k : k), second = a.interleaved ? first + 1 : first + half;
        A c = get(cosine[at * half + k]), s = get(sine[at * half + k]), x1 = get(x[first]), x2 = get(x[second]);
        y[first] = to<S>::put(c * x1 - s * x2);
        y[second] = to<S>::put(s * x1 + c * x2);
    }
}
