/* A large product of half types with an odd size, whose operand is a view with batches that do not lie one behind the
 * other: the copy of the view and those of longer lines have places of their own. Beside the CPU's results. */
#include "base/dtype.h"
#include "tests/model.h"

enum { B = 2, H = 8, S = 64, K = 64, N = 515 }; /* 2^25 multiplications and some */

static void run_product(model *m) {
    static float wide[B * H * S * K];
    static uint16_t x[B * H * S * K], w[K * N];
    random_floats(wide, B * H * S * K, 1);
    for (int i = 0; i < B * H * S * K; i++) x[i] = nc_f32_to_f16(wide[i]);
    random_floats(wide, K * N, 2);
    for (int i = 0; i < K * N; i++) w[i] = nc_f32_to_f16(wide[i]);
    model_open(m, "<opset: \"\" 22> g (float16[2,8,64,64] x, float16[64,515] w) => (y) {"
                  " t = Transpose<perm = [0, 2, 1, 3]>(x) y = MatMul(t, w) }");
    model_input(m, "x", NACRE_FLOAT16, 4, D(B, H, S, K), x);
    model_input(m, "w", NACRE_FLOAT16, 2, D(K, N), w);
    if (!m->failed) model_run(m);
}

static void of_views(model *m) {
    model cpu;
    model_init(&cpu, "cpu", 1);
    run_product(&cpu), run_product(m);
    if (!cpu.failed && !m->failed) {
        const uint16_t *want = nacre_value_data(cpu.out[0]), *got = nacre_value_data(m->out[0]);
        for (int64_t i = 0; i < nacre_value_count(cpu.out[0]); i++)
            CHECK_CLOSE(nc_f16_to_f32(got[i]), nc_f16_to_f32(want[i]), nc_tol_device_f16);
    }
    model_close(&cpu);
}

TEST(cuda_products_of_views_of_odd_sizes) { model_on_cuda(of_views); }
