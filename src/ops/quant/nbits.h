/* ops/quant/nbits.h: what MatMulNBits says in attributes; kernels of it, of MatMulBnb4 and of
 * GatherBlockQuantized. */
#ifndef NC_OPS_QUANT_NBITS_H
#define NC_OPS_QUANT_NBITS_H

#include "ops/binding.h"

enum { NC_NBITS_A, NC_NBITS_B, NC_NBITS_SCALES, NC_NBITS_ZEROS, NC_NBITS_GROUPS, NC_NBITS_BIAS };

typedef struct nc_nbits {
    int64_t K, N, block, bits;
    bool rounds; /* accuracy_level 4: A may be rounded to 8 bits */
    int packs;   /* on the CPU: 2 or 3 where codes, scales and zero points are packed */
} nc_nbits;

nc_nbits nc_nbits_read(const nc_node *n);

/* Bytes x (..., n) as codes (..., n * 8 / bits), low bits first, of type t, by ops. */
nc_value *nc_nbits_unpacked(nc_builder *b, nc_value *x, int64_t bits, nc_dtype t);

/* SHAPE unless the inputs behind A have as many elements as the attributes say: open dims are known only in the run. */
NC_MUST nc_code nc_nbits_check_counts(const nc_call *c, const nc_nbits *q);
NC_MUST nc_code nc_bnb4_check_counts(const nc_call *c, int64_t K, int64_t N, int64_t block);
/* The sixteen numbers that codes of a MatMulBnb4 stand for. */
const float *nc_bnb4_numbers(const nc_node *n);

bool nc_nbits_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_nbits_prepare(nc_prep *p);
size_t nc_nbits_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_nbits_run(const nc_call *c);

bool nc_nbits_cuda_fits(const nc_node *n, const char **why);
bool nc_bnb4_cuda_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_nbits_cuda_prepare(nc_prep *p);
NC_MUST nc_code nc_bnb4_cuda_prepare(nc_prep *p);
size_t nc_nbits_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_nbits_cuda_run(const nc_call *c);
NC_MUST nc_code nc_bnb4_cuda_run(const nc_call *c);

NC_MUST nc_code nc_gather_blocks_prepare(nc_prep *p);
NC_MUST nc_code nc_gather_blocks_run(const nc_call *c);

#endif
