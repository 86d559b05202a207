/* A run of small nodes does nothing but their arithmetic: no allocation, no thread asked to help, kernels called one
 * after the other. Counted, and the same bits everywhere. */
#include "tests/model.h"

#include "api/api.h"
#include "base/mem.h"

static const char text[] =
    "<opset: \"\" 17>\n"
    "tiny (float[n,8] x) => (y)\n"
    "<const float[8,8] W = {"
    "0.1,-0.2,0.3,0.4,-0.5,0.6,-0.7,0.8, 0.2,0.3,-0.4,0.5,0.6,-0.7,0.8,0.9, -0.3,0.4,0.5,-0.6,0.7,0.8,0.9,0.1,"
    "0.4,-0.5,0.6,0.7,-0.8,0.9,0.1,0.2, 0.5,0.6,-0.7,0.8,0.9,-0.1,0.2,0.3, 0.6,-0.7,0.8,0.9,0.1,0.2,0.3,0.4,"
    "0.7,0.8,-0.9,0.1,0.2,-0.3,0.4,0.5, -0.8,0.9,0.1,0.2,-0.3,0.4,0.5,0.6},"
    "const float[8] g = {1,0.9,1.1,1,-1,0.5,2,1}, const float[8] b = {0.1,0,-0.1,0.2,0,0,1,-1},"
    "const int64[] axis = {1}, const int64[8] order = {7,6,5,4,3,2,1,0}>\n"
    "{\n"
    "  a1 = MatMul(x, W)\n  s1 = Softmax(a1)\n  c1 = CumSum(s1, axis)\n  i1 = Gather<axis = 1>(c1, order)\n"
    "  l1 = LayerNormalization(i1, g, b)\n"
    "  a2 = Gemm(l1, W, b)\n  s2 = LogSoftmax(a2)\n  c2 = CumSum<exclusive = 1, reverse = 1>(s2, axis)\n"
    "  r2 = ReduceSum<keepdims = 1>(c2, axis)\n  d2 = Sub(c2, r2)\n  t2 = Transpose<perm = [1, 0]>(d2)\n"
    "  y = Concat<axis = 1>(t2, t2)\n"
    "}\n";

static void body(model *m) {
    float x[32], y[8 * 8];
    const char *in_name = "x", *out_name = "y";
    nacre_value *in, *out;
    model_open(m, text);
    random_floats(x, 32, 3);
    model_input(m, "x", NACRE_FLOAT, 2, D(4, 8), x);
    model_run(m);
    model_collect_all(m);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 2, D(4, 8), x, &in, &m->err) == NACRE_OK);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 2, D(8, 8), y, &out, &m->err) == NACRE_OK);
    uint64_t blocks = nc_mem_count(), posts = nc_pool_posts(m->env->env->pool),
             launches = atomic_load(&nc_device_cpu()->n_launches);
    for (int i = 0; i < 3; i++)
        CHECK(nacre_run(m->session, m->run, &in_name, &in, 1, &out_name, 1, &out, &m->err) == NACRE_OK);
    if (strcmp(m->device, "cpu") == 0) {
        CHECK_INT(nc_mem_count() - blocks, 0);
        /* Only the reader of x, which also lets go of it, is launched through the device. */
        CHECK_INT(atomic_load(&nc_device_cpu()->n_launches) - launches, 3);
    }
    CHECK_INT(nc_pool_posts(m->env->env->pool) - posts, 0);
    const float *want = model_floats(m, "y", 64);
    CHECK(want && memcmp(want, y, sizeof y) == 0);
    nacre_value_release(in);
    nacre_value_release(out);
}

TEST(tiny_nodes_cost_their_arithmetic) { model_everywhere(body); }
