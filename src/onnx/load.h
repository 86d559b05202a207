/* onnx/load.h: ONNX bytes to a model. Untrusted input: any bytes either load or fail with a message that names the
 * place. Types are as the file says them; inference comes later. */
#ifndef NC_ONNX_LOAD_H
#define NC_ONNX_LOAD_H

#include "base/object.h"
#include "ir/graph.h"

/* What the caller gives in place of what the file says: the contents of initializers of the main graph, by name, of the
 * same type and dims; and files of external data, by location. The model refs the buffers. */
typedef struct nc_onnx_given {
    const char *const *names;
    nc_object *const *tensors;
    int n;
    const char *const *files;
    nc_buffer *const *contents;
    int n_files;
} nc_onnx_given;

/* `keeps` is the counted buffer that owns the bytes: the model refs it and its constants point into it, unaligned as
 * they lie. NULL: the bytes may go away after the call, constants are copied. `folder` is where external data are
 * looked for; NULL: external data are refused. *out is untouched on failure. */
NC_MUST nc_code nc_onnx_load(nc_work *w, const void *bytes, size_t n, nc_buffer *keeps, const char *folder,
                             const nc_registry *r, nc_model **out);
/* Maps the file; external data lie in its folder. */
NC_MUST nc_code nc_onnx_load_file(nc_work *w, const char *path, const nc_registry *r, nc_model **out);
/* The same with what the caller gives; folder NULL: that of the file. */
NC_MUST nc_code nc_onnx_load_file_given(nc_work *w, const char *path, const char *folder, const nc_onnx_given *given,
                                        const nc_registry *r, nc_model **out);
NC_MUST nc_code nc_onnx_load_given(nc_work *w, const void *bytes, size_t n, const char *folder,
                                   const nc_onnx_given *given, const nc_registry *r, nc_model **out);

#endif
