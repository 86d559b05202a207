/* The option `tune`: what cuBLASLt offers for a product is tried once, by the first session that asks for it; the next
 * one finds the choice on disk, and one that does not ask takes the first. Results are the same. */
#include "tests/cuda/standin.h"
#include "tests/model.h"

#include <stdlib.h>

enum { M = 3, K = 4, N = 2 };

/* Calls of cublasLtMatmul in the first run and in one more. */
static void products(model *m, const char *tune, uint64_t first) {
    const standin_control *standin = standin_find();
    float x[M * K];
    for (int i = 0; i < M * K; i++) x[i] = (float)(i % 5) - 2;
    if (tune != NULL) model_option(m, "tune", tune);
    model_open(m, "<opset: \"\" 17> g (float[m,4] x, float[m,2] r) => (y) "
                  "<const float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { h = MatMul(x, w) y = Add(h, r) }");
    for (int run = 0; run < 2; run++) {
        if (standin != NULL) standin->reset_calls();
        model_input(m, "x", NACRE_FLOAT, 2, (const int64_t[]){M, K}, x);
        model_input(m, "r", NACRE_FLOAT, 2, (const int64_t[]){M, N}, (const float[M * N]){1, 2, 3, 4, 5, 6});
        model_run(m);
        const float *y = model_floats(m, "y", M * N);
        for (int i = 0; y != NULL && i < M * N; i++) {
            float want = (float)(i + 1);
            for (int k = 0; k < K; k++) want += x[i / N * K + k] * (float)(k * N + i % N + 1);
            CHECK(y[i] == want);
        }
        if (standin != NULL) CHECK_INT(standin->calls("cublasLtMatmul"), run == 0 ? first : 1);
        model_collect_all(m);
    }
}
/* Three ways, each tried once and five times more, and the product itself. */
static void tries(model *m) { products(m, "on", 3 * 6 + 1); }
static void tries_nothing(model *m) { products(m, "on", 1); }
static void does_not_ask(model *m) { products(m, NULL, 1); }

TEST(cuda_products_are_tuned_once) {
    char folder[] = "/tmp/nacre_tuned_XXXXXX", command[64];
    const char *before = getenv("NACRE_CACHE");
    REQUIRE(mkdtemp(folder) != NULL);
    setenv("NACRE_CACHE", folder, 1);
    model_on_cuda(does_not_ask);
    model_on_cuda(tries);
    model_on_cuda(tries_nothing);
    if (before != NULL)
        setenv("NACRE_CACHE", before, 1);
    else
        unsetenv("NACRE_CACHE");
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0);
}
