/* base/file_test.c: round trips, messages, permissions, and that neither a failed write nor a killed one leaves
 * anything behind. */
#include "base/file.h"

#include "base/mem.h"
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/nacre_file_XXXXXX");
    return mkdtemp(folder) != NULL;
}

static int count_entries(void) {
    DIR *d = opendir(folder);
    if (d == NULL) return -1;
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(file_round_trip) {
    REQUIRE(make_folder());
    uint64_t live = nc_mem_live();
    nc_work w;
    nc_work_init(&w);
    static const size_t sizes[] = {0, 1, 4095, 4096, 100001, 3};
    uint8_t *bytes = nc_alloc(100001);
    REQUIRE(bytes);
    for (size_t i = 0; i < 100001; i++) bytes[i] = (uint8_t)(i * 31 >> 3);
    for (int i = 0; i < 6; i++) {
        nc_mapping m = {.p = bytes, .bytes = 77};
        CHECK_INT(nc_file_write(&w, in_folder("f"), sizes[i] ? bytes : NULL, sizes[i]), NC_OK);
        REQUIRE(nc_file_map(&w, in_folder("f"), &m) == NC_OK);
        CHECK_INT(m.bytes, sizes[i]);
        CHECK((m.p == NULL) == (sizes[i] == 0));
        CHECK(sizes[i] == 0 || memcmp(m.p, bytes, sizes[i]) == 0);
        nc_file_unmap(&m);
        CHECK(m.p == NULL && m.bytes == 0);
        nc_file_unmap(&m);
    }
    CHECK_INT(count_entries(), 1);
    nc_free(bytes);
    nc_work_release(&w);
    CHECK_INT(nc_mem_live(), live);
    unlink(in_folder("f"));
    CHECK_INT(rmdir(folder), 0);
}

TEST(file_replaced_while_mapped_keeps_old_bytes) {
    REQUIRE(make_folder());
    nc_mapping m;
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "old", 3), NC_OK);
    REQUIRE(nc_file_map(NULL, in_folder("f"), &m) == NC_OK);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "newer", 5), NC_OK);
    CHECK(m.bytes == 3 && memcmp(m.p, "old", 3) == 0);
    nc_file_unmap(&m);
    unlink(in_folder("f"));
    rmdir(folder);
}

/* Bytes of the mapping, which may be several to the system, that the process has in its page table; -1: the system does
 * not say. */
static long resident(const nc_mapping *m) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    long kb = -1, more;
    bool here = false;
    uintptr_t start = (uintptr_t)m->p, end = start + m->bytes;
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) here = from < end && to > start;
        if (here && sscanf(line, "Rss: %ld kB", &more) == 1) kb = more + (kb < 0 ? 0 : kb);
    }
    if (f) fclose(f);
    return kb < 0 ? -1 : kb * 1024;
}

static unsigned sum_of(const nc_mapping *m) {
    unsigned sum = 0;
    for (size_t i = 0; i < m->bytes; i++) sum = sum * 31 + m->p[i];
    return sum;
}

/* A script may write over the small model that it has loaded. */
TEST(file_small_may_be_overwritten_in_place) {
    REQUIRE(make_folder());
    nc_mapping m;
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "0123456789", 10), NC_OK);
    REQUIRE(nc_file_map(NULL, in_folder("f"), &m) == NC_OK);
    FILE *f = fopen(in_folder("f"), "wb");
    REQUIRE(f);
    fputs("x", f);
    fclose(f);
    CHECK(m.bytes == 10 && memcmp(m.p, "0123456789", 10) == 0);
    nc_file_forget(m.p, 10);
    CHECK(memcmp(m.p, "0123456789", 10) == 0);
    nc_file_unmap(&m);
    unlink(in_folder("f"));
    rmdir(folder);
}

/* Of a file that is copied, whose bytes are lost, and of one that is large enough to be mapped. */
static void forget_and_touch(size_t n, bool copied) {
    REQUIRE(make_folder());
    uint8_t *bytes = nc_alloc(n);
    REQUIRE(bytes);
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 13 >> 4);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), bytes, n), NC_OK);
    nc_mapping m;
    REQUIRE(nc_file_map(NULL, in_folder("f"), &m) == NC_OK);
    unsigned sum = sum_of(&m);
    long before = resident(&m), page = sysconf(_SC_PAGESIZE);
    nc_file_forget(m.p + 1, 0);
    nc_file_forget(m.p + 1, (size_t)page); /* holds no whole page */
    long same = resident(&m);
    nc_file_forget(m.p + 1, n - 1);
    long after = resident(&m);
    CHECK(m.copied == copied);
    CHECK((sum_of(&m) == sum) == !copied);
    CHECK((memcmp(m.p, bytes, n) == 0) == !copied);
    if (getenv("NC_EMULATED") || before < 0) {
        nc_test_not_run("which pages are resident cannot be asked here");
    } else {
        CHECK(before >= (long)n);
        CHECK_INT(same, before);
        CHECK(after <= 2 * page); /* the first and the last are shared with what lies outside */
    }
    nc_file_unmap(&m);
    nc_free(bytes);
    unlink(in_folder("f"));
    rmdir(folder);
}

TEST(file_forgotten_pages_leave_and_come_back) {
    forget_and_touch(300 * 4096 + 77, true);
    forget_and_touch(((size_t)5 << 20) + 77, true);
    forget_and_touch(((size_t)17 << 20) + 77, false);
}

TEST(file_permissions) {
    REQUIRE(make_folder());
    struct stat st;
    mode_t mask = umask(022);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "a", 1), NC_OK);
    umask(mask);
    CHECK(stat(in_folder("f"), &st) == 0 && (st.st_mode & 0777) == 0644);
    CHECK_INT(chmod(in_folder("f"), 0640), 0);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "b", 1), NC_OK);
    CHECK(stat(in_folder("f"), &st) == 0 && (st.st_mode & 0777) == 0640);
    unlink(in_folder("f"));
    rmdir(folder);
}

static void check_map_fails(const char *path, nc_code code, int error) {
    nc_work w;
    nc_work_init(&w);
    nc_mapping m = {.p = (const uint8_t *)"x", .bytes = 77};
    CHECK_INT(nc_file_map(&w, path, &m), code);
    CHECK(m.bytes == 77);
    CHECK(strstr(w.diag.text, strerror(error)) != NULL);
    const char *tail = strlen(path) > 100 ? path + strlen(path) - 100 : path;
    CHECK(strstr(w.diag.text, tail) != NULL);
    nc_work_release(&w);
}

TEST(file_map_names_path_and_reason) {
    REQUIRE(make_folder());
    check_map_fails(in_folder("absent"), NC_E_NO_FILE, ENOENT);
    check_map_fails(folder, NC_E_NO_FILE, EISDIR);
    check_map_fails("/dev/null", NC_E_NO_FILE, ENODEV);
    CHECK_INT(mkfifo(in_folder("pipe"), 0600), 0);
    check_map_fails(in_folder("pipe"), NC_E_NO_FILE, ENODEV);
    char longer[1200] = "/";
    while (strlen(longer) < 1100) strcat(longer, "nowhere/");
    check_map_fails(longer, NC_E_NO_FILE, ENOENT);
    unlink(in_folder("pipe"));
    rmdir(folder);
}

TEST(file_failed_write_leaves_nothing) {
    REQUIRE(make_folder());
    nc_work w;
    nc_work_init(&w);
    CHECK_INT(nc_file_write(&w, in_folder("no/such/folder"), "a", 1), NC_E_IO);
    CHECK(strstr(w.diag.text, "no/such/folder") && strstr(w.diag.text, strerror(ENOENT)));
    CHECK_INT(nc_file_write(NULL, folder, "a", 1), NC_E_IO);
    CHECK_INT(nc_file_write(NULL, "/dev/null", "a", 1), NC_E_IO);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "kept", 4), NC_OK);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), (const void *)16, 4096), NC_E_IO); /* EFAULT in the middle */
    nc_mem_fail_at(1);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "lost", 4), NC_E_MEMORY);
    nc_mem_fail_at(0);
    nc_mapping m;
    REQUIRE(nc_file_map(NULL, in_folder("f"), &m) == NC_OK);
    CHECK(m.bytes == 4 && memcmp(m.p, "kept", 4) == 0);
    nc_file_unmap(&m);
    CHECK_INT(count_entries(), 1);
    nc_work_release(&w);
    unlink(in_folder("f"));
    rmdir(folder);
}

static void touch(const char *name) {
    FILE *f = fopen(in_folder(name), "w");
    REQUIRE(f != NULL);
    fclose(f);
}

TEST(file_write_removes_what_a_killed_writer_left) {
    REQUIRE(make_folder());
    static const char *const others[] = {"f.tmp.00ab1", "f.tmp.00ab123", "f.tmp.00ab1g", "g.tmp.00ab12",
                                         "af.tmp.00ab12"};
    touch("f.tmp.00ab12");
    touch("f.tmp.ffffff");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) touch(others[i]);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "a", 1), NC_OK);
    CHECK(access(in_folder("f.tmp.00ab12"), F_OK) != 0 && access(in_folder("f.tmp.ffffff"), F_OK) != 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        CHECK_INT(access(in_folder(others[i]), F_OK), 0);
        unlink(in_folder(others[i]));
    }
    CHECK_INT(count_entries(), 1);
    unlink(in_folder("f"));
    rmdir(folder);
}

TEST(file_write_leaves_a_living_writer_alone) {
    REQUIRE(make_folder());
    nc_file_writer *f;
    REQUIRE(nc_file_begin(NULL, in_folder("f"), &f) == NC_OK);
    CHECK_INT(nc_file_write(NULL, in_folder("f"), "first", 5), NC_OK);
    CHECK_INT(nc_file_add(NULL, f, "second", 6), NC_OK);
    CHECK_INT(count_entries(), 2);
    CHECK_INT(nc_file_end(NULL, f), NC_OK);
    nc_mapping m;
    REQUIRE(nc_file_map(NULL, in_folder("f"), &m) == NC_OK);
    CHECK(m.bytes == 6 && memcmp(m.p, "second", 6) == 0);
    nc_file_unmap(&m);
    CHECK_INT(count_entries(), 1);
    unlink(in_folder("f"));
    rmdir(folder);
}
