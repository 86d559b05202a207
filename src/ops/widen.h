/* ops/widen.h: runs a kernel that knows the wide types on tensors of narrow ones: operands are converted into the
 * workspace, the kernel runs there, results are converted back. float16 and bfloat16 go through f32, small integers and
 * bool through int32, uint32 through int64; integer results wrap. For ops where a kernel of the narrow type is not
 * worth its code. */
#ifndef NC_OPS_WIDEN_H
#define NC_OPS_WIDEN_H

#include "ops/binding.h"

#define NC_WIDEN_HALF (NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
#define NC_WIDEN_INTS \
    (NC_BIT(NC_INT8) | NC_BIT(NC_UINT8) | NC_BIT(NC_INT16) | NC_BIT(NC_UINT16) | NC_BIT(NC_BOOL) | NC_BIT(NC_UINT32))

typedef size_t (*nc_workspace_fn)(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);

/* `which`: the element types that are converted, of NC_WIDEN_*; operands of other types go to the kernel as they are,
 * and so do inputs whose bits are set in `left`, of which it reads no element. inner may be NULL: the kernel needs no
 * workspace. */
size_t nc_widen_workspace(nc_types which, uint32_t left, nc_workspace_fn inner, const void *state, const nc_tensor *in,
                          int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_widen_run(nc_types which, uint32_t left, nc_kernel inner, const nc_call *c);

/* Defines name_workspace and name_run, for a row of narrow types, over the kernel run_fn and its workspace function. */
#define NC_WIDENED(name, which, run_fn, workspace_fn)                                                      \
    static size_t name##_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, \
                                   int n_out) {                                                            \
        return nc_widen_workspace(which, 0, workspace_fn, state, in, n_in, out, n_out);                    \
    }                                                                                                      \
    static nc_code name##_run(const nc_call *c) { return nc_widen_run(which, 0, run_fn, c); }
/* The usual case: name_half_workspace and name_half_run over name_run. */
#define NC_WIDENED_HALF(name, workspace_fn) NC_WIDENED(name##_half, NC_WIDEN_HALF, name##_run, workspace_fn)

#endif
