/* cuda/chain.h: a tile program (kernels/cpu/tile.h) as one generated CUDA kernel, from the same formulas. Operands may
 * have any strides and broadcast to the outputs; values between formulas stay in the compute type. An output may be the
 * very memory of an input of the same element size and strides. */
#ifndef NCK_CUDA_CHAIN_H
#define NCK_CUDA_CHAIN_H

#include "kernels/cpu/tile.h"
#include "kernels/cuda/launch.h"

#define NCK_CUDA_CHAIN_ENTRIES "chain chain_vectors"
#define NCK_CUDA_CHAIN_MAX_ARGS (NCK_TILE_MAX_REG + 1)
#define NCK_CUDA_CHAIN_WORDS 512 /* of 8 bytes: the arguments of one launch on any GPU and driver */

typedef struct nck_cuda_chain {
    nc_function *f, *vectors; /* operands of any strides; such that lie side by side */
    int n_in, n_out;
    int max_rank;              /* merged dims that the kernel has room for */
    int unroll, vector, ahead; /* elements of a thread's turn, of a vector; vectors of a turn */
} nck_cuda_chain;

/* Whether a launch can carry n_args tensors (inputs and outputs) of that many dims. */
bool nck_cuda_chain_holds(int n_args, int max_rank);

/* Adds the source for a checked program. types: of the inputs, then of the outputs. max_rank: of the outputs, 1 to
 * NC_MAX_RANK; dims of 1 need not be counted. False: a type that kernels cannot hold, or more than a launch can carry.
 * Out of memory: out->failed. */
bool nck_cuda_chain_source(nc_text *out, const nck_tile_prog *p, const nc_dtype *types, int max_rank);

/* Adds the formulas of a program with one output alone, for a kernel that computes in registers: `compute` works on r,
 * its inputs first, and leaves r[OUT_REG]. */
void nck_cuda_chain_formula(nc_text *out, const nck_tile_prog *p);

NC_MUST nc_code nck_cuda_chain_prepare(nc_device *d, const nck_tile_prog *p, const nc_dtype *types, int max_rank,
                                       nck_cuda_chain *out, nc_diag *diag);

/* All outputs have the dims of out[0]. */
NC_MUST nc_code nck_cuda_chain_run(const nck_cuda_chain *k, nck_cuda_at at, nc_tensor *const *in,
                                   nc_tensor *const *out);

#endif
