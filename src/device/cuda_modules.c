/* device/cuda_modules.c: the compiled kernels of a device. Asking for a function only notes its text: all texts that
 * were noted since are compiled side by side when they are first needed, at the end of a session's making or by a
 * launch. A text that fails is told to who waits then, and tried again when it is asked for or launched again: others
 * go on without it. A capture cannot load modules: before one begins what failed is tried once more, without a word,
 * and a launch within it that needs such a text tells why it failed. */
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/threads.h"
#include "device/cuda_api.h"
#include "device/cuda_order.h"

#include <string.h>

enum { MOST_THREADS = 16 };

typedef struct entry {
    struct entry *next;
    char *name;
    bool wanted; /* asked for since it was last looked up */
    nc_function function;
} entry;

typedef struct module {
    struct module *next;
    char *source;
    uint64_t hash;
    CUmodule handle; /* NULL: not loaded yet */
    bool wanted;     /* asked for since it was last compiled */
    bool retried;    /* for a capture, since it was last asked for */
    nc_diag why;     /* of the last failure */
    entry *entries;
} module;

struct nc_cuda_modules {
    const nc_cuda *cuda;
    nc_lock turn; /* held by who compiles: one at a time, with several threads */
    nc_lock lock; /* guards the lists */
    module *list;
    bool waiting; /* some entry is wanted */
};

/* One module being compiled. */
typedef struct job {
    module *of;
    void *cubin;
    size_t bytes;
    nc_code code;
    nc_diag diag;
} job;

typedef struct jobs {
    const nc_cuda *cuda;
    job *v;
} jobs;

static nc_code no_memory(nc_diag *diag) { return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory"); }

static char *copy_text(const char *s) {
    size_t n = strlen(s) + 1;
    char *p = nc_alloc(n);
    return p ? memcpy(p, s, n) : NULL;
}

nc_cuda_modules *nc_cuda_modules_create(const nc_cuda *borrows) {
    nc_cuda_modules *m = nc_alloc_zero(1, sizeof *m);
    if (m == NULL) return NULL;
    m->cuda = borrows;
    nc_lock_init(&m->turn, NC_LOCK_STATE, NULL, NULL);
    nc_lock_init(&m->lock, NC_LOCK_DEVICE, NULL, NULL);
    return m;
}

static void destroy_module(const nc_cuda *c, module *x) {
    for (entry *e = x->entries, *next; e != NULL; e = next) {
        next = e->next;
        nc_free(e->name);
        nc_free(e);
    }
    if (x->handle != NULL) c->api->cuModuleUnload(x->handle);
    nc_free(x->source);
    nc_free(x);
}

void nc_cuda_modules_destroy(nc_cuda_modules *m) {
    if (m == NULL) return;
    for (module *x = m->list, *next; x != NULL; x = next) {
        next = x->next;
        destroy_module(m->cuda, x);
    }
    nc_lock_release(&m->lock);
    nc_lock_release(&m->turn);
    nc_free(m);
}

/* ---- noting; the lock is held ---- */

static module *note_module(nc_cuda_modules *m, const char *source) {
    uint64_t hash = nc_hash(source, strlen(source), 0);
    module *x = m->list;
    while (x != NULL && (x->hash != hash || strcmp(x->source, source) != 0)) x = x->next;
    if (x != NULL) return x;
    x = nc_alloc_zero(1, sizeof *x);
    if (x == NULL || (x->source = copy_text(source)) == NULL) {
        nc_free(x);
        return NULL;
    }
    x->hash = hash;
    x->next = m->list;
    m->list = x;
    return x;
}

static entry *note_entry(module *x, const char *name) {
    entry *e = x->entries;
    while (e != NULL && strcmp(e->name, name) != 0) e = e->next;
    if (e != NULL) return e;
    e = nc_alloc_zero(1, sizeof *e);
    if (e == NULL || (e->name = copy_text(name)) == NULL) {
        nc_free(e);
        return NULL;
    }
    e->function.early = strstr(x->source, "BEGINS_EARLY") != NULL;
    e->next = x->entries;
    x->entries = e;
    return e;
}

static void want(nc_cuda_modules *m, module *x, entry *e) {
    if (atomic_load(&e->function.handle) == NULL) x->wanted = e->wanted = m->waiting = true, x->retried = false;
}

nc_code nc_cuda_modules_find(nc_cuda_modules *m, const char *source, const char *name, nc_function **out,
                             nc_diag *diag) {
    nc_lock_take(&m->lock);
    module *x = note_module(m, source);
    entry *e = x != NULL ? note_entry(x, name) : NULL;
    if (e != NULL) want(m, x, e);
    nc_lock_give(&m->lock);
    if (e == NULL) return no_memory(diag);
    *out = &e->function;
    return NC_OK;
}

/* ---- compiling ---- */

static void compile_one(void *ctx, int64_t i) {
    const jobs *all = ctx;
    job *j = &all->v[i];
    j->code = nc_cuda_find_code(all->cuda, j->of->source, &j->cubin, &j->bytes, &j->diag);
}

/* Takes those that are wanted and not loaded; *v is freed with nc_free. */
static nc_code list_jobs(nc_cuda_modules *m, job **v, int64_t *n, nc_diag *diag) {
    int64_t k = 0;
    *n = 0;
    nc_lock_take(&m->lock);
    for (const module *x = m->list; x != NULL; x = x->next) *n += x->handle == NULL && x->wanted;
    *v = nc_alloc_zero((size_t)*n + 1, sizeof **v);
    for (module *x = m->list; x != NULL && *v != NULL; x = x->next) {
        if (x->handle == NULL && x->wanted) (*v)[k++].of = x;
        x->wanted = m->waiting = false;
    }
    nc_lock_give(&m->lock);
    return *v != NULL ? NC_OK : no_memory(diag);
}

/* Lets launches ask for all the shared memory that the GPU has for a block, not only for the first 48 KiB. */
static nc_code allow_shared(const nc_cuda *c, CUfunction f, nc_diag *diag) {
    int fixed = 0;
    NC_TRY(nc_cuda_check(c->api->cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f),
                         "cuFuncGetAttribute", diag));
    return nc_cuda_check(
        c->api->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, c->bytes_shared_max - fixed),
        "cuFuncSetAttribute", diag);
}

/* Kernels of a text that says so leave all of the L1 to shared memory: a multiprocessor changes its share only when
 * it is empty, so such kernels would not be placed beside each other while the driver chooses for each. */
static nc_code prefer_shared(const nc_cuda *c, const module *x, CUfunction f, nc_diag *diag) {
    if (strstr(x->source, "PREFERS_SHARED") == NULL) return NC_OK;
    return nc_cuda_check(c->api->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),
                         "cuFuncSetAttribute", diag);
}

static nc_code resolve_one(const nc_cuda *c, const module *x, entry *e, nc_diag *diag) {
    CUfunction f = NULL;
    NC_TRY(nc_cuda_check(c->api->cuModuleGetFunction(&f, x->handle, e->name), "cuModuleGetFunction", diag));
    NC_TRY(allow_shared(c, f, diag));
    NC_TRY(prefer_shared(c, x, f, diag));
    atomic_store(&e->function.handle, f);
    return NC_OK;
}

/* The handles of all wanted entries; the first failure is told. The lock is held. */
static nc_code resolve(const nc_cuda *c, module *x, nc_diag *diag) {
    nc_code code = NC_OK;
    for (entry *e = x->entries; e != NULL; e = e->next) {
        nc_diag own = {.code = NC_OK};
        nc_code got = e->wanted ? resolve_one(c, x, e, &own) : NC_OK;
        if (code == NC_OK && got != NC_OK) code = got, *diag = own;
        e->wanted = false;
    }
    return code;
}

static void note_failure(nc_cuda_modules *m, const job *j) {
    nc_lock_take(&m->lock);
    j->of->why = j->diag;
    j->of->why.code = j->code;
    nc_lock_give(&m->lock);
}

static nc_code compile_noted(nc_cuda_modules *m, nc_diag *diag) {
    jobs all = {.cuda = m->cuda};
    int64_t n;
    NC_TRY(list_jobs(m, &all.v, &n, diag));
    int threads = nc_machine_threads() < MOST_THREADS ? nc_machine_threads() : MOST_THREADS;
    nc_pool *pool = n > 1 ? nc_pool_create(n < threads ? (int)n : threads) : NULL;
    nc_parallel(pool, n, compile_one, &all);
    nc_pool_destroy(pool);
    nc_code code = NC_OK;
    for (int64_t i = 0; i < n; i++) {
        job *j = &all.v[i];
        if (j->code == NC_OK)
            j->code =
                nc_cuda_check(m->cuda->api->cuModuleLoadData(&j->of->handle, j->cubin), "cuModuleLoadData", &j->diag);
        if (code == NC_OK && j->code != NC_OK) code = j->code, *diag = j->diag;
        note_failure(m, j);
        nc_free(j->cubin);
    }
    nc_free(all.v);
    return code;
}

/* A failed text leaves the others in use. */
static nc_code finish(nc_cuda_modules *m, nc_diag *diag) {
    nc_code code = compile_noted(m, diag);
    nc_lock_take(&m->lock);
    for (module *x = m->list; x != NULL; x = x->next) {
        nc_diag own = {.code = NC_OK};
        nc_code got = x->handle != NULL ? resolve(m->cuda, x, &own) : NC_OK;
        if (got != NC_OK) x->why = own;
        if (code == NC_OK && got != NC_OK) code = got, *diag = own;
    }
    nc_lock_give(&m->lock);
    return code;
}

nc_code nc_cuda_modules_wait(nc_cuda_modules *m, nc_diag *diag) {
    nc_lock_take(&m->turn);
    nc_lock_take(&m->lock);
    bool waiting = m->waiting;
    nc_lock_give(&m->lock);
    nc_code code = waiting ? finish(m, diag) : NC_OK;
    nc_lock_give(&m->turn);
    return code;
}

/* The module of a function, wanted again unless the caller captures; the lock is held. */
static module *module_of(nc_cuda_modules *m, const nc_function *f, bool wants) {
    for (module *x = m->list; x != NULL; x = x->next)
        for (entry *e = x->entries; e != NULL; e = e->next) {
            if (&e->function != f) continue;
            if (wants) want(m, x, e);
            return x;
        }
    return NULL;
}

nc_code nc_cuda_modules_need(nc_cuda_modules *m, const nc_function *f, nc_diag *diag) {
    bool captures = nc_cuda_captures_itself();
    nc_diag others = {.code = NC_OK};
    nc_lock_take(&m->lock);
    const module *x = module_of(m, f, !captures);
    nc_lock_give(&m->lock);
    if (!captures && nc_cuda_modules_wait(m, &others) == NC_OK && atomic_load(&f->handle) != NULL) return NC_OK;
    nc_lock_take(&m->lock);
    bool found = atomic_load(&f->handle) != NULL, told = x != NULL && x->why.code != NC_OK;
    if (!found && told) *diag = x->why;
    nc_lock_give(&m->lock);
    if (found) return NC_OK;
    return told ? diag->code : nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "cuda: a kernel was not compiled in time");
}

void nc_cuda_modules_retry(nc_cuda_modules *m) {
    nc_diag unsaid = {.code = NC_OK};
    nc_lock_take(&m->lock);
    for (module *x = m->list; x != NULL; x = x->next)
        for (entry *e = x->entries; e != NULL && !x->retried; e = e->next)
            if (atomic_load(&e->function.handle) == NULL) x->wanted = e->wanted = m->waiting = true;
    for (module *x = m->list; x != NULL; x = x->next) x->retried = x->retried || x->wanted;
    nc_lock_give(&m->lock);
    nc_code code = nc_cuda_modules_wait(m, &unsaid);
    (void)code;
}
