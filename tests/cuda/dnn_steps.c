/* tests/cuda/dnn_steps.c: graphs of products, reductions, formulas and reshapes for the stand-in of cuDNN: operations
 * one after another in doubles, each result rounded to its tensor's type. What is virtual lies in a pool as its strides
 * say, so that a reshape is another look at the same elements. */
#include "tests/cuda/dnn.h"

enum { POOL = 1 << 23, MAX_INSIDE = 64 };

static bool read_formula(const descriptor *d, step *s) {
    const descriptor *how = part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    const int names[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                         CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    if (how == NULL || !how->ended) return false;
    s->mode = number(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE);
    s->axis = whole(how, CUDNN_ATTR_POINTWISE_AXIS, 0);
    bool unary = s->mode == CUDNN_POINTWISE_EXP || s->mode == CUDNN_POINTWISE_LOG ||
                 s->mode == CUDNN_POINTWISE_TANH_FWD || s->mode == CUDNN_POINTWISE_GEN_INDEX;
    int wanted = s->mode == CUDNN_POINTWISE_BINARY_SELECT ? 3 : unary ? 1 : 2;
    for (; s->n_in < 3 && part(d, names[s->n_in], 0) != NULL; s->n_in++)
        if (!read_tensor(part(d, names[s->n_in], 0), &s->in[s->n_in])) return false;
    return s->n_in == wanted && read_tensor(part(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0), &s->out);
}

/* Numbers of rows, columns or terms per batch. */
static bool read_sizes(const descriptor *d, step *s) {
    for (int i = 0; i < 3; i++) {
        const descriptor *size = part(d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC + i, 0);
        if (size == NULL) continue;
        tensor *t = &s->in[s->size_at[i] = s->n_in++];
        if (s->n_in > 5 || !read_tensor(size, t) || t->type != OF_INTS || t->dims[0] != s->out.dims[0]) return false;
    }
    return true;
}

static bool read_product(const descriptor *d, step *s) {
    const descriptor *how = part(d, CUDNN_ATTR_OPERATION_MATMUL_DESC, 0);
    s->n_in = 2;
    if (number(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE) != CUDNN_DATA_FLOAT) return false;
    if (!read_tensor(part(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, 0), &s->in[0])) return false;
    if (!read_tensor(part(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, 0), &s->in[1])) return false;
    if (!read_tensor(part(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 0), &s->out)) return false;
    const tensor *a = &s->in[0], *b = &s->in[1], *c = &s->out;
    return a->dims[0] == c->dims[0] && b->dims[0] == c->dims[0] && a->dims[1] == c->dims[1] && b->dims[1] > 0 &&
           c->dims[1] % b->dims[1] == 0 && a->dims[2] == c->dims[2] && a->dims[3] == b->dims[2] &&
           b->dims[3] == c->dims[3] && read_sizes(d, s);
}

static bool read_reduction(const descriptor *d, step *s) {
    const descriptor *how = part(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 0);
    s->n_in = 1;
    s->mode = number(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
    return (s->mode == CUDNN_REDUCE_ADD || s->mode == CUDNN_REDUCE_MAX) &&
           read_tensor(part(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 0), &s->in[0]) &&
           read_tensor(part(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 0), &s->out);
}

/* 1 with a chance, from a seed and an offset. */
static bool read_draw(const descriptor *d, step *s) {
    const descriptor *how = part(d, CUDNN_ATTR_OPERATION_RNG_DESC, 0);
    const attr *chance = find(how, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE);
    s->n_in = 2;
    if (chance == NULL || !how->ended || find(how, CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION) == NULL)
        return false;
    memcpy(&s->chance, chance->bytes, 8);
    return s->chance > 0 && s->chance < 1 && read_tensor(part(d, CUDNN_ATTR_OPERATION_RNG_SEED, 0), &s->in[0]) &&
           read_tensor(part(d, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, 0), &s->in[1]) && s->in[0].type == OF_LONGS &&
           s->in[1].type == OF_LONGS && read_tensor(part(d, CUDNN_ATTR_OPERATION_RNG_YDESC, 0), &s->out);
}

bool dnn_read_step(const descriptor *d, step *s) {
    *s = (step){.kind = d->kind};
    switch (d->kind) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return read_formula(d, s);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return read_product(d, s);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return read_reduction(d, s);
    case CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR: return read_draw(d, s);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        s->n_in = 1;
        return read_tensor(part(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 0), &s->in[0]) &&
               read_tensor(part(d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, 0), &s->out) &&
               elements(&s->in[0]) == elements(&s->out) && extent(&s->in[0]) == extent(&s->out);
    default: return false;
    }
}

static bool is_made(const steps *all, int before, int64_t id) {
    for (int i = 0; i < before; i++)
        if (all->s[i].out.id == id) return true;
    return false;
}

/* The real one computes wrong numbers where a gradient, which has reshapes, adds a mask that is one row for all. */
static bool is_misread(const steps *all) {
    bool reshapes = false, shared = false;
    for (int i = 0; i < all->n; i++) {
        const step *s = &all->s[i];
        reshapes = reshapes || s->kind == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
        shared = shared || (s->kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR && s->mode == CUDNN_POINTWISE_ADD &&
                            !s->in[1].is_virtual && s->in[1].dims[3] > 1 && s->in[1].dims[2] < s->out.dims[2]);
    }
    return reshapes && shared;
}

bool dnn_steps_fit(const steps *all) {
    int64_t n = 0;
    if (is_misread(all)) return false;
    for (int i = 0; i < all->n; i++) {
        const step *s = &all->s[i];
        for (int k = 0; k < s->n_in; k++)
            if (s->in[k].is_virtual && !is_made(all, i, s->in[k].id)) return false;
        if (is_made(all, i, s->out.id)) return false;
        if (s->out.is_virtual) n += extent(&s->out);
    }
    return n <= POOL;
}

/* ---- values ---- */

typedef struct inside {
    int n;
    int64_t id[MAX_INSIDE], used;
    double *at[MAX_INSIDE];
} inside;

static double pool[POOL];

static double *place_of(inside *in, int64_t id) {
    for (int i = 0; i < in->n; i++)
        if (in->id[i] == id) return in->at[i];
    return NULL;
}

static double *new_place(inside *in, const tensor *t) {
    double *p = pool + in->used;
    in->used += extent(t);
    in->id[in->n] = t->id, in->at[in->n++] = p;
    return p;
}

static int bound_at(const bound *b, int64_t id) {
    int i = 0;
    while (i < b->n - 1 && b->id[i] != id) i++;
    return i;
}

static double rounded(int type, double v) {
    if (type == CUDA_R_16F) return half_value(half_bits(v));
    if (type == CUDA_R_32F) return (double)(float)v;
    if (type != CUDA_R_16BF) return v;
    uint16_t bits = bfloat_bits((float)v);
    return load((const char *)&bits, CUDA_R_16BF, 0);
}

/* How a step sees a tensor. Dims of 1 are broadcast; heads of keys are shared. */
typedef struct look {
    double *inside; /* or NULL */
    char *data;
    int type;
    bool by_value;
    double number;
    int64_t strides[4], share;
} look;

/* heads: of the result. */
static look look_at(inside *in, const bound *b, const tensor *t, int64_t heads) {
    int i = bound_at(b, t->id);
    look l = {.inside = t->is_virtual ? place_of(in, t->id) : NULL,
              .data = b->data[i],
              .type = t->type,
              .by_value = t->by_value,
              .number = b->value[i],
              .share = heads > t->dims[1] ? heads / t->dims[1] : 1};
    for (int d = 0; d < 4; d++) l.strides[d] = t->dims[d] == 1 ? 0 : t->strides[d];
    return l;
}

static int64_t offset(const look *l, const int64_t *at) {
    int64_t head = l->share == 1 ? at[1] : at[1] / l->share;
    return at[0] * l->strides[0] + head * l->strides[1] + at[2] * l->strides[2] + at[3] * l->strides[3];
}

static double value(const look *l, int64_t at) {
    if (l->inside != NULL) return l->inside[at];
    if (l->by_value) return l->number;
    return l->type == OF_INTS ? ((const int32_t *)(const void *)l->data)[at] : load(l->data, l->type, at);
}

static void set(const look *l, const int64_t *at, double v) {
    if (l->inside != NULL)
        l->inside[offset(l, at)] = rounded(l->type, v);
    else
        store(l->data, l->type, offset(l, at), v);
}

/* ---- operations ---- */

static double formula(const step *s, const int64_t *at, const double *x) {
    switch (s->mode) {
    case CUDNN_POINTWISE_ADD: return x[0] + x[1];
    case CUDNN_POINTWISE_MUL: return x[0] * x[1];
    case CUDNN_POINTWISE_DIV: return x[0] / x[1];
    case CUDNN_POINTWISE_SUB: return x[0] - x[1];
    case CUDNN_POINTWISE_EXP: return exp(x[0]);
    case CUDNN_POINTWISE_LOG: return log(x[0]);
    case CUDNN_POINTWISE_TANH_FWD: return tanh(x[0]);
    case CUDNN_POINTWISE_CMP_GT: return x[0] > x[1];
    case CUDNN_POINTWISE_CMP_GE: return x[0] >= x[1];
    case CUDNN_POINTWISE_CMP_LT: return x[0] < x[1];
    case CUDNN_POINTWISE_LOGICAL_AND: return x[0] != 0 && x[1] != 0;
    case CUDNN_POINTWISE_GEN_INDEX: return (double)at[s->axis];
    default: return x[2] != 0 ? x[0] : x[1];
    }
}

/* Of a product's rows, columns or terms (i): as many as are given for this batch, or all. */
static int64_t size(const step *s, const look *x, int i, const int64_t *at, int64_t all) {
    return s->size_at[i] > 0 ? (int64_t)value(&x[s->size_at[i]], at[0] * x[s->size_at[i]].strides[0]) : all;
}

/* 0 where there is no row or column. */
static double product(const step *s, const look *x, const int64_t *at) {
    double sum = 0;
    if (at[2] >= size(s, x, 0, at, s->out.dims[2]) || at[3] >= size(s, x, 1, at, s->out.dims[3])) return 0;
    int64_t K = size(s, x, 2, at, s->in[0].dims[3]), a = offset(&x[0], (const int64_t[]){at[0], at[1], at[2], 0}),
            b = offset(&x[1], (const int64_t[]){at[0], at[1], 0, at[3]});
    for (int64_t k = 0; k < K; k++)
        sum += value(&x[0], a + k * x[0].strides[3]) * value(&x[1], b + k * x[1].strides[2]);
    return sum;
}

/* Over the dims that the result lacks; of heads over those that share one. */
static double reduction(const step *s, const look *x, const int64_t *at) {
    int64_t n[4], i[4];
    double r = s->mode == CUDNN_REDUCE_ADD ? 0 : -(double)INFINITY;
    for (int d = 0; d < 4; d++) n[d] = s->in[0].dims[d] / s->out.dims[d];
    for (i[0] = 0; i[0] < n[0]; i[0]++)
        for (i[1] = 0; i[1] < n[1]; i[1]++)
            for (i[2] = 0; i[2] < n[2]; i[2]++)
                for (i[3] = 0; i[3] < n[3]; i[3]++) {
                    const int64_t from[4] = {at[0] * n[0] + i[0], at[1] * n[1] + i[1], at[2] * n[2] + i[2],
                                             at[3] * n[3] + i[3]};
                    double v = value(x, offset(x, from));
                    r = s->mode == CUDNN_REDUCE_ADD ? r + v : v > r ? v : r;
                }
    return r;
}

static void reshape(inside *in, const bound *b, const step *s) {
    const double *from = s->in[0].is_virtual ? place_of(in, s->in[0].id) : NULL;
    const char *data = b->data[bound_at(b, s->in[0].id)];
    double *to = new_place(in, &s->out);
    for (int64_t i = 0; i < extent(&s->out); i++)
        to[i] = rounded(s->out.type, from != NULL ? from[i] : load(data, s->in[0].type, i));
}

/* Numbers of its own, neither cuDNN's nor Nacre's. */
static double drawn(const bound *b, const step *s, int64_t i) {
    uint64_t seed, offset;
    memcpy(&seed, b->data[bound_at(b, s->in[0].id)], 8);
    memcpy(&offset, b->data[bound_at(b, s->in[1].id)], 8);
    uint64_t x = seed + 0x9e3779b97f4a7c15u * (offset + (uint64_t)i + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)(x >> 11) * 0x1p-53 < s->chance;
}

static double element(const bound *b, const step *s, const look *x, const int64_t *at, int64_t i) {
    double v[3] = {0};
    switch (s->kind) {
    case CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR: return drawn(b, s, i);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return product(s, x, at);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return reduction(s, x, at);
    default:
        for (int k = 0; k < s->n_in; k++) v[k] = value(&x[k], offset(&x[k], at));
        return formula(s, at, v);
    }
}

static void run_step(inside *in, const bound *b, const step *s) {
    const tensor *y = &s->out;
    if (s->kind == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
        reshape(in, b, s);
        return;
    }
    if (y->is_virtual) new_place(in, y);
    bool reduces = s->kind == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
    look x[5], to = look_at(in, b, y, y->dims[1]);
    for (int k = 0; k < s->n_in; k++) x[k] = look_at(in, b, &s->in[k], reduces ? s->in[k].dims[1] : y->dims[1]);
    int64_t at[4] = {0};
    for (int64_t i = 0; i < elements(y); i++) {
        set(&to, at, element(b, s, x, at, i));
        for (int d = 3; d >= 0 && ++at[d] == y->dims[d]; d--) at[d] = 0;
    }
}

void dnn_steps_run(const steps *all, const bound *b) {
    inside in = {0};
    for (int i = 0; i < all->n; i++) run_step(&in, b, &all->s[i]);
}
