/* ops/nn/moe_codes.c: the weights of QMoE as numbers: codes of 2, 4 or 8 bits with zero points, floats of 4 bits
 * (E2M1) or 8 (E4M3), each times the scale of its row, of its block of a row, or of its square block. */
#include "ops/nn/moe.h"

#include "ops/quant/nbits.h"

static nc_value *ints(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

/* Casts of float8, whatever the model's opset. */
static nc_value *cast(nc_builder *b, nc_value *x, nc_dtype to) {
    nc_attr attr = {.name = "to", .kind = NC_A_INT, .i = to};
    return nc_build_newest1(b, "Cast", &x, 1, &attr, 1);
}

/* x with place i of `axis` taken n (rank 1) times, at i / block. */
static nc_value *by_blocks(nc_builder *b, nc_value *x, nc_value *n, int64_t block, int64_t axis) {
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    nc_value *count = nc_build1(b, "Squeeze", 2, n, ints(b, 0));
    nc_value *all = nc_build1(b, "Range", 3, nc_build_int(b, 0), count, nc_build_int(b, 1));
    nc_value *in[2] = {x, nc_build1(b, "Div", 2, all, nc_build_int(b, block))};
    return nc_build_attr1(b, "", "Gather", in, 2, &attr, 1);
}

/* The first n (rank 1) places of the last axis. */
static nc_value *first_of(nc_builder *b, nc_value *x, nc_value *n) {
    return nc_build1(b, "Slice", 4, x, ints(b, 0), n, ints(b, -1));
}

/* The zero points of codes (E,N,K), to be taken from them. */
static nc_value *zeros_of(nc_builder *b, const nc_node *n, int i, nc_value *codes) {
    const nc_moe_kind *kind = n->card->own;
    nc_value *zeros = nc_contrib_in(n, kind->zeros[i]);
    int64_t bits = nc_moe_bits(n, i), block = nc_moe_block(n);
    if (zeros == NULL) return nc_build_scalar(b, NC_FLOAT, (double)((int64_t)1 << (bits - 1)));
    zeros = nc_nbits_unpacked(b, zeros, bits, NC_FLOAT);
    if (block <= 0) return nc_build1(b, "Unsqueeze", 2, first_of(b, zeros, nc_contrib_size(b, codes, 1)), ints(b, 2));
    return by_blocks(b, zeros, nc_contrib_size(b, codes, 2), block, 2);
}

/* E2M1 of codes 0 to 15, two in a byte. */
static nc_value *floats4(nc_builder *b, nc_value *bytes) {
    static const double magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    nc_value *codes = nc_nbits_unpacked(b, bytes, 4, NC_INT64), *table[16];
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    for (int i = 0; i < 16; i++) {
        nc_value *v = nc_build_scalar(b, NC_FLOAT, i < 8 ? magnitudes[i] : -magnitudes[i - 8]);
        table[i] = nc_build1(b, "Reshape", 2, v, ints(b, 1));
    }
    nc_value *in[2] = {nc_build_attr1(b, "", "Concat", table, 16, &first, 1), codes};
    return nc_build_attr1(b, "", "Gather", in, 2, &first, 1);
}

/* w times the scales of its rows, blocks or square blocks. */
static nc_value *scaled(nc_builder *b, const nc_node *n, int i, nc_value *w) {
    const nc_moe_kind *kind = n->card->own;
    nc_moe_codes codes = nc_moe_codes_of(n);
    int64_t block = nc_moe_block(n);
    nc_value *scales = nc_contrib_in(n, kind->scales[i]);
    if (scales != NULL && (codes != NC_MOE_FP8 || block > 0)) {
        scales = cast(b, scales, NC_FLOAT);
        if (codes == NC_MOE_FP8) scales = by_blocks(b, scales, nc_contrib_size(b, w, 1), block, 1);
        scales = block > 0 ? by_blocks(b, scales, nc_contrib_size(b, w, 2), block, 2)
                           : nc_build1(b, "Unsqueeze", 2, scales, ints(b, 2));
        w = nc_build1(b, "Mul", 2, w, scales);
    }
    if (codes == NC_MOE_INT || (codes == NC_MOE_FP8 && block > 0)) return w;
    nc_value *all = nc_build1(b, "Unsqueeze", 2, n->in[kind->global[i]], nc_build_ints(b, (int64_t[]){1, 2}, 2));
    return nc_build1(b, "Mul", 2, w, all);
}

nc_value *nc_moe_weights(nc_builder *b, const nc_node *n, int i) {
    const nc_moe_kind *kind = n->card->own;
    nc_value *w = n->in[kind->weights[i]];
    nc_moe_codes codes = nc_moe_codes_of(n);
    if (codes == NC_MOE_INT) {
        w = nc_nbits_unpacked(b, w, nc_moe_bits(n, i), NC_FLOAT);
        w = nc_build1(b, "Sub", 2, w, b->code == NC_OK ? zeros_of(b, n, i, w) : NULL);
    } else {
        w = codes == NC_MOE_FP8 ? cast(b, w, NC_FLOAT) : floats4(b, w);
    }
    if (b->code != NC_OK) return NULL;
    w = scaled(b, n, i, w);
    return nc_build_cast(b, w, n->in[NC_MOE_X]->type->elem == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT);
}
