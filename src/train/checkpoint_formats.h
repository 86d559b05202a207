/* train/checkpoint_formats.h: between checkpoint_file.c, which has paths, and the formats, which have bytes.
 *
 * Readers copy tensors out of the bytes: what they give is the checkpoint's own, aligned and may be written. Writers
 * give their bytes to a sink, in order. Errors name the tensor. */
#ifndef NC_TRAIN_CHECKPOINT_FORMATS_H
#define NC_TRAIN_CHECKPOINT_FORMATS_H

#include "train/checkpoint.h"

typedef struct nc_checkpoint_sink {
    nc_code (*add)(nc_work *w, void *to, const void *p, size_t bytes);
    void *to;
} nc_checkpoint_sink;

/* The names of moments, in files of both formats. */
extern const char *const nc_checkpoint_moments[NC_MOMENTS];

bool nc_checkpoint_is_safetensors(const void *bytes, size_t n);
NC_MUST nc_code nc_checkpoint_read_safetensors(nc_work *w, const void *bytes, size_t n, nc_checkpoint *c);
NC_MUST nc_code nc_checkpoint_write_safetensors(nc_work *w, const nc_checkpoint *c, bool with_optimizer,
                                                nc_checkpoint_sink to);

bool nc_checkpoint_is_ort(const void *bytes, size_t n);
/* Whether the file keeps tensors in another one beside it. */
NC_MUST nc_code nc_checkpoint_ort_has_data(nc_work *w, const void *bytes, size_t n, bool *out);
/* data: the bytes of that other file; NULL: there is none. */
NC_MUST nc_code nc_checkpoint_read_ort(nc_work *w, const void *bytes, size_t n, const void *data, size_t n_data,
                                       nc_checkpoint *c);
/* data: where parameters of 64 bytes and more go; NULL: all stay inside. */
NC_MUST nc_code nc_checkpoint_write_ort(nc_work *w, const nc_checkpoint *c, bool with_optimizer, nc_checkpoint_sink to,
                                        const nc_checkpoint_sink *data);

/* checkpoint_file.c: nc_checkpoint_save with the bytes of parameters from which on ORT's format uses another file. */
NC_MUST nc_code nc_checkpoint_save_ort(nc_work *w, const nc_checkpoint *c, const char *path, bool with_optimizer,
                                       size_t external_from);

/* checkpoint_tensor.c: bytes of a dense tensor on the host; DATA names one that is not. Strings have none. */
NC_MUST nc_code nc_checkpoint_bytes(nc_work *w, const char *name, const nc_object *o, size_t *bytes);
/* A new tensor with a copy of the bytes, whose number was checked against dims by the caller. */
NC_MUST nc_code nc_checkpoint_tensor(nc_work *w, nc_dtype dtype, int rank, const int64_t *dims, const void *bytes,
                                     nc_object **out);
NC_MUST nc_code nc_checkpoint_check_crc(nc_work *w, const char *name, const char *hex, const void *p, size_t bytes);
void nc_checkpoint_crc(const void *p, size_t bytes, char hex[9]);

#endif
