/* ops/math/bits.c: cards of ops on bits, and Mod. BitShift and Mod, whose attributes choose the formula, are made of
 * ops of domain nacre with one formula each. */
#include "ops/build.h"
#include "ops/math/math.h"

#include <string.h>

#define T_INTS (T_SIGNED | T_UNSIGNED)
#define TWO(a, b, c, types) IN({a, types}, {b, SAME(0)}), OUT({c, SAME(0)})
static const nc_op_version bitwise_versions[] = {{.since = 18, TWO("A", "B", "C", T_INTS), NO_ATTR}, {0}};
static const nc_op_version bitwise_not_versions[] = {{.since = 18, IN({"X", T_INTS}), OUT({"Y", SAME(0)}), NO_ATTR},
                                                     {0}};

#define BITWISE(symbol, op, lane_name, rows, commutes, text) \
    const nc_card nc_card_##symbol = {                       \
        .name = op, .doc = text, .versions = rows, NC_LANE_WITH(lane_name, commutes), .zero_grad = true};

BITWISE(bitwise_and, "BitwiseAnd", bit_and, bitwise_versions, NC_COMMUTES, "A and B, bit by bit, broadcast.")
BITWISE(bitwise_or, "BitwiseOr", bit_or, bitwise_versions, NC_COMMUTES, "A or B, bit by bit, broadcast.")
BITWISE(bitwise_xor, "BitwiseXor", bit_xor, bitwise_versions, NC_COMMUTES,
        "A or B but not both, bit by bit, broadcast.")
BITWISE(bitwise_not, "BitwiseNot", bit_not, bitwise_not_versions, 0, "Every bit of X turned.")

/* ---- BitShift ---- */

static const nc_op_version shift_form_versions[] = {{.since = 1, TWO("X", "Y", "Z", T_INTS), NO_ATTR}, {0}};
const nc_card nc_card_shift_left = {.name = "ShiftLeft",
                                    .domain = "nacre",
                                    .doc = "X's bits moved up by Y places.",
                                    .versions = shift_form_versions,
                                    NC_LANE(shift_left),
                                    .zero_grad = true};
const nc_card nc_card_shift_right = {.name = "ShiftRight",
                                     .domain = "nacre",
                                     .doc = "X's bits moved down by Y places, the sign kept.",
                                     .versions = shift_form_versions,
                                     NC_LANE(shift_right),
                                     .zero_grad = true};

static nc_code shift_infer(nc_infer *c) {
    const char *way = nc_attr_str(c->node, "direction");
    if (way == NULL || (strcmp(way, "LEFT") != 0 && strcmp(way, "RIGHT") != 0))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "direction is '%s', expected 'LEFT' or 'RIGHT'", way ? way : "");
    return nc_lane_infer(c);
}

static nc_code shift_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool left = strcmp(nc_attr_str(n, "direction"), "LEFT") == 0;
    out[0] = nc_build_attr1(b, "nacre", left ? "ShiftLeft" : "ShiftRight", n->in, 2, NULL, 0);
    return b->code;
}

static const nc_op_version shift_versions[] = {
    {.since = 28, TWO("X", "Y", "Z", T_INTS), ATTR(A_STR_REQ("direction"))},
    {.since = 11, TWO("X", "Y", "Z", T_UNSIGNED), ATTR(A_STR_REQ("direction"))},
    {0}};
const nc_card nc_card_bit_shift = {.name = "BitShift",
                                   .doc = "X's bits moved by Y places, broadcast.",
                                   .versions = shift_versions,
                                   .traits = NC_ELEMENTWISE,
                                   .infer = shift_infer,
                                   .decompose = shift_decompose,
                                   .zero_grad = true};

/* ---- Mod ---- */

static const nc_op_version mod_form_versions[] = {{.since = 1, TWO("A", "B", "C", T_NUMBER_ALL), NO_ATTR}, {0}};
const nc_card nc_card_floor_mod = {.name = "FloorMod",
                                   .domain = "nacre",
                                   .doc = "The remainder of A / B with B's sign; of integers by 0 it is 0.",
                                   .versions = mod_form_versions,
                                   NC_LANE(mod)};
const nc_card nc_card_trunc_mod = {.name = "TruncMod",
                                   .domain = "nacre",
                                   .doc = "The remainder of A / B with A's sign; of integers by 0 it is 0.",
                                   .versions = mod_form_versions,
                                   NC_LANE(fmod)};

static nc_code mod_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const char *form = nc_attr_int(n, "fmod") != 0 ? "TruncMod" : "FloorMod";
    out[0] = nc_build_attr1(b, "nacre", form, n->in, 2, NULL, 0);
    return b->code;
}

#define MOD(types) TWO("A", "B", "C", types), ATTR(A_INT("fmod", 0))
static const nc_op_version mod_versions[] = {
    {.since = 28, MOD(T_NUMBER_ALL)}, {.since = 13, MOD(T_NUMBER_ALL)}, {.since = 10, MOD(T_NUMBER)}, {0}};
const nc_card nc_card_mod = {.name = "Mod",
                             .doc = "The remainder of A / B, broadcast, with B's sign, or with A's where fmod is 1.",
                             .versions = mod_versions,
                             .traits = NC_ELEMENTWISE,
                             .infer = nc_lane_infer,
                             .fold = nc_math_fold_mod,
                             .decompose = mod_decompose};
