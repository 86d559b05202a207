/* plan/lower_layout_test.c: where the channel-blocked layout begins and ends: convolutions, ops that follow them into
 * it, ops that do not, and what the choice costs. */
#include "tests/lowering.h"

#define BLOCKS(graph, want) OPS_ON(nc_device_cpu(), graph, nc_lower_layout, want)
#define W15 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
#define W16 W15 ",1,"
#define W256 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W16 W15 ",1"
#define W1024 W256 "," W256 "," W256 "," W256
#define CONSTS \
    "const float[16,16,2,2] w = {" W1024 "}, const float[16,1,3,3] d = {" W16 W16 W16 W16 W16 W16 W16 W16 W15 ",1}"
#define PAD "<pads = [0,0,1,1]>"
#define MORE(consts) "(float[n,16,40,40] x) => (y) <" CONSTS ", " consts "> "
#define HEAD "(float[n,16,40,40] x) => (y) <" CONSTS "> "

TEST(lower_layout_blocks_convolutions) {
    BLOCKS(HEAD "{ y = Conv" PAD "(x, w) }", "PackChannels ConvBlocked UnpackChannels");
    BLOCKS(HEAD "{ a = Conv" PAD "(x, w) y = Conv" PAD "(a, w) }",
           "PackChannels ConvBlocked ConvBlocked UnpackChannels");
    BLOCKS(HEAD "{ a = Conv<group = 16, pads = [1,1,1,1]>(x, d) y = Conv" PAD "(a, w) }",
           "PackChannels ConvBlocked ConvBlocked UnpackChannels");
    BLOCKS("(float[n,16,200] x) => (y) <const float[16,16,1] v = {" W256 "}> { a = Conv(x, v) y = Conv(a, v) }",
           "PackChannels ConvBlocked ConvBlocked UnpackChannels");
}

TEST(lower_layout_takes_few_channels_as_they_are) {
    BLOCKS("(float[n,1,64,64] x) => (y) <const float[16,1,4,4] v = {" W256 "}> { y = Conv(x, v) }",
           "ConvBlocked UnpackChannels");
}

TEST(lower_layout_passes_element_formulas) {
    BLOCKS(HEAD "{ a = Conv" PAD "(x, w) b = Relu(a) y = Conv" PAD "(b, w) }",
           "PackChannels ConvBlocked Relu ConvBlocked UnpackChannels");
    BLOCKS(HEAD "{ a = Conv" PAD "(x, w) b = Softmax(a) y = Conv" PAD "(b, w) }",
           "PackChannels ConvBlocked UnpackChannels Softmax PackChannels ConvBlocked UnpackChannels");
    BLOCKS(HEAD "{ a = Conv" PAD "(x, w) b = Conv" PAD "(a, w) c = Add(a, b) y = Conv" PAD "(c, w) }",
           "PackChannels ConvBlocked ConvBlocked Add ConvBlocked UnpackChannels");
    BLOCKS(MORE("const float[] s = {6}, const float[16,1,1] c = {" W15 ",1}, const float[1,16,1,1] e = {" W15
                ",1}") "{ a = Conv" PAD "(x, w) b = Min(a, s) f = Mul(b, c) g = Add(e, f) y = Conv" PAD "(g, w) }",
           "PackChannels ConvBlocked Min Mul Add ConvBlocked UnpackChannels");
    BLOCKS(MORE("const float[40] s = {" W16 W16 "1,1,1,1,1,1,1,1}") "{ a = Conv" PAD "(x, w) b = Mul(a, s) y = Conv" PAD
                                                                    "(b, w) }",
           "PackChannels ConvBlocked UnpackChannels Mul PackChannels ConvBlocked UnpackChannels");
}

/* What a reduction leaves out is a dim of 1 until the layout ends. */
TEST(lower_layout_reduces_without_keeping_dims) {
    BLOCKS(MORE("const int64[2] s = {2, 3}") "{ a = Conv" PAD
                                             "(x, w) b = ReduceMax<keepdims = 0>(a, s) y = Softmax(b) }",
           "PackChannels ConvBlocked ReduceMax UnpackChannels Squeeze Softmax");
    BLOCKS(MORE("const int64[1] s = {-1}") "{ a = Conv" PAD
                                           "(x, w) b = ReduceMean<keepdims = 0>(a, s) y = Softmax(b) }",
           "PackChannels ConvBlocked ReduceMean UnpackChannels Squeeze Softmax");
    BLOCKS(MORE("const int64[2] s = {1, 2}") "{ a = Conv" PAD "(x, w) y = ReduceSum<keepdims = 0>(a, s) }",
           "PackChannels ConvBlocked UnpackChannels ReduceSum");
}

TEST(lower_layout_passes_what_works_within_channels) {
    BLOCKS(HEAD "{ a = Conv" PAD "(x, w) b = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(a)"
                " y = Conv" PAD "(b, w) }",
           "PackChannels ConvBlocked MaxPool ConvBlocked UnpackChannels");
    BLOCKS(MORE("const int64[2] s = {-1, -2}") "{ a = Conv" PAD "(x, w) b = ReduceMean(a, s) c = Mul(a, b) y = Conv" PAD
                                               "(c, w) }",
           "PackChannels ConvBlocked ReduceMean Mul ConvBlocked UnpackChannels");
    BLOCKS(MORE("const int64[1] s = {1}") "{ a = Conv" PAD "(x, w) b = ReduceMean(a, s) y = Mul(a, b) }",
           "PackChannels ConvBlocked UnpackChannels ReduceMean Mul");
    BLOCKS(MORE("const int64[8] s = {0, 0, 1, 1, 0, 0, 1, 0}") "{ a = Conv" PAD "(x, w) b = Pad(a, s) y = Conv" PAD
                                                               "(b, w) }",
           "PackChannels ConvBlocked Pad ConvBlocked UnpackChannels");
    BLOCKS(MORE("const float[4] s = {1, 1, 2, 2}") "{ a = Conv" PAD "(x, w) b = Resize(a, , s) y = Conv" PAD "(b, w) }",
           "PackChannels ConvBlocked Resize ConvBlocked UnpackChannels");
    BLOCKS(HEAD "{ a = Conv" PAD "(x, w) b = Conv" PAD "(a, w) c = Concat<axis = -2>(a, b) y = Conv" PAD "(c, w) }",
           "PackChannels ConvBlocked ConvBlocked Concat ConvBlocked UnpackChannels");
    BLOCKS(HEAD "{ a = Conv" PAD
                "(x, w) b = Concat<axis = 1>(a, a) y = MaxPool<kernel_shape = [2,2], strides = [2,2]>(b) }",
           "PackChannels ConvBlocked Concat MaxPool UnpackChannels");
}

#define CUT(args, slice)                                                        \
    "(float[1,32,9,9] x) => (y) <const float[32,32,1,1] v = {" W1024 "}, " args \
    "> { a = Conv(x, v) b = Relu(a) c = " slice " y = MaxPool<kernel_shape = [3,3]>(c) }"
#define ARGS(s, e, axes, steps)                                                         \
    "const int64[1] s = {" s "}, const int64[1] e = {" e "}, const int64[1] i = {" axes \
    "}, const int64[1] t = {" steps "}"

/* Between blocks, and along what is no channel; a cut inside of a block, or every second channel, is none. */
TEST(lower_layout_passes_slices) {
    BLOCKS(CUT(ARGS("16", "99", "1", "1"), "Slice(b, s, e, i)"),
           "PackChannels ConvBlocked Relu Slice MaxPool UnpackChannels");
    BLOCKS(CUT(ARGS("-32", "-16", "-3", "1"), "Slice(b, s, e, i, t)"),
           "PackChannels ConvBlocked Relu Slice MaxPool UnpackChannels");
    BLOCKS(CUT(ARGS("8", "0", "-1", "-2"), "Slice(b, s, e, i, t)"),
           "PackChannels ConvBlocked Relu Slice MaxPool UnpackChannels");
    BLOCKS(CUT(ARGS("5", "32", "1", "1"), "Slice(b, s, e, i)"),
           "PackChannels ConvBlocked Relu UnpackChannels Slice MaxPool");
    BLOCKS(CUT(ARGS("0", "32", "1", "2"), "Slice(b, s, e, i, t)"),
           "PackChannels ConvBlocked Relu UnpackChannels Slice MaxPool");
}

#define UP(attrs) "(float[n,16,20,20] x) => (y) <" CONSTS "> { a = ConvTranspose<" attrs ">(x, w) y = Relu(a) }"

/* Where windows reach far out of a small input, or pads follow from sizes, it stays. */
TEST(lower_layout_blocks_transposed_convolutions) {
    BLOCKS(UP("strides = [2,2]"), "PackChannels ConvTransposeBlocked Relu UnpackChannels");
    BLOCKS("(float[n,16,40,40] x) => (y) <" CONSTS "> { a = ConvTranspose<strides = [3,1], pads = [1,0,0,0]>(x, w) "
           "y = Conv" PAD "(a, w) }",
           "PackChannels ConvTransposeBlocked ConvBlocked UnpackChannels");
    BLOCKS(UP("auto_pad = \"SAME_UPPER\""), "ConvTranspose Relu");
    BLOCKS(UP("group = 2"), "ConvTranspose Relu");
    BLOCKS("(float[n,16,1,1] x) => (y) <" CONSTS "> { y = ConvTranspose(x, w) }", "ConvTranspose");
}

#define DEEP(nodes) \
    "(float[n,16,8,20,20] x) => (y) <const float[16,16,1,2,2] w = {" W1024 "}, const int64[3] s = {2, 3, 4}> " nodes

/* One channel per group is left alone there. */
TEST(lower_layout_has_three_dims) {
    BLOCKS(DEEP("{ a = Conv(x, w) b = MaxPool<kernel_shape = [2,2,2]>(a) c = AveragePool<kernel_shape = [1,2,2]>(b) "
                "d = Conv(c, w) y = ReduceMean(d, s) }"),
           "PackChannels ConvBlocked MaxPool AveragePool ConvBlocked ReduceMean UnpackChannels");
    BLOCKS("(float[n,16,8,20,20] x) => (y) <const float[16,1,1,4,4] w = {" W256 "}> { y = Conv<group = 16>(x, w) }",
           "Conv");
}

/* The result of the first is large where Resize has grown it: the layout ends before. */
TEST(lower_layout_ends_where_it_costs_least) {
    BLOCKS(MORE("const float[4] s = {1, 1, 4, 4}") "{ a = Conv" PAD
                                                   "(x, w) b = Relu(a) c = Resize(b, , s) y = Softmax(c) }",
           "PackChannels ConvBlocked Relu UnpackChannels Resize Softmax");
    BLOCKS(MORE("const int64[2] s = {2, 3}") "{ a = Conv" PAD "(x, w) b = ReduceMax(a, s) y = Softmax(b) }",
           "PackChannels ConvBlocked ReduceMax UnpackChannels Softmax");
}

#define TO_LAST "Transpose<perm = [0,2,3,1]>"
#define TO_FIRST "Transpose<perm = [0,3,1,2]>"

/* A Transpose to or from channels last is done where the layout ends or begins; other ones stay. */
TEST(lower_layout_takes_in_transposes) {
    BLOCKS("(float[n,40,40,16] x) => (y) <" CONSTS "> { a = " TO_FIRST "(x) b = Conv" PAD "(a, w) y = " TO_LAST "(b) }",
           "PackChannels ConvBlocked UnpackChannels");
    BLOCKS("(float[n,40,40,16] x) => (a, y) <" CONSTS "> { a = " TO_FIRST "(x) y = Conv" PAD "(a, w) }",
           "Transpose PackChannels ConvBlocked UnpackChannels");
    BLOCKS("(float[n,16,40,40] x) => (b, y) <" CONSTS "> { b = Conv" PAD "(x, w) y = " TO_LAST "(b) }",
           "PackChannels ConvBlocked UnpackChannels UnpackChannels");
    BLOCKS(HEAD "{ a = Transpose<perm = [0,1,3,2]>(x) b = Conv" PAD "(a, w) y = Transpose<perm = [0,2,1,3]>(b) }",
           "Transpose PackChannels ConvBlocked UnpackChannels Transpose");
}

/* A sum beside rows that are brought to the front joins the layout: both ways convert as much, and its result does. */
TEST(lower_layout_keeps_residuals) {
    BLOCKS("(float[n,40,40,16] x) => (y) <" CONSTS "> { a = " TO_FIRST "(x) b = Conv" PAD "(a, w) c = " TO_LAST "(b) "
           "e = Softmax(c) f = " TO_FIRST "(e) s = Add(f, a) t = Conv" PAD "(s, w) u = Add(t, s) y = " TO_LAST "(u) }",
           "PackChannels ConvBlocked UnpackChannels Softmax PackChannels Add ConvBlocked Add UnpackChannels");
}

/* One convolution of 16 products an element does not pay for two conversions; a second one behind it does. */
TEST(lower_layout_pays) {
    BLOCKS(MORE("const float[16,16,1,1] v = {" W256 "}") "{ y = Conv(x, v) }", "Conv");
    BLOCKS(MORE("const float[16,16,1,1] v = {" W256 "}") "{ a = Conv(x, v) y = Conv" PAD "(a, w) }",
           "PackChannels ConvBlocked ConvBlocked UnpackChannels");
}

/* A network that trains: dX and what lies between stays in blocks, gradients of weights come plain. */
TEST(lower_layout_keeps_training_in_blocks) {
    BLOCKS(MORE("const float[16] s = {" W15 ",1}") "{ a = Conv" PAD "(x, w) b, m, v = BatchNormalization<training_mode "
                                                   "= 1>(a, s, s, s, s) c = Relu(b) y = Conv" PAD "(c, w) z = Neg(m) }",
           "PackChannels ConvBlocked BatchNormBlocked Relu ConvBlocked UnpackChannels Neg");
    BLOCKS(MORE("const float[16] s = {" W15 ",1}") "{ a = Conv" PAD
                                                   "(x, w) r = Relu(a) e, f, g = nacre.BatchNormGrad(r, "
                                                   "a, s) h, i, j = nacre.ConvGrad" PAD "(e, x, w) y = Conv" PAD
                                                   "(h, w) k = Add(f, g) l = Neg(i) }",
           "PackChannels ConvBlocked Relu BatchNormGradBlocked ConvGradBlocked ConvBlocked UnpackChannels Add Neg");
    BLOCKS(MORE("const float[16] s = {" W15 ",1}") "{ a = Conv" PAD "(x, w) , i = nacre.ConvGrad" PAD
                                                   "(a, x, w) y = Neg(i) }",
           "PackChannels ConvBlocked UnpackChannels ConvGrad Neg");
}

TEST(lower_layout_leaves_the_rest) {
    BLOCKS("(float[n,1,h,k] x) => (y) <const float[1,1,1,1] w = {2}> { y = Conv(x, w) }", "Conv");
    BLOCKS("(float[n,16,h,k] x, float[16,16,1,1] w) => (y) { y = Conv" PAD "(x, w) }", "Conv");
    BLOCKS("(double[n,1,h,k] x) => (y) <const double[1,1,1,1] w = {2}> { y = Conv" PAD "(x, w) }", "Conv");
    BLOCKS("(float[n,8,h,k] x) => (y) <const float[8,4,1,1] w = {" W16 W15 ",1}> { y = Conv<group = 2>(x, w) }",
           "Conv");
    BLOCKS("(float[n,16,h,k] x) => (y) { a = Relu(x) y = MaxPool<kernel_shape = [2,2]>(a) }", "Relu MaxPool");
}

/* CUDA has no blocked form; what is placed on the host beside it has. */
TEST(lower_layout_asks_the_place) {
    OPS_ON(&cuda_planning, HEAD "{ y = Conv" PAD "(x, w) @place=1 }", nc_lower_layout, "Conv@device");
    OPS_ON(&cuda_planning, HEAD "{ y = Conv" PAD "(x, w) }", nc_lower_layout,
           "PackChannels ConvBlocked UnpackChannels");
}
