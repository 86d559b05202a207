/* cuda/rows.cu: rows that move to where their batch says: sequences turned round within their lengths, new rows put
 * into caches. U, of the element's size, is defined in front. Lengths and places that do not fit are reported by the
 * thread of a batch's first element, and what they stand for is left out. */
#define BEGINS_EARLY 1
#ifndef U
#define U uint32_t
#endif

/* y (time, batch, inner), or (batch, time, inner), = x with the first lens[b] steps of batch b in opposite order. */
extern "C" __global__ void reverse(fault_site site, int64_t n_time, int64_t n_batch, int64_t inner, int64_t time_first,
                                   const int64_t *lens, const U *x, U *y) {
    wait_for_earlier();
    for (int64_t i = first_item(); i < n_time * n_batch * inner; i += item_step()) {
        int64_t row = i / inner, c = i - row * inner;
        int64_t t = time_first ? row / n_batch : row % n_time, b = time_first ? row % n_batch : row / n_time;
        int64_t len = lens[b];
        if (len < 0 || len > n_time) {
            if (t == 0 && c == 0) report(site, len, n_time + 1);
            len = 0;
        }
        int64_t from = t < len ? len - 1 - t : t;
        y[i] = x[(time_first ? from * n_batch + b : b * n_time + from) * inner + c];
    }
}

/* y (batch, outer, rows, inner): rows [at[b], at[b] + n) of batch b = u (batch, outer, n, inner); at NULL: 0. circular:
 * row numbers count around. */
extern "C" __global__ void put_rows(fault_site site, int64_t n_batch, int64_t outer, int64_t rows, int64_t inner,
                                    int64_t n, int64_t circular, const int64_t *at,
                                    const U *u, U *y) {
    wait_for_earlier();
    for (int64_t i = first_item(); i < n_batch * outer * n * inner; i += item_step()) {
        int64_t row = quotient(i, inner), plane = quotient(row, n), b = quotient(plane, outer);
        int64_t c = i - row * inner, r = row - plane * n, first = at ? at[b] : 0;
        if (circular) {
            first = (first % rows + rows) % rows;
        } else if (first < 0 || first > rows - n) {
            if (c == 0 && r == 0 && plane % outer == 0) report(site, first, rows - n + 1);
            continue;
        }
        int64_t to_row = first + r;
        y[(plane * rows + (to_row < rows ? to_row : to_row - rows)) * inner + c] = u[i];
    }
}
