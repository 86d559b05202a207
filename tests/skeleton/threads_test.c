/* Two threads running one session; a fork after use; an allocation that fails at every point of the MLP, from load to
 * run. */
#include "tests/model.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char text[] = "<opset: \"\" 17>\n"
                           "mlp (float[batch,4] x) => (float[batch,2] y)\n"
                           "<const float[4,3] W1 = {1,2,3,4,5,6,7,8,9,10,11,12}, const float[3] b1 = {1,-1,0.5}, const "
                           "float[3,2] W2 = {1,-1,2,-2,3,-3}>\n"
                           "{\n  h = MatMul(x, W1)\n  a = Add(h, b1)\n  r = Tanh(a)\n  y = MatMul(r, W2)\n}\n";

typedef struct worker {
    model *m;
    int id, bad;
} worker;

static int run_one(nacre_session *s, int64_t batch, uint64_t seed, float *y) {
    float x[64];
    nacre_value *in, *out = NULL;
    const char *in_name = "x", *out_name = "y";
    random_floats(x, batch * 4, seed);
    if (nacre_value_tensor(NACRE_FLOAT, 2, D(batch, 4), x, &in, NULL) != NACRE_OK) return 1;
    nacre_code code = nacre_run(s, NULL, &in_name, &in, 1, &out_name, 1, &out, NULL);
    if (code == NACRE_OK) memcpy(y, nacre_value_data(out), (size_t)(batch * 2) * sizeof *y);
    nacre_value_release(in);
    nacre_value_release(out);
    return code != NACRE_OK;
}

static void *work(void *arg) {
    worker *w = arg;
    float want[32], got[32];
    for (int i = 0; i < 50; i++) {
        int64_t batch = 1 + (i + w->id) % 5;
        if (run_one(w->m->session, batch, (uint64_t)(batch + 1), got)) w->bad++;
        if (i == 0) memcpy(want, got, sizeof want);
        if (i % 5 == 0 && memcmp(want, got, (size_t)(batch * 2) * sizeof *want) != 0) w->bad++;
    }
    return NULL;
}

static void concurrent(model *m) {
    model_open(m, text);
    if (m->failed) return;
    pthread_t t[4];
    worker w[4];
    for (int i = 0; i < 4; i++) {
        w[i] = (worker){m, i, 0};
        pthread_create(&t[i], NULL, work, &w[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        CHECK_INT(w[i].bad, 0);
    }
    CHECK_INT(model_stats(m).plans, 1);
    CHECK(model_stats(m).frames <= 4);
    CHECK_INT(model_stats(m).runs, 200);
}

TEST(threads_run_one_session_at_once) { model_everywhere(concurrent); }

/* Large enough that the pool is really used before the fork. */
static void forked(model *m) {
    model_open(m, "<opset: \"\" 17>\ng (float[n,64] x) => (float[n,n] y)\n{ t = Transpose(x)\n y = MatMul(x, t) }\n");
    enum { N = 200 };
    float *x = malloc(N * 64 * sizeof *x);
    random_floats(x, N * 64, 1);
    model_input(m, "x", NACRE_FLOAT, 2, D(N, 64), x);
    free(x);
    model_run(m);
    if (m->failed) return;
    model_collect_all(m);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        size_t n = m->n_bytes;
        alarm(20);
        model_run(m);
        model_collect_all(m);
        _exit(!m->failed && m->n_bytes == 2 * n && memcmp(m->bytes, m->bytes + n, n) == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    model_run(m);
}

TEST(fork_after_use) {
#ifdef __SANITIZE_THREAD__
    (void)forked;
    nc_test_not_run("the thread sanitizer does not allow threads after fork");
#else
    if (getenv("NC_EMULATED"))
        nc_test_not_run("qemu-user gives up when a process with running threads forks");
    else
        model_everywhere(forked);
#endif
}

/* ---- failing allocations ---- */

static const char file[] = "build/oom_test.onnx"; /* tests run from the repository's root */

static nacre_code load(nacre_env *env, bool onnx, nacre_model **m, nacre_error *err) {
    return onnx ? nacre_model_load(env, file, m, err) : nacre_model_parse(env, text, m, err);
}

static nacre_code whole_life(const char *device, bool onnx, float *y, nacre_error *err) {
    nacre_env *env = NULL;
    nacre_model *mod = NULL;
    nacre_session *s = NULL;
    nacre_options *o = NULL;
    nacre_value *in = NULL, *out = NULL;
    const char *in_name = "x", *out_name = "y";
    float x[8] = {1, 2, 3, 4, -1, -2, -3, -4};
    nacre_code code = nacre_env_create(2, &env, err);
    if (code == NACRE_OK) code = nacre_options_create(&o, err);
    if (code == NACRE_OK) code = nacre_options_set(o, "device", device, err);
    if (code == NACRE_OK) code = load(env, onnx, &mod, err);
    if (code == NACRE_OK) code = nacre_session_create(env, mod, o, &s, err);
    if (code == NACRE_OK) code = nacre_value_tensor(NACRE_FLOAT, 2, D(2, 4), x, &in, err);
    if (code == NACRE_OK) code = nacre_run(s, NULL, &in_name, &in, 1, &out_name, 1, &out, err);
    if (code == NACRE_OK) memcpy(y, nacre_value_data(out), 4 * sizeof *y);
    nacre_value_release(in);
    nacre_value_release(out);
    nacre_session_release(s);
    nacre_options_release(o);
    nacre_env_release(env);
    return code;
}

/* A worker thread that could not start, a cache that was not kept: some lives succeed all the same, with the right
 * result. */
static void check_life(uint64_t n, nacre_code code, const nacre_error *err, const float *want, const float *got) {
    if (code == NACRE_OK)
        CHECK(memcmp(want, got, 4 * sizeof *want) == 0);
    else if (code != NACRE_MEMORY)
        nc_test_failed(__FILE__, __LINE__, "allocation %llu: %s: %s", (unsigned long long)n, nacre_code_name(code),
                       err->text);
}

static void fail_everywhere(const char *device, bool onnx) {
    nacre_error err;
    float want[4], got[4];
    REQUIRE(whole_life(device, onnx, want, &err) == NACRE_OK);
    uint64_t live = nc_mem_live(), n = 1;
    int survived = 0;
    for (;; n++) {
        nc_mem_fail_at(n);
        nacre_code code = whole_life(device, onnx, got, &err);
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        if (!hit) break;
        survived += code == NACRE_OK;
        check_life(n, code, &err, want, got);
        if (nc_mem_live() == live) continue;
        nc_test_failed(__FILE__, __LINE__, "allocation %llu: %lld blocks leaked", (unsigned long long)n,
                       (long long)(nc_mem_live() - live));
        live = nc_mem_live();
    }
    CHECK(n > 50); /* it did reach into every stage */
    CHECK(survived < (int)n / 4);
}

TEST(every_allocation_may_fail_on_cpu) { fail_everywhere("cpu", false); }
TEST(every_allocation_may_fail_on_guard) { fail_everywhere("guard", false); }

TEST(every_allocation_may_fail_from_an_onnx_file) {
    nacre_env *env;
    nacre_model *m;
    nacre_error err;
    REQUIRE(nacre_env_create(1, &env, &err) == NACRE_OK);
    REQUIRE(nacre_model_parse(env, text, &m, &err) == NACRE_OK);
    CHECK_INT(nacre_model_save(m, file, &err), NACRE_OK);
    nacre_model_release(m);
    nacre_env_release(env);
    fail_everywhere("cpu", true);
    remove(file);
}
