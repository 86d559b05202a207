/* train/standard_test.c: gradients through control flow, recurrent layers and Resize in ONNX's own ops: nothing of
 * Nacre's own is left, the graph holds together, and every allocation may fail. tests/py/test_gradient_models.py has
 * the numbers, here and in onnxruntime. */
#include "train/train.h"

#include "base/mem.h"
#include "ir/verify.h"
#include "ops/build.h"
#include "tests/graph_testing.h"

#include <string.h>

static const char loop[] =
    "<opset: \"\" 17>(int64[] n, float[] x, float[] k) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, "
    "float[] v) => (c, u) { t = Mul(v, ^k)\n u = Tanh(t) } }> }";
static const char branches[] =
    "<opset: \"\" 17>(bool[] c, float[] x, float[] k) => (y) { y = If(c)<then_branch = { () => (a) { a = Sin(^x) } }, "
    "else_branch = { () => (b) { e = Exp(^x)\n b = Mul(e, ^k) } }> }";
static const char gru[] =
    "<opset: \"\" 14>(float[t,b,3] x, float[1,12,3] w, float[1,12,4] k) => (y) { y = GRU<hidden_size = 4>(x, w, k) }";
static const char resize[] =
    "<opset: \"\" 19>(float[1,2,h,4] x) => (y) <const int64[2] s = {5, 6}> { y = Resize<mode = \"linear\", "
    "axes = [3, 2]>(x, , , s) }";
static const char nested[] =
    "<opset: \"\" 17>(int64[] n, float[] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) => "
    "(c, u) { u = Loop(^n, , v)<body = { (int64[] j, bool[] d, float[] a) => (d, b) { b = Sin(a) } }> } }> }";

static nc_code differentiate(nc_work *w, nc_model *m, int n_x) {
    const char *ys[] = {"y"}, *xs[] = {"x", "k"};
    const nc_train_ask ask = {.ys = ys, .n_y = 1, .xs = xs, .n_x = n_x, .standard = true};
    return nc_train_model_gradients(w, m, &ask);
}

static bool has_own(const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next) {
        if (nc_build_is_own(n)) return true;
        for (int i = 0; i < n->n_subs; i++)
            if (has_own(n->subs[i].graph)) return true;
    }
    return false;
}

static void check_standard(const char *text, int n_x) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    REQUIRE(m);
    CHECK_INT(differentiate(&w, m, n_x), NC_OK);
    CHECK_INT(nc_verify(&w, m), NC_OK);
    CHECK(!has_own(m->main));
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(standard_loop) { check_standard(loop, 2); }
TEST(standard_branches) { check_standard(branches, 2); }
TEST(standard_recurrent) { check_standard(gru, 2); }
TEST(standard_resize) { check_standard(resize, 1); }

TEST(standard_refuses_a_tape_of_tapes) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), nested);
    REQUIRE(m);
    CHECK_INT(differentiate(&w, m, 1), NC_E_UNSUPPORTED);
    CHECK(strstr(w.diag.text, "which is no tensor, for a backward pass: ONNX's ops cannot say that"));
    nc_model_destroy(m);
    nc_work_release(&w);
}

static void fail_everywhere(const char *text, int n_x) {
    bool hit = true;
    for (uint64_t n = 1; hit; n++) {
        nc_work w;
        uint64_t live = nc_mem_live();
        nc_work_init(&w);
        nc_model *m = test_model(&w, nc_ops_registry(), text);
        REQUIRE(m);
        uint64_t failures = nc_mem_failures();
        nc_mem_fail_at(n);
        nc_code code = nc_work_finish(&w, differentiate(&w, m, n_x), failures);
        hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK_INT(code, hit ? NC_E_MEMORY : NC_OK);
        nc_model_destroy(m);
        nc_work_release(&w);
        CHECK_INT(nc_mem_live(), live);
    }
}

TEST(standard_every_allocation_fails) {
    fail_everywhere(loop, 2);
    fail_everywhere(branches, 2);
    fail_everywhere(gru, 2);
    fail_everywhere(resize, 1);
}
