/* base/file.c: whole files in, whole files out.
 *
 * Reading maps the file: no copy, pages come as they are touched. Writing makes a temporary file beside the target and
 * renames it, so a reader sees the old bytes or the new ones; after any failure the temporary is gone and the target
 * is as it was. The temporary is opened here and not by mkstemp, which would leave every file private to its owner. */
#include "base/file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHOWN_PATH 300 /* so that the reason is never cut off behind a long path */
#define WRITE_STEP ((size_t)1 << 30)
#define TRIES 100

static nc_code fail_path(nc_work *w, nc_code code, const char *what, const char *path, int error) {
    size_t n = strlen(path);
    const char *tail = n > SHOWN_PATH ? path + (n - SHOWN_PATH) : path;
    return nc_fail(w, code, "cannot %s '%s%s': %s", what, tail == path ? "" : "...", tail, strerror(error));
}

static nc_code map_open_file(nc_work *w, int fd, const char *path, nc_mapping *out) {
    struct stat st;
    if (fstat(fd, &st) != 0) return fail_path(w, NC_E_IO, "read", path, errno);
    if (S_ISDIR(st.st_mode)) return fail_path(w, NC_E_NO_FILE, "read", path, EISDIR);
    if (!S_ISREG(st.st_mode)) return fail_path(w, NC_E_NO_FILE, "map", path, ENODEV);
    if (st.st_size == 0) {
        *out = (nc_mapping){0};
        return NC_OK;
    }
    size_t bytes = (size_t)st.st_size;
    void *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return fail_path(w, errno == ENOMEM ? NC_E_MEMORY : NC_E_IO, "map", path, errno);
    *out = (nc_mapping){p, bytes};
    return NC_OK;
}

nc_code nc_file_map(nc_work *w, const char *path, nc_mapping *out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a pipe must be refused, not waited for */
    if (fd < 0) return fail_path(w, NC_E_NO_FILE, "open", path, errno);
    nc_code code = map_open_file(w, fd, path, out);
    close(fd);
    return code;
}

void nc_file_unmap(nc_mapping *m) {
    if (m->p) munmap((void *)(uintptr_t)m->p, m->bytes);
    *m = (nc_mapping){0};
}

/* Opens a new file path.tmp.XXXXXX and writes its name to `name`; -1 and errno on failure. */
static int open_temporary(const char *path, char *name, size_t bytes_name) {
    static atomic_uint counter;
    for (int i = 0; i < TRIES; i++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        unsigned salt = atomic_fetch_add(&counter, 1) * 2654435761u ^ (unsigned)now.tv_nsec ^ (unsigned)getpid() << 8;
        snprintf(name, bytes_name, "%s.tmp.%06x", path, salt & 0xFFFFFF);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* 0 or an errno. */
static int write_all(int fd, const uint8_t *p, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes < WRITE_STEP ? bytes : WRITE_STEP);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        p += n;
        bytes -= (size_t)n;
    }
    return fsync(fd) == 0 ? 0 : errno;
}

/* Makes the rename itself durable; file systems that cannot sync a directory are left alone. */
static void sync_folder(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path] = '\0';
    int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

/* An existing target keeps its permissions. */
static int fill_and_rename(int fd, const char *name, const char *path, const struct stat *old, const void *p,
                           size_t bytes) {
    int error = write_all(fd, p, bytes);
    if (error == 0 && old && fchmod(fd, old->st_mode & 0777) != 0) error = errno;
    if (close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && rename(name, path) != 0) error = errno;
    if (error != 0) unlink(name);
    return error;
}

nc_code nc_file_write(nc_work *w, const char *path, const void *p, size_t bytes) {
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode)) {
        return fail_path(w, NC_E_IO, "write", path, S_ISDIR(st.st_mode) ? EISDIR : EINVAL);
    }
    size_t bytes_name = strlen(path) + sizeof ".tmp.XXXXXX";
    char *name = nc_alloc(bytes_name);
    NC_NEED(w, name);
    int fd = open_temporary(path, name, bytes_name);
    int error = fd < 0 ? errno : fill_and_rename(fd, name, path, exists ? &st : NULL, p, bytes);
    if (error == 0) sync_folder(name);
    nc_free(name);
    return error == 0 ? NC_OK : fail_path(w, NC_E_IO, fd < 0 ? "create" : "write", path, error);
}
