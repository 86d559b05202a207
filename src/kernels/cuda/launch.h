/* cuda/launch.h: what all launchers share: where to launch, finding a function of a kernel text, walks over strided
 * tensors, sizes of grids. Launchers allocate nothing and wait for nothing, so that a stream that is being captured can
 * take them; functions are found (compiled) before, when a binding is prepared. */
#ifndef NCK_CUDA_LAUNCH_H
#define NCK_CUDA_LAUNCH_H

#include "base/shape.h"
#include "device/device.h"
#include "kernels/cuda/text.h"

typedef struct nck_cuda_at {
    nc_device *device;
    nc_stream *stream;
    nc_diag *diag;
    void *room; /* for a kernel of a library, as the plan has booked it; NULL: nothing is booked */
    size_t bytes_room;
} nck_cuda_at;

/* One or two operands step by step; mirrors `walk` in common.cuh. */
typedef struct nck_cuda_walk {
    int64_t rank, dims[NC_MAX_RANK], strides[2][NC_MAX_RANK];
} nck_cuda_walk;

static inline nck_cuda_at nck_cuda_at_call(const nc_call *c) {
    return (nck_cuda_at){.device = c->device, .stream = c->stream, .diag = c->diag};
}

/* With the room that lies in the workspace behind so many bytes, aligned as cuBLASLt wants it. */
#define NCK_CUDA_ROOM_ALIGNMENT 256
static inline nck_cuda_at nck_cuda_at_room(const nc_call *c, size_t behind) {
    nck_cuda_at at = nck_cuda_at_call(c);
    behind += -((uintptr_t)c->workspace + behind) % NCK_CUDA_ROOM_ALIGNMENT;
    if (behind < c->bytes_workspace)
        at.room = (char *)c->workspace + behind, at.bytes_room = c->bytes_workspace - behind;
    return at;
}

/* Where kernels report bad indices, and as whom; mirrors `fault_site` in common.cuh. */
typedef struct nck_cuda_site {
    void *to;
    char node[96], op[32];
} nck_cuda_site;
nck_cuda_site nck_cuda_site_of(const nc_call *c);

/* A tensor of halves in device memory, as copies of boxes of it by the GPU need it; innermost dim first. Strides in
 * elements, of all but that one. */
enum { NCK_CUDA_MAX_BOX_RANK = 4 };
typedef struct nck_cuda_map {
    _Alignas(128) uint64_t words[16];
} nck_cuda_map;
NC_MUST nc_code nck_cuda_describe_boxes(const void *data, int rank, const int64_t *dims, const int64_t *strides,
                                        const uint32_t *box, nck_cuda_map *out, nc_diag *diag);

/* The function `entry` of the file for element type t. `define` (may be NULL) is text put in front of the file. */
NC_MUST nc_code nck_cuda_find(nc_device *d, nck_cuda_text file, nc_dtype t, const char *define, const char *entry,
                              nc_function **out, nc_diag *diag);

/* The same dims for both operands, merged. strides1 NULL: one operand. */
nck_cuda_walk nck_cuda_walk_of(int rank, const int64_t *dims, const int64_t *strides0, const int64_t *strides1);

/* Blocks for n items of which a block takes `per_block`: enough to fill the GPU several times over, not more; kernels
 * stride over the rest. 0 for n = 0: such a launch does nothing. */
uint32_t nck_cuda_blocks(nc_device *d, int64_t n, int64_t per_block);

/* Rows and columns over blocks: tiles of y rows and x * NCK_CUDA_TURNS columns; mirrors tile_at in common.cuh. */
#define NCK_CUDA_TURNS 4
typedef struct nck_cuda_tiles {
    uint32_t x, y;         /* threads of a block */
    int64_t across, count; /* tiles side by side, in all */
} nck_cuda_tiles;
nck_cuda_tiles nck_cuda_tiles_of(int64_t rows, int64_t columns);
NC_MUST nc_code nck_cuda_launch_tiles(nck_cuda_at at, nc_function *f, const nck_cuda_tiles *t, void **args);

/* Threads (threads, 1, 1). */
NC_MUST nc_code nck_cuda_launch(nck_cuda_at at, nc_function *f, uint32_t blocks, uint32_t threads, void **args);

#endif
