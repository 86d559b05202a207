/* onnx/load.h: ONNX bytes to a model. Untrusted input: any bytes either load or fail with a message that names the
 * place. Types are as the file says them; inference comes later. */
#ifndef NC_ONNX_LOAD_H
#define NC_ONNX_LOAD_H

#include "ir/graph.h"

/* `keeps` is the counted buffer that owns the bytes: the model refs it and its constants point into it, unaligned as
 * they lie. NULL: the bytes may go away after the call, constants are copied. `folder` is where external data are
 * looked for; NULL: external data are refused. *out is untouched on failure. */
NC_MUST nc_code nc_onnx_load(nc_work *w, const void *bytes, size_t n, nc_buffer *keeps, const char *folder,
                             const nc_registry *r, nc_model **out);
/* Maps the file; external data lie in its folder. */
NC_MUST nc_code nc_onnx_load_file(nc_work *w, const char *path, const nc_registry *r, nc_model **out);

#endif
