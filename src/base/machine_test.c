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

TEST(machine_quota_of_version_2) {
    REQUIRE(make_root());
    CHECK_INT(nc_machine_quota(root), 0);
    put_file("proc/self/cgroup", "0::/a/b\n");
    CHECK_INT(nc_machine_quota(root), 0);
    put_file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK_INT(nc_machine_quota(root), 0);
    put_file("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    CHECK_INT(nc_machine_quota(root), 3);
    put_file("sys/fs/cgroup/cpu.max", "50000 100000\n");
    CHECK_INT(nc_machine_quota(root), 1);
    put_file("sys/fs/cgroup/cpu.max", "nonsense\n");
    CHECK_INT(nc_machine_quota(root), 3);
    put_file("proc/self/cgroup", "0::/\n");
    CHECK_INT(nc_machine_quota(root), 0);
    remove_root();
}

TEST(machine_quota_of_version_1) {
    REQUIRE(make_root());
    put_file("proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/docker/q:1\n1:name=systemd:/x\n");
    put_file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put_file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK_INT(nc_machine_quota(root), 0);
    put_file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    CHECK_INT(nc_machine_quota(root), 4);
    put_file("sys/fs/cgroup/cpu/docker/q:1/cpu.cfs_quota_us", "150000\n");
    CHECK_INT(nc_machine_quota(root), 4);
    put_file("sys/fs/cgroup/cpu/docker/q:1/cpu.cfs_period_us", "100000\n");
    CHECK_INT(nc_machine_quota(root), 2);
    put_file("proc/self/cgroup", "5:cpuset:/x\n");
    CHECK_INT(nc_machine_quota(root), 0);
    remove_root();
}

TEST(machine_memory_is_the_least_of_machine_and_group) {
    REQUIRE(make_root());
    CHECK_INT(nc_machine_memory(root), 0);
    put_file("proc/meminfo", "MemFree: 1 kB\n");
    CHECK_INT(nc_machine_memory(root), 0);
    put_file("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\nSwapTotal:  1024 kB\n");
    CHECK_INT(nc_machine_memory(root), 3 << 20);
    put_file("proc/self/cgroup", "0::/a\n");
    put_file("sys/fs/cgroup/a/memory.max", "max\n");
    CHECK_INT(nc_machine_memory(root), 3 << 20);
    put_file("sys/fs/cgroup/memory.max", "1048576\n");
    CHECK_INT(nc_machine_memory(root), 2 << 20);
    put_file("sys/fs/cgroup/memory.max", "99999999999\n");
    CHECK_INT(nc_machine_memory(root), 3 << 20);
    put_file("proc/self/cgroup", "4:cpu,memory:/b\n");
    put_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_INT(nc_machine_memory(root), 3 << 20);
    put_file("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "512\n");
    CHECK_INT(nc_machine_memory(root), (1 << 20) + 512);
    remove_root();
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
