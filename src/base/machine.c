/* base/machine.c: how many threads this process may keep busy: the processors it is bound to, cut by the CPU quota of
 * its control group, or what the user says in NACRE_NUM_THREADS; and how much memory it can ever have. Starts and takes
 * nothing; threads.c and mem.c use the answers. */
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

static int64_t threads_of_quota(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    long long n = quota / period + (quota % period != 0);
    return n > MOST_THREADS ? MOST_THREADS : n;
}

/* Version 2: cpu.max holds "QUOTA PERIOD", QUOTA may be "max". */
static int64_t quota_v2(const char *folder) {
    char path[PATH_MAX], text[128];
    long long quota, period;
    if (snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path) return 0;
    if (!nc_machine_read(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2) return 0;
    return threads_of_quota(quota, period);
}

static int64_t quota_v1(const char *folder) {
    static const char *const names[2] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
    char path[PATH_MAX], text[128];
    long long values[2];
    for (int i = 0; i < 2; i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) >= (int)sizeof path) return 0;
        if (!nc_machine_read(path, text, sizeof text) || sscanf(text, "%lld", &values[i]) != 1) return 0;
    }
    return threads_of_quota(values[0], values[1]);
}

/* Bytes of memory that a group may use; 0: "max", or the enormous number that version 1 means by none. */
static int64_t memory_of(const char *folder, const char *name) {
    char path[PATH_MAX], text[128];
    long long bytes;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return 0;
    if (!nc_machine_read(path, text, sizeof text) || sscanf(text, "%lld", &bytes) != 1) return 0;
    return bytes > 0 && bytes < INT64_MAX / 2 ? bytes : 0;
}

static int64_t memory_v2(const char *folder) { return memory_of(folder, "memory.max"); }

static int64_t memory_v1(const char *folder) { return memory_of(folder, "memory.limit_in_bytes"); }

/* The tightest limit from the group's folder up to the mount point; 0 when there is none. Inside a container the path
 * may name folders that are not visible: they are passed over. */
static int64_t tightest(const char *mount, const char *group, int64_t (*limit)(const char *folder)) {
    char folder[PATH_MAX];
    size_t n_mount = strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder) return 0;
    int64_t least = 0;
    for (;;) {
        int64_t n = limit(folder);
        if (n > 0 && (least == 0 || n < least)) least = n;
        char *slash = strrchr(folder, '/');
        if (slash == NULL || slash < folder + n_mount) return least;
        *slash = '\0';
    }
}

/* Is the name one of the comma-separated controllers? */
static bool names(const char *controllers, const char *name) {
    size_t n = strlen(name);
    for (const char *s = controllers; s; s = strchr(s, ',')) {
        s += *s == ',';
        if (strncmp(s, name, n) == 0 && (s[n] == ',' || s[n] == '\0')) return true;
    }
    return false;
}

/* The tightest limit of this process's groups under a controller, in version 1 and 2 of control groups. */
static int64_t group_limit(const char *root, const char *controller, int64_t (*v1)(const char *),
                           int64_t (*v2)(const char *)) {
    char path[PATH_MAX], text[8192], mount[PATH_MAX];
    int64_t least = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!nc_machine_read(path, text, sizeof text)) return 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) { /* ID:CONTROLLERS:PATH, the path may hold colons */
        strsep(&line, ":");
        char *controllers = strsep(&line, ":");
        if (line == NULL) continue;
        bool unified = controllers[0] == '\0';
        if (!unified && !names(controllers, controller)) continue;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, unified ? "" : "/", unified ? "" : controller);
        int64_t n = tightest(mount, line, unified ? v2 : v1);
        if (n > 0 && (least == 0 || n < least)) least = n;
    }
    return least;
}

int nc_machine_quota(const char *root) { return (int)group_limit(root, "cpu", quota_v1, quota_v2); }

/* The bytes behind a name of /proc/meminfo, which counts in KiB. */
static uint64_t meminfo(const char *text, const char *name) {
    const char *at = strstr(text, name);
    unsigned long long kib;
    if (at == NULL || sscanf(at + strlen(name), " %llu", &kib) != 1 || kib > UINT64_MAX / 1024) return 0;
    return kib * 1024;
}

uint64_t nc_machine_memory(const char *root) {
    char path[PATH_MAX], text[8192];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!nc_machine_read(path, text, sizeof text)) return 0;
    uint64_t total = meminfo(text, "MemTotal:"), swap = meminfo(text, "SwapTotal:");
    if (total == 0 || total > UINT64_MAX - swap) return 0;
    uint64_t group = (uint64_t)group_limit(root, "memory", memory_v1, memory_v2);
    return (group > 0 && group < total ? group : total) + swap;
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
