/* ops/cuda_test.c: every CUDA binding against the CPU binding of the same node, on random data, through the device's
 * table; and a small sequence captured once and replayed on new data. Each runs on the GPU, and on the guard, which has
 * the CPU's kernels: so the graphs, and that a CUDA binding is found for them, are tested where there is no GPU too. */
#include "base/mem.h"
#include "tests/device.h"
#include "tests/graph_testing.h"

enum { MAX_ARGS = 12 };

/* What is drawn for the inputs of a node. */
typedef struct draws {
    uint64_t seed;
    int64_t int_limit;   /* integers are in [0, limit); 0: 100 */
    uint32_t transposed; /* bit i: the last two dims of input i lie the other way round in memory */
    bool odd;            /* the first floats of input 0 are NaN and infinities */
} draws;

typedef struct site {
    nc_work w;
    nc_model *m;
    const nc_node *n;
    nc_device *d;
    nc_stream *s;
    nc_arena arena;
    const nc_binding *binding[2]; /* on the host, on the device */
    nc_prep prep[2];
    nc_tensor in[2][MAX_ARGS], out[2][MAX_ARGS];
    void *workspace[2];
    size_t bytes_workspace[2];
    bool joined; /* input 0 is the output of another site */
    nc_tensor *p_in[16], *p_out[16];
} site;

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static size_t bytes_of(const nc_tensor *t) { return (size_t)nc_tensor_numel(t) * nc_dtype_bytes(t->dtype); }

static nc_tensor tensor_of(const nc_value *v, bool transposed) {
    nc_tensor t = {.dtype = v->type->elem, .rank = v->type->rank};
    for (int i = 0; i < t.rank; i++) CHECK(nc_dim_is_const(v->type->dims[i], &t.dims[i]));
    nc_dense_strides(t.dims, t.rank, t.strides);
    if (transposed) {
        t.strides[t.rank - 2] = 1;
        t.strides[t.rank - 1] = t.dims[t.rank - 2];
    }
    return t;
}

static void put_float(const nc_tensor *t, int64_t i, double v) {
    switch (t->dtype) {
    case NC_FLOAT: ((float *)t->data)[i] = (float)v; break;
    case NC_DOUBLE: ((double *)t->data)[i] = v; break;
    case NC_FLOAT16: ((uint16_t *)t->data)[i] = nc_f32_to_f16((float)v); break;
    default: ((uint16_t *)t->data)[i] = nc_f32_to_bf16((float)v); break;
    }
}

static double value_at(const nc_tensor *t, int64_t i) {
    switch (t->dtype) {
    case NC_FLOAT: return (double)((const float *)t->data)[i];
    case NC_DOUBLE: return ((const double *)t->data)[i];
    case NC_FLOAT16: return (double)nc_f16_to_f32(((const uint16_t *)t->data)[i]);
    case NC_BFLOAT16: return (double)nc_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case NC_INT64: return (double)((const int64_t *)t->data)[i];
    case NC_INT32: return ((const int32_t *)t->data)[i];
    default: return ((const uint8_t *)t->data)[i];
    }
}

/* Scalars are host settings: a ratio of 0.25, a flag that is on. */
static void draw(const nc_tensor *t, int64_t limit, bool odd, uint64_t *state) {
    static const float odd_values[] = {NAN, INFINITY, -INFINITY};
    for (int64_t i = 0; i < nc_tensor_numel(t); i++) {
        uint32_t r = next_random(state);
        int64_t k = r % limit;
        if (nc_dtype_is_float(t->dtype))
            put_float(t, i, t->rank == 0 ? 0.25 : odd && i < 3 ? (double)odd_values[i] : (r % 4001) / 1000.0 - 2);
        else if (t->dtype == NC_INT64)
            ((int64_t *)t->data)[i] = k;
        else if (t->dtype == NC_INT32)
            ((int32_t *)t->data)[i] = (int32_t)k;
        else
            ((uint8_t *)t->data)[i] = t->rank == 0 ? 1 : t->dtype == NC_UINT8 ? (uint8_t)r : r & 1;
    }
}

/* New data for all inputs, on the host and, unless an input is a host argument, on the device. */
static void site_draw(site *x, const draws *how) {
    uint64_t state = how->seed;
    for (int i = 0; i < x->n->n_in; i++) {
        bool host = x->n->card->host_in >> i & 1;
        const nc_literal *lit = x->n->in[i] != NULL ? x->n->in[i]->lit : NULL;
        if (x->n->in[i] == NULL || (i == 0 && x->joined)) continue;
        if (lit != NULL)
            memcpy(x->in[0][i].data, lit->data, bytes_of(&x->in[0][i]));
        else
            draw(&x->in[0][i], how->int_limit ? how->int_limit : 100, how->odd && i == 0, &state);
        if (!host) up(x->d, x->s, x->in[1][i].data, x->in[0][i].data, bytes_of(&x->in[0][i]));
    }
    OK(x->d->table->stream_sync(x->d, x->s, &diag));
}

static void site_operands(site *x, const draws *how) {
    for (int i = 0; i < x->n->n_in; i++) {
        if (x->n->in[i] == NULL) continue;
        x->in[0][i] = x->in[1][i] = tensor_of(x->n->in[i], how->transposed >> i & 1);
        x->in[0][i].data = x->in[1][i].data = nc_alloc(bytes_of(&x->in[0][i]) + 1);
        if (!(x->n->card->host_in >> i & 1)) x->in[1][i].data = take(x->d, x->s, bytes_of(&x->in[0][i]));
    }
    for (int i = 0; i < x->n->n_out; i++) {
        if (x->n->out[i] == NULL) continue;
        x->out[0][i] = x->out[1][i] = tensor_of(x->n->out[i], false);
        x->out[0][i].data = nc_alloc(bytes_of(&x->out[0][i]) + 1);
        x->out[1][i].data = take(x->d, x->s, bytes_of(&x->out[0][i]));
    }
}

static bool site_prepare(site *x, int k) {
    char why[256];
    x->binding[k] = nc_binding_find(x->n, k ? x->d->table->kernels : "cpu", why, sizeof why);
    if (x->binding[k] == NULL || (k && nc_binding_find(x->n, "cuda", why, sizeof why) == NULL)) {
        nc_test_failed(__FILE__, __LINE__, "%s: %s", x->n->card->name, why);
        return false;
    }
    x->prep[k] = (nc_prep){.w = &x->w, .arena = &x->arena, .node = x->n, .device = k ? x->d : nc_device_cpu()};
    if (nc_binding_prepare(x->binding[k], &x->prep[k]) != NC_OK) {
        nc_test_failed(__FILE__, __LINE__, "prepare: %s", x->w.diag.text);
        return false;
    }
    if (x->binding[k]->workspace != NULL)
        x->bytes_workspace[k] =
            x->binding[k]->workspace(x->prep[k].state, x->in[k], x->n->n_in, x->out[k], x->n->n_out);
    x->workspace[k] = k ? take(x->d, x->s, x->bytes_workspace[k]) : nc_alloc_aligned(x->bytes_workspace[k] + 64, 64);
    return true;
}

static bool site_init(site *x, nc_device *d, nc_stream *s, const char *text, const draws *how) {
    *x = (site){.d = d, .s = s};
    nc_work_init(&x->w);
    x->m = test_model(&x->w, nc_ops_registry(), text);
    if (x->m == NULL) {
        nc_test_failed(__FILE__, __LINE__, "%s: %s", text, x->w.diag.text);
        return false;
    }
    x->n = x->m->main->last;
    site_operands(x, how);
    site_draw(x, how);
    return site_prepare(x, 0) && site_prepare(x, 1);
}

static void site_release(site *x) {
    for (int i = 0; x->n != NULL && i < MAX_ARGS; i++) {
        bool host = x->n->card->host_in >> i & 1;
        bool borrowed = i == 0 && x->joined;
        if (!borrowed) nc_free(x->in[0][i].data);
        nc_free(x->out[0][i].data);
        if (!host && !borrowed) x->d->table->free(x->d, x->s, x->in[1][i].data);
        x->d->table->free(x->d, x->s, x->out[1][i].data);
    }
    nc_free(x->workspace[0]);
    x->d->table->free(x->d, x->s, x->workspace[1]);
    if (x->m != NULL) nc_model_destroy(x->m);
    nc_arena_release(&x->arena);
    nc_work_release(&x->w);
}

static nc_call call_of(site *x, int k) {
    return (nc_call){.state = x->prep[k].state,
                     .in = nc_tensor_pointers(x->p_in, x->in[k], x->n->n_in),
                     .out = nc_tensor_pointers(x->p_out, x->out[k], x->n->n_out),
                     .n_in = x->n->n_in,
                     .n_out = x->n->n_out,
                     .workspace = x->workspace[k],
                     .bytes_workspace = x->bytes_workspace[k],
                     .diag = &diag,
                     .node = "n",
                     .op = x->n->card->name};
}

static void site_launch(site *x) {
    nc_call c = call_of(x, 1);
    OK(x->d->table->launch(x->d, x->s, x->binding[1]->run, &c));
}

/* Runs the CPU binding and compares all outputs with what the device has. */
static void site_check(site *x, nc_tolerance tolerance) {
    nc_call c = call_of(x, 0);
    if (x->prep[0].n_packs > 0) nc_test_failed(__FILE__, __LINE__, "the CPU kernel wants packed constants");
    OK(x->binding[0]->run(&c));
    for (int k = 0; k < x->n->n_out; k++) {
        nc_tensor got = x->out[0][k];
        if (x->n->out[k] == NULL) continue;
        got.data = nc_alloc(bytes_of(&got) + 1);
        down(x->d, x->s, got.data, x->out[1][k].data, bytes_of(&got));
        OK(x->d->table->stream_sync(x->d, x->s, &diag));
        for (int64_t i = 0; i < nc_tensor_numel(&got) && !nc_test_has_failed(); i++) {
            double g = value_at(&got, i), want = value_at(&x->out[0][k], i);
            if (nc_close(g, want, tolerance)) continue;
            nc_test_failed(__FILE__, __LINE__, "%s, output %d, element %lld is %.9g, expected %.9g", x->n->card->name,
                           k, (long long)i, g, want);
        }
        nc_free(got.data);
    }
}

static void compare(nc_device *d, const char *text, draws how, nc_tolerance tolerance) {
    nc_stream *s = stream(d);
    site x;
    how.seed += 1;
    if (site_init(&x, d, s, text, &how)) {
        site_launch(&x);
        site_check(&x, tolerance);
    }
    site_release(&x);
    d->table->stream_destroy(d, s);
}

static const nc_tolerance exact = {0, 0};

#define CUDA(id)                                        \
    static void id(nc_device *d);                       \
    TEST(binding_##id##_guard) { run_on("guard", id); } \
    TEST(binding_##id##_cuda) { run_on("cuda", id); }   \
    static void id(nc_device *d)
#define GRAPH(body) "<opset: \"\" 17, \"nacre\" 1> g " body

CUDA(lanes) {
    compare(d, GRAPH("(float[7,1,5] a, float[3,1] b) => (y) { y = Add(a, b) }"), (draws){.odd = true}, exact);
    compare(d, GRAPH("(float16[33,65] a, float16[65] b) => (y) { y = Mul(a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(bfloat16[1001] a) => (y) { y = Tanh(a) }"), (draws){.odd = true}, nc_tol_device_bf16);
    compare(d, GRAPH("(double[129] a) => (y) { y = Sigmoid(a) }"), (draws){.odd = true}, nc_tol_device_f64);
    compare(d, GRAPH("(int32[257] a, int32[257] b) => (y) { y = Div(a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(float[31,17] a, float[31,17] b) => (y) { y = Sub(a, b) }"), (draws){.transposed = 2}, exact);
    compare(d, GRAPH("(bool[64] c, float[64] a, float[] b) => (y) { y = Where(c, a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(float[0,4] a, float[4] b) => (y) { y = Add(a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(float[70001] a) => (y) { y = LeakyRelu<alpha = 0.3>(a) }"), (draws){.odd = true}, exact);
}

/* Operands that lie side by side, or are one element for a row, are read in vectors. */
CUDA(lane_vectors) {
    compare(d, GRAPH("(float16[33,64] a, float16[64] b) => (y) { y = Mul(a, b) }"), (draws){.odd = true}, exact);
    compare(d, GRAPH("(float16[5,3,64] a, float16[5,1,1] b) => (y) { y = Sub(a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(float[4,1,3,16] a, float[7,1,16] b) => (y) { y = Add(a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(float16[1003] a, float16[] b) => (y) { y = Add(a, b) }"), (draws){.odd = true}, exact);
    compare(d, GRAPH("(bfloat16[7,9,24] a) => (y) { y = Neg(a) }"), (draws){0}, exact);
    compare(d, GRAPH("(double[31] a, double[31] b) => (y) { y = Mul(a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(uint8[5,48] a, uint8[48] b) => (y) { y = Add(a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(bool[3,40] c, float16[3,40] a, float16[3,1] b) => (y) { y = Where(c, a, b) }"), (draws){0},
            exact);
    compare(d, GRAPH("(float[6,32] a) => (y) { y = Cast<to = 10>(a) }"), (draws){.odd = true}, exact);
    compare(d, GRAPH("(float[9,16] a, float[9,16] b) => (y) { y = Sub(a, b) }"), (draws){.transposed = 1}, exact);
}

/* Not in place, so that what is brought over is seen too; the node's own session works in place. */
CUDA(optimizer_steps) {
    compare(
        d,
        GRAPH("(float[1033] w, float[1033] m, float[1033] v, float[1033] g, float[] r, int64[] s, float[] k, bool[] "
              "b) => (x, y, z) { x, y, z = nacre.OptimizerStep<n = 1, moments = 2, weight_decay = 0.1>(w, m, v, g, "
              "r, s, k, b) }"),
        (draws){0}, nc_tol_device_f32);
    compare(d,
            GRAPH("(bfloat16[70] w, float[70] m, float[70] v, float16[70] g, double[] r, int64[] s, float[] k, bool[] "
                  "b) => (x, y, z) { x, y, z = nacre.OptimizerStep<n = 1, moments = 2, adam_mode = 1, correct_bias = "
                  "0>(w, m, v, g, r, s, k, b) }"),
            (draws){0}, nc_tol_device_bf16);
    compare(d,
            GRAPH("(float[300] w, double[5,0] u, float[300] g, double[5,0] h, float[] r, int64[] s, double[] k, bool[] "
                  "b) => (x, y) { x, y = nacre.OptimizerStep<n = 2, moments = 0>(w, u, g, h, r, s, k, b) }"),
            (draws){.odd = true}, nc_tol_device_f32);
    compare(d,
            GRAPH("(double[9] w, double[1] u, double[9] g, double[1] h, float[] r, int64[] s, double[] k, bool[1] "
                  "b) => (x, y) { x, y = nacre.OptimizerStep<n = 2, moments = 0>(w, u, g, h, r, s, k, b) }"),
            (draws){0}, nc_tol_device_f64);
}

CUDA(momentum_steps) {
    nc_tolerance f32 = nc_tol_device_f32;
    compare(d,
            GRAPH("(float[1033] w, float[1033] m, float[1033] g, float[] r, int64[] s, float[] k, bool[] b) => (x, y) {"
                  " x, y = nacre.OptimizerStep<n = 1, moments = 1, momentum = 0.9, weight_decay = 0.1>"
                  "(w, m, g, r, s, k, b) }"),
            (draws){.int_limit = 1000}, f32);
    compare(
        d,
        GRAPH("(float[70] w, float[70] m, float16[70] g, float[] r, int64[] s, double[] k, bool[] b) => (x, y) {"
              " x, y = nacre.OptimizerStep<n = 1, moments = 1, momentum = 0.5, nesterov = 1>(w, m, g, r, s, k, b) }"),
        (draws){.odd = true}, f32);
    compare(d,
            GRAPH("(double[5] w, double[0] u, double[5] m, double[0] v, double[5] g, double[0] h, float[] r, int64[] s,"
                  " float[] k, bool[] b) => (x, y, z, t) { x, y, z, t = nacre.OptimizerStep<n = 2, moments = 1,"
                  " momentum = 0.9, dampening = 0.3>(w, u, m, v, g, h, r, s, k, b) }"),
            (draws){.int_limit = 2}, nc_tol_device_f64);
}

#define RNN_IN(type, T, B, I, H, GH, dirs, GH2)                                                                   \
    "(" type "[" T "," B "," I "] x, " type "[" dirs "," GH "," I "] w, " type "[" dirs "," GH "," H "] r, " type \
    "[" dirs "," GH2 "] q, int32[" B "] n, " type "[" dirs "," B "," H "] a"

CUDA(recurrent_layers) {
    compare(d,
            GRAPH(RNN_IN("float", "5", "3", "4", "6", "24", "2",
                         "48") ", float[2,3,6] c, float[2,18] p) => (y, h, e)"
                               " { y, h, e = LSTM<direction = \"bidirectional\">(x, w, r, q, n, a, c, p) }"),
            (draws){.int_limit = 6}, nc_tol_device_product_f32);
    compare(d,
            GRAPH("(double[2,1,3] x, double[1,8,3] w, double[1,8,2] r) => (y, h, e) {"
                  " y, h, e = LSTM<input_forget = 1, clip = 0.7, direction = \"reverse\">(x, w, r) }"),
            (draws){0}, nc_tol_device_f64);
    compare(d,
            GRAPH(RNN_IN("float", "4", "2", "3", "5", "15", "1", "30") ") => (y, h) { y, h = GRU(x, w, r, q, n, a) }"),
            (draws){.int_limit = 5}, nc_tol_device_product_f32);
    compare(d,
            GRAPH(RNN_IN("float16", "3", "2", "3", "5", "15", "1",
                         "30") ") => (y, h) {"
                               " y, h = GRU<linear_before_reset = 1>(x, w, r, q, n, a) }"),
            (draws){.int_limit = 4}, nc_tol_device_f16);
    compare(d,
            "<opset: \"\" 22> g (bfloat16[3,2,4] x, bfloat16[1,3,4] w, bfloat16[1,3,3] r) => (y, h) {"
            " y, h = RNN<activations = [\"ScaledTanh\"], layout = 1>(x, w, r) }",
            (draws){0}, nc_tol_device_bf16);
    compare(d, GRAPH("(float[0,2,2] x, float[1,3,2] w, float[1,3,3] r) => (y, h) { y, h = RNN(x, w, r) }"), (draws){0},
            exact);
    compare(d,
            GRAPH("(float[1,1,1] x, float[1,3,1] w, float[1,3,1] r) => (y, h) { y, h = GRU<activations ="
                  " [\"HardSigmoid\", \"Softsign\"]>(x, w, r) }"),
            (draws){.odd = true}, nc_tol_device_f32);
}

CUDA(recurrent_gradients) {
    compare(d,
            GRAPH("(float[4,2,5] x, float[1,12,5] w, float[1,12,3] r, float[1,24] q, int32[2] n, float[1,2,3] a,"
                  " float[1,2,3] c, float[1,9] p, float[4,1,2,3] dy, float[1,2,3] dh, float[1,2,3] dc,"
                  " float[1,4,2,18] k) => (f, g, i, j, l, m, o) { f, g, i, j, , l, m, o ="
                  " nacre.LSTMGrad(x, w, r, q, n, a, c, p, dy, dh, dc, k) }"),
            (draws){.int_limit = 5}, nc_tol_device_product_f32);
    compare(d,
            GRAPH("(double[3,2,5] x, double[1,9,5] w, double[1,9,3] r, double[1,18] q, double[1,2,3] a,"
                  " double[3,1,2,3] dy, double[1,3,2,15] k) => (f, g, i, j, l) { f, g, i, j, , l ="
                  " nacre.GRUGrad<direction = \"reverse\">(x, w, r, q, , a, dy, , k) }"),
            (draws){0}, nc_tol_device_f64);
    compare(d,
            GRAPH("(float[3,2,5] x, float[1,9,5] w, float[1,9,3] r, float[1,18] q, int32[2] n, float[1,2,3] a,"
                  " float[3,1,2,3] dy, float[1,2,3] dh, float[1,3,2,15] k) => (f, g, i, j, l) { f, g, i, j, , l ="
                  " nacre.GRUGrad<linear_before_reset = 1, clip = 1.5>(x, w, r, q, n, a, dy, dh, k) }"),
            (draws){.int_limit = 4}, nc_tol_device_product_f32);
    compare(d,
            GRAPH("(float16[3,2,5] x, float16[1,3,5] w, float16[1,3,3] r, float16[3,1,2,3] dy, float16[1,3,2,6] k)"
                  " => (f, g, i) { f, g, i = nacre.RNNGrad<activations = [\"Elu\"]>(x, w, r, , , , dy, , k) }"),
            (draws){0}, nc_tol_device_f16);
}

CUDA(moved_rows) {
    compare(d, GRAPH("(float[5,3,7] x, int64[3] n) => (y) { y = ReverseSequence(x, n) }"), (draws){.int_limit = 6},
            exact);
    compare(d, GRAPH("(int64[4,5] x, int64[4] n) => (y) { y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, n) }"),
            (draws){.int_limit = 6}, exact);
    compare(d, GRAPH("(float16[0,3,2] x, int64[3] n) => (y) { y = ReverseSequence(x, n) }"), (draws){.int_limit = 1},
            exact);
    compare(
        d,
        "<opset: \"\" 24> g (float16[2,3,8,5] x, float16[2,3,2,5] u, int64[2] n) => (y) { y = TensorScatter(x, u, n) }",
        (draws){.int_limit = 7}, exact);
    compare(d,
            "<opset: \"\" 24> g (uint8[2,8,5] x, uint8[2,3,5] u, int64[2] n) => (y) {"
            " y = TensorScatter<mode = \"circular\", axis = 1>(x, u, n) }",
            (draws){.int_limit = 100}, exact);
    compare(d, "<opset: \"\" 24> g (float[1,4,1] x, float[1,0,1] u) => (y) { y = TensorScatter(x, u) }", (draws){0},
            exact);
    compare(d, GRAPH("(float[5,7] x) => (y) { y = EyeLike<k = 2>(x) }"), (draws){0}, exact);
    compare(d, GRAPH("(int64[4,3] x) => (y) { y = EyeLike<k = -1, dtype = 10>(x) }"), (draws){0}, exact);
    compare(d, GRAPH("(bool[0,3] x) => (y) { y = EyeLike(x) }"), (draws){0}, exact);
}

CUDA(determinants) {
    compare(d, GRAPH("(float[3,2,5,5] x) => (y) { y = Det(x) }"), (draws){0}, nc_tol_device_f32);
    compare(d, GRAPH("(double[40,40] x) => (y) { y = Det(x) }"), (draws){0}, nc_tol_device_f64);
    compare(d, GRAPH("(float16[4,1,1] x) => (y) { y = Det(x) }"), (draws){.odd = true}, nc_tol_device_f16);
    compare(d, GRAPH("(float[2,0,0] x) => (y) { y = Det(x) }"), (draws){0}, exact);
#define INVERSE(type) "<opset: \"\" 18, \"com.microsoft\" 1> g (" type " x) => (y) { y = com.microsoft.Inverse(x) }"
    compare(d, INVERSE("float[3,2,5,5]"), (draws){0}, nc_tol_device_f32);
    compare(d, INVERSE("double[40,40]"), (draws){0}, nc_tol_device_f64);
    compare(d, INVERSE("float16[4,1,1]"), (draws){.odd = true}, nc_tol_device_f16);
    compare(d, INVERSE("bfloat16[1,3,3]"), (draws){0}, nc_tol_device_bf16);
    compare(d, INVERSE("float[2,0,0]"), (draws){0}, exact);
}

#define COLUMNS(type, dims, image, block, attrs)                                                           \
    "<opset: \"\" 18> g (" type dims " x) => (y) <const int64[2] i = " image ", const int64[2] b = " block \
    "> { y = Col2Im" attrs "(x, i, b) }"

CUDA(columns_to_images) {
    compare(d, COLUMNS("float", "[2,12,20]", "{6, 5}", "{2, 2}", "<pads = [0,0,0,0]>"), (draws){0}, nc_tol_device_f32);
    compare(d, COLUMNS("double", "[1,9,4]", "{5, 5}", "{3, 3}", "<strides = [2,2], dilations = [1,1]>"), (draws){0},
            nc_tol_device_f64);
    compare(d, COLUMNS("bfloat16", "[0,4,20]", "{6, 5}", "{2, 2}", ""), (draws){0}, exact);
}

#define RESIZE_BACK(type, dy, shape, scales, attrs)                                          \
    GRAPH("(" type dy " g) => (x) <const int64[4] s = " shape ", const float[4] k = " scales \
          "> { x = nacre.ResizeGrad" attrs "(g, s, , k) }")

CUDA(resize_back) {
    compare(d, RESIZE_BACK("float", "[1,2,7,9]", "{1, 2, 4, 5}", "{1, 1, 1.75, 1.8}", "<mode = \"linear\">"),
            (draws){0}, nc_tol_device_f32);
    compare(d, RESIZE_BACK("double", "[2,1,3,4]", "{2, 1, 8, 9}", "{1, 1, 0.4, 0.5}", "<mode = \"cubic\">"),
            (draws){.odd = true}, nc_tol_device_f64);
    compare(d,
            RESIZE_BACK("float", "[1,1,3,4]", "{1, 1, 9, 11}", "{1, 1, 0.34, 0.4}",
                        "<mode = \"linear\", antialias = 1, exclude_outside = 1>"),
            (draws){0}, nc_tol_device_f32);
    compare(d, RESIZE_BACK("float16", "[1,3,6,5]", "{1, 3, 3, 5}", "{1, 1, 2, 1}", "<mode = \"nearest\">"), (draws){0},
            nc_tol_device_f16);
    compare(d, RESIZE_BACK("float", "[0,3,6,5]", "{0, 3, 3, 5}", "{1, 1, 2, 1}", "<mode = \"linear\">"), (draws){0},
            nc_tol_device_f32);
}

CUDA(chain) {
    compare(d,
            GRAPH("(float[300,32] x, float[32] b, float[300,1] k) => (y, c) { y, c = nacre.Chain<body = { (p, q, r) => "
                  "(t, u) { s = Add(p, q) e = Mul(s, r) t = Relu(e) u = Less(q, e) } }>(x, b, k) }"),
            (draws){.odd = true}, exact);
    compare(
        d,
        GRAPH("(float[300,31] x, float[31] b, float[] k) => (y, c) { y, c = nacre.Chain<body = { (p, q, r) => (t, u) "
              "{ s = Add(p, q) e = Mul(s, r) t = Relu(e) u = Less(q, e) } }>(x, b, k) }"),
        (draws){.odd = true}, exact);
    compare(d, GRAPH("(float[1000] dy, float[1000] y) => (dx) { dx = nacre.TanhGrad(dy, y) }"), (draws){0},
            nc_tol_device_f32);
}

#define SUMS(type, dims, op, axes) GRAPH("(" type dims " x) => (y) <const int64[" axes "> { y = " op "(x, a) }")

CUDA(reductions) {
    compare(d, SUMS("float", "[37,1025]", "ReduceSum<keepdims = 0>", "1] a = {-1}"), (draws){0}, nc_tol_device_sum_f32);
    compare(d, SUMS("float", "[9000,33]", "ReduceSum", "1] a = {0}"), (draws){0}, nc_tol_device_sum_f32);
    compare(d, SUMS("float", "[64,33]", "ReduceSum", "1] a = {0}"), (draws){.transposed = 1}, nc_tol_device_sum_f32);
    compare(d, SUMS("double", "[5,6,7]", "ReduceSum", "2] a = {0, 2}"), (draws){0}, nc_tol_device_f64);
    compare(d, SUMS("int64", "[5,6,7]", "ReduceSum", "2] a = {0, 2}"), (draws){0}, exact);
    compare(d, SUMS("float16", "[5,6,7]", "ReduceSum", "2] a = {0, 1}"), (draws){0}, nc_tol_device_sum_f16);
    compare(d, SUMS("float", "[6,5,31]", "nacre.SumTo", "2] a = {1, 31}"), (draws){0}, nc_tol_device_f32);
    compare(d, GRAPH("(float[100003] x) => (y) { y = ReduceMean(x) }"), (draws){0}, nc_tol_device_sum_f32);
    compare(d, GRAPH("(float[4,0] x) => (y) { y = ReduceMean<axes = [1]>(x) }"), (draws){0}, exact);
    compare(d, GRAPH("(float[8,300] x) => (y) { y = ReduceMax<axes = [1]>(x) }"), (draws){.odd = true}, exact);
    compare(d, GRAPH("(float[8,11,3] x) => (y) { y = ReduceProd<axes = [1]>(x) }"), (draws){.odd = true},
            nc_tol_device_f32);
    compare(d, GRAPH("(double[4,0] x) => (y) { y = ReduceProd<axes = [1]>(x) }"), (draws){0}, exact);
    compare(d, GRAPH("(int64[4,3] x) => (y) { y = ReduceProd<axes = [0]>(x) }"), (draws){.int_limit = 9}, exact);
    compare(d, GRAPH("(uint8[4,9] x) => (y) { y = ReduceMin<axes = [0]>(x) }"), (draws){0}, exact);
    compare(d, "<opset: \"\" 20> g (bool[4,9] x) => (y) { y = ReduceMax(x) }", (draws){0}, exact);
}

CUDA(products) {
    compare(d, GRAPH("(float[33,65] a, float[65,17] b) => (y) { y = MatMul(a, b) }"), (draws){0},
            nc_tol_device_product_f32);
    compare(d, GRAPH("(float[33,65] a, float[65,17] b) => (y) { y = MatMul(a, b) }"), (draws){.transposed = 2},
            nc_tol_device_product_f32);
    compare(d, GRAPH("(float[33,65] a, float[65,17] b) => (y) { y = MatMul(a, b) }"), (draws){.transposed = 1},
            nc_tol_device_product_f32);
    compare(d, GRAPH("(double[5,7] a, double[7,3] b) => (y) { y = MatMul(a, b) }"), (draws){.transposed = 3},
            nc_tol_device_f64);
    compare(d, GRAPH("(float[4,3,9,8] a, float[3,8,5] b) => (y) { y = MatMul(a, b) }"), (draws){0},
            nc_tol_device_product_f32);
    compare(d, GRAPH("(float[4,3,9,8] a, float[8,5] b) => (y) { y = MatMul(a, b) }"), (draws){0},
            nc_tol_device_product_f32);
    compare(d, GRAPH("(float[8] a, float[2,8,5] b) => (y) { y = MatMul(a, b) }"), (draws){0},
            nc_tol_device_product_f32);
    compare(d, GRAPH("(float16[32,64] a, float16[64,16] b) => (y) { y = MatMul(a, b) }"), (draws){0},
            nc_tol_device_f16);
    compare(d, GRAPH("(float16[31,63] a, float16[63,15] b) => (y) { y = MatMul(a, b) }"), (draws){0},
            nc_tol_device_f16);
    compare(d, GRAPH("(int64[5,6] a, int64[6,7] b) => (y) { y = MatMul(a, b) }"), (draws){0}, exact);
    compare(d, GRAPH("(float[5,0] a, float[0,7] b) => (y) { y = MatMul(a, b) }"), (draws){0}, exact);
    compare(d,
            GRAPH("(float[65,33] a, float[17,65] b, float[17] c) => (y) { y = Gemm<transA = 1, transB = 1>(a, b, c) }"),
            (draws){0}, nc_tol_device_product_f32);
    compare(
        d,
        GRAPH("(float[33,65] a, float[65,17] b, float[33,1] c) => (y) { y = Gemm<alpha = 0.5, beta = 2.0>(a, b, c) }"),
        (draws){0}, nc_tol_device_product_f32);
    compare(d, GRAPH("(double[3,5] a, double[5,7] b, double[7] c) => (y) { y = Gemm(a, b, c) }"), (draws){0},
            nc_tol_device_f64);
}

#define CONV(attrs, x, w, more, bias) GRAPH("(" x " x, " w " w" more ") => (y) { y = Conv<" attrs ">(x, w" bias ") }")
#define CONV_GRAD(op, attrs, dy, x, w) \
    GRAPH("(" dy " d, " x " x, " w " w) => (a, b, c) { a, b, c = nacre." op "<" attrs ">(d, x, w) }")

CUDA(convolutions) {
    nc_tolerance sum = nc_tol_device_product_f32;
    compare(d, CONV("pads = [1,1,1,1]", "float[2,5,9,7]", "float[6,5,3,3]", ", float[6] b", ", b"), (draws){0}, sum);
    compare(d,
            CONV("group = 2, strides = [2,1], dilations = [1,2], pads = [0,2,1,1]", "float[3,4,8,9]", "float[6,2,3,2]",
                 ", float[6] b", ", b"),
            (draws){0}, sum);
    compare(d, CONV("group = 3, pads = [2,0]", "float[1,3,20]", "float[6,1,5]", ", float[6] b", ", b"), (draws){0},
            sum);
    compare(d, CONV("group = 2, pads = [1,1,1,1]", "float[2,4,24,22]", "float[6,2,3,3]", ", float[6] b", ", b"),
            (draws){0}, sum);
    compare(d, CONV("pads = [1,1,1,1]", "float[1,4,5,5]", "float[6,4,3,3]", ", float[6] b", ", b"), (draws){0}, sum);
    compare(d, CONV("group = 4", "float[1,8,6]", "float[12,2,1]", "", ""), (draws){0}, sum);
    compare(d, CONV("strides = [1,2,1]", "double[2,2,4,5,3]", "double[3,2,2,2,1]", ", double[3] b", ", b"), (draws){0},
            nc_tol_device_f64);
    compare(d, CONV("group = 1", "float16[2,16,5,5]", "float16[8,16,1,1]", ", float16[8] b", ", b"), (draws){0},
            nc_tol_device_f16);
    compare(d,
            "<opset: \"\" 22> g (bfloat16[1,3,6,6] x, bfloat16[4,3,3,3] w) => (y) "
            "{ y = Conv<auto_pad = \"SAME_UPPER\">(x, w) }",
            (draws){0}, nc_tol_device_bf16);
    compare(d, CONV("group = 1", "float[0,3,6,6]", "float[4,3,3,3]", "", ""), (draws){0}, exact);
    compare(d, CONV("group = 1", "float[2,0,6,6]", "float[4,0,3,3]", ", float[4] b", ", b"), (draws){0}, exact);
    compare(d,
            GRAPH("(float[2,6,5,4] x, float[6,2,3,3] w, float[4] b) => (y) "
                  "{ y = ConvTranspose<group = 2, strides = [2,3], pads = [1,0,1,0], output_padding = [1,2]>(x, w, "
                  "b) }"),
            (draws){0}, sum);
    compare(d, GRAPH("(float16[1,4,7] x, float16[4,3,3] w) => (y) { y = ConvTranspose(x, w) }"), (draws){0},
            nc_tol_device_f16);
}

CUDA(convolution_gradients) {
    nc_tolerance sum = nc_tol_device_product_f32;
    compare(d, CONV_GRAD("ConvGrad", "pads = [1,1,1,1]", "float[2,6,9,7]", "float[2,5,9,7]", "float[6,5,3,3]"),
            (draws){0}, sum);
    compare(d,
            CONV_GRAD("ConvGrad", "group = 2, strides = [2,1], dilations = [1,2], pads = [0,2,1,1]", "float[3,6,4,10]",
                      "float[3,4,8,9]", "float[6,2,3,2]"),
            (draws){0}, sum);
    compare(d, CONV_GRAD("ConvGrad", "group = 3", "double[2,6,16]", "double[2,3,20]", "double[6,1,5]"), (draws){0},
            nc_tol_device_f64);
    compare(d, CONV_GRAD("ConvGrad", "group = 1", "float[0,6,5,5]", "float[0,2,5,5]", "float[6,2,1,1]"), (draws){0},
            exact);
    compare(d,
            CONV_GRAD("ConvTransposeGrad", "group = 2, strides = [2,2]", "float[2,4,11,9]", "float[2,6,5,4]",
                      "float[6,2,3,3]"),
            (draws){0}, sum);
}

#define POOL(op, type, dims, attrs) GRAPH("(" type dims " x) => (y) { y = " op "<" attrs ">(x) }")

CUDA(pools) {
    compare(d, POOL("MaxPool", "float", "[2,3,9,8]", "kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,1]"),
            (draws){.odd = true}, exact);
    compare(d, POOL("MaxPool", "uint8", "[1,3,9]", "kernel_shape = [3], dilations = [2], ceil_mode = 1, strides = [2]"),
            (draws){0}, exact);
    compare(d, POOL("MaxPool", "float16", "[0,3,9]", "kernel_shape = [3]"), (draws){0}, exact);
    compare(d,
            GRAPH("(double[2,2,4,5,6] x) => (y, i) { y, i = MaxPool<kernel_shape = [2,2,3], storage_order = 1, "
                  "strides = [1,2,2]>(x) }"),
            (draws){0}, exact);
    /* channels last, as the blocked layout has them */
    compare(
        d,
        POOL("MaxPool", "float16", "[2,1,9,8,16]", "kernel_shape = [3,2,1], strides = [2,2,1], pads = [1,0,0,1,1,0]"),
        (draws){.odd = true}, exact);
    compare(
        d, POOL("MaxPool", "float", "[1,2,5,4,4]", "kernel_shape = [2,2,1], dilations = [2,1,1], pads = [1,1,0,1,1,0]"),
        (draws){.odd = true}, exact);
    compare(d, POOL("MaxPool", "uint8", "[1,1,3,3,16]", "kernel_shape = [2,2,1]"), (draws){0}, exact);
    compare(d, POOL("MaxPool", "double", "[2,1,3,3,3]", "kernel_shape = [2,3,1]"), (draws){0}, exact);
    compare(d, POOL("AveragePool", "float", "[2,3,9,8]", "kernel_shape = [3,3], pads = [1,1,1,1], ceil_mode = 1"),
            (draws){.odd = true}, nc_tol_device_f32);
    compare(d,
            "<opset: \"\" 22> g (bfloat16[1,2,11] x) => (y) { y = AveragePool<kernel_shape = [4], strides = [3], "
            "pads = [1,2], ceil_mode = 1, count_include_pad = 1>(x) }",
            (draws){0}, nc_tol_device_bf16);
    compare(d, POOL("LpPool", "float", "[1,2,7,7]", "kernel_shape = [2,3], p = 3"), (draws){0}, nc_tol_device_f32);
    compare(d, POOL("LpPool", "double", "[1,2,7]", "kernel_shape = [2], p = 1"), (draws){0}, nc_tol_device_f64);
    compare(d,
            GRAPH("(float[2,3,5,4] d, float[2,3,9,8] x) => (y) { y = nacre.AveragePoolGrad<kernel_shape = [3,3], "
                  "pads = [1,1,1,1], strides = [2,2]>(d, x) }"),
            (draws){0}, nc_tol_device_f32);
}

CUDA(softmax) {
    compare(d, GRAPH("(float16[19,128] x) => (y) { y = Softmax(x) }"), (draws){.odd = true}, nc_tol_device_f16);
    compare(d, GRAPH("(float[7,2000] x) => (y) { y = Softmax(x) }"), (draws){.odd = true}, nc_tol_device_f32);
    compare(d, GRAPH("(bfloat16[3,4104] x) => (y) { y = LogSoftmax(x) }"), (draws){0}, nc_tol_device_bf16);
    compare(d, GRAPH("(double[3,8200] x) => (y) { y = Softmax(x) }"), (draws){0}, nc_tol_device_f64);
    compare(d, GRAPH("(float[19,10] x) => (y) { y = Softmax(x) }"), (draws){.odd = true}, nc_tol_device_f32);
    compare(d, GRAPH("(float[7,2000] x) => (y) { y = LogSoftmax(x) }"), (draws){0}, nc_tol_device_f32);
    compare(d, GRAPH("(double[3,5,7] x) => (y) { y = Softmax<axis = 1>(x) }"), (draws){0}, nc_tol_device_f64);
    compare(d, GRAPH("(float[0,5] x) => (y) { y = Softmax(x) }"), (draws){0}, exact);
    compare(d, GRAPH("(float[19,10] dy, float[19,10] y) => (dx) { dx = nacre.SoftmaxGrad(dy, y) }"), (draws){0},
            nc_tol_device_f32);
    compare(d, GRAPH("(float[3,1000] dy, float[3,1000] y) => (dx) { dx = nacre.LogSoftmaxGrad(dy, y) }"), (draws){0},
            nc_tol_device_sum_f32);
}

#define LOSS(attrs, x, labels, weights, more) \
    GRAPH("(" x " x, " labels " t" weights ") => (l, p) { l, p = SoftmaxCrossEntropyLoss<" attrs ">(x, t" more ") }")
#define LOSS_GRAD(attrs, dloss, p, labels, weights, more)            \
    GRAPH("(" dloss " d, " p " p, " labels " t" weights ") => (dx) " \
          "{ dx = nacre.SoftmaxCrossEntropyLossGrad<" attrs ">(d, p, t" more ") }")

CUDA(losses) {
    draws ten = {.int_limit = 10};
    compare(d, LOSS("reduction = \"mean\"", "float[33,10]", "int64[33]", "", ""), ten, nc_tol_device_f32);
    compare(d, LOSS("reduction = \"sum\"", "double[33,10]", "int32[33]", ", double[10] w", ", w"), ten,
            nc_tol_device_f64);
    compare(d, LOSS("reduction = \"none\", ignore_index = 3", "float[5,10,7]", "int64[5,7]", ", float[10] w", ", w"),
            ten, nc_tol_device_f32);
    compare(d, LOSS("reduction = \"mean\"", "float[4,3000]", "int64[4]", "", ""), (draws){.int_limit = 3000},
            nc_tol_device_f32);
    compare(d, LOSS("reduction = \"none\"", "float16[5,4104]", "int64[5]", "", ""),
            (draws){.int_limit = 4104, .odd = true}, nc_tol_device_f16);
    compare(d, LOSS("reduction = \"sum\", ignore_index = 3", "float[70,12]", "int32[70]", ", float[12] w", ", w"),
            (draws){.int_limit = 12, .odd = true}, nc_tol_device_f32);
    compare(d, LOSS("reduction = \"none\"", "double[3,514]", "int64[3]", "", ""), (draws){.int_limit = 514},
            nc_tol_device_f64);
    compare(d, LOSS("reduction = \"mean\"", "float[0,8]", "int64[0]", "", ""), ten, nc_tol_device_f32);
    compare(d, LOSS_GRAD("reduction = \"mean\"", "float[1]", "float[33,10]", "int64[33]", "", ""), ten,
            nc_tol_device_f32);
    compare(d, LOSS_GRAD("reduction = \"sum\"", "float[1]", "float[33,10]", "int64[33]", ", float[10] w", ", w"), ten,
            nc_tol_device_f32);
    compare(d, LOSS_GRAD("reduction = \"none\", ignore_index = 3", "float[5,7]", "float[5,10,7]", "int64[5,7]", "", ""),
            ten, nc_tol_device_f32);
}

CUDA(dropout) {
    static const char graph[] = GRAPH("(float[20003] x, float[] r, bool[] t, int64[2] s) => (y, m) "
                                      "{ y, m = nacre.PhiloxDropout(x, r, t, s) @random=7 }");
    compare(d, graph, (draws){.odd = true}, exact);
    compare(d, graph, (draws){.seed = 1000, .int_limit = INT32_MAX}, exact);
    compare(d,
            GRAPH("(float16[5] x, float[] r, bool[] t, int64[2] s) => (y, m) "
                  "{ y, m = nacre.PhiloxDropout<seed = 42>(x, r, t, s) @random=1 }"),
            (draws){0}, nc_tol_device_f16);
    compare(
        d, GRAPH("(float[1001] dy, bool[1001] m, float[] r, bool[] t) => (dx) { dx = nacre.DropoutGrad(dy, m, r, t) }"),
        (draws){0}, exact);
    compare(d, GRAPH("(int64[2] s) => (n) { n = nacre.RandomStep(s) }"), (draws){0}, exact);
}

CUDA(copies) {
    compare(d, GRAPH("(float[31,17] x) => (y) { y = nacre.Copy(x) }"), (draws){.transposed = 1}, exact);
    compare(d, GRAPH("(double[3,31,17] x) => (y) { y = nacre.Copy(x) }"), (draws){.transposed = 1}, exact);
    compare(d, GRAPH("(float16[5,7] x) => (y) { y = nacre.Copy(x) }"), (draws){.transposed = 1}, exact);
    compare(d, GRAPH("(bool[6,5] x) => (y) { y = nacre.Copy(x) }"), (draws){0}, exact);
    compare(d, GRAPH("(float16[3,2,65,40] x) => (y) { y = nacre.Copy(x) }"), (draws){.transposed = 1}, exact);
    compare(d, GRAPH("(uint8[33,9] x) => (y) { y = nacre.Copy(x) }"), (draws){.transposed = 1}, exact);
    compare(d, GRAPH("(float[0,5] x) => (y) { y = nacre.Copy(x) }"), (draws){0}, exact);
    compare(d, GRAPH("(float[9,5] v, float[9,5] x) => (y) { y = nacre.Assign(v, x) }"), (draws){.transposed = 2},
            exact);
}

#define JOINED(type, axis, a, b, c) \
    GRAPH("(" type a " a, " type b " b, " type c " c) => (y) { y = Concat<axis = " axis ">(a, b, c) }")

/* Rows that begin at any byte, in words of 16 of which the first and last are not whole. */
CUDA(joined_rows) {
    compare(d, JOINED("uint8", "1", "[5,37]", "[5,100]", "[5,1]"), (draws){0}, exact);
    compare(d, JOINED("float16", "1", "[3,33]", "[3,64]", "[3,2100]"), (draws){.odd = true}, exact);
    compare(d, JOINED("float", "1", "[2,9,5]", "[2,3,5]", "[2,0,5]"), (draws){.odd = true}, exact);
    compare(d, JOINED("double", "2", "[2,3,5]", "[2,3,8]", "[2,3,11]"), (draws){0}, exact);
    compare(d, JOINED("int64", "1", "[3,7]", "[3,5]", "[3,8]"), (draws){0}, exact);
    compare(d, JOINED("bfloat16", "1", "[4,16,8]", "[4,24,8]", "[4,8,8]"), (draws){0}, exact);
    compare(d, JOINED("bool", "1", "[2,32]", "[2,48]", "[2,31]"), (draws){0}, exact);
}

#define PICKED(op, type, x, index, attrs) GRAPH("(" type x " x, " index " i) => (y) { y = " op attrs "(x, i) }")

/* Slices in words, slices that are none, one element an index, several indices an element. */
CUDA(picked) {
    compare(d, PICKED("Gather", "float16", "[9,64]", "int64[5,3]", ""), (draws){.int_limit = 9}, exact);
    compare(d, PICKED("Gather", "float16", "[9,63]", "int32[4]", ""), (draws){.int_limit = 9, .odd = true}, exact);
    compare(d, PICKED("Gather", "float", "[3,7,4]", "int64[11]", "<axis = 1>"), (draws){.int_limit = 7}, exact);
    compare(d, PICKED("Gather", "float", "[3,7]", "int64[300]", "<axis = 1>"), (draws){.int_limit = 7}, exact);
    compare(d, PICKED("Gather", "double", "[8]", "int64[]", ""), (draws){.int_limit = 8}, exact);
    compare(d, PICKED("Gather", "uint8", "[4,2080]", "int64[3]", ""), (draws){.int_limit = 4}, exact);
    compare(d, PICKED("Gather", "float", "[4,8]", "int64[0]", ""), (draws){.int_limit = 4}, exact);
    compare(d, PICKED("GatherElements", "float16", "[5,1030]", "int64[5,1030]", "<axis = 1>"),
            (draws){.int_limit = 1030, .odd = true}, exact);
    /* Within lines that a block holds: indices two at once or one by one, more than one turn of a block. */
    compare(d, PICKED("GatherElements", "float16", "[5,1032]", "int64[5,1032]", "<axis = 1>"),
            (draws){.int_limit = 1032, .odd = true}, exact);
    compare(d, PICKED("GatherElements", "float16", "[3,64]", "int64[3,33]", "<axis = 1>"), (draws){.int_limit = 64},
            exact);
    compare(d, PICKED("GatherElements", "double", "[3,64]", "int32[3,70]", "<axis = 1>"), (draws){.int_limit = 64},
            exact);
    compare(d, PICKED("GatherElements", "uint8", "[2,64]", "int64[2,5000]", "<axis = 1>"), (draws){.int_limit = 64},
            exact);
    compare(d, PICKED("GatherElements", "float", "[2,64]", "int32[2,2501]", "<axis = 1>"), (draws){.int_limit = 64},
            exact);
    compare(d, PICKED("GatherElements", "float", "[5,9,3]", "int32[2,9,3]", "<axis = 0>"), (draws){.int_limit = 5},
            exact);
    compare(d, PICKED("GatherElements", "int64", "[7]", "int64[1]", ""), (draws){.int_limit = 7}, exact);
    compare(d, PICKED("GatherND", "float", "[4,5,32]", "int64[6,2]", ""), (draws){.int_limit = 4}, exact);
    compare(d, PICKED("GatherND", "float", "[4,5]", "int64[9,2]", ""), (draws){.int_limit = 4}, exact);
    compare(d, PICKED("GatherND", "double", "[2,4,3]", "int64[2,6,1]", "<batch_dims = 1>"), (draws){.int_limit = 4},
            exact);
}

#define ADDED(type, x, index, u, attrs) \
    GRAPH("(" type x " x, " index " i, " type u " u) => (y) { y = ScatterElements<" attrs ">(x, i, u) }")

/* Within lines that a warp holds, which many updates meet; more than one turn of it, fewer lines of indices than of the
 * data; lines that are too long, or lie the other way, are sorted for. The order of the updates shows in the bits. */
CUDA(combined_in_lines) {
    compare(d, ADDED("float", "[5,130]", "int64[5,600]", "[5,600]", "axis = 1, reduction = \"add\""),
            (draws){.int_limit = 130, .odd = true}, exact);
    compare(d, ADDED("float", "[4,64]", "int32[3,300]", "[3,300]", "axis = 1, reduction = \"mul\""),
            (draws){.int_limit = 7}, exact);
    compare(d, ADDED("float16", "[2,3,40]", "int64[2,2,33]", "[2,2,33]", "axis = 2, reduction = \"add\""),
            (draws){.int_limit = 40}, exact);
    compare(d, ADDED("bfloat16", "[3,9]", "int64[3,100]", "[3,100]", "axis = 1, reduction = \"max\""),
            (draws){.int_limit = 9}, exact);
    compare(d, ADDED("double", "[3,40]", "int64[2,270]", "[2,270]", "axis = -1"), (draws){.int_limit = 40}, exact);
    compare(d, ADDED("uint8", "[3,40]", "int64[3,64]", "[3,64]", "axis = 1, reduction = \"add\""),
            (draws){.int_limit = 40}, exact);
    compare(d, ADDED("int64", "[50]", "int32[700]", "[700]", "reduction = \"min\""), (draws){.int_limit = 50}, exact);
    compare(d, ADDED("float", "[2,9000]", "int64[2,100]", "[2,100]", "axis = 1, reduction = \"add\""),
            (draws){.int_limit = 9000}, exact);
    compare(d, ADDED("float", "[9,20]", "int64[30,20]", "[30,20]", "axis = 0, reduction = \"add\""),
            (draws){.int_limit = 9}, exact);
}

#define PRODUCT(type, a, b) GRAPH("(" type a " a, " type b " b) => (y) { y = MatMul(a, b) }")

/* Products of one row: columns side by side, rows side by side, ends of both; such that do not lie in vectors. */
CUDA(one_row) {
    nc_tolerance f32 = nc_tol_device_product_f32;
    compare(d, PRODUCT("float", "[1,700]", "[700,36]"), (draws){0}, f32);
    compare(d, PRODUCT("float", "[1,5]", "[5,16388]"), (draws){.odd = true}, f32);
    compare(d, PRODUCT("float", "[1,9]", "[9,4100]"), (draws){0}, f32);
    compare(d, PRODUCT("float", "[1,132]", "[132,7]"), (draws){.transposed = 2}, f32);
    compare(d, PRODUCT("float", "[1,1]", "[1,4]"), (draws){0}, f32);
    compare(d, PRODUCT("float", "[9]", "[9,12]"), (draws){0}, f32);
    compare(d, PRODUCT("float", "[1,33]", "[33,5]"), (draws){0}, f32);
    compare(d, PRODUCT("float", "[1,0]", "[0,8]"), (draws){0}, exact);
    compare(d, PRODUCT("float", "[1,1111]", "[1111,20]"), (draws){0}, f32);
    compare(d, PRODUCT("float", "[1,1030]", "[1030,4]"), (draws){.odd = true}, f32);
    compare(d, PRODUCT("float16", "[1,1600]", "[1600,40]"), (draws){.odd = true}, nc_tol_device_f16);
    compare(d, PRODUCT("bfloat16", "[1,4160]", "[4160,2]"), (draws){.transposed = 2}, nc_tol_device_bf16);
    compare(d, PRODUCT("float16", "[1,1,40]", "[40,72]"), (draws){0}, nc_tol_device_f16);
    compare(d, PRODUCT("float16", "[1,520]", "[520,3]"), (draws){.transposed = 2}, nc_tol_device_f16);
    compare(d, PRODUCT("bfloat16", "[1,24]", "[24,8]"), (draws){0}, nc_tol_device_bf16);
    compare(d, PRODUCT("float16", "[1,1]", "[1,16]"), (draws){0}, nc_tol_device_f16);
    compare(d, PRODUCT("float16", "[1,2607]", "[2607,24]"), (draws){0}, nc_tol_device_f16);
    compare(d, PRODUCT("bfloat16", "[1,777]", "[777,4104]"), (draws){.odd = true}, nc_tol_device_bf16);
    compare(d, GRAPH("(float[1,20] a, float[20,12] b, float[12] c) => (y) { y = Gemm<alpha = 0.5>(a, b, c) }"),
            (draws){0}, f32);
    compare(d, GRAPH("(float[1,20] a, float[12,20] b, float[1] c) => (y) { y = Gemm<transB = 1>(a, b, c) }"),
            (draws){0}, f32);
}

#define ATTEND(type, q, kv, more, attrs, args)                                                              \
    "<opset: \"\" 24> g (" type q " q, " type kv " k, " type kv " v" more ") => (y) { y = Attention<" attrs \
    ">(q, k, v" args ") }"

/* Keys cut into splits; heads that share keys; ends of keys within a split; masks, windows, lengths. */
CUDA(few_queries) {
    nc_tolerance f32 = nc_tol_device_f32, f16 = nc_tol_device_f16;
    compare(d, ATTEND("float", "[1,8,1,64]", "[1,2,333,64]", "", "is_causal = 0", ""), (draws){0}, f32);
    compare(d, ATTEND("float", "[2,3,2,20]", "[2,3,150,20]", ", bool[2,150] m", "scale = 0.3", ", m"), (draws){0}, f32);
    compare(d, ATTEND("float", "[1,2,4,13]", "[1,1,129,13]", ", float[1,2,4,129] m", "softcap = 2.0", ", m"),
            (draws){0}, f32);
    compare(d, ATTEND("float", "[2,4,1,8]", "[2,4,200,8]", ", int64[2] n", "is_causal = 0", ", , , , n"),
            (draws){.int_limit = 200}, f32);
    compare(d, ATTEND("float16", "[1,6,1,40]", "[1,2,260,40]", "", "is_causal = 0", ""), (draws){0}, f16);
    compare(d, ATTEND("float16", "[3,16,1,128]", "[3,1,64,128]", "", "is_causal = 0", ""), (draws){0}, f16);
    compare(d, ATTEND("bfloat16", "[1,1,16,16]", "[1,1,140,16]", "", "is_causal = 1", ""), (draws){0},
            nc_tol_device_bf16);
    compare(d, ATTEND("float", "[1,2,1,4]", "[1,2,0,4]", "", "is_causal = 0", ""), (draws){0}, exact);
    compare(d, ATTEND("float", "[1,1,1,1]", "[1,1,1,1]", "", "is_causal = 0", ""), (draws){.odd = true}, f32);
}

/* One query whose heads share keys, in tiles of rows that are whole and not; ends of keys within a tile. */
CUDA(heads_that_share_keys) {
    nc_tolerance f16 = nc_tol_device_f16, bf16 = nc_tol_device_bf16;
    compare(d, ATTEND("float16", "[1,8,1,64]", "[1,1,4000,64]", "", "is_causal = 0", ""), (draws){0}, f16);
    compare(d, ATTEND("bfloat16", "[2,10,1,128]", "[2,2,333,128]", ", int64[2] n", "is_causal = 0", ", , , , n"),
            (draws){.int_limit = 333}, bf16);
    compare(d, ATTEND("float16", "[1,32,1,64]", "[1,2,130,64]", ", float16[32,1,130] m", "softcap = 2.0", ", m"),
            (draws){0}, f16);
    compare(d, ATTEND("bfloat16", "[3,18,1,64]", "[3,2,150,64]", ", bool[3,1,1,150] m", "scale = 0.3", ", m"),
            (draws){0}, bf16);
    compare(d, ATTEND("float16", "[1,4,1,128]", "[1,1,140,128]", "", "is_causal = 1", ""), (draws){.odd = true}, f16);
}

CUDA(casts) {
    compare(d, GRAPH("(float[1001] x) => (y) { y = Cast<to = 10>(x) }"), (draws){.odd = true}, exact);
    compare(d, GRAPH("(float16[33,7] x) => (y) { y = Cast<to = 1>(x) }"), (draws){.odd = true, .transposed = 1}, exact);
    compare(d, GRAPH("(double[77] x) => (y) { y = Cast<to = 16>(x) }"), (draws){.odd = true}, exact);
    compare(d, GRAPH("(double[77] x) => (y) { y = Cast<to = 7>(x) }"), (draws){.odd = true}, exact);
    compare(d, GRAPH("(int64[77] x) => (y) { y = Cast<to = 1>(x) }"), (draws){.int_limit = INT64_MAX}, exact);
    compare(d, GRAPH("(bool[5] x) => (y) { y = Cast<to = 11>(x) }"), (draws){0}, exact);
}

#define NBITS(type, a, codes, scales, more, attrs, args)                                                               \
    "<opset: \"\" 21, \"com.microsoft\" 1> g (" type a " a, uint8" codes " b, " type scales " s" more ") => (y) { y =" \
    " com.microsoft.MatMulNBits<" attrs ">(a, b, s" args ") }"
#define NBITS_ZEROS(type, a, codes, scales, zeros, attrs) \
    NBITS(type, a, codes, scales, ", uint8" zeros " z", attrs, ", z")
/* Scales that are powers of two: numbers that halves hold. */
#define NBITS_HALF(type, a, codes, attrs)                                                                             \
    "<opset: \"\" 21, \"com.microsoft\" 1> g (" type a " a, uint8" codes " b) => (y) <const " type "[6] s = {1, 0.5," \
    " 0.25, -1, -0.5, 0.125}> { y = com.microsoft.MatMulNBits<" attrs ">(a, b, s) }"

/* One row, some rows, many; rows of W that are no multiple of what a block takes; ends of K within a block. */
CUDA(few_bits) {
    nc_tolerance f32 = nc_tol_device_product_f32;
    compare(d, NBITS("float", "[1,256]", "[19,8,16]", "[152]", "", "K = 256, N = 19, block_size = 32", ""), (draws){0},
            f32);
    compare(d,
            NBITS("float", "[3,130]", "[7,5,16]", "[7,5]", ", uint8[7,3] z, float[7] c",
                  "K = 130, N = 7, block_size = 32", ", z, , c"),
            (draws){0}, f32);
    compare(d,
            NBITS("float", "[2,5,33]", "[6,3,8]", "[18]", ", float[18] z, float[6] c", "K = 33, N = 6, block_size = 16",
                  ", z, , c"),
            (draws){0}, f32);
    compare(d, NBITS("float", "[1,16]", "[1,1,8]", "[1]", "", "K = 16, N = 1, block_size = 16", ""),
            (draws){.odd = true}, f32);
    compare(d,
            NBITS("float", "[11,70]", "[9,3,16]", "[9,3]", ", uint8[9,2] z, int32[70] i, float[9] c",
                  "K = 70, N = 9, block_size = 32", ", z, i, c"),
            (draws){.int_limit = 3}, f32);
    compare(d, NBITS("float", "[2,48]", "[5,3,4]", "[5,3]", "", "K = 48, N = 5, block_size = 16, bits = 2", ""),
            (draws){0}, f32);
    compare(d, NBITS("float", "[9,64]", "[5,1,64]", "[5]", "", "K = 64, N = 5, block_size = 64, bits = 8", ""),
            (draws){0}, f32);
    compare(d, NBITS("float", "[0,64]", "[5,1,32]", "[5]", "", "K = 64, N = 5, block_size = 64", ""), (draws){0}, f32);
    compare(d, NBITS("float", "[1,4500]", "[3,36,64]", "[108]", "", "K = 4500, N = 3, block_size = 128", ""),
            (draws){0}, nc_tol_device_sum_f32);
    compare(d, NBITS_HALF("float16", "[1,48]", "[2,3,8]", "K = 48, N = 2, block_size = 16"), (draws){.odd = true},
            nc_tol_device_f16);
    compare(d, NBITS_HALF("float16", "[1,96]", "[2,3,16]", "K = 96, N = 2, block_size = 32"), (draws){.odd = true},
            nc_tol_device_f16);
    compare(d, NBITS_HALF("bfloat16", "[2,90]", "[2,3,16]", "K = 90, N = 2, block_size = 32"), (draws){0},
            nc_tol_device_bf16);
    compare(d,
            NBITS_ZEROS("float16", "[1,2100]", "[21,17,64]", "[357]", "[21,9]", "K = 2100, N = 21, block_size = 128"),
            (draws){0}, nc_tol_device_f16);
    compare(d, NBITS_ZEROS("bfloat16", "[2,700]", "[33,11,32]", "[363]", "[33,6]", "K = 700, N = 33, block_size = 64"),
            (draws){0}, nc_tol_device_bf16);
    compare(d, NBITS_ZEROS("float16", "[3,64]", "[5,2,16]", "[10]", "[5,1]", "K = 64, N = 5, block_size = 32"),
            (draws){0}, nc_tol_device_f16);
    compare(d, NBITS_HALF("float16", "[12,96]", "[2,3,16]", "K = 96, N = 2, block_size = 32"), (draws){0},
            nc_tol_device_f16);
    compare(d, NBITS_HALF("bfloat16", "[5,40]", "[3,2,16]", "K = 40, N = 3, block_size = 32"), (draws){0},
            nc_tol_device_bf16);
    /* One row of a half type, as integers: zero points of all kinds, a row too long for it. */
    compare(d, NBITS_HALF("bfloat16", "[1,45]", "[2,3,8]", "K = 45, N = 2, block_size = 16"), (draws){.odd = true},
            nc_tol_device_bf16);
    compare(d, NBITS_ZEROS("bfloat16", "[1,700]", "[33,11,32]", "[363]", "[33,6]", "K = 700, N = 33, block_size = 64"),
            (draws){0}, nc_tol_device_bf16);
    compare(d,
            NBITS("float16", "[1,33]", "[9,3,8]", "[27]", ", float16[27] z, float16[9] c",
                  "K = 33, N = 9, block_size = 16", ", z, , c"),
            (draws){0}, nc_tol_device_f16);
    compare(d, NBITS("float16", "[1,24000]", "[3,750,16]", "[2250]", "", "K = 24000, N = 3, block_size = 32", ""),
            (draws){0}, nc_tol_device_f16);
}

/* The site's input 0 becomes the first one's output 0, on both sides. */
static void join(const site *from, site *to) {
    nc_free(to->in[0][0].data);
    to->d->table->free(to->d, to->s, to->in[1][0].data);
    for (int k = 0; k < 2; k++) to->in[k][0] = from->out[k][0];
    to->joined = true;
}

CUDA(captured_sequence) {
    nc_stream *s = stream(d);
    site x[4];
    draws how = {.seed = 5, .int_limit = 10};
    nc_capture *capture = NULL;
    bool ok = site_init(&x[0], d, s,
                        GRAPH("(float[33,40] x, float[40,10] w, float[10] b) => (y) { y = Gemm(x, w, b) }"), &how);
    ok &= site_init(&x[1], d, s, GRAPH("(float[33,10] x) => (y) { y = Relu(x) }"), &how);
    ok &= site_init(&x[2], d, s, LOSS("reduction = \"mean\"", "float[33,10]", "int64[33]", "", ""), &how);
    ok &= site_init(&x[3], d, s, GRAPH("(int64[2] s) => (n) { n = nacre.RandomStep(s) }"), &how);
    if (ok) {
        join(&x[0], &x[1]);
        join(&x[1], &x[2]);
        OK(d->table->capture_begin(d, s, &diag));
        for (int i = 0; i < 4; i++) site_launch(&x[i]);
        OK(d->table->capture_end(d, s, &capture, &diag));
        for (how.seed = 6; how.seed < 9; how.seed++) {
            for (int i = 0; i < 4; i++) site_draw(&x[i], &how);
            OK(d->table->capture_replay(d, s, capture, &diag));
            for (int i = 0; i < 4; i++) site_check(&x[i], nc_tol_device_product_f32);
        }
        d->table->capture_destroy(d, capture);
    }
    for (int i = 3; i >= 0; i--) site_release(&x[i]);
    d->table->stream_destroy(d, s);
}
