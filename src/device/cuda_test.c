/* device/cuda_test.c: what of CUDA can be tested without a GPU (why it is missing; compiling and the cache, with NVRTC
 * alone), and the parts of a GPU that the common tests leave out. */
#include "device/cuda_api.h"

#include "base/mem.h"
#include "tests/device.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static const char kernel_text[] = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }\n";

TEST(cuda_reason_when_missing) {
    char why[512] = "x";
    nc_work w;
    nc_work_init(&w);
    nc_device *d = NULL;
    bool there = nc_device_cuda_available(why, sizeof why);
    nc_code code = nc_device_cuda_create(&w, 0, &d);
    CHECK_INT(code, there ? NC_OK : NC_E_DEVICE);
    CHECK(there == (why[0] == '\0'));
    if (!there) {
        CHECK_STR(w.diag.text, why);
        /* Or the driver says that there is no GPU. */
        CHECK((strstr(why, "cuda") != NULL || strstr(why, "CUDA") != NULL) && d == NULL);
    }
    nc_device_close(d);
    nc_work_release(&w);
    CHECK(nc_device_cuda(nc_device_cpu()) == NULL);
}

static bool no_nvrtc(void) {
    const char *why = nc_cuda_missing(NC_CUDA_nvrtc);
    if (why != NULL) nc_test_not_run(why);
    return why != NULL;
}

TEST(cuda_compile_text) {
    if (no_nvrtc()) return;
    void *cubin = NULL;
    size_t bytes = 0;
    OK(nc_cuda_compile_text(kernel_text, 9, 0, &cubin, &bytes, &diag));
    REQUIRE(bytes > 64);
    CHECK(memcmp(cubin, "\177ELF", 4) == 0);
    nc_free(cubin);
    cubin = NULL;
    FAILS(nc_cuda_compile_text("__global__ void k() { nonsense; }", 9, 0, &cubin, &bytes, &diag), NC_E_DEVICE);
    CHECK(strstr(diag.text, "nonsense") != NULL && cubin == NULL);
}

/* A folder of its own for the cache while a test runs. */
typedef struct cache {
    char folder[64], file[400], before[400];
    bool had;
} cache;

static void cache_open(cache *c) {
    strcpy(c->folder, "/tmp/nacre_cache_XXXXXX");
    if (mkdtemp(c->folder) == NULL) nc_test_failed(__FILE__, __LINE__, "no temporary folder");
    const char *before = getenv("NACRE_CACHE");
    c->had = before != NULL;
    snprintf(c->before, sizeof c->before, "%s", before ? before : "");
    setenv("NACRE_CACHE", c->folder, 1);
}

/* Counts the cache's files and remembers one. */
static int cache_files(cache *c) {
    int n = 0;
    DIR *dir = opendir(c->folder);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(c->file, sizeof c->file, "%s/%s", c->folder, e->d_name);
        n++;
    }
    if (dir != NULL) closedir(dir);
    return n;
}

static void cache_close(cache *c) {
    while (cache_files(c) > 0) unlink(c->file);
    rmdir(c->folder);
    if (c->had)
        setenv("NACRE_CACHE", c->before, 1);
    else
        unsetenv("NACRE_CACHE");
}

static void *find_code(const nc_cuda *c, size_t *bytes) {
    void *cubin = NULL;
    OK(nc_cuda_find_code(c, kernel_text, &cubin, bytes, &diag));
    return cubin;
}

/* The file's last byte, after a change by xor. */
static void change_last_byte(const char *path, int with) {
    FILE *f = fopen(path, "r+b");
    if (f == NULL) return;
    fseek(f, -1, SEEK_END);
    int c = fgetc(f);
    fseek(f, -1, SEEK_END);
    fputc(c ^ with, f);
    fclose(f);
}

TEST(cuda_cache_on_disk) {
    if (no_nvrtc()) return;
    nc_cuda gpu = {.api = nc_cuda_api_get(), .major = 9, .minor = 0, .driver_version = 1, .name = "test"};
    cache c;
    cache_open(&c);
    size_t n1 = 0, n2 = 0;
    void *first = find_code(&gpu, &n1);
    CHECK_INT(cache_files(&c), 1);
    struct stat before, after;
    REQUIRE(stat(c.file, &before) == 0);
    void *second = find_code(&gpu, &n2);
    CHECK(n1 == n2 && memcmp(first, second, n1) == 0);
    REQUIRE(stat(c.file, &after) == 0);
    CHECK(before.st_ino == after.st_ino); /* read, not written again */
    nc_free(second);
    change_last_byte(c.file, 1);
    second = find_code(&gpu, &n2);
    CHECK(n1 == n2 && memcmp(first, second, n1) == 0);
    nc_free(second);
    CHECK_INT(truncate(c.file, 10), 0);
    second = find_code(&gpu, &n2);
    CHECK(n1 == n2 && memcmp(first, second, n1) == 0);
    nc_free(second);
    gpu.driver_version = 2;
    nc_free(find_code(&gpu, &n2));
    CHECK_INT(cache_files(&c), 2);
    nc_free(first);
    cache_close(&c);
}

TEST(cuda_cache_folder_must_be_ours_alone) {
    if (no_nvrtc()) return;
    nc_cuda gpu = {.api = nc_cuda_api_get(), .major = 9, .minor = 0, .name = "test"};
    cache c;
    cache_open(&c);
    size_t n = 0;
    CHECK_INT(chmod(c.folder, 0777), 0);
    nc_free(find_code(&gpu, &n));
    CHECK_INT(cache_files(&c), 0);
    CHECK_INT(chmod(c.folder, 0700), 0);
    setenv("NACRE_CACHE", "", 1);
    nc_free(find_code(&gpu, &n));
    CHECK_INT(cache_files(&c), 0);
    cache_close(&c);
}

static nc_code has_room(const nc_call *c) { return nc_cuda_partials(c->device, c->stream) != NULL ? NC_OK : NC_E_FAIL; }

static void *scratch(nc_device *d, nc_stream *s, size_t bytes) {
    void *p = NULL;
    OK(nc_cuda_scratch(d, s, bytes, &p, &diag));
    return p;
}

/* A stream has a small piece from its first kernel or capture on, and scratch as much as was asked for, all counted. */
static void rooms(nc_device *d) {
    nc_stream *a = stream(d), *b = stream(d);
    nc_capture *capture = NULL;
    const nc_call call = {.n_in = 0};
    OK(d->table->launch(d, NULL, has_room, &call));
    size_t before = atomic_load(&d->bytes_live), small = NC_CUDA_PARTIALS + NC_CUDA_COUNTERS * sizeof(uint32_t);
    char *p = take(d, a, 16), one[16] = {0};
    up(d, a, p, one, sizeof one);
    CHECK(nc_cuda_partials(d, a) == NULL);
    d->table->free(d, a, p);
    OK(d->table->launch(d, a, has_room, &call));
    CHECK(nc_cuda_partials(d, b) == NULL);
    CHECK_INT(atomic_load(&d->bytes_live), before + small);
    OK(d->table->capture_begin(d, b, &diag));
    OK(d->table->launch(d, b, has_room, &call));
    OK(d->table->capture_end(d, b, &capture, &diag));
    CHECK(nc_cuda_partials(d, a) != nc_cuda_partials(d, b) && nc_cuda_partials(d, NULL) != nc_cuda_partials(d, a));
    CHECK_INT(atomic_load(&d->bytes_live), before + 2 * small);
    d->table->capture_destroy(d, capture);
    void *first = scratch(d, a, 1000);
    CHECK(first != NULL && scratch(d, a, 0) == NULL && scratch(d, a, 400) == first && scratch(d, b, 1000) != first);
    CHECK_INT(atomic_load(&d->bytes_live), before + 2 * small + 2000);
    CHECK(scratch(d, a, 1001) != first);
    CHECK_INT(atomic_load(&d->bytes_live), before + 2 * small + 4000);
    OK(d->table->capture_begin(d, a, &diag));
    CHECK(scratch(d, a, 2000) != NULL && scratch(d, a, 2001) == NULL);
    FAILS(d->table->capture_end(d, a, &capture, &diag), NC_E_DEVICE);
    d->table->stream_destroy(d, a);
    d->table->stream_destroy(d, b);
    CHECK_INT(atomic_load(&d->bytes_live), before);
}

TEST(cuda_rooms) { run_on("cuda", rooms); }

static void handles(nc_device *d) {
    nc_cuda *c = nc_device_cuda(d);
    REQUIRE(c != NULL);
    CHECK(c->lt == NULL && c->dnn == NULL); /* nobody has asked for them */
    OK(nc_cuda_need_lt(d, &diag));
    CHECK(c->lt != NULL && c->major > 0 && c->n_multiprocessors > 0 && c->api->cublasLtGetVersion() >= 12000);
    CHECK(strstr(d->description, "compute") != NULL);
    nc_stream *a = stream(d), *b = stream(d);
    CHECK(nc_cuda_stream(a) != NULL && nc_cuda_stream(NULL) == NULL);
    nc_function *f = NULL, *g = NULL;
    OK(d->table->compile(d, kernel_text, "twice", &f, &diag));
    OK(d->table->compile(d, kernel_text, "twice", &g, &diag));
    CHECK(f != NULL && f == g);
    OK(d->table->compile_wait(d, &diag));
    OK(d->table->compile(d, kernel_text, "thrice", &g, &diag));
    FAILS(d->table->compile_wait(d, &diag), NC_E_DEVICE);
    CHECK(strstr(diag.text, "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND") != NULL);
    OK(d->table->compile_wait(d, &diag));
    d->table->stream_destroy(d, a);
    d->table->stream_destroy(d, b);
}

/* A text that does not compile is told to who asked for it, each time, and to nobody else. */
static void texts_that_fail(nc_device *d) {
    static const char bad[] = "extern \"C\" __global__ void k() { nonsense; }";
    static const char good[] = "extern \"C\" __global__ void k() {}";
    const nc_dim3 one = {1, 1, 1};
    nc_function *f = NULL, *g = NULL;
    for (int i = 0; i < 2; i++) {
        OK(d->table->compile(d, bad, "k", &f, &diag));
        FAILS(d->table->compile_wait(d, &diag), NC_E_DEVICE);
        OK(d->table->compile_wait(d, &diag));
    }
    OK(d->table->compile(d, good, "k", &g, &diag));
    OK(d->table->compile_wait(d, &diag));
    OK(d->table->launch_function(d, NULL, g, one, one, 0, NULL, &diag));
    FAILS(d->table->launch_function(d, NULL, f, one, one, 0, NULL, &diag), NC_E_DEVICE);
    CHECK(strstr(diag.text, "nonsense") != NULL);
    OK(d->table->launch_function(d, NULL, g, one, one, 0, NULL, &diag));
    /* A capture loads nothing: it begins all the same, and the launch that needs the text says why. */
    nc_stream *s;
    nc_capture *capture;
    OK(d->table->stream_create(d, &s, &diag));
    OK(d->table->capture_begin(d, s, &diag));
    OK(d->table->launch_function(d, s, g, one, one, 0, NULL, &diag));
    FAILS(d->table->launch_function(d, s, f, one, one, 0, NULL, &diag), NC_E_DEVICE);
    CHECK(strstr(diag.text, "nonsense") != NULL);
    OK(d->table->launch_function(d, s, g, one, one, 0, NULL, &diag));
    OK(d->table->capture_end(d, s, &capture, &diag));
    OK(d->table->capture_replay(d, s, capture, &diag));
    OK(d->table->stream_sync(d, s, &diag));
    d->table->capture_destroy(d, capture);
    d->table->stream_destroy(d, s);
}

TEST(cuda_texts_that_fail) { run_on("cuda", texts_that_fail); }

TEST(cuda_handles) { run_on("cuda", handles); }

/* C = A * B, column-major 2x2, through cuBLASLt: proves the declarations in cuda_api.h. */
static void multiply(nc_device *d) {
    nc_cuda *c = nc_device_cuda(d);
    nc_stream *s = stream(d);
    const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, one = 1, zero = 0;
    float got[4] = {0}, *p = take(d, s, 3 * sizeof a);
    up(d, s, p, a, sizeof a);
    up(d, s, p + 4, b, sizeof b);
    cublasLtMatmulDesc desc = NULL;
    cublasLtMatrixLayout layout = NULL;
    cublasLtMatmulPreference preference = NULL;
    cublasLtMatmulHeuristicResult result = {0};
    size_t limit = 0;
    int found = 0;
    OK(nc_cuda_need_lt(d, &diag));
    OK(nc_cuda_check_lt(c->api->cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "desc", &diag));
    OK(nc_cuda_check_lt(c->api->cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 2), "layout", &diag));
    OK(nc_cuda_check_lt(c->api->cublasLtMatmulPreferenceCreate(&preference), "preference", &diag));
    OK(nc_cuda_check_lt(c->api->cublasLtMatmulPreferenceSetAttribute(
                            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit),
                        "set", &diag));
    for (int i = 0; i < 4; i++) { /* B and C lie 16 and 32 bytes behind A; without a word 256 are expected */
        uint32_t aligned = 16;
        OK(nc_cuda_check_lt(c->api->cublasLtMatmulPreferenceSetAttribute(
                                preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &aligned, sizeof aligned),
                            "set", &diag));
    }
    OK(nc_cuda_check_lt(c->api->cublasLtMatmulAlgoGetHeuristic(c->lt, desc, layout, layout, layout, layout, preference,
                                                               1, &result, &found),
                        "heuristic", &diag));
    CHECK_INT(found, 1);
    OK(nc_cuda_check_lt(c->api->cublasLtMatmul(c->lt, desc, &one, p, layout, p + 4, layout, &zero, p + 8, layout, p + 8,
                                               layout, &result.algo, NULL, limit, nc_cuda_stream(s)),
                        "matmul", &diag));
    down(d, s, got, p + 8, sizeof got);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK(got[0] == 23 && got[1] == 34 && got[2] == 31 && got[3] == 46);
    c->api->cublasLtMatmulPreferenceDestroy(preference);
    c->api->cublasLtMatrixLayoutDestroy(layout);
    d->table->free(d, s, p);
    d->table->stream_destroy(d, s);
}

TEST(cuda_multiply) { run_on("cuda", multiply); }
