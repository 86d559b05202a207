/* train/checkpoint_file_test.c: what becomes of files: a writer killed at every system call leaves the old or the new
 * checkpoint, a full disk the old one, and a second file of data belongs to its first. */
#include "train/checkpoint_formats.h"

#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/nacre_checkpoint_XXXXXX");
    return mkdtemp(folder) != NULL;
}

static void remove_folder(void) {
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') unlink(in_folder(e->d_name));
    if (d) closedir(d);
    CHECK_INT(rmdir(folder), 0);
}

static int count_temporaries(void) {
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) n += strstr(e->d_name, ".tmp.") != NULL;
    if (d) closedir(d);
    return n;
}

static nc_checkpoint *with_value(nc_work *w, float value) {
    const int64_t dims[] = {5000};
    nc_checkpoint *c = NULL;
    nc_object *o = nc_object_host_tensor(NC_FLOAT, 1, dims);
    if (!o || nc_checkpoint_create(w, &c) != NC_OK) return NULL;
    for (int i = 0; i < 5000; i++) ((float *)o->t.data)[i] = value;
    if (nc_checkpoint_add(w, c, "w", NC_FLOAT, o, true) != NC_OK) return NULL;
    c->optimizer = (nc_optimizer_state){.present = true, .step = (int64_t)value};
    return c;
}

static void save(float value, nc_checkpoint_format format, size_t external_from, nc_code expected) {
    nc_work w;
    nc_work_init(&w);
    nc_checkpoint *c = with_value(&w, value);
    REQUIRE(c);
    CHECK_INT(format == NC_CHECKPOINT_ORT ? nc_checkpoint_save_ort(&w, c, in_folder("c"), true, external_from)
                                          : nc_checkpoint_save(&w, c, in_folder("c"), format, true),
              expected);
    nc_checkpoint_release(c);
    nc_work_release(&w);
}

/* The value that all parts of the file hold; -1 when it does not load, -2 when they differ. */
static float saved(void) {
    nc_work w;
    nc_checkpoint *c = NULL;
    nc_work_init(&w);
    float value = -1;
    if (nc_checkpoint_load(&w, in_folder("c"), &c) == NC_OK) {
        const float *p = c->params.v[0].value->t.data;
        value = p[0];
        for (int i = 0; i < 5000; i++)
            if (p[i] != value || c->optimizer.step != (int64_t)value) value = -2;
    } else if (!strstr(w.diag.text, "the bytes of 'w' are not those that were saved")) {
        nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text);
    }
    nc_checkpoint_release(c);
    nc_work_release(&w);
    return value;
}

/* Runs the child to its n-th stop at a system call and kills it there. False: it came to its end before. */
static bool killed_at(pid_t child, int n) {
    int status;
    bool alive = waitpid(child, &status, 0) == child && WIFSTOPPED(status);
    for (int i = 0; alive && i < n; i++)
        alive =
            ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status);
    if (!alive) return false;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return true;
}

static bool can_trace(void) {
    pid_t child = fork();
    if (child == 0) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0 ? 0 : 1);
    int status = 0;
    bool can = child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status);
    if (can) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return can;
}

static void kill_everywhere(nc_checkpoint_format format, size_t external_from) {
    int n = 1, old = 0, new = 0, told = 0;
    REQUIRE(make_folder());
    for (bool going = true; going && n < 400; n++) {
        save(1, format, external_from, NC_OK);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(1);
            raise(SIGSTOP);
            save(2, format, external_from, NC_OK);
            _exit(0);
        }
        going = killed_at(child, n);
        float value = saved();
        old += value == 1, new += value == 2, told += value == -1;
        if (value < 0 && external_from) nc_test_failed(__FILE__, __LINE__, "killed at call %d: %g is left", n, value);
        if (value == -2) nc_test_failed(__FILE__, __LINE__, "killed at call %d: a mixture is left", n);
        CHECK(going || value == 2);
    }
    CHECK(old > 10 && new > 0); /* the calls of write, sync and rename were all seen, on their way in and out */
    CHECK(external_from ? told == 0 : told > 0);
    CHECK_INT(count_temporaries(), 0); /* the last one was not killed, and removed what the others had left */
    remove_folder();
}

TEST(checkpoint_writer_killed_at_every_call) {
    if (nc_test_emulated() || !can_trace()) {
        nc_test_not_run("a process cannot be traced here");
        return;
    }
    kill_everywhere(NC_CHECKPOINT_SAFETENSORS, SIZE_MAX);
    kill_everywhere(NC_CHECKPOINT_ORT, SIZE_MAX);
    kill_everywhere(NC_CHECKPOINT_ORT, 0); /* two files: between the renames checksums tell */
}

/* The limit of a file's size stands in for a disk's. */
TEST(checkpoint_full_disk_leaves_the_old_file) {
    REQUIRE(make_folder());
    for (int format = 0; format < 2; format++) {
        struct rlimit before, small;
        save(1, (nc_checkpoint_format)format, SIZE_MAX, NC_OK);
        REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
        void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
        for (rlim_t room = 0; room < 20000; room += 1999) {
            small = (struct rlimit){room, before.rlim_max};
            REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
            save(2, (nc_checkpoint_format)format, SIZE_MAX, NC_E_IO);
            CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
            CHECK_NEAR(saved(), 1, 0);
        }
        signal(SIGXFSZ, handler);
    }
    CHECK_INT(count_temporaries(), 0);
    remove_folder();
}

static void check_load_fails(const char *message) {
    nc_work w;
    nc_checkpoint *c = NULL;
    nc_work_init(&w);
    CHECK(nc_checkpoint_load(&w, in_folder("c"), &c) != NC_OK);
    if (!strstr(w.diag.text, message)) nc_test_failed(__FILE__, __LINE__, "%s, expected %s", w.diag.text, message);
    nc_checkpoint_release(c);
    nc_work_release(&w);
}

TEST(checkpoint_external_data) {
    REQUIRE(make_folder());
    save(3, NC_CHECKPOINT_ORT, 0, NC_OK);
    CHECK(access(in_folder("c.data"), R_OK) == 0);
    CHECK_NEAR(saved(), 3, 0);
    CHECK_INT(truncate(in_folder("c.data"), 19999), 0);
    check_load_fails("'w' takes bytes 0 to 20000 of the file of data, which has 19999: it was cut off");
    unlink(in_folder("c.data"));
    check_load_fails("c.data");
    save(4, NC_CHECKPOINT_ORT, SIZE_MAX, NC_OK);
    CHECK(access(in_folder("c.data"), R_OK) != 0);
    CHECK_NEAR(saved(), 4, 0);
    remove_folder();
}
