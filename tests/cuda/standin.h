/* tests/cuda/standin.h: stand-ins for NVIDIA's driver, NVRTC and cuBLASLt: an invented GPU on any machine, found by
 * Nacre through NACRE_CUDA_PATH. Here is what tests may ask of them, and what the three libraries ask of each other.
 *
 * The control is found in a loaded libcuda.so.1 by dlsym; a real driver has none. */
#ifndef NC_TESTS_CUDA_STANDIN_H
#define NC_TESTS_CUDA_STANDIN_H

#include "device/cuda_api.h"

#include <dlfcn.h>
#include <string.h>

#define STANDIN_NAME "Stand-in GPU (no hardware)"

typedef struct standin_control {
    /* How often a function was called since reset; NULL: all together. */
    uint64_t (*calls)(const char *name);
    void (*reset_calls)(void);
    /* The nth call from now of a function (NULL: of any; "alloc": of those that give memory) returns the code and does
     * nothing. lasting: the GPU is lost, every later call too. nth 0: no more failures. */
    void (*fail)(const char *name, uint64_t nth, int code, bool lasting);
    const char *(*failed)(void); /* the function that failed as ordered; NULL: none yet */
    /* In which of the orders that streams and events allow work runs. 0: as late as can be. */
    void (*order)(uint64_t seed);
    /* What exists: "blocks", "pinned", "streams", "events", "modules", "graphs", "contexts"; NULL: all. */
    size_t (*live)(const char *what);
    size_t (*left_behind)(void);    /* what existed when the last context ended, but for memory */
    bool (*pending)(void);          /* is there queued work that has not run? */
    const char *(*complaint)(void); /* what the last fault of device work was; empty: none */

    /* ---- for the other stand-ins ---- */
    int (*enter)(const char *name); /* counts a call; what to return instead of working, or 0 */
    /* Queues fn(bytes) on a stream; the bytes are copied. */
    int (*enqueue)(CUstream s, const char *name, void (*fn)(const void *bytes), const void *bytes, size_t n);
    bool (*is_device)(const void *p, size_t bytes); /* the whole range lies in one block */
} standin_control;

/* NULL: no driver is loaded, or a real one. */
static inline const standin_control *standin_find(void) {
    void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *p = h ? dlsym(h, "nacre_standin") : NULL;
    const standin_control *(*get)(void);
    memcpy(&get, &p, sizeof p);
    if (h) dlclose(h);
    return p ? get() : NULL;
}

#endif
