/* tests/faults/faults_test.c: the out-of-memory sweep over models that between them reach every part of load, plan and
 * run (make.py writes them). Every allocation of each fails once; of the model with more than 200 nodes, 500. The suite
 * of ONNX goes through the same sweep in `make nightly`. Runs from the repository's root. */
#include "tests/check.h"
#include "tests/fault.h"

#include <stdlib.h>
#include <unistd.h>

#ifndef NC_TEST_PLUGINS
#error "the build names the folder of the test plugins"
#endif

/* Emulated, a sample: what an allocation that fails does is the same on every machine. Of all of them `spare` are known
 * to be for what could be done without; few of the others are. */
static void sweep_but(nc_fault_job job, uint64_t spare) {
    nc_fault_result r;
    if (nc_test_emulated()) job.most = 25;
    nc_fault_sweep(&job, &r);
    if (r.wrong[0]) nc_test_failed(job.path, 0, "%s", r.wrong);
    uint64_t want = job.most ? (uint64_t)job.most : r.n_allocs > 500 ? 500 : r.n_allocs;
    CHECK(r.n_allocs > 30 && r.n_tried >= want - want / 20); /* it did reach into every stage */
    spare = spare * r.n_tried / r.n_allocs;
    CHECK(r.n_survived <= spare + (r.n_tried - spare) / 4);
}

static void sweep(nc_fault_job job) { sweep_but(job, 0); }

#define SWEEP(name) \
    TEST(faults_of_##name) { sweep((nc_fault_job){.path = "tests/faults/" #name ".onnx"}); }

SWEEP(control)
SWEEP(sequences)
SWEEP(strings)
SWEEP(functions)
SWEEP(sparse)
SWEEP(external)
SWEEP(quantized)
SWEEP(convolutions)
SWEEP(lstm)
SWEEP(attention)
SWEEP(shapes)

/* Two for the packed weights of each of its 70 products, which can do without. */
TEST(faults_of_large) { sweep_but((nc_fault_job){.path = "tests/faults/large.onnx"}, 2 * 70); }

TEST(faults_of_training_steps) { sweep((nc_fault_job){.path = "tests/faults/training.onnx", .loss = "loss"}); }

TEST(faults_of_weights_in_a_state) {
    sweep((nc_fault_job){.path = "tests/faults/convolutions.onnx", .variables = "*"});
    sweep((nc_fault_job){.path = "tests/faults/attention.onnx", .variables = "*", .device = "guard"});
}

TEST(faults_on_another_device) {
    sweep((nc_fault_job){.path = "tests/faults/control.onnx", .device = "guard"});
    /* qemu 7.2 reads more than the four bytes of a scalar fma's operand: beyond a weight at the end of a page. */
    if (!nc_test_emulated()) sweep((nc_fault_job){.path = "tests/faults/convolutions.onnx", .device = "guard"});
}

TEST(faults_of_a_text_model) { sweep((nc_fault_job){.path = "tests/fuzz/plan/mlp.nct"}); }

TEST(faults_of_saving) {
    char path[] = "/tmp/nacre_faults_XXXXXX";
    REQUIRE(mkdtemp(path));
    char file[64];
    snprintf(file, sizeof file, "%s/saved.onnx", path);
    sweep((nc_fault_job){.path = "tests/faults/functions.onnx", .save = file});
    sweep((nc_fault_job){.path = "tests/faults/control.onnx", .save = file});
    CHECK(unlink(file) == 0);
    CHECK(rmdir(path) == 0); /* no file under a temporary name is left */
}

TEST(faults_of_packed_weights_in_a_file) {
    char path[] = "/tmp/nacre_faults_XXXXXX";
    REQUIRE(mkdtemp(path));
    char file[64];
    snprintf(file, sizeof file, "%s/packed", path);
    sweep((nc_fault_job){.path = "tests/faults/convolutions.onnx", .packed_file = file}); /* it is written, then read */
    CHECK(unlink(file) == 0);
    CHECK(rmdir(path) == 0);
}

TEST(faults_of_a_plugin) {
    char path[1024];
    const char *folder = getenv("NC_TEST_PLUGINS");
    snprintf(path, sizeof path, "%s/compact.so", folder ? folder : NC_TEST_PLUGINS);
    sweep((nc_fault_job){.path = "tests/faults/plugin.onnx", .plugin = path});
}
