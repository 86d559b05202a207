/* cuDNN's plans on disk: a second start gives equal bits, and on the stand-ins, which count, asks no heuristics and
 * builds no plan; a text that is damaged or refused, or whose plan does not run, is made anew. */
#include "base/dtype.h"
#include "tests/cuda/standin.h"
#include "tests/model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MODEL(pads)                                                                                           \
    "<opset: \"\" 23> g (float16[2,8,6,5] x, float16[16,8,3,3] w, float16[1,1,256,8] q) => (y, z) {"          \
    " c = Conv<pads = [" pads "]>(x, w) y = Relu(c) z = Attention<is_causal = 1>(q, q, q) }"

static char folder[64], before[400];

static void cache_open(void) {
    const char *was = getenv("NACRE_CACHE");
    snprintf(before, sizeof before, "%s", was != NULL ? was : "");
    strcpy(folder, "/tmp/nacre_plans_XXXXXX");
    if (mkdtemp(folder) == NULL) nc_test_failed(__FILE__, __LINE__, "no temporary folder");
    setenv("NACRE_CACHE", folder, 1);
}

/* Whether the file is a plan's; its last byte is changed. */
static bool is_plan(const char *path, bool damage) {
    char head[128] = "";
    FILE *f = fopen(path, "r+b");
    if (f == NULL) return false;
    size_t n = fread(head, 1, sizeof head - 1, f);
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) found = strncmp(head + i, "cuDNN's plan", 12) == 0;
    if (found && damage) {
        fseek(f, -1, SEEK_END);
        int last = fgetc(f);
        fseek(f, -1, SEEK_END);
        fputc(last ^ 1, f);
    }
    fclose(f);
    return found;
}

typedef enum visit { COUNT, DAMAGE, REMOVE } visit;

/* How many plans lie in the cache. */
static int visit_cache(visit what) {
    int n = 0;
    char path[400];
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        n += is_plan(path, what == DAMAGE);
        if (what == REMOVE) unlink(path);
    }
    if (dir != NULL) closedir(dir);
    return n;
}

static void cache_close(void) {
    visit_cache(REMOVE);
    rmdir(folder);
    setenv("NACRE_CACHE", before, 1);
}

typedef struct bits {
    uint16_t y[2 * 16 * 6 * 5], z[256 * 8];
} bits;

static void feed(model *m, const char *name, const int64_t *dims) {
    static float wide[4096];
    static uint16_t narrow[4096];
    int64_t n = dims[0] * dims[1] * dims[2] * dims[3];
    random_floats(wide, n, (uint64_t)name[0]);
    for (int64_t i = 0; i < n; i++) narrow[i] = nc_f32_to_f16(wide[i]);
    model_input(m, name, NACRE_FLOAT16, 4, dims, narrow);
}

/* One start of a program, to its first result; n_plans: how many plans it may build, on the stand-ins. */
static void start(const char *text, int n_plans, bits *out) {
    const standin_control *c = standin_find();
    model m;
    model_init(&m, "cuda", 1);
    if (c != NULL) c->reset_calls();
    model_open(&m, text);
    if (!m.failed) {
        feed(&m, "x", D(2, 8, 6, 5)), feed(&m, "w", D(16, 8, 3, 3)), feed(&m, "q", D(1, 1, 256, 8));
        model_run(&m);
    }
    if (!m.failed) {
        memcpy(out->z, nacre_value_data(model_out(&m, "z")), sizeof out->z);
        size_t bytes = (size_t)nacre_value_count(model_out(&m, "y")) * 2;
        memcpy(out->y, nacre_value_data(model_out(&m, "y")), bytes < sizeof out->y ? bytes : sizeof out->y);
    }
    if (c != NULL) {
        CHECK(c->calls("cudnnBackendExecute") >= 2);
        CHECK_INT(c->calls("cudnn heuristics"), n_plans);
        CHECK_INT(c->calls("cudnn plan"), n_plans);
    }
    model_close(&m);
}

static void again(const char *text, int n_plans, const bits *expected) {
    static bits got;
    memset(&got, 0, sizeof got);
    start(text, n_plans, &got);
    CHECK(memcmp(&got, expected, sizeof got) == 0);
}

static void of_starts(model *unused) {
    static bits first, other;
    (void)unused;
    cache_open();
    start(MODEL("1, 1, 1, 1"), 2, &first);
    int n = visit_cache(COUNT);
    CHECK(n > 0); /* on a GPU: those whose engines can be written down */
    again(MODEL("1, 1, 1, 1"), 0, &first);
    CHECK_INT(visit_cache(DAMAGE), n);
    again(MODEL("1, 1, 1, 1"), 2, &first);
    again(MODEL("1, 1, 1, 1"), 0, &first);
    start(MODEL("0, 0, 0, 0"), 1, &other); /* a graph that differs in a number */
    CHECK(visit_cache(COUNT) >= n);
    cache_close();
}

/* The first call that ends a descriptor, or runs a plan, belongs to one from disk. */
static void of_refusals(model *unused) {
    static bits first;
    const standin_control *c = standin_find();
    (void)unused;
    if (c == NULL) {
        nc_test_not_run("needs the stand-ins of tests/cuda: NACRE_CUDA_PATH=build/release/cuda");
        return;
    }
    cache_open();
    start(MODEL("1, 1, 1, 1"), 2, &first);
    static const char *const calls[] = {"cudnnBackendFinalize", "cudnnBackendExecute"};
    for (int i = 0; i < 2; i++) {
        c->fail(calls[i], 1, 3000, false);
        again(MODEL("1, 1, 1, 1"), 1, &first);
        CHECK_STR(c->failed(), calls[i]);
        c->fail(NULL, 0, 0, false);
        again(MODEL("1, 1, 1, 1"), 0, &first);
    }
    cache_close();
}

TEST(cuda_plans_on_disk) { model_on_cuda(of_starts); }
TEST(cuda_plans_refused_are_made_anew) { model_on_cuda(of_refusals); }
