/* python/ext/dlpack.h: the structs of DLPack 1.1 and of its form before versions, as its specification fixes them. */
#ifndef NCX_DLPACK_H
#define NCX_DLPACK_H

#include <stdint.h>

/* EXT is reserved for trying extensions: here the guard, the device whose memory the host must not touch. */
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_EXT = 12, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };
enum { DL_F8_E4M3FN = 10, DL_F8_E4M3FNUZ = 11, DL_F8_E5M2 = 12, DL_F8_E5M2FNUZ = 13, DL_F8_E8M0FNU = 14 };
enum { DL_READ_ONLY = 1, DL_IS_COPIED = 2 };

typedef struct dl_device {
    int32_t type, id;
} dl_device;

typedef struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape, *strides; /* strides in elements; NULL: dense */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor t;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor t;
} dl_versioned;

#endif
