/* cpu/tile.c: runs a tile program: checks it, cuts the elements into chunks for the pool, and for each tile
 * loads the inputs, calls one lane function per operation and stores the outputs. Knows no formula and no vector
 * instruction.
 *
 * The dims of all operands are merged where they step alike; what remains is rows of `inner` elements. A tile is a
 * run of elements in row-major order. Where rows are long a tile is a part of one or some whole ones, so that a dense
 * operand, a bias along the row or a value for the whole row needs no copy or one splat a row; where they are short it
 * spans several, and each piece is gathered. */
#include "kernels/cpu/tile.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/tile_table.h"

#include <stddef.h>
#include <string.h>

#define TILE_BYTES 2048  /* of one register at most: 512 floats or 256 of the wide types */
#define FILE_BYTES 12288 /* of all registers: it lies on the stack, which may be small; many registers are shorter */
#define CHUNK 16384      /* elements of one work item, */
#define LEAST_CHUNK 2048 /* and of the smallest, where there are many threads */
#define LONG_ROW 64      /* elements from which a tile ends with its row */
#define LEAST_TILE 128   /* elements of tiles that end where something repeated does */
#define NEAR 8192        /* elements of rows that stay in the first cache until they are used */

typedef struct operand {
    char *base;
    const int64_t *strides; /* of the merged dims */
    size_t bytes;           /* of one stored element */
    bool same;              /* stored in the compute type */
    bool flat;              /* dense over all merged dims */
    bool splat;             /* one element for all: its register is filled once per chunk */
    bool again;             /* rows of the last dim but one are the same dense row */
    bool copy;              /* must not be read in place */
    nck_tile_load_fn load;
    nck_tile_store_fn store;
    nck_tile_dense_fn load_dense, store_dense; /* NULL: the above have to do */
} operand;

typedef struct tile_job {
    const nck_tile_prog *p;
    const nck_lane_fn *lanes;
    int rank;
    int64_t dims[NC_MAX_RANK];
    int64_t numel, inner, tile;
    int64_t rows;  /* long ones that a tile may hold */
    int64_t chunk; /* elements of an item */
    int64_t block; /* elements for which an operand repeats a short row: tiles end with it; 0: none does, or for few */
    bool whole;    /* one operation, all operands in place: a tile may be a chunk */
    size_t bytes;  /* of one element of the compute type */
    size_t register_bytes;
    operand in[NCK_TILE_MAX_REG], out[NCK_TILE_MAX_OUT];
    int64_t strides[NCK_TILE_MAX_REG + NCK_TILE_MAX_OUT][NC_MAX_RANK]; /* of the inputs, then of the outputs */
} tile_job;

/* Where a tile begins: the column, the row's coordinates, and the same as one number. */
typedef struct place {
    int64_t column, element;
    int64_t at[NC_MAX_RANK]; /* as many as there are merged dims, less one */
} place;

typedef struct registers {
    _Alignas(64) char file[FILE_BYTES];
    char *to; /* where the one output goes, side by side from the element `first` on; NULL: to the job's tensors */
    int64_t first;
    char *tile[NCK_TILE_MAX_REG];
    const void *now[NCK_TILE_MAX_REG]; /* where the register's value is: its tile, or memory of an input */
    struct {
        const char *row; /* whose repetition the register holds from its first element on; NULL: no row's */
        int64_t n;       /* elements */
    } held[NCK_TILE_MAX_REG];
} registers;

/* Whole vectors of the widest type for each of n registers. */
static size_t register_bytes(int n) {
    size_t step = NCK_TILE_PAD * sizeof(double), share = FILE_BYTES / (size_t)(n > 0 ? n : 1) / step * step;
    return share < TILE_BYTES ? share : TILE_BYTES;
}
_Static_assert(FILE_BYTES / NCK_TILE_MAX_REG >= NCK_TILE_PAD * sizeof(double), "a register holds a vector at least");

nc_dtype nck_tile_compute(nc_dtype storage) {
    switch (storage) {
    case NC_FLOAT16:
    case NC_BFLOAT16:
    case NC_FLOAT: return NC_FLOAT;
    case NC_DOUBLE: return NC_DOUBLE;
    case NC_UINT64: return NC_UINT64;
    case NC_BOOL:
    case NC_INT8:
    case NC_INT16:
    case NC_INT32:
    case NC_INT64:
    case NC_UINT8:
    case NC_UINT16:
    case NC_UINT32: return NC_INT64;
    default: return NC_UNDEFINED;
    }
}

const nck_lane_fn *nck_tile_lanes(nc_dtype compute) {
    const nck_tile_table *table = nck_isa_get()->tile;
    const nck_lane_fn *i64 = nck_isa_get()->whole->i64;
    return compute == NC_FLOAT    ? table->f32
           : compute == NC_DOUBLE ? table->f64
           : compute == NC_INT64  ? (i64 != NULL ? i64 : nck_tile_int64)
                                  : nck_tile_uint64;
}

bool nck_tile_check(const nck_tile_prog *p) {
    bool floats = p->compute == NC_FLOAT || p->compute == NC_DOUBLE;
    if (!floats && p->compute != NC_INT64 && p->compute != NC_UINT64) return false;
    if (p->n_in < 0 || p->n_reg < p->n_in || p->n_reg > NCK_TILE_MAX_REG || p->n_op < 0) return false;
    if (p->n_out < 1 || p->n_out > NCK_TILE_MAX_OUT) return false;
    bool written[NCK_TILE_MAX_REG] = {false};
    for (int i = 0; i < p->n_in; i++) written[i] = true;
    for (int i = 0; i < p->n_op; i++) {
        const nck_tile_op *op = &p->op[i];
        const nck_lane_info *lane = nck_lane_get(op->lane);
        if (lane == NULL || op->dst >= p->n_reg) return false;
        if (lane->kinds == (floats ? 'I' : 'F')) return false;
        for (int k = 0; k < lane->n_in; k++)
            if (op->src[k] >= p->n_reg || !written[op->src[k]]) return false;
        written[op->dst] = true;
    }
    for (int i = 0; i < p->n_out; i++)
        if (p->out_reg[i] >= p->n_reg || !written[p->out_reg[i]]) return false;
    return true;
}

static bool is_flat(const int64_t *strides, int rank, const int64_t *dims) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; step *= dims[i--])
        if (strides[i] != step) return false;
    return true;
}

static bool is_splat(const int64_t *strides, int rank) {
    for (int i = 0; i < rank; i++)
        if (strides[i] != 0) return false;
    return true;
}

static bool is_written(const nck_tile_prog *p, int reg) {
    for (int i = 0; i < p->n_op; i++)
        if (p->op[i].dst == reg) return true;
    return false;
}

static void operand_init(operand *o, const tile_job *j, const nc_tensor *t, const int64_t *strides) {
    *o = (operand){.base = t->data, .strides = strides, .bytes = nc_dtype_bytes(t->dtype)};
    o->same = t->dtype == j->p->compute;
    o->flat = is_flat(strides, j->rank, j->dims);
    o->splat = is_splat(strides, j->rank);
    o->again =
        o->same && j->rank > 1 && j->inner * 2 <= j->tile && strides[j->rank - 1] == 1 && strides[j->rank - 2] == 0;
    o->load = nck_tile_load_get(j->p->compute, t->dtype);
    o->store = nck_tile_store_get(j->p->compute, t->dtype);
    o->load_dense = o->same ? NULL : nck_tile_dense_get(t->dtype, j->p->compute);
    o->store_dense = o->same ? NULL : nck_tile_dense_get(j->p->compute, t->dtype);
}

/* Does it cost nothing more that a tile holds several of its rows? */
static bool rows_join(const tile_job *j, const operand *o) {
    return o->flat || o->splat || o->again || o->strides[j->rank - 1] == 0;
}

static int64_t rows_of_tile(const tile_job *j) {
    int64_t rows = j->tile / j->inner;
    for (int i = 0; i < j->p->n_in; i++)
        if (!rows_join(j, &j->in[i])) return 1;
    for (int i = 0; i < j->p->n_out; i++)
        if (!rows_join(j, &j->out[i])) return 1;
    while (rows > 1 && rows * j->inner % NCK_TILE_PAD != 0) rows--;
    return nc_max64(rows, 1);
}

static int64_t repeated(const tile_job *j) {
    int64_t n = j->rank > 1 && j->inner < LONG_ROW ? j->dims[j->rank - 2] * j->inner : 0;
    bool again = false;
    for (int i = 0; i < j->p->n_in; i++) again |= j->in[i].again;
    return again && n >= LEAST_TILE ? n : 0;
}

/* Does the program need no register, where a tile is whole vectors? */
static bool is_whole(const tile_job *j) {
    bool whole = j->rank == 1 && j->p->n_op == 1 && j->p->n_out == 1 && j->p->op->dst == j->p->out_reg[0];
    whole &= j->out[0].same && j->out[0].flat && !j->out[0].splat;
    for (int i = 0; i < j->p->n_in; i++) whole &= j->in[i].same && j->in[i].flat && !j->in[i].splat && !j->in[i].copy;
    return whole;
}

static void job_init(tile_job *j, const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out) {
    int64_t(*strides)[NC_MAX_RANK] = j->strides;
    j->p = p;
    j->lanes = nck_tile_lanes(p->compute);
    j->bytes = nc_dtype_bytes(p->compute);
    j->register_bytes = register_bytes(p->n_reg);
    j->tile = (int64_t)(j->register_bytes / j->bytes);
    memcpy(j->dims, out[0]->dims, (size_t)out[0]->rank * sizeof *j->dims);
    for (int i = 0; i < p->n_in; i++) nc_broadcast_strides(in[i], out[0]->rank, out[0]->dims, strides[i]);
    for (int i = 0; i < p->n_out; i++) nc_broadcast_strides(out[i], out[0]->rank, out[0]->dims, strides[p->n_in + i]);
    j->rank = nc_coalesce(out[0]->rank, j->dims, p->n_in + p->n_out, strides);
    j->inner = j->dims[j->rank - 1];
    j->numel = nc_tensor_numel(out[0]);
    for (int i = 0; i < p->n_in; i++) {
        operand_init(&j->in[i], j, in[i], strides[i]);
        if (is_written(p, i)) j->in[i].splat = j->in[i].again = false;
    }
    for (int i = 0; i < p->n_out; i++) {
        operand_init(&j->out[i], j, out[i], strides[p->n_in + i]);
        /* An input that is also an output must be read before another output is stored over it. */
        if (p->n_out > 1 && p->out_reg[i] < p->n_in) j->in[p->out_reg[i]].copy = true;
    }
    j->rows = rows_of_tile(j);
    j->block = repeated(j);
    j->whole = is_whole(j);
}

/* The first element, n times. */
static void tile_fill(char *dst, size_t bytes, int64_t n) {
    enum { LINE = 64 };
    uint64_t x = 0, line[LINE / 8];
    int64_t i = 0, end = n * (int64_t)bytes;
    memcpy(&x, dst, bytes);
    if (bytes == 4) x |= x << 32;
    for (int k = 0; k < LINE / 8; k++) line[k] = x;
    for (; i + LINE <= end; i += LINE) memcpy(dst + i, line, LINE);
    for (; i < end; i += (int64_t)bytes) memcpy(dst + i, &x, bytes);
}

static void load_run(const tile_job *j, const operand *o, char *dst, const char *src, int64_t n) {
    int64_t stride = o->strides[j->rank - 1];
    if (stride == 0) {
        o->load(dst, src, 0, 1);
        tile_fill(dst, j->bytes, n);
    } else if (stride == 1 && o->same) {
        memcpy(dst, src, (size_t)n * o->bytes);
    } else if (stride == 1 && o->load_dense != NULL) {
        o->load_dense(dst, src, n);
    } else {
        o->load(dst, src, stride, n);
    }
}

/* memmove: a program without operations may store an input over itself. */
static void store_run(const tile_job *j, const operand *o, char *dst, const char *src, int64_t n) {
    int64_t stride = o->strides[j->rank - 1];
    if (stride == 1 && o->same)
        memmove(dst, src, (size_t)n * o->bytes);
    else if (stride == 1 && o->store_dense != NULL)
        o->store_dense(dst, src, n);
    else
        o->store(dst, stride, src, n);
}

static char *tile_address(const tile_job *j, const operand *o, const place *w) {
    int64_t at = w->column * o->strides[j->rank - 1];
    for (int i = 0; i < j->rank - 1; i++) at += w->at[i] * o->strides[i];
    return o->base + at * (int64_t)o->bytes;
}

static void place_copy(const tile_job *j, place *to, const place *from) {
    to->column = from->column;
    for (int i = 0; i < j->rank - 1; i++) to->at[i] = from->at[i];
}

static void next_row(const tile_job *j, place *w) {
    w->column = 0;
    for (int i = j->rank - 2; i >= 0; i--) {
        if (++w->at[i] < j->dims[i]) return;
        w->at[i] = 0;
    }
}

/* Memory where the n elements from w on lie side by side in the compute type, as lane functions need them; else NULL.
 */
static char *in_place(const tile_job *j, const operand *o, const place *w, int64_t n) {
    if (!o->same || o->copy || n % NCK_TILE_PAD != 0) return NULL;
    if (o->flat) return o->base + w->element * (int64_t)o->bytes;
    return o->strides[j->rank - 1] == 1 && w->column + n <= j->inner ? tile_address(j, o, w) : NULL;
}

static void load_tile(const tile_job *j, const operand *o, char *dst, const place *from, int64_t n) {
    place w;
    place_copy(j, &w, from);
    for (int64_t done = 0; done < n; next_row(j, &w)) {
        int64_t left = j->inner - w.column, run = left < n - done ? left : n - done;
        load_run(j, o, dst + done * (int64_t)j->bytes, tile_address(j, o, &w), run);
        done += run;
    }
    int64_t pad = -n & (NCK_TILE_PAD - 1);
    memset(dst + n * (int64_t)j->bytes, 0, (size_t)pad * j->bytes);
}

/* n elements from the beginning of a row on, all of them repetitions of it; several tiles of them are filled once. */
static bool load_again(const tile_job *j, registers *r, int i, const place *w, int64_t n) {
    const operand *o = &j->in[i];
    if (!o->again || w->column != 0 || n > (j->dims[j->rank - 2] - w->at[j->rank - 2]) * j->inner) return false;
    const char *row = tile_address(j, o, w);
    if (r->held[i].row == row && r->held[i].n >= n) return true;
    size_t bytes = (size_t)n * o->bytes, done = (size_t)nc_min64(n, j->inner) * o->bytes;
    memcpy(r->tile[i], row, done);
    for (size_t more; done < bytes; done += more) {
        more = bytes - done < done ? bytes - done : done;
        memcpy(r->tile[i] + done, r->tile[i], more);
    }
    memset(r->tile[i] + bytes, 0, (size_t)(-n & (NCK_TILE_PAD - 1)) * o->bytes);
    r->held[i].row = row;
    r->held[i].n = n;
    return true;
}

static void store_tile(const tile_job *j, const operand *o, const char *src, const place *from, int64_t n) {
    place w;
    place_copy(j, &w, from);
    for (int64_t done = 0; done < n; next_row(j, &w)) {
        int64_t left = j->inner - w.column, run = left < n - done ? left : n - done;
        store_run(j, o, tile_address(j, o, &w), src + done * (int64_t)j->bytes, run);
        done += run;
    }
}

/* The last operation writes to `direct` when that is not NULL. */
static void run_ops(const tile_job *j, registers *r, char *direct, int64_t n) {
    int64_t padded = (n + NCK_TILE_PAD - 1) & ~(int64_t)(NCK_TILE_PAD - 1);
    for (int i = 0; i < j->p->n_op; i++) {
        const nck_tile_op *op = &j->p->op[i];
        int n_src = nck_lane_get(op->lane)->n_in;
        const void *src[3];
        for (int k = 0; k < 3; k++) src[k] = r->now[op->src[k < n_src ? k : 0]];
        char *dst = direct != NULL && i == j->p->n_op - 1 ? direct : r->tile[op->dst];
        j->lanes[op->lane](padded, dst, src, op->param);
        r->now[op->dst] = dst;
    }
}

static void tile_run_tile(const tile_job *j, registers *r, const place *w, int64_t n) {
    const nck_tile_prog *p = j->p;
    for (int i = 0; i < p->n_in; i++) {
        if (j->in[i].splat) continue;
        char *there = in_place(j, &j->in[i], w, n);
        if (there == NULL && !load_again(j, r, i, w, n)) {
            load_tile(j, &j->in[i], r->tile[i], w, n);
            r->held[i].row = NULL;
        }
        r->now[i] = there != NULL ? there : r->tile[i];
    }
    char *to = r->to != NULL ? r->to + (w->element - r->first) * (int64_t)j->bytes : NULL, *direct = NULL;
    if (p->n_out == 1 && p->n_op > 0 && p->op[p->n_op - 1].dst == p->out_reg[0])
        direct = to == NULL ? in_place(j, &j->out[0], w, n) : n % NCK_TILE_PAD == 0 ? to : NULL;
    run_ops(j, r, direct, n);
    if (direct != NULL) return;
    if (to != NULL) memcpy(to, r->now[p->out_reg[0]], (size_t)n * j->bytes);
    for (int i = 0; to == NULL && i < p->n_out; i++) store_tile(j, &j->out[i], r->now[p->out_reg[i]], w, n);
}

static void tile_place_of(const tile_job *j, int64_t element, place *w) {
    w->element = element;
    w->column = element % j->inner;
    int64_t row = element / j->inner;
    for (int i = j->rank - 2; i >= 0; i--) {
        w->at[i] = row % j->dims[i];
        row /= j->dims[i];
    }
}

/* n elements on. A division takes as long as some vectors: one where rows are short, none where they are long. */
static void tile_place_next(const tile_job *j, place *w, int64_t n) {
    w->element += n;
    n += w->column;
    int64_t rows = j->inner < LONG_ROW ? n / j->inner : 0;
    w->column = n - rows * j->inner;
    for (int i = j->rank - 2; i >= 0 && rows > 0; i--) {
        w->at[i] += rows;
        rows = w->at[i] < j->dims[i] ? 0 : w->at[i] / j->dims[i];
        w->at[i] -= rows * j->dims[i];
    }
    if (j->inner < LONG_ROW) return;
    for (n = w->column; n >= j->inner; n -= j->inner) next_row(j, w);
    w->column = n;
}

/* Elements [at, end); to: see registers. */
__attribute__((noinline)) static void tile_run_range(const tile_job *j, int64_t at, int64_t end, void *to) {
    registers r;
    r.to = to, r.first = at;
    for (int i = 0; i < j->p->n_reg; i++) r.tile[i] = r.file + (size_t)i * j->register_bytes;
    for (int i = 0; i < j->p->n_in; i++) {
        r.held[i].row = NULL;
        if (!j->in[i].splat) continue;
        j->in[i].load(r.tile[i], j->in[i].base, 0, 1);
        tile_fill(r.tile[i], j->bytes, j->tile);
        r.now[i] = r.tile[i];
    }
    place w;
    for (tile_place_of(j, at, &w); at < end;) {
        int64_t left = end - at, vectors = left / NCK_TILE_PAD * NCK_TILE_PAD;
        int64_t n = j->whole && vectors > 0 ? vectors : nc_min64(left, j->tile);
        if (j->block > 0) n = nc_min64(n, j->block - w.at[j->rank - 2] * j->inner - w.column);
        if (j->inner >= LONG_ROW) n = nc_min64(n, (w.column == 0 ? j->rows : 1) * j->inner - w.column);
        tile_run_tile(j, &r, &w, n);
        at += n;
        tile_place_next(j, &w, n);
    }
}

static void tile_run_chunk(void *ctx, int64_t i_chunk) {
    const tile_job *j = ctx;
    tile_run_range(j, i_chunk * j->chunk, nc_min64(j->numel, (i_chunk + 1) * j->chunk), NULL);
}

void nck_tile_run(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out, nc_pool *pool) {
    tile_job j;
    int64_t numel = nc_tensor_numel(out[0]);
    if (numel == 0 || nck_tile_run_small(p, in, out, numel) || nck_tile_run_own(p, in, out, numel, pool)) return;
    job_init(&j, p, in, out);
    pool = nc_pool_for(pool, j.numel);
    j.chunk = nc_round_up(nc_pool_item(pool, j.numel, LEAST_CHUNK, CHUNK), LEAST_TILE);
    nc_parallel(pool, nc_ceil_div(j.numel, j.chunk), tile_run_chunk, &j);
}

/* ---- rows ---- */

typedef struct rows_job {
    tile_job *tiles;
    const nck_tile_rows *r;
    int64_t parts, at_once; /* of a row; rows of an item, where a row is one part */
} rows_job;

int64_t nck_tile_parts(const nck_tile_rows *r) { return r->y == NULL ? nc_ceil_div(r->cols, NCK_TILE_PIECE) : 1; }

static void tile_rows_item(void *ctx, int64_t item) {
    const rows_job *j = ctx;
    const nck_tile_rows *r = j->r;
    int64_t row = j->parts > 1 ? item / j->parts : item * j->at_once, part = item % j->parts;
    int64_t at = row * r->cols + part * NCK_TILE_PIECE;
    int64_t end = j->parts > 1 ? nc_min64(at + NCK_TILE_PIECE, (row + 1) * r->cols)
                               : nc_min64(row + j->at_once, r->rows) * r->cols;
    float room[NCK_TILE_PIECE], *x = r->y != NULL ? r->y + at : room;
    tile_run_range(j->tiles, at, end, x);
    r->then(r, row, part, x, end - at);
}

/* Few elements, all of them at once; false: they are not. */
__attribute__((noinline)) static bool tile_rows_small(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *shape,
                                                      const nck_tile_rows *r) {
    float room[NCK_TILE_PIECE];
    int64_t n = r->rows * r->cols;
    shape->data = r->y != NULL ? r->y : room;
    if (n > NCK_TILE_PIECE || !nck_tile_run_small(p, in, &shape, n)) return false;
    r->then(r, 0, 0, shape->data, n);
    return true;
}

void nck_tile_run_rows(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *shape, const nck_tile_rows *r,
                       nc_pool *pool) {
    tile_job tiles;
    rows_job j = {.tiles = &tiles, .r = r, .parts = nck_tile_parts(r)};
    if (r->rows == 0 || r->cols == 0 || tile_rows_small(p, in, shape, r)) return;
    j.at_once = nc_max64(1, (r->y != NULL ? NEAR : NCK_TILE_PIECE) / r->cols);
    job_init(&tiles, p, in, &shape);
    nc_parallel(nc_pool_for(pool, r->rows * r->cols), j.parts > 1 ? r->rows * j.parts : nc_ceil_div(r->rows, j.at_once),
                tile_rows_item, &j);
}
