/* cuda/chain.c: writes the CUDA source of a tile program and launches it, see chain.h. The loop stands in chain.cu;
 * here come the types, the argument struct and one line per operation, each the same LANE_ formula that the CPU
 * compiles. */
#include "kernels/cuda/chain.h"

#include <string.h>

enum { THREADS = 256, VECTOR_BYTES = 16 };

/* Elements of one access: 16 bytes of the largest type. */
static int vector_of(const nc_dtype *types, int n) {
    size_t most = 1;
    for (int i = 0; i < n; i++) most = nc_dtype_bytes(types[i]) > most ? nc_dtype_bytes(types[i]) : most;
    return (int)(VECTOR_BYTES / most);
}

/* Vectors that a thread loads at once: few operands leave registers for more. Formulas of floats alone (exp, GELU) are
 * bound by arithmetic, and lose by it. */
static int ahead_of(const nck_tile_prog *p) {
    for (int i = 0; i < p->n_op; i++)
        if (nck_lane_get(p->op[i].lane)->kinds == 'F') return 1;
    return p->n_in <= 1 ? 4 : p->n_in <= 4 ? 2 : 1;
}

/* Values in registers of one thread stay near 64. */
static int unroll_of(const nck_tile_prog *p) { return p->n_reg <= 8 ? 4 : p->n_reg <= 16 ? 2 : 1; }

static void add_vocabulary(nc_text *out, const nck_tile_prog *p) {
    bool floats = p->compute == NC_FLOAT || p->compute == NC_DOUBLE;
    nc_text_addf(out, "#define L_T %s\n#define N_REG %d\n", nck_cuda_type_name(p->compute), p->n_reg);
    nc_text_add(out, nck_cuda_text_get(floats ? NCK_CUDA_TEXT_vocab : NCK_CUDA_TEXT_vocab_int));
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_arith));
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_activation));
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_compare));
}

/* All that is read and written is of half types. */
static bool is_narrow(const nc_dtype *types, int n) {
    for (int i = 0; i < n; i++)
        if (types[i] != NC_FLOAT16 && types[i] != NC_BFLOAT16) return false;
    return true;
}

static void add_head(nc_text *out, const nck_tile_prog *p, const nc_dtype *types, int max_rank, int vector) {
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_common));
    if (is_narrow(types, p->n_in + p->n_out)) nc_text_add(out, "#define NARROW 1\n");
    add_vocabulary(out, p);
    nc_text_addf(out, "#define N_ARGS %d\n#define RANK %d\n#define UNROLL %d\n#define V %d\n", p->n_in + p->n_out,
                 max_rank, unroll_of(p), vector);
    nc_text_addf(out, "#define AHEAD %d\n", ahead_of(p));
    nc_text_add(out, "struct chain_args {\n    int64_t n, rank, tail, spread, dims[RANK];\n    char *data[N_ARGS];\n"
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

/* The operands from..to-1 as members of a struct, a vector each. */
static void add_struct(nc_text *out, const char *name, const nc_dtype *types, int from, int to) {
    nc_text_addf(out, "struct %s {\n", name);
    for (int i = from; i < to; i++) nc_text_addf(out, "    vec<%s, V> a%d;\n", nck_cuda_type_name(types[i]), i);
    nc_text_add(out, "};\n");
}

static void add_vector_loads(nc_text *out, const nck_tile_prog *p, const nc_dtype *types) {
    add_struct(out, "chain_in", types, 0, p->n_in);
    nc_text_add(out, "DEVICE void load_vectors(const chain_args &c, const int64_t (&at)[N_ARGS], chain_in &x) {\n");
    for (int i = 0; i < p->n_in; i++)
        nc_text_addf(out,
                     "    const %s *p%d = (const %s *)c.data[%d] + at[%d];\n"
                     "    x.a%d = c.spread >> %d & 1 ? vec_of<V>(*p%d) : vec_at<V>(p%d);\n",
                     nck_cuda_type_name(types[i]), i, nck_cuda_type_name(types[i]), i, i, i, i, i, i);
    nc_text_add(out, "}\nDEVICE void pick(const chain_in &x, int e, L_T (&r)[N_REG]) {\n");
    for (int i = 0; i < p->n_in; i++) nc_text_addf(out, "    r[%d] = to<L_T>::put(get(x.a%d.e[e]));\n", i, i);
    nc_text_add(out, "}\n");
}

static void add_vector_stores(nc_text *out, const nck_tile_prog *p, const nc_dtype *types) {
    add_struct(out, "chain_out", types, p->n_in, p->n_in + p->n_out);
    nc_text_add(out, "DEVICE void keep(const L_T (&r)[N_REG], int e, chain_out &y) {\n");
    for (int i = 0; i < p->n_out; i++)
        nc_text_addf(out, "    y.a%d.e[e] = to<%s>::put(r[%d]);\n", p->n_in + i, nck_cuda_type_name(types[p->n_in + i]),
                     p->out_reg[i]);
    nc_text_add(out, "}\nDEVICE void store_vectors(const chain_args &c, const int64_t (&at)[N_ARGS], "
                     "const chain_out &y) {\n");
    for (int i = p->n_in; i < p->n_in + p->n_out; i++)
        nc_text_addf(out, "    *(vec<%s, V> *)((%s *)c.data[%d] + at[%d]) = y.a%d;\n", nck_cuda_type_name(types[i]),
                     nck_cuda_type_name(types[i]), i, i, i);
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

static void add_compute(nc_text *out, const nck_tile_prog *p) {
    nc_text_add(out, "DEVICE void compute(L_T (&r)[N_REG]) {\n");
    for (int i = 0; i < p->n_op; i++) add_op(out, &p->op[i]);
    nc_text_add(out, "}\n");
}

void nck_cuda_chain_formula(nc_text *out, const nck_tile_prog *p) {
    add_vocabulary(out, p);
    nc_text_addf(out, "#define OUT_REG %d\n", p->out_reg[0]);
    add_compute(out, p);
}

static int words_of(int n_args, int max_rank) { return 4 + max_rank + n_args * (1 + max_rank); }

bool nck_cuda_chain_holds(int n_args, int max_rank) {
    return n_args <= NCK_CUDA_CHAIN_MAX_ARGS && words_of(n_args, max_rank) <= NCK_CUDA_CHAIN_WORDS;
}

bool nck_cuda_chain_source(nc_text *out, const nck_tile_prog *p, const nc_dtype *types, int max_rank) {
    if (!nck_cuda_chain_holds(p->n_in + p->n_out, max_rank)) return false;
    for (int i = 0; i < p->n_in + p->n_out; i++)
        if (nck_cuda_type_name(types[i]) == NULL) return false;
    add_head(out, p, types, max_rank, vector_of(types, p->n_in + p->n_out));
    add_loads(out, p, types);
    add_compute(out, p);
    add_stores(out, p, types);
    add_vector_loads(out, p, types);
    add_vector_stores(out, p, types);
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_chain));
    return true;
}

static nc_code find_entries(nc_device *d, const char *source, nck_cuda_chain *out, nc_diag *diag) {
    NC_TRY(d->table->compile(d, source, "chain", &out->f, diag));
    return d->table->compile(d, source, "chain_vectors", &out->vectors, diag);
}

nc_code nck_cuda_chain_prepare(nc_device *d, const nck_tile_prog *p, const nc_dtype *types, int max_rank,
                               nck_cuda_chain *out, nc_diag *diag) {
    if (d == NULL || d->table->compile == NULL)
        return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "a generated kernel needs a device with a compiler");
    nc_text source = {0};
    bool known = nck_cuda_chain_source(&source, p, types, max_rank);
    *out = (nck_cuda_chain){.n_in = p->n_in, .n_out = p->n_out, .max_rank = max_rank, .unroll = unroll_of(p)};
    out->ahead = ahead_of(p);
    out->vector = vector_of(types, p->n_in + p->n_out);
    nc_code code;
    if (!known)
        code = nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL,
                           "an element type that GPU kernels cannot hold, or too many operands and dims");
    else if (source.failed)
        code = nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory");
    else
        code = find_entries(d, source.s, out, diag);
    nc_text_release(&source);
    return code;
}

/* One launch: the items, merged dims, and how each operand steps through them. Mirrors chain_args, but for its size. */
typedef struct chain_walk {
    int64_t n, tail, spread, dims[NC_MAX_RANK], strides[NCK_CUDA_CHAIN_MAX_ARGS][NC_MAX_RANK];
    int rank, n_args;
    const nc_tensor *operand[NCK_CUDA_CHAIN_MAX_ARGS];
} chain_walk;

static void describe(const nck_cuda_chain *k, nc_tensor *const *in, nc_tensor *const *out, chain_walk *w) {
    size_t bytes = (size_t)out[0]->rank * sizeof *w->dims;
    w->n_args = k->n_in + k->n_out;
    w->n = nc_tensor_numel(out[0]);
    w->tail = w->spread = 0;
    memcpy(w->dims, out[0]->dims, bytes);
    for (int i = 0; i < k->n_in; i++) {
        w->operand[i] = in[i];
        nc_broadcast_strides(in[i], out[0]->rank, w->dims, w->strides[i]);
    }
    for (int i = 0; i < k->n_out; i++) {
        w->operand[k->n_in + i] = out[i];
        memcpy(w->strides[k->n_in + i], out[i]->strides, bytes);
    }
    w->rank = nc_coalesce(out[0]->rank, w->dims, w->n_args, w->strides);
}

/* Operand i gives whole vectors of V, all aligned, or one element for each row. */
static bool is_vectored(const chain_walk *w, int i, int64_t V) {
    int last = w->rank - 1;
    if (w->strides[i][last] == 0) return true;
    if (w->strides[i][last] != 1 || (uintptr_t)w->operand[i]->data % (V * nc_dtype_bytes(w->operand[i]->dtype)) != 0)
        return false;
    for (int d = 0; d < last; d++)
        if (w->strides[i][d] % V != 0) return false;
    return true;
}

/* Vectors of V instead of elements; false: the operands do not lie so. */
static bool to_vectors(chain_walk *w, int64_t V) {
    int last = w->rank - 1;
    if (w->dims[last] < V || (last > 0 && w->dims[last] % V != 0)) return false;
    for (int i = 0; i < w->n_args; i++)
        if (!is_vectored(w, i, V)) return false;
    for (int i = 0; i < w->n_args; i++) {
        w->spread |= (int64_t)(w->strides[i][last] == 0) << i;
        w->strides[i][last] *= V;
    }
    w->tail = w->n % V;
    w->n /= V;
    w->dims[last] /= V;
    return true;
}

nc_code nck_cuda_chain_run(const nck_cuda_chain *k, nck_cuda_at at, nc_tensor *const *in, nc_tensor *const *out) {
    chain_walk w;
    int64_t packed[NCK_CUDA_CHAIN_WORDS], *to = packed;
    int R = k->max_rank;
    describe(k, in, out, &w);
    if (w.rank > R)
        return nc_diag_set(at.diag, NC_E_SHAPE, NULL, NULL, "a chain planned for %d dims got %d", R, w.rank);
    bool vectors = k->vector > 1 && to_vectors(&w, k->vector);
    *to++ = w.n;
    *to++ = w.rank;
    *to++ = w.tail;
    *to++ = w.spread;
    for (int d = 0; d < R; d++) *to++ = d < w.rank ? w.dims[d] : 1;
    for (int i = 0; i < w.n_args; i++) *to++ = (int64_t)(intptr_t)w.operand[i]->data;
    for (int i = 0; i < w.n_args; i++)
        for (int d = 0; d < R; d++) *to++ = d < w.rank ? w.strides[i][d] : 0;
    void *args[] = {packed};
    int64_t per_block = (int64_t)THREADS * (vectors ? k->ahead : k->unroll);
    return nck_cuda_launch(at, vectors ? k->vectors : k->f, nck_cuda_blocks(at.device, w.n, per_block), THREADS, args);
}
