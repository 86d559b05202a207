/* An MLP with a dynamic batch: right numbers, one program for all sizes, no allocation but the outputs in the steady
 * state. */
#include "tests/model.h"

#include "base/mem.h"

static const char text[] =
    "<opset: \"\" 17>\n"
    "mlp (float[batch,5] x) => (float[batch,3] y)\n"
    "<const float[5,7] W1 = {"
    "0.1,-0.2,0.3,0.4,-0.5,0.6,-0.7, 0.2,0.3,-0.4,0.5,0.6,-0.7,0.8, -0.3,0.4,0.5,-0.6,0.7,0.8,0.9,"
    "0.4,-0.5,0.6,0.7,-0.8,0.9,0.1, 0.5,0.6,-0.7,0.8,0.9,-0.1,0.2},"
    "const float[7] b1 = {0.01,0.02,-0.03,0.04,0.05,-0.06,0.07},"
    "const float[7,3] W2 = {0.3,-0.1,0.2, 0.5,0.4,-0.3, -0.2,0.6,0.1, 0.7,-0.5,0.4, 0.1,0.2,0.3, -0.6,0.5,-0.4, "
    "0.2,-0.3,0.8},"
    "const float[3] b2 = {0.1,-0.2,0.3}>\n"
    "{\n"
    "  h = MatMul(x, W1)\n  hb = Add(h, b1)\n  r = Relu(hb)\n  z = MatMul(r, W2)\n  y = Add(z, b2)\n"
    "}\n";

/* The same in plain loops, in double. */
static void reference(const float *x, int64_t batch, double *y) {
    static const double W1[5][7] = {{0.1, -0.2, 0.3, 0.4, -0.5, 0.6, -0.7},
                                    {0.2, 0.3, -0.4, 0.5, 0.6, -0.7, 0.8},
                                    {-0.3, 0.4, 0.5, -0.6, 0.7, 0.8, 0.9},
                                    {0.4, -0.5, 0.6, 0.7, -0.8, 0.9, 0.1},
                                    {0.5, 0.6, -0.7, 0.8, 0.9, -0.1, 0.2}};
    static const double b1[7] = {0.01, 0.02, -0.03, 0.04, 0.05, -0.06, 0.07}, b2[3] = {0.1, -0.2, 0.3};
    static const double W2[7][3] = {{0.3, -0.1, 0.2}, {0.5, 0.4, -0.3},  {-0.2, 0.6, 0.1}, {0.7, -0.5, 0.4},
                                    {0.1, 0.2, 0.3},  {-0.6, 0.5, -0.4}, {0.2, -0.3, 0.8}};
    for (int64_t n = 0; n < batch; n++) {
        double h[7];
        for (int j = 0; j < 7; j++) {
            h[j] = b1[j];
            for (int k = 0; k < 5; k++) h[j] += x[n * 5 + k] * W1[k][j];
            h[j] = h[j] > 0 ? h[j] : 0;
        }
        for (int j = 0; j < 3; j++) {
            y[n * 3 + j] = b2[j];
            for (int k = 0; k < 7; k++) y[n * 3 + j] += h[k] * W2[k][j];
        }
    }
}

static void run_batch(model *m, int64_t batch) {
    float x[5 * 33];
    double want[3 * 33];
    random_floats(x, 5 * batch, (uint64_t)batch);
    reference(x, batch, want);
    model_input(m, "x", NACRE_FLOAT, 2, D(batch, 5), x);
    model_run(m);
    const float *y = model_floats(m, "y", batch * 3);
    for (int64_t i = 0; i < batch * 3; i++) CHECK_CLOSE(y[i], want[i], nc_tol_device_f32);
    model_collect_all(m);
}

static void three_sizes(model *m) {
    model_open(m, text);
    run_batch(m, 1);
    run_batch(m, 33);
    run_batch(m, 7);
    run_batch(m, 1);
    run_batch(m, 33);
    CHECK_INT(model_stats(m).plans, 1);
    CHECK_INT(model_stats(m).instances, 3);
    CHECK_INT(model_stats(m).runs, 5);
}

TEST(mlp_with_three_batch_sizes_is_one_plan) { model_everywhere(three_sizes); }

static void empty_batch(model *m) {
    model_open(m, text);
    model_input(m, "x", NACRE_FLOAT, 2, D(0, 5), NULL);
    model_run(m);
    model_floats(m, "y", 0);
}

TEST(mlp_takes_an_empty_batch) { model_everywhere(empty_batch); }

static void steady_state(model *m) {
    model_open(m, text);
    run_batch(m, 7);
    run_batch(m, 7);
    float x[35], y[21];
    nacre_value *in, *out = NULL;
    const char *in_name = "x", *out_name = "y";
    random_floats(x, 35, 7);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 2, D(7, 5), x, &in, &m->err) == NACRE_OK);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 2, D(7, 3), y, &out, &m->err) == NACRE_OK);
    uint64_t before = nc_mem_count(), device = model_stats(m).device_allocations;
    for (int i = 0; i < 3; i++)
        CHECK(nacre_run(m->session, m->run, &in_name, &in, 1, &out_name, 1, &out, &m->err) == NACRE_OK);
    if (strcmp(m->device, "cpu") == 0) CHECK_INT(nc_mem_count() - before, 0);
    CHECK_INT(model_stats(m).device_allocations - device, 0);
    const float *want = model_floats(m, "y", 21);
    CHECK(memcmp(want, y, sizeof y) == 0);
    nacre_value_release(in);
    nacre_value_release(out);
}

TEST(mlp_steady_state_with_bound_output_allocates_nothing) { model_everywhere(steady_state); }

static void copies_are_visible(model *m) {
    model_open(m, text);
    bool guard = strcmp(m->device, "guard") == 0;
    CHECK_INT(model_dump_count(m, "program", "host to device"), guard ? 1 : 0);
    CHECK_INT(model_dump_count(m, "program", "device to host"), guard ? 1 : 0);
    CHECK_INT(model_dump_count(m, "lowered", "nacre.Copy"), guard ? 2 : 0);
}

TEST(mlp_copies_between_devices_are_nodes) { model_everywhere(copies_are_visible); }

static void expect_error(model *m, nacre_code code, const char *part) {
    CHECK_INT(model_try_run(m), code);
    if (!strstr(m->err.text, part))
        nc_test_failed(__FILE__, __LINE__, "message '%s' does not say '%s'", m->err.text, part);
}

static void wrong_inputs(model *m) {
    float x[64] = {0};
    model_open(m, text);
    expect_error(m, NACRE_ARGUMENT, "'x'");
    model_input(m, "x", NACRE_FLOAT, 2, D(2, 6), x);
    expect_error(m, NACRE_SHAPE, "expected 5, got 6");
    model_input(m, "x", NACRE_FLOAT, 1, D(5), x);
    expect_error(m, NACRE_SHAPE, "expected rank 2, got 1");
    model_input(m, "x", NACRE_DOUBLE, 2, D(2, 5), x);
    expect_error(m, NACRE_TYPE, "expected float, got double");
    model_input(m, "x", NACRE_FLOAT, 2, D(2, 5), x);
    model_run(m);
    model_input(m, "z", NACRE_FLOAT, 2, D(2, 5), x);
    expect_error(m, NACRE_ARGUMENT, "no input 'z'; it has: x");
}

TEST(mlp_wrong_inputs_are_named) { model_everywhere(wrong_inputs); }

static void switches(model *m) {
    static const char *const off[] = {"fusion", "views", "packing", "layouts"};
    for (int i = 0; i < 4; i++) model_option(m, off[i], "off");
    model_option(m, "level", "off");
    model_open(m, text);
    run_batch(m, 7);
}

TEST(mlp_with_everything_off) { model_everywhere(switches); }

static void capture(model *m) {
    model_option(m, "capture", "on");
    model_open(m, text);
    for (int i = 0; i < 4; i++) run_batch(m, 7);
    bool guard = strcmp(m->device, "guard") == 0;
    CHECK_INT(model_stats(m).captures, guard ? 1 : 0);
    CHECK_INT(model_stats(m).replays, guard ? 3 : 0);
    run_batch(m, 33);
    run_batch(m, 7);
}

TEST(mlp_replayed_from_a_capture) { model_everywhere(capture); }
