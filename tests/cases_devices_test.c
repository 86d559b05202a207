/* Every row of every family's cases through whole sessions: the guard device and another thread count must give the
 * CPU's bits, also with passes, fusion, layouts and views switched off (within rounding), and a GPU, where there is
 * one, the same within tolerance. Where operands and results are at most FEW elements, no thread is woken for them. */
#include "api/api.h"
#include "base/dtype.h"
#include "ops/cases.h"
#include "tests/model.h"

#include <stdlib.h>

#define CASES(family) extern const nc_case nc_##family##_cases[];
#include "tests/cases.list"
#undef CASES

enum { MAX_SYMBOLS = 16, MAX_BYTES = 1 << 20, FEW = 1024 };

typedef struct symbols {
    char names[MAX_SYMBOLS][64];
    int n;
} symbols;

/* 5, 7, 9, ... in the order in which names appear. */
static int64_t size_of(symbols *s, const char name[64]) {
    int i = 0;
    while (i < s->n && strcmp(s->names[i], name) != 0) i++;
    if (i == s->n && s->n < MAX_SYMBOLS) memcpy(s->names[s->n++], name, sizeof s->names[0]);
    return 5 + 2 * i;
}

static nc_case_range range_of(const nc_case *row, size_t i) {
    nc_case_range r = {-2, 2};
    for (size_t k = 0; k <= i && k < 4; k++)
        if (row->in[k].lo != 0 || row->in[k].hi != 0) r = row->in[k];
    return r;
}

static void store(void *p, nacre_type t, int64_t i, double x) {
    switch (t) {
    case NACRE_FLOAT: ((float *)p)[i] = (float)x; break;
    case NACRE_DOUBLE: ((double *)p)[i] = x; break;
    case NACRE_INT64: ((int64_t *)p)[i] = (int64_t)floor(x); break;
    case NACRE_UINT64: ((uint64_t *)p)[i] = (uint64_t)fabs(x); break;
    case NACRE_INT32: ((int32_t *)p)[i] = (int32_t)floor(x); break;
    case NACRE_UINT32: ((uint32_t *)p)[i] = (uint32_t)fabs(x); break;
    case NACRE_INT16: ((int16_t *)p)[i] = (int16_t)floor(x); break;
    case NACRE_UINT16: ((uint16_t *)p)[i] = (uint16_t)fabs(x); break;
    case NACRE_INT8: ((int8_t *)p)[i] = (int8_t)floor(x); break;
    case NACRE_UINT8: ((uint8_t *)p)[i] = (uint8_t)fabs(x); break;
    case NACRE_BOOL: ((uint8_t *)p)[i] = x > 0; break;
    case NACRE_FLOAT16: ((uint16_t *)p)[i] = nc_f32_to_f16((float)x); break;
    case NACRE_BFLOAT16: ((uint16_t *)p)[i] = nc_f32_to_bf16((float)x); break;
    default: break;
    }
}

static void feed(model *m, const nc_case *row) {
    static unsigned char bytes[MAX_BYTES];
    symbols syms = {.n = 0};
    for (size_t i = 0; i < nacre_session_n_inputs(m->session); i++) {
        char name[64];
        int few;
        int64_t dims[NACRE_MAX_RANK], n = 1;
        nacre_type t = nacre_session_input_type(m->session, i, &few, dims);
        int rank = nacre_session_dims(m->session, NACRE_EVERY_INPUT, i, dims, NACRE_MAX_RANK);
        for (int d = 0; d < rank; d++) {
            nacre_session_dim_name(m->session, NACRE_EVERY_INPUT, i, d, name);
            if (dims[d] < 0) dims[d] = size_of(&syms, name);
            n *= dims[d];
        }
        if (n * 8 > MAX_BYTES) nc_test_failed(__FILE__, __LINE__, "%s: an input is too large", row->name);
        nc_case_range r = range_of(row, i);
        double *x = malloc((size_t)n * sizeof *x + 1);
        random_doubles(x, n, i + 1);
        for (int64_t k = 0; k < n && n * 8 <= MAX_BYTES; k++) {
            double v = r.lo + (r.hi - r.lo) * (x[k] + 1) / 2;
            if ((row->flags & NC_CASE_KINK) && fabs(v) < 0.05) v += v < 0 ? -0.05 : 0.05;
            store(bytes, t, k, v);
        }
        free(x);
        model_input(m, nacre_session_input_name(m->session, i), t, rank, dims, bytes);
    }
}

static bool run_case(model *m, const nc_case *row) {
    model_open(m, row->graph);
    if (!m->failed) feed(m, row);
    model_run(m);
    model_collect_all(m);
    if (m->failed) nc_test_failed(__FILE__, __LINE__, "case %s", row->name);
    return !m->failed;
}

static double value_at(nacre_value *v, int64_t i) {
    const void *p = nacre_value_data(v);
    switch (nacre_value_type(v)) {
    case NACRE_FLOAT: return ((const float *)p)[i];
    case NACRE_DOUBLE: return ((const double *)p)[i];
    case NACRE_FLOAT16: return nc_f16_to_f32(((const uint16_t *)p)[i]);
    case NACRE_BFLOAT16: return nc_bf16_to_f32(((const uint16_t *)p)[i]);
    case NACRE_INT64: return (double)((const int64_t *)p)[i];
    case NACRE_INT32: return ((const int32_t *)p)[i];
    case NACRE_BOOL:
    case NACRE_UINT8: return ((const uint8_t *)p)[i];
    case NACRE_INT8: return ((const int8_t *)p)[i];
    default: return 0;
    }
}

static nc_tolerance tolerance(nacre_type t) {
    if (t == NACRE_DOUBLE) return nc_tol_device_f64;
    return t == NACRE_FLOAT16 ? nc_tol_device_f16 : t == NACRE_BFLOAT16 ? nc_tol_device_bf16 : nc_tol_device_f32;
}

static void compare_near(const nc_case *row, model *a, model *b, const char *what) {
    for (size_t i = 0; i < nacre_session_n_outputs(a->session); i++) {
        nacre_value *x = a->out[i], *y = b->out[i];
        if (nacre_value_kind(x) != NACRE_KIND_TENSOR || nacre_value_type(x) == NACRE_STRING) continue;
        nc_tolerance tol = tolerance(nacre_value_type(x));
        for (int64_t k = 0; k < nacre_value_count(x); k++) {
            double p = value_at(x, k), q = value_at(y, k);
            if (nc_close(q, p, tol)) continue;
            nc_test_failed(__FILE__, __LINE__, "%s, output %zu[%lld]: %.9g, %s %.9g", row->name, i, (long long)k, p,
                           what, q);
            break;
        }
    }
}

static void same_bits(const nc_case *row, model *a, model *b) {
    if (a->n_bytes != b->n_bytes || (a->n_bytes && memcmp(a->bytes, b->bytes, a->n_bytes) != 0))
        nc_test_failed(__FILE__, __LINE__, "%s: guard with 2 threads gives other bits than cpu with 1", row->name);
}

static int64_t elements(nacre_value *const *v, size_t n) {
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i] && nacre_value_kind(v[i]) == NACRE_KIND_TENSOR) sum += nacre_value_count(v[i]);
    return sum;
}

static void wakes_nobody(const nc_case *row, const model *m) {
    int64_t n = elements(m->in, m->n_in) + elements(m->out, nacre_session_n_outputs(m->session));
    uint64_t posts = nc_pool_posts(m->env->env->pool);
    if (n <= FEW && posts)
        nc_test_failed(__FILE__, __LINE__, "%s: threads were asked %llu times to help with %lld elements", row->name,
                       (unsigned long long)posts, (long long)n);
}

static void switch_off(model *m) {
    static const char *const keys[] = {"fusion", "layouts", "views", "packing", "level"};
    for (int i = 0; i < 5; i++) model_option(m, keys[i], "off");
}

static bool has_cuda(void) {
    static int known;
    char text[256];
    if (!known) {
        model m;
        model_init(&m, "cuda", 1);
        known = nacre_env_describe_device(m.env, "cuda", text, sizeof text, &m.err) == NACRE_OK ? 2 : 1;
        if (known == 2) nc_test_ran_on(text);
        model_close(&m);
    }
    return known == 2;
}

/* stays: every node has to compute on the device. */
static void check_row(const nc_case *row, bool stays) {
    model cpu, guard, plain, cuda;
    model_init(&cpu, "cpu", 1);
    model_init(&guard, "guard", 2);
    model_init(&plain, "cpu", 2);
    switch_off(&plain);
    if (run_case(&cpu, row) && run_case(&guard, row) && run_case(&plain, row)) {
        same_bits(row, &cpu, &guard);
        wakes_nobody(row, &guard);
        wakes_nobody(row, &plain);
        compare_near(row, &cpu, &plain, "with everything off");
    }
    if (has_cuda() && !cpu.failed) {
        model_init(&cuda, "cuda", 2);
        if (stays) model_option(&cuda, "host_nodes", "off");
        if (run_case(&cuda, row)) compare_near(row, &cpu, &cuda, "on the GPU");
        model_close(&cuda);
    }
    model_close(&cpu);
    model_close(&guard);
    model_close(&plain);
}

static void check_family(const nc_case *cases) {
    for (const nc_case *row = cases; row->name; row++) check_row(row, false);
}

/* ---- what the tables of the families cannot hold: elements that have no double of the same kind; all of it has to
 * stay on the device ---- */

#define NEWEST "<opset: \"\" 28> g "
/* Roots make NaN of negative numbers; 1e4 is beyond the largest of most types. */
#define NARROW(to, attrs)                                                                                             \
    {"narrow_" to attrs,                                                                                              \
     NEWEST "(float[n,33] x, float16[3] h, int32[n] i, float[0] e) => (a, b, c, d) { r = Sqrt(x) s = Add(x, r) "      \
            "p = Cast<to = " to attrs ">(s) a = Cast<to = 1>(p) q = Cast<to = " to attrs ">(h) b = Cast<to = 11>(q) " \
            "j = Cast<to = " to attrs ">(i) c = Cast<to = 6>(j) f = Cast<to = " to attrs                              \
            ">(e) d = Cast<to = 10>(f) }",                                                                            \
     {{-1e4, 1e4}, {-9, 9}, {-90, 90}}},                                                                              \
    {                                                                                                                 \
        "narrow_small_" to attrs,                                                                                     \
            NEWEST "(double[7,n] x) => (y) { p = Cast<to = " to attrs ">(x) y = Cast<to = 16>(p) }", {                \
            { -1, 1 }                                                                                                 \
        }                                                                                                             \
    }
#define NARROWS(to) NARROW(to, ""), NARROW(to, ", saturate = 0")
#define LINEAR(rule, t, heads, more, args)                                                        \
    {                                                                                             \
        "linear_attention_" rule "_" t,                                                           \
            NEWEST "(" t "[2,n,12] q, " t "[2,n,6] k, " t "[2,n,10] v" more                       \
                   ") => (y, s) { y, s = LinearAttention<q_num_heads = "                          \
                   "4, kv_num_heads = " heads ", update_rule = \"" rule "\">(q, k, v" args ") }", \
        {                                                                                         \
            { -1, 1 }                                                                             \
        }                                                                                         \
    }

static const nc_case device_rows[] = {
    NARROWS("17"),
    NARROWS("18"),
    NARROWS("19"),
    NARROWS("20"),
    NARROW("21", ""),
    NARROW("22", ""),
    NARROW("23", ""),
    NARROW("24", ", round_mode = \"up\""),
    NARROW("24", ", round_mode = \"nearest\""),
    NARROW("24", ", saturate = 0, round_mode = \"down\""),
    NARROW("25", ""),
    NARROW("26", ""),
    NARROW("27", ""),
    NARROW("28", ""),
    {"range_at_run",
     NEWEST "(float[] a, float[] b, float[] d, float16[] p, float16[] q, float16[] r) => (x, y) "
            "{ x = Range(a, b, d) y = Range(p, q, r) }",
     {{1, 2}, {9, 12}, {0.5, 1}, {1, 2}}},
    {"zero_point_at_run",
     NEWEST "(float[n,3] x, float[3] o, float16[] p) => (y, b) <const float[3] s = {0.05, 1, 3}> "
            "{ z = Cast<to = 17>(o) q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) w = Cast<to = 20>(p) t = "
            "Cast<to = 10>(p) "
            "h = Cast<to = 10>(x) u = Exp(t) v = QuantizeLinear(h, u, w) b = Cast<to = 1>(v) }",
     {{-40, 40}, {-1e-9, 1e-9}, {-1e-9, 1e-9}}},
    {"mel_weights",
     NEWEST "(int64[] m, int64[] o, int64[] l) => (y, z) "
            "<const int64[] r = {16000}, const float[] a = {20}, const float[] b = {7600}> "
            "{ y = MelWeightMatrix(m, l, r, a, b) z = MelWeightMatrix<output_datatype = 11>(o, l, r, a, b) }",
     {{8, 9}, {150, 151}, {512, 513}}},
#define GRAMS                                                                                               \
    "min_gram_length = 1, max_gram_length = 2, max_skip_count = 2, ngram_counts = [0, 3], ngram_indexes = " \
    "[0, 2, 4, 1, 6], pool_int64s = [0, 1, 2, 1, 2, 0, 0], weights = [0.5, 2.0, 1.0, 3.0, 0.25]"
    {"tfidf",
     NEWEST "(int64[3,n] x, int32[2] s, int64[2,0] e) => (y, z, w, v) { y = TfIdfVectorizer<mode = \"TFIDF\", " GRAMS
            ">(x) z = TfIdfVectorizer<mode = \"IDF\", " GRAMS ">(s) w = TfIdfVectorizer<mode = \"TF\", " GRAMS
            ">(e) v = TfIdfVectorizer<mode = \"IDF\", " GRAMS ">(x) }",
     {{0, 3}, {0, 2}}},
    {"unique_at_run",
     NEWEST "(bfloat16[3,200] x, int64[30,2] i) => (y, a, b, c, z) "
            "{ y, a, b, c = Unique<sorted = 0>(x) z = Unique<axis = 0>(i) }",
     {{-1, 1}, {0, 3}}},
    {"inverses",
     "<opset: \"\" 18, \"com.microsoft\" 1> g (float[n,4,4] x, double[33,33] z) => (y, w) "
     "{ y = com.microsoft.Inverse(x) w = com.microsoft.Inverse(z) }",
     {{-1, 1}, {-1, 1}}},
    LINEAR("linear", "float", "2", "", ""),
    LINEAR("gated", "bfloat16", "2", ", bfloat16[2,n,2] d", ", , d"),
    LINEAR("delta", "float16", "2", ", float[2,2,3,5] p, float16[2,n,1] b", ", p, , b"),
    LINEAR("gated_delta", "float", "2", ", float[2,2,3,5] p, float[2,n,6] d, float[2,n,2] b", ", p, d, b"),
    {"linear_attention_no_tokens",
     NEWEST "(float[2,0,4] q, float[2,0,4] k, float[2,0,4] v, float[2,2,2,2] p) => (y, s) "
            "{ y, s = LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = \"linear\">(q, k, v, p) }"},
    {0}};

TEST(cases_on_devices_alone) {
    for (const nc_case *row = device_rows; row->name; row++) check_row(row, true);
}

#define CASES(family) \
    TEST(cases_on_devices_##family) { check_family(nc_##family##_cases); }
#include "tests/cases.list"
