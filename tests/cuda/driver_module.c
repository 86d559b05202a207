/* tests/cuda/driver_module.c: what NVRTC's stand-in compiled: a shared object with a table of kernels. Loading it,
 * finding kernels, copying the arguments of a launch by their sizes, and checking what a GPU would stumble over. */
#include "tests/cuda/driver.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A row of the table; mirrors standin_kernel in device.cuh. */
typedef struct kernel {
    const char *name;
    int n_params, max_threads; /* of __launch_bounds__; 0: none */
    const size_t *bytes;
    void (*call)(void **args);
} kernel;

struct CUfunc_st {
    CUfunction next;
    CUmodule module;
    const kernel *kernel;
    int max_dynamic;
};

struct CUmod_st {
    CUmodule next;
    void *handle;
    const kernel *kernels;
    CUfunction functions;
    size_t bytes_shared;
    void (*touch)(void); /* makes this thread's copy of the shared memory, if it has none yet */
};

typedef struct queued_launch {
    CUfunction function;
    const char *name;
    launch l;
    size_t bytes_args;
    int n_args;
    /* args[n_args], then their bytes */
} queued_launch;

static CUmodule modules;

/* The size of the image: its section headers stand at its end. */
static size_t image_bytes(const void *image) {
    const Elf64_Ehdr *e = image;
    if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0) return 0;
    return e->e_shoff + (size_t)e->e_shnum * e->e_shentsize;
}

/* An image that was loaded once stays: devices come and go by the hundred, their kernels are the same. */
typedef struct loaded {
    struct loaded *next;
    void *image, *handle;
    size_t bytes;
} loaded;
static loaded *images;

static void *open_file(const void *image, size_t bytes) {
    char path[] = "/tmp/nacre_standin_XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) return NULL;
    bool whole = write(fd, image, bytes) == (ssize_t)bytes;
    close(fd);
    void *h = whole ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (h == NULL) fprintf(stderr, "stand-in GPU: module: %s\n", whole ? dlerror() : "cannot be written to /tmp");
    unlink(path);
    return h;
}

static void *open_image(const void *image, size_t bytes) {
    for (loaded *l = images; l != NULL; l = l->next)
        if (l->bytes == bytes && memcmp(l->image, image, bytes) == 0) return l->handle;
    loaded *l = calloc(1, sizeof *l);
    if (l == NULL || (l->image = malloc(bytes)) == NULL) abort();
    memcpy(l->image, image, bytes);
    l->bytes = bytes, l->handle = open_file(image, bytes), l->next = images;
    images = l;
    return l->handle;
}

static void *symbol(void *h, const char *name, void *slot) {
    void *p = dlsym(h, name);
    memcpy(slot, &p, sizeof p);
    return p;
}

typedef struct tls_search {
    ElfW(Addr) base;
    size_t bytes;
} tls_search;

/* Shared memory is the module's thread-local storage. */
static int find_tls(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    tls_search *s = arg;
    if (info->dlpi_addr != s->base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) s->bytes = info->dlpi_phdr[i].p_memsz;
    return 1;
}

int module_load(CUmodule *out, const void *image) {
    size_t bytes = image_bytes(image);
    if (bytes == 0) return E_INVALID_IMAGE;
    CUmodule m = calloc(1, sizeof *m);
    void (*bind)(now *);
    struct link_map *map;
    if (m == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    m->handle = open_image(image, bytes);
    if (m->handle == NULL || !symbol(m->handle, "standin_kernels", &m->kernels) ||
        !symbol(m->handle, "standin_bind", &bind) || !symbol(m->handle, "standin_touch", &m->touch) ||
        dlinfo(m->handle, RTLD_DI_LINKMAP, &map) != 0) {
        free(m);
        return E_INVALID_IMAGE;
    }
    bind(&the_now);
    tls_search s = {.base = map->l_addr};
    dl_iterate_phdr(find_tls, &s);
    m->bytes_shared = s.bytes > 16 ? s.bytes : 0; /* 16 bytes are there to be touched */
    m->next = modules;
    modules = m;
    *out = m;
    return OK;
}

bool module_unload(CUmodule m) {
    CUmodule *at = &modules;
    while (*at != NULL && *at != m) at = &(*at)->next;
    if (*at == NULL) return false;
    *at = m->next;
    for (CUfunction f = m->functions, next; f != NULL; f = next) {
        next = f->next;
        free(f);
    }
    free(m);
    return true;
}

void module_unload_all(void) {
    while (modules != NULL) module_unload(modules);
}

size_t module_count(void) {
    size_t n = 0;
    for (CUmodule m = modules; m != NULL; m = m->next) n++;
    return n;
}

int module_function(CUfunction *out, CUmodule m, const char *name) {
    CUmodule known = modules;
    while (known != NULL && known != m) known = known->next;
    if (known == NULL) return E_INVALID_HANDLE;
    CUfunction f = m->functions;
    while (f != NULL && strcmp(f->kernel->name, name) != 0) f = f->next;
    if (f != NULL) {
        *out = f;
        return OK;
    }
    const kernel *k = m->kernels;
    while (k->name != NULL && strcmp(k->name, name) != 0) k++;
    if (k->name == NULL) return E_NOT_FOUND;
    if ((f = calloc(1, sizeof *f)) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *f = (struct CUfunc_st){.next = m->functions, .module = m, .kernel = k, .max_dynamic = 48 << 10};
    m->functions = f;
    *out = f;
    return OK;
}

static bool function_known(CUfunction f) {
    for (CUmodule m = modules; m != NULL; m = m->next)
        for (CUfunction g = m->functions; g != NULL; g = g->next)
            if (g == f) return true;
    return false;
}

int function_attribute(int *value, int attribute, CUfunction f) {
    if (!function_known(f)) return E_INVALID_HANDLE;
    if (attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        *value = (int)f->module->bytes_shared;
    else if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        *value = f->max_dynamic;
    else
        return E_INVALID_VALUE;
    return OK;
}

int function_set(CUfunction f, int attribute, int value) {
    if (!function_known(f)) return E_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        (size_t)value + f->module->bytes_shared > MAX_SHARED)
        return E_INVALID_VALUE;
    f->max_dynamic = value;
    return OK;
}

static int check_sizes(CUfunction f, const unsigned grid[3], const unsigned size[3], unsigned bytes_shared) {
    uint64_t threads = (uint64_t)size[0] * size[1] * size[2];
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || threads == 0) return E_INVALID_VALUE;
    if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535) return E_INVALID_VALUE;
    if (threads > MAX_THREADS || size[2] > 64) return E_INVALID_VALUE;
    if (f->kernel->max_threads && threads > (uint64_t)f->kernel->max_threads) return E_OUT_OF_RESOURCES;
    return bytes_shared > (unsigned)f->max_dynamic ? E_INVALID_VALUE : OK;
}

int function_launch(CUfunction f, const unsigned grid[3], const unsigned size[3], unsigned bytes_shared, void **args,
                    void **out) {
    if (!function_known(f)) return E_INVALID_HANDLE;
    int code = check_sizes(f, grid, size, bytes_shared);
    if (code != OK) return code;
    const kernel *k = f->kernel;
    size_t bytes = 0;
    for (int i = 0; i < k->n_params; i++) bytes += (k->bytes[i] + 15) / 16 * 16;
    queued_launch *q = calloc(1, sizeof *q + (size_t)k->n_params * sizeof(void *) + bytes + 16);
    if (q == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    q->function = f, q->name = k->name, q->bytes_args = bytes, q->n_args = k->n_params;
    q->l = (launch){.call = k->call, .args = (void **)(q + 1), .bytes_dynamic = bytes_shared};
    memcpy(q->l.grid, grid, sizeof q->l.grid);
    memcpy(q->l.block, size, sizeof q->l.block);
    char *at = (char *)(((uintptr_t)(q->l.args + k->n_params) + 15) / 16 * 16);
    for (int i = 0; i < k->n_params; i++) {
        q->l.args[i] = memcpy(at, args[i], k->bytes[i]);
        at += (k->bytes[i] + 15) / 16 * 16;
    }
    *out = q;
    return OK;
}

const char *launch_name(const void *p) { return ((const queued_launch *)p)->name; }

void launch_as_early(void *p) { ((queued_launch *)p)->l.early = true; }

bool launch_is_early(const void *p) { return ((const queued_launch *)p)->l.early; }

void launch_params(const void *made, CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    const queued_launch *q = made;
    const unsigned *grid = q->l.grid, *size = q->l.block;
    p->func = q->function, p->kernelParams = q->l.args, p->sharedMemBytes = (unsigned)q->l.bytes_dynamic;
    p->gridDimX = grid[0], p->gridDimY = grid[1], p->gridDimZ = grid[2];
    p->blockDimX = size[0], p->blockDimY = size[1], p->blockDimZ = size[2];
}

/* The end of a name: characters, then zeros. */
static bool is_text(uint64_t word) {
    while ((word & 0xff) >= ' ' && (word & 0xff) <= '~') word >>= 8;
    return word == 0;
}

/* An argument that is an address of the host's memory: a GPU would fault there, we would not. Words below 2^32 are
 * sizes; those whose lower half is small are an int and what the compiler left beside it; names of nodes are text, and
 * AddressSanitizer maps such addresses; of others, a word that happens to be a mapped address is one. */
static bool is_host_address(uint64_t word) {
    unsigned char resident;
    uintptr_t page = (uintptr_t)word & ~(uintptr_t)4095;
    if (word >> 32 == 0 || (uint32_t)word < 4096 || word >> 48 != 0 || is_text(word)) return false;
    if (memory_in_span((uintptr_t)word) || pinned_has((uintptr_t)word)) return false;
    return mincore((void *)page, 1, &resident) == 0;
}

static int check_arguments(const queued_launch *q) {
    for (int i = 0; i < q->n_args; i++)
        for (size_t at = 0; at + 8 <= q->function->kernel->bytes[i]; at += 8) {
            uint64_t word;
            memcpy(&word, (const char *)q->l.args[i] + at, sizeof word);
            if (!is_host_address(word)) continue;
            complain("argument %d holds %#llx, an address of the host", i, (unsigned long long)word);
            return E_ILLEGAL_ADDRESS;
        }
    return OK;
}

int launch_run(const void *p, uint64_t seed) {
    const queued_launch *q = p;
    launch l = q->l;
    int code = check_arguments(q);
    if (code != OK) return code;
    l.seed = seed;
    l.bytes_shared = q->function->module->bytes_shared;
    q->function->module->touch();
    if (l.bytes_shared > 0) dlinfo(q->function->module->handle, RTLD_DI_TLS_DATA, &l.shared);
    if (l.bytes_dynamic > 0 && (l.dynamic = malloc(l.bytes_dynamic)) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    code = run_grid(&l);
    free(l.dynamic);
    return code;
}
