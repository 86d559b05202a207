/* nacre_plugin.h: custom operators in a shared library.
 *
 * The library exports nacre_plugin_register. It gets a host table, valid during the call, and calls host->add_op for
 * each operator. Structs carry their size first and only grow at the end: a library built against an older header keeps
 * working, what its structs lack is zero. The host's tables may be longer than the library knows; before it uses a
 * field that a later header added, it looks at their size. A library that cannot do without a later version exports
 *     const int nacre_plugin_version = NACRE_PLUGIN_VERSION;
 * and is refused by hosts of a lower one. A custom op's kernel runs on the host and makes its outputs while running: it
 * asks for each with the shape it found. */
#ifndef NACRE_PLUGIN_H
#define NACRE_PLUGIN_H

#include "nacre/nacre.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NACRE_PLUGIN_VERSION 1

/* Filled by the host in memory of the kernel, which does not say its size: this one never grows. */
typedef struct nacre_op_tensor {
    size_t size;
    nacre_type type;
    int rank;
    const int64_t *dims;
    void *data; /* dense, host memory */
} nacre_op_tensor;

typedef struct nacre_op_call nacre_op_call;

/* What a kernel may ask of its call. */
typedef struct nacre_op_api {
    size_t size;
    size_t (*n_inputs)(const nacre_op_call *c);
    size_t (*n_outputs)(const nacre_op_call *c);
    nacre_code (*input)(nacre_op_call *c, size_t i, nacre_op_tensor *out); /* data NULL: an absent optional input */
    /* Asks for output i with the shape found; data is then writable. Once per output. */
    nacre_code (*output)(nacre_op_call *c, size_t i, nacre_type type, int rank, const int64_t *dims,
                         nacre_op_tensor *out);
    int64_t (*attr_int)(const nacre_op_call *c, const char *name, int64_t fallback);
    double (*attr_float)(const nacre_op_call *c, const char *name, double fallback);
    const char *(*attr_string)(const nacre_op_call *c, const char *name, const char *fallback);
    int (*cancelled)(const nacre_op_call *c);
    nacre_code (*fail)(nacre_op_call *c, nacre_code code, const char *text); /* returns code */
} nacre_op_api;

typedef struct nacre_op {
    size_t size;
    const char *domain, *name;
    int since; /* opset version of the domain, at least 1 */
    size_t min_inputs, max_inputs;
    size_t n_outputs;
    /* Element type and rank of each output: type NACRE_UNDEFINED: that of input 0; rank -1: that of input 0. NULL: all
     * so. */
    const nacre_type *output_types;
    const int *output_ranks;
    nacre_code (*run)(void *user, nacre_op_call *c, const nacre_op_api *api);
    void *user;
} nacre_op;

typedef struct nacre_plugin_host {
    size_t size;
    int version;                                                              /* NACRE_PLUGIN_VERSION of the host */
    nacre_code (*add_op)(struct nacre_plugin_host *host, const nacre_op *op); /* copied */
    void *internal;
} nacre_plugin_host;

/* Exported by the library. A code other than NACRE_OK refuses to load. */
typedef nacre_code (*nacre_plugin_register_fn)(nacre_plugin_host *host);

#ifdef __cplusplus
}
#endif

#endif
