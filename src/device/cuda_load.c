/* device/cuda_load.c: finds NVIDIA's libraries and their functions at run time, each when it is first asked for, once
 * per process, and says why not.
 *
 * Looked for in this order: what is already loaded (by PyTorch, say), the folders of NACRE_CUDA_PATH, the system's own
 * search, CUDA_HOME/lib64, /usr/local/cuda/lib64, the Python packages of NVIDIA beside this library, in the virtual or
 * conda environment and in the system's folders. A library of a newer major version than the driver is passed over;
 * cuDNN counts for itself. NACRE_CUDNN=off leaves that one out. */
#include "device/cuda_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATH 1024

typedef struct library {
    const char *name;     /* with %d where the major version stands */
    int majors[3];        /* newest first, ends with 0; 1 is the driver's own */
    const char *packages; /* folders of Python's package nvidia that may hold it, with colons between; NULL: none */
    bool own_versions;    /* its major version is not CUDA's */
    const char *hint;
    char why[400]; /* empty: usable */
    bool looked_for;
} library;

#define INSTALL(package) ": install CUDA or the Python package " package ", or name its folder in NACRE_CUDA_PATH"

static library libraries[NC_CUDA_N_LIBRARIES] = {
    [NC_CUDA_cuda] = {"libcuda.so.%d", {1}, NULL, false, ": no NVIDIA driver here", "", false},
    [NC_CUDA_nvrtc] = {"libnvrtc.so.%d", {13, 12}, "cu13:cuda_nvrtc", false, INSTALL("nvidia-cuda-nvrtc"), "", false},
    [NC_CUDA_lt] = {"libcublasLt.so.%d", {13, 12}, "cu13:cublas", false, INSTALL("nvidia-cublas"), "", false},
    [NC_CUDA_dnn] = {"libcudnn.so.%d", {9}, "cudnn:cu13", true, INSTALL("nvidia-cudnn-cu13"), "", false},
    [NC_CUDA_change] = {"libcuda.so.%d", {1}, NULL, false, ": no NVIDIA driver here", "", false},
    [NC_CUDA_boxes] = {"libcuda.so.%d", {1}, NULL, false, ": no NVIDIA driver here", "", false},
};
static nc_cuda_api api;

static void *open_in(const char *folder, size_t n_folder, const char *file) {
    char path[MAX_PATH];
    int n = snprintf(path, sizeof path, "%.*s/%s", (int)n_folder, folder, file);
    return n_folder > 0 && n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Tries every folder of a list separated by colons. */
static void *open_in_list(const char *list, const char *file) {
    void *h = NULL;
    while (h == NULL && list != NULL && *list != '\0') {
        size_t n = strcspn(list, ":");
        h = open_in(list, n, file);
        list += n + (list[n] == ':');
    }
    return h;
}

/* Every match of a pattern, a colon-separated list of packages put in place of its %s. */
static void *open_in_packages(const char *pattern, const char *root, const char *packages, const char *file) {
    void *h = NULL;
    while (h == NULL && root != NULL && packages != NULL && *packages != '\0') {
        char path[MAX_PATH];
        size_t n = strcspn(packages, ":");
        int length = snprintf(path, sizeof path, pattern, root, (int)n, packages, file);
        glob_t found = {0};
        if (length > 0 && (size_t)length < sizeof path && glob(path, 0, NULL, &found) == 0)
            for (size_t i = 0; h == NULL && i < found.gl_pathc; i++)
                h = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
        packages += n + (packages[n] == ':');
    }
    return h;
}

/* pip's packages: beside our own, of the environment that is active, of the system. */
static void *open_from_pip(const char *packages, const char *file) {
    static const char anchor;
    char own[MAX_PATH] = "";
    Dl_info where;
    const char *slash = NULL;
    if (dladdr(&anchor, &where) != 0 && where.dli_fname != NULL) slash = strrchr(where.dli_fname, '/');
    if (slash != NULL && (size_t)(slash - where.dli_fname) < sizeof own)
        snprintf(own, sizeof own, "%.*s", (int)(slash - where.dli_fname), where.dli_fname);
    void *h = open_in_packages("%s/../nvidia/%.*s/lib/%s", own[0] ? own : NULL, packages, file);
    static const char *const roots[] = {"/usr/local", "/usr", "/opt/conda"};
    const char *const active[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX")};
    for (int i = 0; h == NULL && i < 5; i++)
        h = open_in_packages("%s/lib/python3*/*-packages/nvidia/%.*s/lib/%s", i < 2 ? active[i] : roots[i - 2],
                             packages, file);
    return h;
}

/* *why keeps the first reason: the newest version's. */
static void *open_file(const char *file, const char *packages, char *why, size_t bytes_why) {
    void *h = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (h == NULL) h = open_in_list(getenv("NACRE_CUDA_PATH"), file);
    if (h == NULL && (h = dlopen(file, RTLD_NOW | RTLD_LOCAL)) == NULL) {
        const char *text = dlerror();
        if (why[0] == '\0') snprintf(why, bytes_why, "%s", text ? text : file);
    }
    const char *home = getenv("CUDA_HOME");
    char folder[MAX_PATH] = "";
    if (home != NULL && snprintf(folder, sizeof folder, "%s/lib64", home) >= (int)sizeof folder) folder[0] = '\0';
    if (h == NULL) h = open_in(folder, strlen(folder), file);
    if (h == NULL) h = open_in_list("/usr/local/cuda/lib64", file);
    return h != NULL || packages == NULL ? h : open_from_pip(packages, file);
}

static void *open_library(library *l, int newest) {
    char why[sizeof l->why - 128] = "";
    for (const int *major = l->majors; *major != 0; major++) {
        if (*major > newest && !l->own_versions) continue;
        char file[64];
        int n = snprintf(file, sizeof file, "%.*s%d", (int)strcspn(l->name, "%"), l->name, *major);
        void *h = n > 0 ? open_file(file, l->packages, why, sizeof why) : NULL;
        if (h != NULL) return h;
    }
    snprintf(l->why, sizeof l->why, "%s%s", why[0] ? why : l->name, l->hint);
    return NULL;
}

static void find_function(library *l, void *h, const char *name, void *slot) {
    void *p = dlsym(h, name);
    if (p == NULL && l->why[0] == '\0')
        snprintf(l->why, sizeof l->why, "%.*s has no function %s: the version is too old",
                 (int)strcspn(l->name, "%") - 1, l->name, name);
    memcpy(slot, &p, sizeof p);
}

static void find_functions(nc_cuda_library which, void *h) {
    library *l = &libraries[which];
#define X(from, returns, name, arguments) \
    if (which == NC_CUDA_##from) find_function(l, h, #name, &api.name);
#include "device/cuda_api.list"
#undef X
}

/* NVRTC opens its built-in declarations by bare name; loaded beforehand from its own folder, they are found wherever
 * that is. Where this fails, NVRTC looks for itself. */
static void load_builtins(void) {
    Dl_info where;
    void *address;
    int major = 0, minor = 0;
    memcpy(&address, &api.nvrtcVersion, sizeof address);
    if (dladdr(address, &where) == 0 || where.dli_fname == NULL || api.nvrtcVersion(&major, &minor) != 0) return;
    const char *slash = strrchr(where.dli_fname, '/');
    char file[64];
    snprintf(file, sizeof file, "libnvrtc-builtins.so.%d.%d", major, minor);
    if (slash != NULL) open_in(where.dli_fname, (size_t)(slash - where.dli_fname), file);
}

static bool is_off(const char *text) { return text != NULL && strcmp(text, "off") == 0; }

/* CUDA's major version that the driver serves; 99: unknown. */
static int newest_major(void) {
    int version = 0;
    bool known = libraries[NC_CUDA_cuda].why[0] == '\0' && api.cuDriverGetVersion(&version) == 0;
    return known ? version / 1000 : 99;
}

/* The lock is held. */
static void load(nc_cuda_library which) {
    library *l = &libraries[which];
    if (l->looked_for) return;
    if (which != NC_CUDA_cuda) load(NC_CUDA_cuda);
    l->looked_for = true;
    if (which == NC_CUDA_dnn && is_off(getenv("NACRE_CUDNN"))) {
        snprintf(l->why, sizeof l->why, "NACRE_CUDNN switches it off");
        return;
    }
    void *h = open_library(l, which == NC_CUDA_cuda ? 99 : newest_major());
    if (h != NULL) find_functions(which, h);
    if (which == NC_CUDA_nvrtc && l->why[0] == '\0') load_builtins();
}

const char *nc_cuda_missing(nc_cuda_library l) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    load(l);
    pthread_mutex_unlock(&lock);
    return libraries[l].why[0] ? libraries[l].why : NULL;
}

const nc_cuda_api *nc_cuda_api_get(void) {
    nc_cuda_missing(NC_CUDA_cuda);
    return &api;
}

nc_code nc_cuda_check(CUresult r, const char *function, nc_diag *diag) {
    if (r == 0) return NC_OK;
    const char *name = NULL, *text = NULL;
    api.cuGetErrorName(r, &name);
    api.cuGetErrorString(r, &text);
    return nc_diag_set(diag, r == CUDA_ERROR_OUT_OF_MEMORY ? NC_E_MEMORY : NC_E_DEVICE, NULL, NULL, "%s: %s (%d): %s",
                       function, name ? name : "error", r, text ? text : "unknown to the driver");
}

nc_code nc_cuda_check_nvrtc(nvrtcResult r, const char *function, nc_diag *diag) {
    if (r == 0) return NC_OK;
    return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "%s: %s (%d)", function, api.nvrtcGetErrorString(r), r);
}

nc_code nc_cuda_check_lt(cublasStatus r, const char *function, nc_diag *diag) {
    if (r == 0) return NC_OK;
    return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "%s: %s (%d): %s", function, api.cublasLtGetStatusName(r), r,
                       api.cublasLtGetStatusString(r));
}

/* cuDNN's last message says more than its code does. */
nc_code nc_cuda_check_dnn(cudnnStatus r, const char *function, nc_diag *diag) {
    char last[160] = "";
    if (r == 0) return NC_OK;
    api.cudnnGetLastErrorString(last, sizeof last);
    last[sizeof last - 1] = '\0';
    return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "%s: %s (%d): %s", function, api.cudnnGetErrorString(r), r, last);
}
