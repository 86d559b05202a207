/* Children forked at any moment of a busy process: other threads are making sessions, running them at new sizes,
 * writing states and logging. A child must be able to run an old session, to drop it, and to make and run a new one.
 * Children are killed by an alarm, so a lock that stays taken is a failure and not a hang. */
#include "tests/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

#if !defined(SANITIZED)
static const char text[] = "<opset: \"\" 17>\n"
                           "g (float[n,2] x, float[2] old) => (float[n,2] y, float[2] new)\n"
                           "<const float[2,2] W = {1,2,3,4}>\n"
                           "{\n  h = MatMul(x, W)\n  y = Relu(h)\n  new = Add(old, old)\n}\n";

typedef struct busy {
    const char *device;
    nacre_env *env;
    nacre_session *session;
    atomic_bool stop;
} busy;

static nacre_session *make(nacre_env *env, const char *device) {
    nacre_error err;
    nacre_model *m;
    nacre_options *o;
    nacre_session *s = NULL;
    if (nacre_model_parse(env, text, &m, &err) != NACRE_OK) return NULL;
    if (nacre_options_create(&o, &err) != NACRE_OK) return NULL;
    if (nacre_options_set(o, "device", device, &err) != NACRE_OK ||
        nacre_options_tie(o, "old", "new", &err) != NACRE_OK || nacre_session_create(env, m, o, &s, &err) != NACRE_OK)
        s = NULL;
    nacre_options_release(o);
    return s;
}

static bool run(nacre_session *s, nacre_state *st, int64_t n) {
    static float zeros[2 * 64];
    nacre_error err;
    nacre_value *x, *y = NULL;
    nacre_run_options *r;
    if (nacre_value_tensor(NACRE_FLOAT, 2, D(n, 2), zeros, &x, &err) != NACRE_OK) return false;
    if (nacre_run_options_create(&r, &err) != NACRE_OK) return false;
    nacre_run_options_state(r, st);
    nacre_code code =
        nacre_run(s, r, (const char *[]){"x"}, (nacre_value *const[]){x}, 1, (const char *[]){"y"}, 1, &y, &err);
    nacre_value_release(x);
    nacre_value_release(y);
    nacre_run_options_release(r);
    return code == NACRE_OK;
}

static void *keep_running(void *arg) {
    busy *b = arg;
    for (int64_t i = 0; !atomic_load(&b->stop); i++) {
        run(b->session, NULL, 1 + i % 60);
        nacre_log(NACRE_LOG_ERROR, "busy");
    }
    return NULL;
}

static void *keep_making(void *arg) {
    busy *b = arg;
    while (!atomic_load(&b->stop)) {
        nacre_session *s = make(b->env, b->device);
        if (s) run(s, NULL, 3);
        nacre_session_release(s);
    }
    return NULL;
}

/* The state that a thread of the parent may have been writing is perhaps dirty here: reset makes it good. */
static void be_child(busy *b) {
    nacre_error err;
    nacre_env *env = NULL;
    alarm(20);
    bool good = nacre_state_reset(b->session, NULL, &err) == NACRE_OK && run(b->session, NULL, 5);
    nacre_session_release(b->session);
    nacre_session *s = make(b->env, b->device);
    good = good && s && run(s, NULL, 7);
    nacre_session_release(s);
    nacre_env_release(b->env);
    good = good && nacre_env_create(2, &env, &err) == NACRE_OK && (s = make(env, b->device)) && run(s, NULL, 9);
    nacre_log(NACRE_LOG_ERROR, "child");
    _exit(good ? 0 : 1);
}

static void hear_nothing(void *user, nacre_log_level level, const char *message) {
    (void)user, (void)level, (void)message;
}

static void fork_under_load(const char *device) {
    if (nc_test_emulated()) {
        nc_test_not_run("qemu-user gives up when a process with running threads forks");
        return;
    }
    busy b = {.device = device, .stop = false};
    nacre_error err;
    pthread_t t[3];
    nacre_log_set_sink(hear_nothing, NULL);
    REQUIRE(nacre_env_create(2, &b.env, &err) == NACRE_OK && (b.session = make(b.env, device)));
    for (int i = 0; i < 3; i++) REQUIRE(pthread_create(&t[i], NULL, i ? keep_running : keep_making, &b) == 0);
    for (int i = 0; i < 60 && !nc_test_has_failed(); i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) be_child(&b);
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        CHECK_INT(status, 0);
    }
    atomic_store(&b.stop, true);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    CHECK(run(b.session, NULL, 4));
    nacre_session_release(b.session);
    nacre_env_release(b.env);
    nacre_log_set_sink(NULL, NULL);
}
#else
static void fork_under_load(const char *device) {
    (void)device;
    nc_test_not_run("the sanitizers' own locks are not free in a child of a process with running threads");
}
#endif

TEST(sessions_survive_fork_under_load) { fork_under_load("cpu"); }
TEST(sessions_of_a_device_survive_fork_under_load) { fork_under_load("guard"); }
