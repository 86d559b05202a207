/* device/cuda_load.c: finds NVIDIA's libraries and their functions at run time, once per process, and says why not.
 *
 * Looked for in this order: what is already loaded (by PyTorch, say), the folders of NACRE_CUDA_PATH, the system's own
 * search, CUDA_HOME/lib64, /usr/local/cuda/lib64. A library of a newer major version than the driver is passed over. */
#include "device/cuda_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATH 1024

typedef struct library {
    const char *name; /* with %d where the major version stands */
    int majors[3];    /* newest first, ends with 0; 1 is the driver's own */
    const char *hint;
    char why[400]; /* empty: usable */
} library;

#define INSTALL(package) ": install CUDA or the Python package " package ", or name its folder in NACRE_CUDA_PATH"

static library libraries[NC_CUDA_N_LIBRARIES] = {
    [NC_CUDA_cuda] = {"libcuda.so.%d", {1}, ": no NVIDIA driver here", ""},
    [NC_CUDA_nvrtc] = {"libnvrtc.so.%d", {13, 12}, INSTALL("nvidia-cuda-nvrtc"), ""},
    [NC_CUDA_lt] = {"libcublasLt.so.%d", {13, 12}, INSTALL("nvidia-cublas"), ""},
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

/* *why keeps the first reason: the newest version's. */
static void *open_file(const char *file, char *why, size_t bytes_why) {
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
    return h;
}

static void *open_library(library *l, int newest) {
    char why[sizeof l->why - 128] = "";
    for (const int *major = l->majors; *major != 0; major++) {
        if (*major > newest) continue;
        char file[64];
        int n = snprintf(file, sizeof file, "%.*s%d", (int)strcspn(l->name, "%"), l->name, *major);
        void *h = n > 0 ? open_file(file, why, sizeof why) : NULL;
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

static void load(void) {
    int newest = 99;
    for (int i = 0; i < NC_CUDA_N_LIBRARIES; i++) {
        void *h = open_library(&libraries[i], newest);
        if (h != NULL) find_functions((nc_cuda_library)i, h);
        int version = 0;
        if (i == NC_CUDA_cuda && libraries[i].why[0] == '\0' && api.cuDriverGetVersion(&version) == 0)
            newest = version / 1000;
    }
    if (libraries[NC_CUDA_nvrtc].why[0] == '\0') load_builtins();
}

const nc_cuda_api *nc_cuda_api_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return &api;
}

const char *nc_cuda_missing(nc_cuda_library l) {
    nc_cuda_api_get();
    return libraries[l].why[0] ? libraries[l].why : NULL;
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
