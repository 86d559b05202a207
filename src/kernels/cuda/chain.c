/* cuda/chain.c: writes the CUDA source of a tile program and launches it, see chain.h. The loop stands in chain.cu;
 * here come the types, the argument struct and one line per operation, each the same LANE_ formula that the CPU
 * compiles. */
#include "kernels/cuda/chain.h"

#include <string.h>

enum { THREADS = 256 };

/* Values in registers of one thread stay near 64. */
static int unroll_of(const nck_tile_prog *p) { return p->n_reg <= 8 ? 4 : p->n_reg <= 16 ? 2 : 1; }

static void add_head(nc_text *out, const nck_tile_prog *p, int max_rank) {
    bool floats = p->compute == NC_FLOAT || p->compute == NC_DOUBLE;
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_common));
    nc_text_addf(out, "#define L_T %s\n", nck_cuda_type_name(p->compute));
    nc_text_add(out, nck_cuda_text_get(floats ? NCK_CUDA_TEXT_vocab : NCK_CUDA_TEXT_vocab_int));
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_arith));
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_activation));
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_compare));
    nc_text_addf(out, "#define N_REG %d\n#define N_ARGS %d\n#define RANK %d\n#define UNROLL %d\n", p->n_reg,
                 p->n_in + p->n_out, max_rank, unroll_of(p));
    nc_text_add(out, "struct chain_args {\n    int64_t n, rank, dims[RANK];\n    char *data[N_ARGS];\n"
                     "    int64_t strides[N_ARGS][RANK];\n};\n");
}

static void add_loads(nc_text *out, const nck_tile_prog *p, const nc_dtype *types) {
    nc_text_add(out, "DEVICE void load(const chain_args &c, const int64_t (&at)[N_ARGS], L_T (&r)[N_REG]) {\n");
    for (int i = 0; i < p->n_in; i++)
        nc_text_addf(out, "    r[%d] = to<L_T>::put(get(((const %s *)c.data[%d])[at[%d]]));\n", i,
                     nck_cuda_type_name(types[i]), i, i);
    nc_text_add(out, "}\n");
}

static void add_stores(nc_text *out, const nck_tile_prog *p, const nc_dtype *types) {
    nc_text_add(out, "DEVICE void store(const chain_args &c, const int64_t (&at)[N_ARGS], const L_T (&r)[N_REG]) {\n");
    for (int i = 0; i < p->n_out; i++) {
        int k = p->n_in + i;
        const char *type = nck_cuda_type_name(types[k]);
        nc_text_addf(out, "    ((%s *)c.data[%d])[at[%d]] = to<%s>::put(r[%d]);\n", type, k, k, type, p->out_reg[i]);
    }
    nc_text_add(out, "}\n");
}

/* The unary lane whose derivative times dy this lane is; -1: none. */
static int forward_of(int lane) {
    for (int i = 0; i < NCK_N_LANES; i++)
        if (nck_lane_get(i)->grad == lane) return i;
    return -1;
}

/* The bits, since a parameter may be infinite. */
static void add_param(nc_text *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    nc_text_addf(out, ", L_K(__longlong_as_double(0x%llxll))", (unsigned long long)bits);
}

static void add_op(nc_text *out, const nck_tile_op *op) {
    int forward = forward_of(op->lane);
    const nck_lane_info *lane = nck_lane_get(forward >= 0 ? forward : op->lane);
    nc_text_addf(out, "    r[%d] = ", op->dst);
    if (forward >= 0)
        nc_text_addf(out, "L_MUL(r[%d], LANE_%s_D(r[%d]", op->src[0], lane->name, op->src[1]);
    else
        nc_text_addf(out, "LANE_%s(r[%d]", lane->name, op->src[0]);
    for (int i = 1; forward < 0 && i < lane->n_in; i++) nc_text_addf(out, ", r[%d]", op->src[i]);
    for (int i = 0; i < lane->n_param; i++) add_param(out, op->param[i]);
    nc_text_add(out, forward >= 0 ? "));\n" : ");\n");
}

static int words_of(int n_args, int max_rank) { return 2 + max_rank + n_args * (1 + max_rank); }

bool nck_cuda_chain_holds(int n_args, int max_rank) {
    return n_args <= NCK_CUDA_CHAIN_MAX_ARGS && words_of(n_args, max_rank) <= NCK_CUDA_CHAIN_WORDS;
}

bool nck_cuda_chain_source(nc_text *out, const nck_tile_prog *p, const nc_dtype *types, int max_rank) {
    if (!nck_cuda_chain_holds(p->n_in + p->n_out, max_rank)) return false;
    for (int i = 0; i < p->n_in + p->n_out; i++)
        if (nck_cuda_type_name(types[i]) == NULL) return false;
    add_head(out, p, max_rank);
    add_loads(out, p, types);
    nc_text_add(out, "DEVICE void compute(L_T (&r)[N_REG]) {\n");
    for (int i = 0; i < p->n_op; i++) add_op(out, &p->op[i]);
    nc_text_add(out, "}\n");
    add_stores(out, p, types);
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_chain));
    return true;
}

nc_code nck_cuda_chain_prepare(nc_device *d, const nck_tile_prog *p, const nc_dtype *types, int max_rank,
                               nck_cuda_chain *out, nc_diag *diag) {
    if (d == NULL || d->table->compile == NULL)
        return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "a generated kernel needs a device with a compiler");
    nc_text source = {0};
    bool known = nck_cuda_chain_source(&source, p, types, max_rank);
    *out = (nck_cuda_chain){.n_in = p->n_in, .n_out = p->n_out, .max_rank = max_rank, .unroll = unroll_of(p)};
    nc_code code;
    if (!known)
        code = nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL,
                           "an element type that GPU kernels cannot hold, or too many operands and dims");
    else if (source.failed)
        code = nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory");
    else
        code = d->table->compile(d, source.s, NCK_CUDA_CHAIN_ENTRY, &out->f, diag);
    nc_text_release(&source);
    return code;
}

nc_code nck_cuda_chain_run(const nck_cuda_chain *k, nck_cuda_at at, nc_tensor *const *in, nc_tensor *const *out) {
    int64_t dims[NC_MAX_RANK], strides[NCK_CUDA_CHAIN_MAX_ARGS][NC_MAX_RANK];
    int64_t packed[NCK_CUDA_CHAIN_WORDS];
    int n_args = k->n_in + k->n_out, R = k->max_rank;
    size_t bytes = (size_t)out[0]->rank * sizeof *dims;
    memcpy(dims, out[0]->dims, bytes);
    for (int i = 0; i < k->n_in; i++) nc_broadcast_strides(in[i], out[0]->rank, dims, strides[i]);
    for (int i = 0; i < k->n_out; i++) memcpy(strides[k->n_in + i], out[i]->strides, bytes);
    int rank = nc_coalesce(out[0]->rank, dims, n_args, strides);
    if (rank > R) return nc_diag_set(at.diag, NC_E_SHAPE, NULL, NULL, "a chain planned for %d dims got %d", R, rank);
    int64_t n = nc_tensor_numel(out[0]), *to = packed;
    *to++ = n;
    *to++ = rank;
    for (int d = 0; d < R; d++) *to++ = d < rank ? dims[d] : 1;
    for (int i = 0; i < n_args; i++) *to++ = (int64_t)(intptr_t)(i < k->n_in ? in[i]->data : out[i - k->n_in]->data);
    for (int i = 0; i < n_args; i++)
        for (int d = 0; d < R; d++) *to++ = d < rank ? strides[i][d] : 0;
    void *args[] = {packed};
    return nck_cuda_launch(at, k->f, nck_cuda_blocks(at.device, n, (int64_t)THREADS * k->unroll), THREADS, args);
}
