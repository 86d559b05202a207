/* plan/lower_layout_test.c: convolutions in channel-blocked form, elementwise ops between them, near misses. */
#include "tests/lowering.h"

#define BLOCKS(graph, want) OPS_ON(nc_device_cpu(), graph, nc_lower_layout, want)
#define HEAD "(float[n,1,h,k] x) => (y) <const float[1,1,1,1] w = {2}> "

TEST(lower_layout_blocks_convolutions) {
    BLOCKS(HEAD "{ y = Conv(x, w) }", "PackChannels ConvBlocked UnpackChannels");
    BLOCKS(HEAD "{ a = Conv(x, w) y = Conv(a, w) }", "PackChannels ConvBlocked ConvBlocked UnpackChannels");
}

TEST(lower_layout_sinks_through_elementwise_ops) {
    BLOCKS(HEAD "{ a = Conv(x, w) b = Relu(a) y = Conv(b, w) }",
           "PackChannels ConvBlocked Relu ConvBlocked UnpackChannels");
    BLOCKS(HEAD "{ a = Conv(x, w) b = Softmax(a) y = Conv(b, w) }",
           "PackChannels ConvBlocked UnpackChannels Softmax PackChannels ConvBlocked UnpackChannels");
}

TEST(lower_layout_leaves_the_rest) {
    BLOCKS("(float[n,1,h,k] x, float[1,1,1,1] w) => (y) { y = Conv(x, w) }", "Conv");
    BLOCKS("(double[n,1,h,k] x) => (y) <const double[1,1,1,1] w = {2}> { y = Conv(x, w) }", "Conv");
    BLOCKS("(float[n,1,h] x) => (y) <const float[1,1,1] w = {2}> { y = Conv(x, w) }", "Conv");
}

/* CUDA has no blocked form; what is placed on the host beside it has. */
TEST(lower_layout_asks_the_place) {
    OPS_ON(&cuda_planning, HEAD "{ y = Conv(x, w) @place=1 }", nc_lower_layout, "Conv@device");
    OPS_ON(&cuda_planning, HEAD "{ y = Conv(x, w) }", nc_lower_layout, "PackChannels ConvBlocked UnpackChannels");
}
