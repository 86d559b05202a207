/* base/machine_test.c: affinity, the environment, and quotas read from a made-up /proc and /sys. */
#include "base/machine.h"

#include "base/threads.h"
#include "tests/check.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void put_file(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *s = full + strlen(root) + 1; (s = strchr(s, '/')) != NULL; s++) {
        *s = '\0';
        mkdir(full, 0777);
        *s = '/';
    }
    FILE *f = fopen(full, "w");
    REQUIRE(f);
    fputs(text, f);
    fclose(f);
}

static bool make_root(void) {
    snprintf(root, sizeof root, "/tmp/nacre_machine_XXXXXX");
    return mkdtemp(root) != NULL;
}

static void remove_root(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK_INT(system(command), 0);
}

/* One file more, or another text in it, and what is found then; want -1: nothing is asked yet. */
typedef struct step {
    const char *path, *text;
    int want;
} step;

#define FINDS(found, steps)                                                                                  \
    do {                                                                                                     \
        REQUIRE(make_root());                                                                                \
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps)[0]; i++) {                                      \
            if ((steps)[i].path != NULL) put_file((steps)[i].path, (steps)[i].text);                         \
            long long got_ = (long long)(found);                                                             \
            if ((steps)[i].want >= 0 && got_ != (steps)[i].want)                                             \
                nc_test_failed(__FILE__, __LINE__, "step %zu: %lld, expected %d", i, got_, (steps)[i].want); \
        }                                                                                                    \
        remove_root();                                                                                       \
    } while (0)

TEST(machine_quota_of_version_2) {
    static const step steps[] = {
        {NULL, NULL, 0},
        {"proc/self/cgroup", "0::/a/b\n", 0},
        {"sys/fs/cgroup/a/b/cpu.max", "max 100000\n", 0},
        {"sys/fs/cgroup/a/cpu.max", "250000 100000\n", 3},
        {"sys/fs/cgroup/cpu.max", "50000 100000\n", 1},
        {"sys/fs/cgroup/cpu.max", "nonsense\n", 3},
        {"proc/self/cgroup", "0::/\n", 0},
    };
    FINDS(nc_machine_quota(root), steps);
}

TEST(machine_quota_of_version_1) {
    static const step steps[] = {
        {"proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/docker/q:1\n1:name=systemd:/x\n", -1},
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n", -1},
        {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n", 0},
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n", 4},
        {"sys/fs/cgroup/cpu/docker/q:1/cpu.cfs_quota_us", "150000\n", 4},
        {"sys/fs/cgroup/cpu/docker/q:1/cpu.cfs_period_us", "100000\n", 2},
        {"proc/self/cgroup", "5:cpuset:/x\n", 0},
    };
    FINDS(nc_machine_quota(root), steps);
}

TEST(machine_memory_is_the_least_of_machine_and_group) {
    static const step steps[] = {
        {NULL, NULL, 0},
        {"proc/meminfo", "MemFree: 1 kB\n", 0},
        {"proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\nSwapTotal:  1024 kB\n", 3 << 20},
        {"proc/self/cgroup", "0::/a\n", -1},
        {"sys/fs/cgroup/a/memory.max", "max\n", 3 << 20},
        {"sys/fs/cgroup/memory.max", "1048576\n", 2 << 20},
        {"sys/fs/cgroup/memory.max", "99999999999\n", 3 << 20},
        {"proc/self/cgroup", "4:cpu,memory:/b\n", -1},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", 3 << 20},
        {"sys/fs/cgroup/memory/b/memory.limit_in_bytes", "512\n", (1 << 20) + 512},
    };
    FINDS(nc_machine_memory(root), steps);
    CHECK(nc_machine_memory("") > 1 << 20);
}

TEST(machine_threads_listen_to_the_environment) {
    const char *old = getenv("NACRE_NUM_THREADS");
    char keep[64];
    snprintf(keep, sizeof keep, "%s", old ? old : "");
    setenv("NACRE_NUM_THREADS", "7", 1);
    CHECK_INT(nc_machine_threads(), 7);
    setenv("NACRE_NUM_THREADS", "99999999999999999999", 1);
    CHECK_INT(nc_machine_threads(), 1024);
    unsetenv("NACRE_NUM_THREADS");
    int plain = nc_machine_threads();
    CHECK(plain >= 1);
    static const char *const nonsense[] = {"", "0", "-3", "4x", "many"};
    for (int i = 0; i < 5; i++) {
        setenv("NACRE_NUM_THREADS", nonsense[i], 1);
        CHECK_INT(nc_machine_threads(), plain);
    }
    if (old)
        setenv("NACRE_NUM_THREADS", keep, 1);
    else
        unsetenv("NACRE_NUM_THREADS");
}

TEST(machine_threads_respect_affinity) {
    if (getenv("NACRE_NUM_THREADS")) {
        nc_test_not_run("NACRE_NUM_THREADS is set");
        return;
    }
    cpu_set_t old, one;
    REQUIRE(sched_getaffinity(0, sizeof old, &old) == 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &old)) CPU_SET(i, &one);
    }
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK_INT(nc_machine_threads(), 1);
    CHECK(sched_setaffinity(0, sizeof old, &old) == 0);
}

TEST(machine_reads_small_files) {
    char text[4] = "zzz";
    CHECK(!nc_machine_read("/nonexistent/file", text, sizeof text));
    CHECK(nc_machine_read("/proc/self/status", text, sizeof text));
    CHECK_STR(text, "Nam");
    CHECK(!nc_machine_read("/dev/null", text, sizeof text));
}
