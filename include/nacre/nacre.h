/* nacre.h: run ONNX models from C or C++.
 *
 *   nacre_env *env;  nacre_env_create(0, &env, &err);
 *   nacre_model *m;  nacre_model_load(env, "mlp.onnx", &m, &err);
 *   nacre_session *s; nacre_session_create(env, m, NULL, &s, &err);      // takes the model
 *   nacre_value *x;  nacre_value_tensor(NACRE_FLOAT, 2, dims, data, &x, &err);
 *   nacre_run(s, NULL, (const char *[]){"x"}, (nacre_value *const[]){x}, 1, (const char *[]){"y"}, 1, &y, &err);
 *
 * Every function that can fail returns a code and, when `err` is not NULL, says there what was wrong: node, operator,
 * expected, got. Results go out through the last pointers and are untouched on failure. Objects are opaque; each
 * *_release takes NULL. A session may be run from several threads at once. Words: an argument is *borrowed* during the
 * call unless a comment says *kept* (until the object is released) or *taken* (the callee releases it, also on
 * failure). */
#ifndef NACRE_H
#define NACRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NACRE_API __attribute__((visibility("default")))

/* ---- codes and errors ---- */

typedef enum nacre_code {
    NACRE_OK = 0,
    NACRE_FAIL = 1,
    NACRE_ARGUMENT = 2,
    NACRE_NO_FILE = 3,
    NACRE_BAD_MODEL = 4,
    NACRE_BAD_GRAPH = 5,
    NACRE_TYPE = 6,
    NACRE_SHAPE = 7,
    NACRE_UNSUPPORTED = 8,
    NACRE_MEMORY = 9,
    NACRE_LIMIT = 10,
    NACRE_DATA = 11,
    NACRE_CANCELLED = 12,
    NACRE_STATE = 13,
    NACRE_DEVICE = 14,
    NACRE_IO = 15,
    NACRE_NO_OP = 16 /* of a domain that is not ONNX's: nobody has registered it */
} nacre_code;

typedef struct nacre_error {
    nacre_code code;
    char node[96]; /* node, input, variable or file; may be empty */
    char op[64];   /* operator, or "input", "variable"; may be empty */
    char text[512];
} nacre_error;

NACRE_API const char *nacre_code_name(nacre_code code); /* "SHAPE" */
NACRE_API const char *nacre_version(void);              /* "0.1.0" */

typedef enum nacre_log_level {
    NACRE_LOG_VERBOSE,
    NACRE_LOG_INFO,
    NACRE_LOG_WARNING,
    NACRE_LOG_ERROR,
    NACRE_LOG_OFF
} nacre_log_level;
/* May change while running. sink NULL: standard error. */
NACRE_API void nacre_log_set_level(nacre_log_level level);
NACRE_API void nacre_log_set_sink(void (*sink)(void *user, nacre_log_level level, const char *text), void *user);
/* A message of the caller's own, by the same level and sink. */
NACRE_API void nacre_log(nacre_log_level level, const char *text);

typedef struct nacre_env nacre_env;
typedef struct nacre_model nacre_model;
typedef struct nacre_options nacre_options;
typedef struct nacre_session nacre_session;
typedef struct nacre_value nacre_value;
typedef struct nacre_stream nacre_stream;
typedef struct nacre_binding nacre_binding;
typedef struct nacre_state nacre_state;
typedef struct nacre_frame nacre_frame;
typedef struct nacre_run_options nacre_run_options;

/* ---- environment: threads, devices, packed weights, plugins; shared by sessions, released last or earlier ---- */

NACRE_API nacre_code nacre_env_create(int threads /* 0: as many as the machine allows; negative: refused */,
                                      nacre_env **out, nacre_error *err);
NACRE_API void nacre_env_release(nacre_env *env);
/* Loads a shared library of custom operators (nacre_plugin.h); it is code and runs at once. Models loaded later know
 * them. */
NACRE_API nacre_code nacre_env_load_plugin(nacre_env *env, const char *path, nacre_error *err);
/* One line on a device: "cpu", "guard", "cuda". Not there: NACRE_DEVICE, the reason in err. text is truncated to bytes.
 */
NACRE_API nacre_code nacre_env_describe_device(nacre_env *env, const char *device, char *text, size_t bytes,
                                               nacre_error *err);

/* ---- values ---- */

typedef enum nacre_type {
    NACRE_UNDEFINED = 0,
    NACRE_FLOAT = 1,
    NACRE_UINT8 = 2,
    NACRE_INT8 = 3,
    NACRE_UINT16 = 4,
    NACRE_INT16 = 5,
    NACRE_INT32 = 6,
    NACRE_INT64 = 7,
    NACRE_STRING = 8,
    NACRE_BOOL = 9,
    NACRE_FLOAT16 = 10,
    NACRE_DOUBLE = 11,
    NACRE_UINT32 = 12,
    NACRE_UINT64 = 13,
    NACRE_COMPLEX64 = 14,
    NACRE_COMPLEX128 = 15,
    NACRE_BFLOAT16 = 16,
    NACRE_FLOAT8E4M3FN = 17,
    NACRE_FLOAT8E4M3FNUZ = 18,
    NACRE_FLOAT8E5M2 = 19,
    NACRE_FLOAT8E5M2FNUZ = 20,
    NACRE_UINT4 = 21, /* types of 4, 2 and 6 bits: the data is packed, the first element in the lowest bits */
    NACRE_INT4 = 22,
    NACRE_FLOAT4E2M1 = 23,
    NACRE_FLOAT8E8M0 = 24,
    NACRE_UINT2 = 25,
    NACRE_INT2 = 26,
    NACRE_FLOAT6E2M3 = 27,
    NACRE_FLOAT6E3M2 = 28
} nacre_type; /* ONNX's own numbers */

typedef enum nacre_kind {
    NACRE_KIND_TENSOR,
    NACRE_KIND_SEQUENCE,
    NACRE_KIND_OPTIONAL,
    NACRE_KIND_MAP,
    NACRE_KIND_TAPE
} nacre_kind;

#define NACRE_MAX_RANK 64 /* dims of a tensor */

/* A dense tensor over the caller's memory: kept until the value is released. Not for strings. */
NACRE_API nacre_code nacre_value_tensor(nacre_type type, int rank, const int64_t *dims, void *keeps_data,
                                        nacre_value **out, nacre_error *err);
/* As above; when nothing uses the memory any more, release(owner) is called, on any thread. Not called on failure. */
NACRE_API nacre_code nacre_value_tensor_owned(nacre_type type, int rank, const int64_t *dims, void *keeps_data,
                                              void (*release)(void *owner), void *owner, nacre_value **out,
                                              nacre_error *err);
/* A dense tensor of its own, zeroed. */
NACRE_API nacre_code nacre_value_new_tensor(nacre_type type, int rank, const int64_t *dims, nacre_value **out,
                                            nacre_error *err);
NACRE_API nacre_code nacre_value_strings(int rank, const int64_t *dims, const char *const *strings, nacre_value **out,
                                         nacre_error *err);
/* Strings of bytes[i] bytes each, which may hold zeros. */
NACRE_API nacre_code nacre_value_strings_n(int rank, const int64_t *dims, const char *const *strings,
                                           const size_t *bytes, nacre_value **out, nacre_error *err);
NACRE_API nacre_code nacre_value_sequence(nacre_type element, nacre_value *const *items, size_t n, nacre_value **out,
                                          nacre_error *err);
/* An optional that holds item, or nothing where item is NULL; element is its tensor's type. */
NACRE_API nacre_code nacre_value_optional(nacre_type element, nacre_value *item, nacre_value **out, nacre_error *err);
/* A map: item 0 is a tensor of keys (integers or strings), item 1 the values in the same order. */
NACRE_API nacre_code nacre_value_map(nacre_value *keys, nacre_value *values, nacre_value **out, nacre_error *err);
/* Tensors in the memory of a device: "cpu", "cuda", "cuda:1", "guard". A session reads and writes them where they lie
 * if its own device is the same; else it copies. The host must not touch their data. They keep the environment. */
NACRE_API nacre_code nacre_value_new_on(nacre_env *env, const char *device, nacre_type type, int rank,
                                        const int64_t *dims, nacre_value **out, nacre_error *err); /* zeroed */
/* Over memory of the device that the caller keeps. What was queued to write it must be done before a run reads it:
 * nacre_env_synchronize. release (may be NULL) is as in nacre_value_tensor_owned. */
NACRE_API nacre_code nacre_value_at(nacre_env *env, const char *device, nacre_type type, int rank, const int64_t *dims,
                                    void *keeps_data, void (*release)(void *owner), void *owner, nacre_value **out,
                                    nacre_error *err);
/* A tensor over the caller's host memory whose elements lie `strides` apart, in elements, none of them negative. A run
 * reads it where it lies if all kernels that take the input can, else from a dense copy. Not for outputs. */
NACRE_API nacre_code nacre_value_strided(nacre_type type, int rank, const int64_t *dims, const int64_t *strides,
                                         void *keeps_data, void (*release)(void *owner), void *owner, nacre_value **out,
                                         nacre_error *err);
/* A zeroed host tensor in memory that the device copies from and to directly (page-locked for cuda). */
NACRE_API nacre_code nacre_value_new_pinned(nacre_env *env, const char *device, nacre_type type, int rank,
                                            const int64_t *dims, nacre_value **out, nacre_error *err);
/* Copies the bytes of src into dst; both are tensors of numbers of one type and count, on any device. Done when it
 * returns. */
NACRE_API nacre_code nacre_value_copy(nacre_value *dst, const nacre_value *src, nacre_error *err);
/* Waits for all work of the device, the caller's own on other streams too. */
NACRE_API nacre_code nacre_env_synchronize(nacre_env *env, const char *device, nacre_error *err);
/* Where a tensor lies: "cpu", "cuda" or "guard", and the device's number. */
NACRE_API const char *nacre_value_device(const nacre_value *v, int *number /* may be NULL */);
NACRE_API nacre_value *nacre_value_ref(nacre_value *v);
NACRE_API void nacre_value_release(nacre_value *v);

/* What a value is. Pointers belong to the value. */
NACRE_API nacre_kind nacre_value_kind(const nacre_value *v);
NACRE_API nacre_type nacre_value_type(const nacre_value *v);
NACRE_API int nacre_value_rank(const nacre_value *v);
NACRE_API const int64_t *nacre_value_dims(const nacre_value *v);
NACRE_API int64_t nacre_value_count(const nacre_value *v); /* elements of a tensor, items of a sequence or optional */
NACRE_API void *nacre_value_data(nacre_value *v);          /* NULL for strings and sequences */
NACRE_API size_t nacre_value_bytes(const nacre_value *v);  /* of the data; 0 for strings and sequences */
NACRE_API const char *nacre_value_string(const nacre_value *v, int64_t i, size_t *bytes /* may be NULL */);
NACRE_API nacre_value *nacre_value_item(const nacre_value *v, int64_t i); /* a new reference; NULL: out of range */

/* ---- models ---- */

NACRE_API nacre_code nacre_model_load(nacre_env *env, const char *path, nacre_model **out,
                                      nacre_error *err); /* .onnx, or text (.nct) */
/* Constants are copied: the bytes may go away after the call. */
NACRE_API nacre_code nacre_model_load_bytes(nacre_env *env, const void *bytes, size_t n, nacre_model **out,
                                            nacre_error *err);
/* As above, with the folder in which the model's external data lie. */
NACRE_API nacre_code nacre_model_load_bytes_in(nacre_env *env, const void *bytes, size_t n, const char *folder,
                                               nacre_model **out, nacre_error *err);
/* What the caller gives in place of what the model's file says. Tensors are kept, not copied; contents are copied. */
typedef struct nacre_given {
    size_t size;        /* of this struct; set by the caller */
    const char *folder; /* of external data; NULL: that of the file, or none */
    const char *const *names;
    nacre_value *const *values; /* n initializers by name, of the model's type and dims, in host memory */
    size_t n;
    const char *const *files; /* n_files files of external data, by the location that the model names */
    const void *const *contents;
    const size_t *bytes;
    size_t n_files;
} nacre_given;
/* From the file `path`, or, where that is NULL, from n bytes. */
NACRE_API nacre_code nacre_model_load_given(nacre_env *env, const char *path, const void *bytes, size_t n,
                                            const nacre_given *given, nacre_model **out, nacre_error *err);
NACRE_API nacre_code nacre_model_parse(nacre_env *env, const char *text, nacre_model **out, nacre_error *err);
/* As ONNX. Where the file would be larger than 2 GiB, the constants' data go into the file PATH.data beside it. A
 * path that ends in .ort gets onnxruntime's own format: at most 2 GiB, and only of a model whose types are inferred
 * (nacre_model_optimize, any level). */
NACRE_API nacre_code nacre_model_save(const nacre_model *m, const char *path, nacre_error *err);
/* Constants of min_bytes and more go into the file data_name beside the model. Each file is written under
 * another name and renamed when it is whole. */
NACRE_API nacre_code nacre_model_save_external(const nacre_model *m, const char *path, const char *data_name,
                                               size_t min_bytes, nacre_error *err);
/* As ONNX, in memory that belongs to the caller: nacre_free. Data of constants are inside, of any size. */
NACRE_API nacre_code nacre_model_save_bytes(const nacre_model *m, void **bytes, size_t *n, nacre_error *err);
NACRE_API void nacre_model_release(nacre_model *m);

/* ---- session options; NULL means all defaults ---- */

/* All defaults, to be changed by key. */
NACRE_API nacre_code nacre_options_create(nacre_options **out, nacre_error *err);
NACRE_API void nacre_options_release(nacre_options *o);
/* "device": cpu, guard, cuda, cuda:1. "level": off, basic, extended, all. "fusion", "layouts", "views", "packing",
 * "winograd" (off: 3x3 convolutions are summed as they are defined), "tune" (on: what cuBLASLt offers for a product
 * is tried once, and the choice kept on disk; off unless asked for), "tf32" (on: matrix products of f32 on a GPU round
 * their operands to 10 bits of mantissa; off unless asked for), "cudnn_dropout" (on: dropout inside of attention on a
 * GPU draws cuDNN's numbers where cuDNN computes it, which is faster: a seed then gives other numbers than on the CPU),
 * "capture", "dumps", "profile": on, off.
 * "host_nodes": on, off: off refuses a model of which the session's device cannot compute every node; on, such
 * nodes run on the host, and one warning tells of them. "strict": on, off, shapes: on refuses a model
 * that is wrong or says too little where it would otherwise be read all the same with one warning of each kind
 * (docs/exporters.md), shapes only declared shapes and ranks that are wrong. "part_symbols": on, off: on takes every
 * dim of an input for itself, though the model gives several the same name, for models that misuse names.
 * "disable": a pass by name. "patterns":
 * rules of one's own, as text (docs/patterns.md); given again, they are added. "recompute": a node by name,
 * or "*": a session with gradients keeps less memory, and takes anew in the backward pass what is cheap.
 * "seed", "memory_limit": a number; the limit is a cap in bytes on what this session holds on its devices: copied
 * constants, activations, variables, and its outputs until they are released. Packed weights are shared by the
 * environment and not counted. "packed_file": a path: packed weights of the host are mapped from that file where it
 * was made from the same weights and graph for the same processor; else they are packed when the session is created,
 * not at its first run, and written there. "save": the path where the transformed graph is written; "save_format":
 * onnx, ort (onnxruntime's own), name (default: ort where that path ends in .ort, else onnx). "save_data": the name of
 * a file beside it for the data of its constants of "save_data_bytes" (1024) and more; without it that is done, as
 * PATH.data, only where the file would have more than "save_file_bytes" (2 GiB). "variables": an initializer by name,
 * or "*" for all of floats but those that decide sizes: they are read from the state, where they start as the model
 * has them; so a session evaluates the weights that another one trains. "stop_gradient": a value by name:
 * where the session differentiates (nacre_train.h), no gradient passes through it, and it counts as independent of
 * what made it. "flush_denormals": on, off: runs take denormal floats and doubles as zero, on the host.
 * "log_level": verbose, info, warning, error, off, instead of nacre_log_set_level, for the making of this session
 * and its runs; "log_id": a text that stands before each of their messages. "streams": on how many streams, 1 to
 * 64, the device may compute; branches of the graph then overlap, with the bits of one stream. On the CPU each
 * stream takes a thread of the environment while several have work; one instruction alone has all threads.
 * "stream": what nacre_options_stream takes, as "1 conv3". "compute": f32, f16, bf16: matrix products, convolutions
 * and attention of floats take operands of that type, and formulas between them compute in it; sums, norms and
 * softmax stay in f32 (of a session that only infers norms are of that type and compute in f32), as do inputs, outputs
 * and the model's own constants. The opset must have a Cast to it. Where the session differentiates, gradients are
 * mixed the same way, without a loss scale. tf32: the option "tf32". */
NACRE_API nacre_code nacre_options_set(nacre_options *o, const char *key, const char *value, nacre_error *err);
/* A message of the caller's own, under the log level and id that these options have by now. */
NACRE_API void nacre_options_log(const nacre_options *o, nacre_log_level level, const char *text);
/* The output becomes the next run's input: both leave the signature and live in the state (a KV cache, a counter). */
NACRE_API nacre_code nacre_options_tie(nacre_options *o, const char *input, const char *output, nacre_error *err);
/* A place where a run may stop: everything that these outputs need comes before it. Cuts are in the order they are
 * added. */
NACRE_API nacre_code nacre_options_cut(nacre_options *o, const char *name, const char *const *outputs, size_t n,
                                       nacre_error *err);

/* Every input dim that the model calls `name` has this size. */
NACRE_API nacre_code nacre_options_dim(nacre_options *o, const char *name, int64_t value, nacre_error *err);

/* The node of the main graph computes on this stream, 0 up to the number of "streams" less one; of two for one node the
 * later counts. The planner chooses for all others. Creating the session fails, naming the node, where the graph as it
 * runs has no such node (a pass may have folded or replaced it), or where it is one that the host runs. Nodes that were
 * joined to one kernel must agree. */
NACRE_API nacre_code nacre_options_stream(nacre_options *o, const char *node, int stream, nacre_error *err);

/* ---- sessions ---- */

/* Infers, transforms and plans the model; what is wrong with the graph is reported here, not at the first run. */
NACRE_API nacre_code nacre_session_create(nacre_env *env, nacre_model *takes_model, const nacre_options *o,
                                          nacre_session **out, nacre_error *err);
NACRE_API void nacre_session_release(nacre_session *s);
/* Inputs and outputs in the order of the model. Names belong to the session; NULL: out of range. */
NACRE_API size_t nacre_session_n_inputs(const nacre_session *s);
NACRE_API size_t nacre_session_n_outputs(const nacre_session *s);
NACRE_API const char *nacre_session_input_name(const nacre_session *s, size_t i);
/* 1: the model says what the input is when it is not given. */
NACRE_API int nacre_session_input_optional(const nacre_session *s, size_t i);
NACRE_API const char *nacre_session_output_name(const nacre_session *s, size_t i);
/* Type of an input or output; dims[k] is -1 where it is not constant. Rank -1: unknown, no tensor, or more than the 16
 * dims that `dims` holds: nacre_session_dims tells any number. */
NACRE_API nacre_type nacre_session_input_type(const nacre_session *s, size_t i, int *rank, int64_t *dims);
NACRE_API nacre_type nacre_session_output_type(const nacre_session *s, size_t i, int *rank, int64_t *dims);
/* What the model calls the dims of an input: "batch", "past+1"; "4" for constants. The first 16 of them. */
NACRE_API void nacre_session_input_dim_names(const nacre_session *s, size_t i, char names[16][64]);
/* What a caller may know of an input that must be fed, an output, an input that has a default, or a variable, which a
 * state must have for the session. Every input, with or without a default, is numbered as in nacre_session_input_name.
 */
typedef enum nacre_side { NACRE_INPUT, NACRE_OUTPUT, NACRE_OVERRIDABLE, NACRE_VARIABLE, NACRE_EVERY_INPUT } nacre_side;
typedef struct nacre_signature {
    const char *name;       /* belongs to the session */
    char type[128];         /* as ONNX writes it: "tensor(float)", "seq(tensor(int64))", "map(int64,tensor(float))" */
    int rank;               /* -1: unknown, no tensor, or more than 16: see nacre_session_dims */
    int64_t dims[16];       /* -1 where it is not constant */
    char dim_names[16][64]; /* what the model calls it: "batch", "past+1"; empty for constants and nameless dims */
} nacre_signature;
NACRE_API size_t nacre_session_n(const nacre_session *s, nacre_side side);
NACRE_API nacre_code nacre_session_signature(const nacre_session *s, nacre_side side, size_t i, nacre_signature *out,
                                             nacre_error *err);
/* The number of dims, -1: unknown or no tensor. The first `room` of them are written to dims, -1 where not constant. */
NACRE_API int nacre_session_dims(const nacre_session *s, nacre_side side, size_t i, int64_t *dims, int room);
/* 1: what the model calls the dim. 0: it is a constant or has no name, and the text is that of dumps. */
NACRE_API int nacre_session_dim_name(const nacre_session *s, nacre_side side, size_t i, int axis, char name[64]);

/* What the model says about itself; texts belong to the session and are never NULL. */
typedef struct nacre_model_info {
    const char *producer_name, *producer_version, *domain, *description, *graph_name, *graph_description;
    int64_t version, ir_version;
    size_t n_props; /* metadata: nacre_session_prop */
} nacre_model_info;
NACRE_API void nacre_session_model_info(const nacre_session *s, nacre_model_info *out);
NACRE_API const char *nacre_session_prop(const nacre_session *s, size_t i, const char **value); /* its key, or NULL */

/* Stages: graph, inferred, transformed, differentiated, lowered, program, instance. Needs the option dumps=on. The text
 * belongs to the caller: nacre_free. */
NACRE_API nacre_code nacre_session_dump(nacre_session *s, const char *stage, char **text, nacre_error *err);
NACRE_API void nacre_free(void *p);

typedef struct nacre_stats {
    uint64_t plans;     /* programs made: 1 */
    uint64_t instances; /* sets of sizes planned */
    uint64_t runs, frames, captures, replays;
    uint64_t bytes_frames, bytes_frames_peak; /* arena memory of all frames */
    uint64_t device_allocations, device_bytes, device_bytes_peak;
    uint64_t packed;                            /* constants packed in the environment */
    uint64_t bytes_session, bytes_session_peak; /* what counts against memory_limit */
} nacre_stats;
/* Counts since the session was created. */
NACRE_API void nacre_session_stats(nacre_session *s, nacre_stats *out);

/* ---- streams: work of a device that runs in order ---- */

/* A new stream of the device; on "cpu" it is one in name, since work is done when a call returns. */
NACRE_API nacre_code nacre_stream_create(nacre_env *env, const char *device, nacre_stream **out, nacre_error *err);
/* A stream that another library made: for cuda a cudaStream_t. It must outlive the result. */
NACRE_API nacre_code nacre_stream_wrap(nacre_env *env, const char *device, void *handle, nacre_stream **out,
                                       nacre_error *err);
NACRE_API void *nacre_stream_handle(const nacre_stream *s); /* what nacre_stream_wrap takes; NULL: there is none */
NACRE_API nacre_code nacre_stream_synchronize(nacre_stream *s, nacre_error *err); /* waits for its work */
NACRE_API void nacre_stream_release(nacre_stream *s);                             /* waits for its work, NULL is fine */

/* ---- running ---- */

/* For one run or several, one after the other. */
NACRE_API nacre_code nacre_run_options_create(nacre_run_options **out, nacre_error *err);
NACRE_API void nacre_run_options_release(nacre_run_options *r);
NACRE_API void nacre_run_options_state(nacre_run_options *r,
                                       nacre_state *borrows); /* default: the session's own state */
/* Runs compute on this stream of the session's device, after what was queued there, and return when everything is
 * queued: outputs, host ones too, are complete when the stream has come so far, and inputs must stay until then. Who
 * uses the same state next, on whatever stream or on the host, comes after them. */
NACRE_API void nacre_run_options_stream(nacre_run_options *r, nacre_stream *borrows);
NACRE_API void nacre_run_options_cancel(nacre_run_options *r, int cancelled); /* from any thread, while running too */
/* Runs with r stop when `borrows` is cancelled, instead: one switch for runs with different options. */
NACRE_API void nacre_run_options_follow(nacre_run_options *r, const nacre_run_options *borrows);
/* The log of runs with r, instead of the session's: level and id as in nacre_options_set. NULL: as the session has it.
 */
NACRE_API nacre_code nacre_run_options_log(nacre_run_options *r, const char *level, const char *id, nacre_error *err);
/* nacre_run leaves this output, if it is a tensor of numbers and not bound, in the memory of the session's device. */
NACRE_API nacre_code nacre_run_options_keep(nacre_run_options *r, const char *output, nacre_error *err);

/* out[i] may hold a tensor of the right shape to write into, or NULL for a new one. */
NACRE_API nacre_code nacre_run(nacre_session *s, nacre_run_options *r, const char *const *in_names,
                               nacre_value *const *in, size_t n_in, const char *const *out_names, size_t n_out,
                               nacre_value **out, nacre_error *err);

/* Inputs and outputs bound by name once, for many runs; nacre_run binds for one. The session must outlive it; one
 * thread uses it at a time. */
NACRE_API nacre_code nacre_binding_create(nacre_session *s, nacre_binding **out, nacre_error *err);
NACRE_API void nacre_binding_release(nacre_binding *b);
/* Keeps a reference to the value until another one or NULL is bound. */
NACRE_API nacre_code nacre_binding_input(nacre_binding *b, const char *name, nacre_value *v, nacre_error *err);
/* Runs give this output too: into v, or, where that is NULL, into a new tensor in each run, which stays in the memory
 * of the session's device if on_device. */
NACRE_API nacre_code nacre_binding_output(nacre_binding *b, const char *name, nacre_value *v, int on_device,
                                          nacre_error *err);
NACRE_API void nacre_binding_clear_inputs(nacre_binding *b);
NACRE_API void nacre_binding_clear_outputs(nacre_binding *b);
NACRE_API nacre_code nacre_binding_run(nacre_binding *b, nacre_run_options *r, nacre_error *err);
/* Bound outputs in the order they were bound first, with the results of the last run. */
NACRE_API size_t nacre_binding_n_outputs(const nacre_binding *b);
NACRE_API const char *nacre_binding_output_name(const nacre_binding *b, size_t i); /* NULL: out of range */
NACRE_API nacre_value *nacre_binding_result(const nacre_binding *b, size_t i);     /* a new reference; NULL: none yet */

/* A run that can stop at a cut and go on later. Several may stand at once. Release it at any point. */
NACRE_API nacre_code nacre_frame_create(nacre_session *s, nacre_run_options *r, nacre_frame **out, nacre_error *err);
NACRE_API nacre_code nacre_frame_input(nacre_frame *f, const char *name, nacre_value *v, nacre_error *err);
NACRE_API nacre_code nacre_frame_run(nacre_frame *f, const char *cut /* NULL: to the end */, nacre_error *err);
NACRE_API nacre_code nacre_frame_output(nacre_frame *f, const char *name, nacre_value **out, nacre_error *err);
NACRE_API void nacre_frame_release(nacre_frame *f);

/* ---- state: named buffers that hold the contents of variables ----
 *
 * A run binds to a state by name: it may be of any session whose variables the state has, with the same types and dims.
 * So training, evaluation and optimizer sessions work on one set of weights, and many conversations on one model.
 * Readers share a state; a run that updates it holds it alone, whatever the session. When a run fails after its first
 * update was issued, what it updates is dirty, and runs on the state answer NACRE_STATE until each of these variables
 * was reset or set. A state outlives the sessions it is used with, and keeps its environment. */

/* All variables of the session, with their initial contents. */
NACRE_API nacre_code nacre_state_create(nacre_session *s, nacre_state **out, nacre_error *err);
/* Without variables, for the memory of a device: "cpu" (also NULL), "guard", "cuda", "cuda:1". */
NACRE_API nacre_code nacre_state_create_empty(nacre_env *env, const char *device, nacre_state **out, nacre_error *err);
/* The state that the session's runs use where they are given none. */
NACRE_API nacre_code nacre_session_state(nacre_session *s, nacre_state **out, nacre_error *err);
NACRE_API void nacre_state_release(nacre_state *st);

/* Adding a name that is there already is NACRE_ARGUMENT. */
/* The variables of the session that the state lacks, with their initial contents. */
NACRE_API nacre_code nacre_state_add_session(nacre_state *st, nacre_session *s, nacre_error *err);
/* A tensor of the state's own; data, in host memory, is copied; NULL: zeros. */
NACRE_API nacre_code nacre_state_add(nacre_state *st, const char *name, nacre_type type, int rank, const int64_t *dims,
                                     const void *data, nacre_error *err);
/* The caller's memory: that of a tensor on the state's device (nacre_value_tensor_owned and nacre_value_at call back
 * when it is let go), else NACRE_DEVICE. Runs update it where it lies. Memory that is only to be read (a mapped file)
 * is refused with NACRE_STATE to sessions that update it. The caller does not touch it while a run uses it. */
typedef enum nacre_access { NACRE_READ_ONLY, NACRE_WRITABLE } nacre_access;
NACRE_API nacre_code nacre_state_lend(nacre_state *st, const char *name, nacre_value *keeps, nacre_access access,
                                      nacre_error *err);

/* What it holds, in the order of adding. */
typedef struct nacre_variable {
    const char *name; /* belongs to the state */
    nacre_type type;
    int rank; /* -1: more than 16: see nacre_state_dims */
    int64_t dims[16];
    const char *device; /* "cpu", "cuda", "guard" */
    int device_number;
    int grow_axis;    /* -1: its size is fixed */
    int64_t capacity; /* room along grow_axis */
    int is_set, is_dirty, is_lent, is_read_only;
} nacre_variable;
NACRE_API size_t nacre_state_n(nacre_state *st);
NACRE_API const char *nacre_state_name(nacre_state *st, size_t i); /* belongs to the state; NULL: out of range */
/* Waits for a run that updates the state. */
NACRE_API nacre_code nacre_state_variable(nacre_state *st, size_t i, nacre_variable *out, nacre_error *err);
/* The number of its dims, of which the first `room` are written to dims; -1: no such variable. Waits likewise. */
NACRE_API int nacre_state_dims(nacre_state *st, size_t i, int64_t *dims, int room);

/* In these, st NULL is the session's own state; where st is given, the session may be NULL, except to reset. They wait
 * until no run is in their way. */
NACRE_API nacre_code nacre_state_get(nacre_session *s, nacre_state *st, const char *variable, nacre_value **out,
                                     nacre_error *err); /* a copy in host memory */
/* The variable's own memory, on its device; good until it grows or is set to other dims. The caller keeps from touching
 * it while a run updates it. Rows that lie apart (a past in use) are NACRE_STATE. */
NACRE_API nacre_code nacre_state_share(nacre_session *s, nacre_state *st, const char *variable, nacre_value **out,
                                       nacre_error *err);
NACRE_API nacre_code nacre_state_set(nacre_session *s, nacre_state *st, const char *variable, const nacre_value *v,
                                     nacre_error *err);
/* What the session's model says, for all its variables or for one. Memory lent to be read keeps its contents. */
NACRE_API nacre_code nacre_state_reset(nacre_session *s, nacre_state *st, nacre_error *err);
NACRE_API nacre_code nacre_state_reset_variable(nacre_session *s, nacre_state *st, const char *variable,
                                                nacre_error *err);
NACRE_API int nacre_state_is_dirty(nacre_session *s, nacre_state *st);

/* ---- the machine, types, values from files ---- */

/* What runs here, a line "key<TAB>value" each: processor, architecture, isa (the one chosen), isas, features, l1d, l2,
 * threads, quota. The text belongs to the caller: nacre_free. */
NACRE_API nacre_code nacre_env_describe_machine(nacre_env *env, char **text, nacre_error *err);
NACRE_API const char *nacre_type_name(nacre_type type); /* "float"; "undefined" for what is no type */
NACRE_API size_t nacre_type_bytes(nacre_type type);     /* of one element; 0: strings, packed and what is no type */
NACRE_API int nacre_type_bits(nacre_type type);         /* of one element; 0: strings and what is no type */
/* A value as ONNX stores it: the bytes of a TensorProto, SequenceProto or OptionalProto; the caller says which. */
NACRE_API nacre_code nacre_value_from_proto(nacre_kind kind, const void *bytes, size_t n, nacre_value **out,
                                            nacre_error *err);
/* What an input or output is: tensor, sequence, ... */
NACRE_API nacre_kind nacre_session_input_kind(const nacre_session *s, size_t i);
NACRE_API nacre_kind nacre_session_output_kind(const nacre_session *s, size_t i);

/* ---- where time and memory go ---- */

/* Needs the option profile=on; while it is on, devices run one instruction at a time and nothing is captured. The trace
 * is the JSON of chrome://tracing and Perfetto. Texts and rows belong to the caller: nacre_free. */
NACRE_API nacre_code nacre_session_profile(nacre_session *s, char **trace, nacre_error *err);
typedef struct nacre_profile_op {
    char op[64];               /* operator; a fused one with its parts */
    uint64_t calls, ns, bytes; /* ns without its subgraphs' instructions; bytes read and written */
} nacre_profile_op;
NACRE_API nacre_code nacre_session_profile_ops(nacre_session *s, nacre_profile_op **rows, size_t *n,
                                               nacre_error *err); /* the longest first */
NACRE_API void nacre_session_profile_reset(nacre_session *s);

/* Gives back memory kept for later runs: pooled frames, planned sizes. Runs under way keep theirs; the next run makes
 * them anew. */
NACRE_API void nacre_session_trim(nacre_session *s);

typedef struct nacre_plan_row {
    char name[96], op[64]; /* the value, or "workspace"; the operator that makes it */
    int place;             /* 0: host, 1: the session's device, where that is another */
    int segment;
    int first, last;      /* the steps that make it and read it last; one where nobody reads it */
    size_t offset, bytes; /* those of another row where it lies over that one's tensor */
} nacre_plan_row;
typedef struct nacre_plan_step {
    char op[64];
} nacre_plan_step;
typedef struct nacre_plan {
    size_t size;          /* of this struct; set by the caller */
    nacre_plan_row *rows; /* of the main graph, in order of first use; nacre_free */
    size_t n_rows, n_steps;
    size_t bytes_frame[2], bytes_constants[2], bytes_packed[2], bytes_state[2], bytes_outputs[2]; /* per place */
    size_t n_unknown;             /* segments whose sizes or ranks are only found while running: not counted */
    const nacre_plan_step *steps; /* n_steps of them, in the memory of rows */
} nacre_plan;
/* The memory one run will take with these sizes of the named dims; those not named count as 1. */
NACRE_API nacre_code nacre_session_plan(nacre_session *s, const char *const *dim_names, const int64_t *dims, size_t n,
                                        nacre_plan *out, nacre_error *err);
/* How one node (by its name, or by a value it makes) is done: kernel, refused kernels and why, packed constants, copies
 * and fusions around it. With dumps=on also what became of a node that is gone. */
NACRE_API nacre_code nacre_session_explain(nacre_session *s, const char *node, char **text, nacre_error *err);

#ifdef __cplusplus
}
#endif

#endif
