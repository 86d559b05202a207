/* tests/tools/fault_sweep.c: fault_sweep [--seconds S] [--most N] [--device D] PATH...: fails allocations of load, plan
 * and run of models, one at a time (tests/fault.h). A PATH is a model, a folder with model.onnx and test_data_set_0, as
 * ONNX's backend suite has them, or a folder of such folders. When the time does not suffice for all, a sample of them
 * is tried first. Models that do not run are counted apart. Exit status 1: something was wrong. */
#include "tests/fault.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct totals {
    int n_models, n_wrong, n_not_run;
    unsigned long long n_tried, n_survived;
} totals;

static void sweep(const char *path, nc_fault_job job, totals *t) {
    char model[4096], data[4096];
    struct stat st;
    snprintf(model, sizeof model, "%s/model.onnx", path);
    snprintf(data, sizeof data, "%s/test_data_set_0", path);
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    job.path = folder ? model : path;
    job.data = folder && stat(data, &st) == 0 ? data : NULL;
    nc_fault_result r;
    nc_fault_sweep(&job, &r);
    t->n_tried += r.n_tried, t->n_survived += r.n_survived;
    if (r.not_run)
        printf("not run: %s: %s\n", path, r.wrong), t->n_not_run++;
    else
        t->n_models++;
    if (r.not_run || !r.wrong[0]) return;
    t->n_wrong++;
    printf("WRONG %s: %s\n", path, r.wrong);
}

/* ---- the models that paths name ---- */

typedef struct list {
    char **v;
    size_t n;
} list;

static void add(list *l, const char *path) {
    char **v = realloc(l->v, (l->n + 1) * sizeof *v);
    if (v == NULL || (v[l->n] = strdup(path)) == NULL) exit(2);
    l->v = v;
    l->n++;
}

static void find(list *l, const char *path) {
    char inner[4096];
    struct dirent **entries;
    struct stat st;
    snprintf(inner, sizeof inner, "%s/model.onnx", path);
    int n = stat(path, &st) == 0 && S_ISDIR(st.st_mode) && stat(inner, &st) != 0
                ? scandir(path, &entries, NULL, alphasort)
                : -1;
    if (n < 0) add(l, path);
    for (int i = 0; i < n; i++) {
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') add(l, inner);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

/* Neighbours are alike: the k-th to be tried is far from the one before. */
static size_t spread(size_t k, size_t n) {
    size_t step = n / 7 * 2 + 1;
    while (n > 1) { /* until step and n have no common part */
        size_t a = n, b = step;
        while (b) {
            size_t c = a % b;
            a = b, b = c;
        }
        if (a == 1) break;
        step++;
    }
    return k * step % n;
}

int main(int argc, char **argv) {
    nc_fault_job job = {0};
    totals t = {0};
    list models = {0};
    double seconds = 0, start = now();
    int i = 1;
    size_t k = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0) seconds = atof(argv[i + 1]);
        if (strcmp(argv[i], "--most") == 0) job.most = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--device") == 0) job.device = argv[i + 1];
    }
    for (; i < argc; i++) find(&models, argv[i]);
    for (; k < models.n && (seconds <= 0 || now() - start < seconds); k++) {
        job.seconds = seconds > 0 ? seconds - (now() - start) : 0;
        sweep(models.v[spread(k, models.n)], job, &t);
    }
    printf("%d models, %llu failures, %llu survived, %d wrong; %d do not run, %zu left for want of time: %d passed\n",
           t.n_models, t.n_tried, t.n_survived, t.n_wrong, t.n_not_run, models.n - k, t.n_models - t.n_wrong);
    for (size_t j = 0; j < models.n; j++) free(models.v[j]);
    free(models.v);
    return t.n_wrong > 0 || t.n_models == 0;
}
