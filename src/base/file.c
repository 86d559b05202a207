/* base/file.c: whole files in, whole files out.
 *
 * Reading maps a large file: no copy, pages come as they are touched; whoever shortens it meanwhile breaks the reader.
 * A small one is read, so that a script may overwrite the model it has loaded. Writing makes a temporary file beside
 * the target and renames it, so a reader sees the old bytes or the new ones; after any failure the temporary is gone
 * and the target is as it was. The temporary is opened here and not by mkstemp, which would leave every file private to
 * its owner. Its writer holds a lock on it until it has its name: what nobody holds was left by a process that was
 * killed, and the next one that writes the same target removes it. */
#include "base/file.h"

#include "base/intmath.h"
#include "base/map.h"
#include "base/mem.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHOWN_PATH 300 /* so that the reason is never cut off behind a long path */
#define WRITE_STEP ((size_t)1 << 30)
#define TRIES 100
#define HUGE ((size_t)2 << 20)
#define SMALL ((size_t)8 << 20) /* copied in less than 2 ms */

static nc_code fail_path(nc_work *w, nc_code code, const char *what, const char *path, int error) {
    size_t n = strlen(path);
    const char *tail = n > SHOWN_PATH ? path + (n - SHOWN_PATH) : path;
    return nc_fail(w, code, "cannot %s '%s%s': %s", what, tail == path ? "" : "...", tail, strerror(error));
}

/* The kernel likes to give large files addresses in step with their huge pages, and then maps 2 MiB at a touch: a table
 * that is read here and there would soon be in memory whole. Half a huge page out of step it maps about 64 KiB. */
static void *map_out_of_step(int fd, size_t bytes) {
    size_t room = bytes + 2 * HUGE;
    char *r = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r == MAP_FAILED) return mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), used = nc_round_up_size(bytes, page);
    size_t head = HUGE - (uintptr_t)r % HUGE + HUGE / 2;
    if (head + used > room) head -= HUGE;
    void *p = mmap(r + head, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
    int error = errno;
    if (p == MAP_FAILED) head = room;
    munmap(r, head);
    if (head + used < room) munmap(r + head + used, room - head - used);
    errno = error;
    return p;
}

/* 0 or an errno. */
static int read_all(int fd, char *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, to + done, bytes - done, (off_t)done);
        if (n < 0 && errno != EINTR) return errno;
        if (n == 0) return EIO;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* A copy in huge pages: half the time of one in shared memory, whose pages come one by one. What is left at the end has
 * a huge page too, where it is more than a quarter of one; what lies behind it goes. */
static void *copy_bytes(int fd, size_t bytes) {
    size_t used = nc_round_up_size(bytes, (size_t)sysconf(_SC_PAGESIZE));
    size_t room = bytes % HUGE > HUGE / 4 ? nc_round_up_size(bytes, HUGE) : used;
    char *p = nc_alloc_pages(room);
    int error = p ? read_all(fd, p, bytes) : ENOMEM;
    if (p && room > used) (void)munmap(p + used, room - used);
    if (error == 0) error = mprotect(p, bytes, PROT_READ) == 0 ? 0 : errno;
    if (error == 0) return p;
    nc_free_pages(p, bytes);
    errno = error;
    return MAP_FAILED;
}

/* Device, number, size, times of change. One that was changed a moment ago may change again without another time. */
static uint64_t id_of(const struct stat *st) {
    enum { MOMENT = 2 };
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || now.tv_sec - st->st_ctim.tv_sec < MOMENT) return 0;
    uint64_t is[] = {(uint64_t)st->st_dev,         (uint64_t)st->st_ino,          (uint64_t)st->st_size,
                     (uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
                     (uint64_t)st->st_ctim.tv_nsec};
    return nc_hash(is, sizeof is, 0);
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
    bool copied = bytes <= SMALL;
    void *p = copied ? copy_bytes(fd, bytes) : map_out_of_step(fd, bytes);
    if (p == MAP_FAILED) return fail_path(w, errno == ENOMEM ? NC_E_MEMORY : NC_E_IO, "map", path, errno);
    *out = (nc_mapping){p, bytes, id_of(&st), copied};
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
    if (m->copied)
        nc_free_pages((void *)(uintptr_t)m->p, m->bytes);
    else if (m->p)
        munmap((void *)(uintptr_t)m->p, m->bytes);
    *m = (nc_mapping){0};
}

void nc_file_forget(const void *p, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p, to = from + bytes;
    from = nc_round_up_size(from, page);
    to = to / page * page;
    if (from < to) (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Whether fd, which is open under a name, is ours: locked, and still under that name. Where a file system has no locks
 * nobody removes anything. */
static bool hold(int fd) {
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
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
        if (fd < 0 && errno != EEXIST) return fd;
        if (fd >= 0 && hold(fd)) return fd;
        if (fd >= 0) close(fd); /* somebody removes it as left over, before it was held */
    }
    return -1;
}

/* Whether name is that of a temporary of a file `base` in the same folder. */
static bool is_temporary(const char *name, const char *base) {
    size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, ".tmp.", 5) != 0) return false;
    name += n + 5;
    for (int i = 0; i < 6; i++)
        if (!isxdigit((unsigned char)name[i])) return false;
    return name[6] == '\0';
}

/* Temporaries of path whose writers are gone. `folder` has room for the path, and is written to. */
static void remove_left_over(const char *path, char *folder) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    memcpy(folder, path, (size_t)(base - path));
    folder[base - path] = '\0';
    DIR *d = opendir(slash ? folder : ".");
    if (!d) return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (!is_temporary(e->d_name, base)) continue;
        int fd = openat(dirfd(d), e->d_name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) (void)unlinkat(dirfd(d), e->d_name, 0);
        close(fd);
    }
    closedir(d);
}

/* 0 or an errno. */
static int write_all(int fd, const uint8_t *p, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, p, nc_min_size(bytes, WRITE_STEP));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
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

struct nc_file_writer {
    char *path, *name; /* where the file will appear; the temporary */
    int fd;
    int mode; /* permissions of the file that is replaced; -1: none is */
};

static void free_writer(nc_file_writer *f) {
    nc_free(f->path);
    nc_free(f->name);
    nc_free(f);
}

void nc_file_drop(nc_file_writer *f) {
    if (!f) return;
    if (f->fd >= 0) {
        unlink(f->name);
        close(f->fd);
    }
    free_writer(f);
}

static nc_code open_writer(nc_work *w, const char *path, nc_file_writer *f) {
    struct stat st;
    if (stat(path, &st) == 0) {
        if (!S_ISREG(st.st_mode)) return fail_path(w, NC_E_IO, "write", path, S_ISDIR(st.st_mode) ? EISDIR : EINVAL);
        f->mode = (int)(st.st_mode & 0777);
    }
    size_t n = strlen(path) + 1, bytes_name = n + sizeof ".tmp.XXXXXX";
    NC_NEED(w, f->path = nc_alloc(n));
    NC_NEED(w, f->name = nc_alloc(bytes_name));
    memcpy(f->path, path, n);
    remove_left_over(path, f->name);
    f->fd = open_temporary(path, f->name, bytes_name);
    return f->fd < 0 ? fail_path(w, NC_E_IO, "create", path, errno) : NC_OK;
}

nc_code nc_file_begin(nc_work *w, const char *path, nc_file_writer **out) {
    nc_file_writer *f = nc_alloc_zero(1, sizeof *f);
    NC_NEED(w, f);
    f->fd = f->mode = -1;
    nc_code code = open_writer(w, path, f);
    if (code != NC_OK) {
        nc_file_drop(f);
        return code;
    }
    *out = f;
    return NC_OK;
}

nc_code nc_file_add(nc_work *w, nc_file_writer *f, const void *p, size_t bytes) {
    int error = write_all(f->fd, p, bytes);
    return error ? fail_path(w, NC_E_IO, "write", f->path, error) : NC_OK;
}

/* 0 or an errno. An existing target keeps its permissions. */
static int finish(nc_file_writer *f) {
    int error = fsync(f->fd) == 0 ? 0 : errno;
    if (error == 0 && f->mode >= 0 && fchmod(f->fd, (mode_t)f->mode) != 0) error = errno;
    if (error == 0 && rename(f->name, f->path) != 0) error = errno;
    if (error != 0) unlink(f->name);
    close(f->fd); /* last, for the lock; what it could report, fsync has */
    return error;
}

nc_code nc_file_end(nc_work *w, nc_file_writer *f) {
    int error = finish(f);
    nc_code code = error ? fail_path(w, NC_E_IO, "write", f->path, error) : NC_OK;
    if (!error) sync_folder(f->name);
    free_writer(f);
    return code;
}

nc_code nc_file_write(nc_work *w, const char *path, const void *p, size_t bytes) {
    nc_file_writer *f;
    NC_TRY(nc_file_begin(w, path, &f));
    nc_code code = nc_file_add(w, f, p, bytes);
    if (code != NC_OK) {
        nc_file_drop(f);
        return code;
    }
    return nc_file_end(w, f);
}
