/* base/machine.c: how many threads this process may keep busy: the processors it is bound to, cut by the CPU quota of
 * its control group, or what the user says in NACRE_NUM_THREADS. Starts nothing; threads.c uses the answer. */
#include "base/machine.h"

#include "base/threads.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 1024

bool nc_machine_read(const char *path, char *buf, size_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t n = 0;
    ssize_t got = 0;
    while (n + 1 < bytes && (got = read(fd, buf + n, bytes - 1 - n)) > 0) n += (size_t)got;
    close(fd);
    buf[n] = '\0';
    return got >= 0 && n > 0;
}

static int threads_of_quota(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    long long n = quota / period + (quota % period != 0);
    return n > MOST_THREADS ? MOST_THREADS : (int)n;
}

/* Version 2: cpu.max holds "QUOTA PERIOD", QUOTA may be "max". */
static int quota_v2(const char *folder) {
    char path[PATH_MAX], text[128];
    long long quota, period;
    if (snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path) return 0;
    if (!nc_machine_read(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2) return 0;
    return threads_of_quota(quota, period);
}

static int quota_v1(const char *folder) {
    static const char *const names[2] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
    char path[PATH_MAX], text[128];
    long long values[2];
    for (int i = 0; i < 2; i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) >= (int)sizeof path) return 0;
        if (!nc_machine_read(path, text, sizeof text) || sscanf(text, "%lld", &values[i]) != 1) return 0;
    }
    return threads_of_quota(values[0], values[1]);
}

/* The tightest quota from the group's folder up to the mount point; 0 when there is none. Inside a container the path
 * may name folders that are not visible: they are passed over. */
static int tightest(const char *mount, const char *group, int (*quota)(const char *folder)) {
    char folder[PATH_MAX];
    size_t n_mount = strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder) return 0;
    int least = 0;
    for (;;) {
        int n = quota(folder);
        if (n > 0 && (least == 0 || n < least)) least = n;
        char *slash = strrchr(folder, '/');
        if (slash == NULL || slash < folder + n_mount) return least;
        *slash = '\0';
    }
}

/* Is "cpu" one of the comma-separated controllers? */
static bool names_cpu(const char *controllers) {
    for (const char *s = controllers; s; s = strchr(s, ',')) {
        s += *s == ',';
        if (strncmp(s, "cpu", 3) == 0 && (s[3] == ',' || s[3] == '\0')) return true;
    }
    return false;
}

int nc_machine_quota(const char *root) {
    char path[PATH_MAX], text[8192], mount[PATH_MAX];
    int least = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!nc_machine_read(path, text, sizeof text)) return 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) { /* ID:CONTROLLERS:PATH, the path may hold colons */
        strsep(&line, ":");
        char *controllers = strsep(&line, ":");
        if (line == NULL) continue;
        bool v2 = controllers[0] == '\0';
        if (!v2 && !names_cpu(controllers)) continue;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, v2 ? "" : "/cpu");
        int n = tightest(mount, line, v2 ? quota_v2 : quota_v1);
        if (n > 0 && (least == 0 || n < least)) least = n;
    }
    return least;
}

static int bound_processors(void) {
    union {
        cpu_set_t set;
        unsigned char bytes[8192]; /* 65536 processors; the kernel refuses a set smaller than its own */
    } mask;
    memset(&mask, 0, sizeof mask);
    if (sched_getaffinity(0, sizeof mask, &mask.set) == 0) {
        int n = CPU_COUNT_S(sizeof mask, &mask.set);
        if (n > 0) return n;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online <= MOST_THREADS ? (int)online : 1;
}

int nc_machine_threads(void) {
    const char *wish = getenv("NACRE_NUM_THREADS");
    char *end = NULL;
    long n = wish ? strtol(wish, &end, 10) : 0;
    if (n > 0 && *end == '\0') return n > MOST_THREADS ? MOST_THREADS : (int)n;
    int processors = bound_processors(), quota = nc_machine_quota("");
    if (quota > 0 && quota < processors) processors = quota;
    return processors > MOST_THREADS ? MOST_THREADS : processors;
}
