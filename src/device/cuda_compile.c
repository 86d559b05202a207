/* device/cuda_compile.c: kernel text to machine code: NVRTC and a cache on disk. cuda_modules.c keeps the functions.
 *
 * The key of a kernel is the text of everything its machine code depends on: compiler, driver, GPU, options, source. A
 * file of the cache holds key and code with a checksum, so a hash collision, another version or a torn file is a miss,
 * never wrong code. The folder ($NACRE_CACHE, or ~/.cache/nacre; empty: no cache) must belong to this user alone. */
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "device/cuda_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_PATH 1024
#define LANGUAGE "--std=c++17"
#define CONTRACTION "--fmad=false" /* as on the CPU: fma stands where it is written */

/* The head of a file in the cache; key and code follow. */
typedef struct file_head {
    char magic[8];
    uint64_t bytes_key, bytes_code, checksum;
} file_head;

static const char magic[8] = {'N', 'C', 'C', 'U', 'B', 'I', 'N', '1'};

static nc_code no_memory(nc_diag *diag) { return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory"); }

static void arch_option(char *out, size_t bytes, int major, int minor) {
    snprintf(out, bytes, "--gpu-architecture=sm_%d%d", major, minor);
}

/* Explains a failed compilation with the first lines of the compiler's own words. */
static nc_code fail_compile(const nc_cuda_api *api, nvrtcProgram program, nvrtcResult r, nc_diag *diag) {
    size_t bytes = 0;
    char *log = NULL;
    if (api->nvrtcGetProgramLogSize(program, &bytes) == 0 && bytes > 1) log = nc_alloc(bytes);
    if (log == NULL || api->nvrtcGetProgramLog(program, log) != 0) {
        nc_free(log);
        return nc_cuda_check_nvrtc(r, "nvrtcCompileProgram", diag);
    }
    log[bytes - 1] = '\0';
    nc_log(NC_LOG_ERROR, "cuda: kernel text does not compile:\n%s", log);
    nc_code code =
        nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "nvrtcCompileProgram: %s: %.400s", api->nvrtcGetErrorString(r), log);
    nc_free(log);
    return code;
}

static nc_code get_code(const nc_cuda_api *api, nvrtcProgram program, void **cubin, size_t *bytes, nc_diag *diag) {
    size_t n = 0;
    NC_TRY(nc_cuda_check_nvrtc(api->nvrtcGetCUBINSize(program, &n), "nvrtcGetCUBINSize", diag));
    void *p = nc_alloc(n);
    if (p == NULL) return no_memory(diag);
    nc_code code = nc_cuda_check_nvrtc(api->nvrtcGetCUBIN(program, p), "nvrtcGetCUBIN", diag);
    if (code != NC_OK) {
        nc_free(p);
        return code;
    }
    *cubin = p;
    *bytes = n;
    return NC_OK;
}

nc_code nc_cuda_compile_text(const char *source, int major, int minor, void **cubin, size_t *bytes, nc_diag *diag) {
    const nc_cuda_api *api = nc_cuda_api_get();
    const char *why = nc_cuda_missing(NC_CUDA_nvrtc);
    if (why != NULL) return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "cuda: %s", why);
    char arch[48];
    arch_option(arch, sizeof arch, major, minor);
    const char *options[] = {arch, LANGUAGE, CONTRACTION};
    nvrtcProgram program = NULL;
    NC_TRY(nc_cuda_check_nvrtc(api->nvrtcCreateProgram(&program, source, "nacre.cu", 0, NULL, NULL),
                               "nvrtcCreateProgram", diag));
    nvrtcResult r = api->nvrtcCompileProgram(program, (int)(sizeof options / sizeof *options), options);
    nc_code code = r != 0 ? fail_compile(api, program, r, diag) : get_code(api, program, cubin, bytes, diag);
    api->nvrtcDestroyProgram(&program);
    return code;
}

static nc_code make_key(const nc_cuda *c, const char *source, nc_text *key, nc_diag *diag) {
    char arch[48];
    int major, minor;
    NC_TRY(nc_cuda_check_nvrtc(c->api->nvrtcVersion(&major, &minor), "nvrtcVersion", diag));
    arch_option(arch, sizeof arch, c->major, c->minor);
    nc_text_addf(key, "nvrtc %d.%d, driver %d, %s, %s " LANGUAGE " " CONTRACTION "\n", major, minor, c->driver_version,
                 c->name, arch);
    nc_text_add(key, source);
    return key->failed ? no_memory(diag) : NC_OK;
}

/* Makes every missing folder of path, for this user alone. */
static bool make_folders(char *path) {
    for (char *p = path + 1; *p != '\0'; p++) {
        if (*p != '/') continue;
        *p = '\0';
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *p = '/';
        if (failed) return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* The cache's folder; false: there is none to use. */
static bool cache_folder(char *path, size_t bytes) {
    const char *own = getenv("NACRE_CACHE"), *home = getenv("HOME");
    int n = own ? snprintf(path, bytes, "%s", own) : snprintf(path, bytes, "%s/.cache/nacre", home ? home : "");
    if ((own == NULL && home == NULL) || n <= 0 || (size_t)n >= bytes || !make_folders(path)) return false;
    struct stat st;
    if (lstat(path, &st) != 0) return false;
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0) return true;
    nc_log(NC_LOG_WARNING, "cuda: '%s' is not a folder of this user alone (mode 700): kernels are not cached", path);
    return false;
}

static bool cache_path(const nc_text *key, char *path, size_t bytes) {
    char folder[MAX_PATH - 64];
    if (!cache_folder(folder, sizeof folder)) return false;
    int n = snprintf(path, bytes, "%s/%016llx%016llx.cubin", folder, (unsigned long long)nc_hash(key->s, key->n, 1),
                     (unsigned long long)nc_hash(key->s, key->n, 2));
    return n > 0 && (size_t)n < bytes;
}

static uint64_t checksum(const void *key, size_t bytes_key, const void *code, size_t bytes_code) {
    return nc_hash(code, bytes_code, nc_hash(key, bytes_key, 3));
}

static bool valid(const nc_mapping *m, const nc_text *key, file_head *head) {
    if (m->bytes < sizeof *head) return false;
    memcpy(head, m->p, sizeof *head);
    size_t rest = m->bytes - sizeof *head;
    if (memcmp(head->magic, magic, sizeof magic) != 0 || head->bytes_key != key->n || head->bytes_key > rest ||
        head->bytes_code != rest - head->bytes_key || memcmp(m->p + sizeof *head, key->s, key->n) != 0)
        return false;
    return checksum(key->s, key->n, m->p + sizeof *head + key->n, head->bytes_code) == head->checksum;
}

static bool read_cache(const char *path, const nc_text *key, void **cubin, size_t *bytes) {
    nc_work w;
    nc_work_init(&w);
    nc_mapping m = {0};
    file_head head;
    bool ok = nc_file_map(&w, path, &m) == NC_OK && valid(&m, key, &head);
    void *p = ok ? nc_alloc(head.bytes_code) : NULL;
    if (p != NULL) {
        memcpy(p, m.p + sizeof head + key->n, head.bytes_code);
        *cubin = p;
        *bytes = head.bytes_code;
    }
    nc_file_unmap(&m);
    nc_work_release(&w);
    return p != NULL;
}

/* A cache that cannot be written costs time, not results: it is only logged. */
static void write_cache(const char *path, const nc_text *key, const void *cubin, size_t bytes) {
    file_head head = {.bytes_key = key->n, .bytes_code = bytes, .checksum = checksum(key->s, key->n, cubin, bytes)};
    memcpy(head.magic, magic, sizeof magic);
    nc_text file = {0};
    nc_text_add_n(&file, (const char *)&head, sizeof head);
    nc_text_add_n(&file, key->s, key->n);
    nc_text_add_n(&file, cubin, bytes);
    nc_work w;
    nc_work_init(&w);
    if (file.failed || nc_file_write(&w, path, file.s, file.n) != NC_OK)
        nc_log(NC_LOG_INFO, "cuda: kernel not cached: %s", file.failed ? "out of memory" : w.diag.text);
    nc_work_release(&w);
    nc_text_release(&file);
}

/* ---- what libraries chose ---- */

static bool make_choice_key(const nc_cuda *c, const char *what, const void *of, size_t bytes, nc_text *key) {
    nc_text_addf(key, "%s, driver %d, %s\n", what, c->driver_version, c->name);
    nc_text_add_n(key, of, bytes);
    return !key->failed;
}

bool nc_cuda_read_choice(const nc_cuda *c, const char *what, const void *of, size_t bytes, void **out, size_t *n) {
    nc_text key = {0};
    char path[MAX_PATH];
    bool there = make_choice_key(c, what, of, bytes, &key) && cache_path(&key, path, sizeof path) &&
                 read_cache(path, &key, out, n);
    nc_text_release(&key);
    return there;
}

void nc_cuda_write_choice(const nc_cuda *c, const char *what, const void *of, size_t bytes, const void *choice,
                          size_t n) {
    nc_text key = {0};
    char path[MAX_PATH];
    if (make_choice_key(c, what, of, bytes, &key) && cache_path(&key, path, sizeof path))
        write_cache(path, &key, choice, n);
    nc_text_release(&key);
}

nc_code nc_cuda_find_code(const nc_cuda *c, const char *source, void **cubin, size_t *bytes, nc_diag *diag) {
    nc_text key = {0};
    nc_code code = make_key(c, source, &key, diag);
    if (code != NC_OK) {
        nc_text_release(&key);
        return code;
    }
    char path[MAX_PATH];
    bool cached = cache_path(&key, path, sizeof path);
    if (!cached || !read_cache(path, &key, cubin, bytes)) {
        code = nc_cuda_compile_text(source, c->major, c->minor, cubin, bytes, diag);
        if (code == NC_OK && cached) write_cache(path, &key, *cubin, *bytes);
    }
    nc_text_release(&key);
    return code;
}
