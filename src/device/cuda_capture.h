/* device/cuda_capture.h: what is queued on a stream, recorded as a graph, launched as one, and changed piece by piece:
 * a run of other sizes exchanges the parameters of the kernels, copies and fills that its sizes touch, and makes no new
 * graph. Private to the CUDA device. The context is current in every call. */
#ifndef NC_DEVICE_CUDA_CAPTURE_H
#define NC_DEVICE_CUDA_CAPTURE_H

#include "device/cuda_order.h"

NC_MUST nc_code nc_cuda_capture_begin(const nc_cuda *c, nc_stream *s, nc_diag *diag);
NC_MUST nc_code nc_cuda_capture_mark(const nc_cuda *c, nc_stream *s, nc_diag *diag);
NC_MUST nc_code nc_cuda_capture_end(const nc_cuda *c, nc_stream *s, nc_capture **out, nc_diag *diag);
bool nc_cuda_capture_patch(const nc_cuda *c, nc_stream *s, nc_capture *to, const int *pieces, int n);
NC_MUST nc_code nc_cuda_capture_launch(const nc_cuda *c, nc_stream *s, const nc_capture *x, nc_diag *diag);
void nc_cuda_capture_destroy(const nc_cuda *c, nc_capture *x); /* NULL is fine */
void nc_cuda_capture_forget(nc_stream *s);                     /* the marks, when the stream goes */

#endif
