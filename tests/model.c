/* tests/model.c: see model.h. */
#include "tests/model.h"

#include "base/dtype.h"

#include <stdlib.h>

static void report(model *m, const char *what) {
    if (!m->failed)
        nc_test_failed(__FILE__, __LINE__, "%s on %s with %d threads: %s '%s': %s [%s]", what, m->device, m->threads,
                       m->err.op, m->err.node, m->err.text, nacre_code_name(m->err.code));
    m->failed = true;
}

void model_init(model *m, const char *device, int threads) {
    *m = (model){.device = device, .threads = threads};
    if (nacre_env_create(threads, &m->env, &m->err) != NACRE_OK)
        report(m, "environment");
    else if (nacre_run_options_create(&m->run, &m->err) != NACRE_OK)
        report(m, "run options");
}

static void drop_outputs(model *m) {
    for (size_t i = 0; i < MODEL_MAX; i++) {
        nacre_value_release(m->out[i]);
        m->out[i] = NULL;
    }
}

void model_close(model *m) {
    drop_outputs(m);
    for (size_t i = 0; i < m->n_in; i++) nacre_value_release(m->in[i]);
    nacre_session_release(m->session);
    nacre_options_release(m->options);
    nacre_run_options_release(m->run);
    nacre_env_release(m->env);
    free(m->bytes);
    *m = (model){0};
}

void model_everywhere(void (*body)(model *m)) {
    static const char *const devices[] = {"cpu", "guard"};
    static const int threads[] = {1, 2, 5};
    unsigned char *first = NULL;
    size_t n_first = 0;
    for (int d = 0; d < 2; d++)
        for (int t = 0; t < 3; t++) {
            model m;
            model_init(&m, devices[d], threads[t]);
            if (!m.failed) body(&m);
            if (d == 0 && t == 0) {
                first = m.bytes, n_first = m.n_bytes;
                m.bytes = NULL;
            } else if (!m.failed && (m.n_bytes != n_first || (n_first && memcmp(m.bytes, first, n_first) != 0))) {
                nc_test_failed(__FILE__, __LINE__, "%s with %d threads gives other bits than cpu with 1", devices[d],
                               threads[t]);
            }
            model_close(&m);
        }
    free(first);
}

bool model_on_cuda(void (*body)(model *m)) {
    static char why[512];
    char text[256];
    model m;
    model_init(&m, "cuda", 2);
    bool there = !m.failed && nacre_env_describe_device(m.env, "cuda", text, sizeof text, &m.err) == NACRE_OK;
    if (there) body(&m);
    if (!there) snprintf(why, sizeof why, "%s", m.err.text);
    model_close(&m);
    if (!there) nc_test_not_run(why);
    return there;
}

nacre_options *model_options(model *m) {
    if (!m->options) {
        if (nacre_options_create(&m->options, &m->err) != NACRE_OK)
            report(m, "options");
        else if (nacre_options_set(m->options, "device", m->device, &m->err) != NACRE_OK)
            report(m, "device");
        else if (nacre_options_set(m->options, "dumps", "on", &m->err) != NACRE_OK)
            report(m, "dumps");
    }
    return m->options;
}

void model_option(model *m, const char *key, const char *value) {
    if (!m->failed && nacre_options_set(model_options(m), key, value, &m->err) != NACRE_OK) report(m, key);
}

nacre_code model_try_open(model *m, const char *text) {
    nacre_model *model_;
    if (m->failed) return NACRE_FAIL;
    nacre_options *o = model_options(m);
    nacre_code code = nacre_model_parse(m->env, text, &model_, &m->err);
    return code == NACRE_OK ? nacre_session_create(m->env, model_, o, &m->session, &m->err) : code;
}

void model_open(model *m, const char *text) {
    if (!m->failed && model_try_open(m, text) != NACRE_OK) report(m, "session");
}

void model_value(model *m, const char *name, nacre_value *takes) {
    size_t i = 0;
    while (i < m->n_in && strcmp(m->in_names[i], name) != 0) i++;
    if (i == m->n_in) m->n_in++;
    nacre_value_release(m->in[i]);
    m->in[i] = takes, m->in_names[i] = name;
}

void model_input(model *m, const char *name, nacre_type type, int rank, const int64_t *dims, const void *data) {
    nacre_value *v;
    if (m->failed) return;
    if (nacre_value_new_tensor(type, rank, dims, &v, &m->err) != NACRE_OK) {
        report(m, name);
        return;
    }
    size_t n = ((size_t)nacre_value_count(v) * nc_dtype_bits((nc_dtype)type) + 7) / 8;
    if (n) memcpy(nacre_value_data(v), data, n);
    model_value(m, name, v);
}

nacre_code model_try_run(model *m) {
    const char *names[MODEL_MAX];
    if (m->failed) return NACRE_FAIL;
    size_t n = nacre_session_n_outputs(m->session);
    drop_outputs(m);
    for (size_t i = 0; i < n; i++) names[i] = nacre_session_output_name(m->session, i);
    return nacre_run(m->session, m->run, m->in_names, m->in, m->n_in, names, n, m->out, &m->err);
}

enum { MAX_SIZES = 64 };

typedef struct sizes {
    char names[MAX_SIZES][64];
    const char *name[MAX_SIZES];
    int64_t value[MAX_SIZES];
    size_t n;
} sizes;

static bool is_symbol(const char *s) {
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == strlen(s) &&
           !(s[0] >= '0' && s[0] <= '9') && s[0];
}

/* The named dims of an input and their sizes in this run. False: a dim is no plain name or number, or there are too
 * many. */
static bool add_sizes(sizes *z, const model *m, size_t i_input, const nacre_value *v) {
    const int64_t *dims = nacre_value_dims(v);
    for (int d = 0; d < nacre_value_rank(v); d++) {
        char name[64];
        nacre_session_dim_name(m->session, NACRE_EVERY_INPUT, i_input, d, name);
        if (name[0] >= '0' && name[0] <= '9') continue;
        if (!is_symbol(name) || z->n == MAX_SIZES) return false;
        memcpy(z->names[z->n], name, sizeof name);
        z->name[z->n] = z->names[z->n], z->value[z->n++] = dims[d];
    }
    return true;
}

static bool find_sizes(sizes *z, const model *m) {
    z->n = 0;
    for (size_t i = 0; i < nacre_session_n_inputs(m->session); i++)
        for (size_t k = 0; k < m->n_in; k++)
            if (strcmp(nacre_session_input_name(m->session, i), m->in_names[k]) == 0 &&
                nacre_value_kind(m->in[k]) == NACRE_KIND_TENSOR && !add_sizes(z, m, i, m->in[k]))
                return false;
    return true;
}

/* The first run takes the memory that was predicted for its sizes; less where bodies did not run, or where what a
 * segment found was smaller than its bound. */
static void check_prediction(model *m) {
    static sizes z;
    nacre_stats stats = model_stats(m);
    nacre_plan p = {.size = sizeof p};
    if (stats.runs != 1 || stats.frames != 1 || !find_sizes(&z, m)) return;
    if (nacre_session_plan(m->session, z.name, z.value, z.n, &p, &m->err) != NACRE_OK) return;
    size_t bytes = p.bytes_frame[0] + p.bytes_frame[1];
    nacre_free(p.rows);
    bool bound = model_dump_count(m, "lowered", "_branch = ") || model_dump_count(m, "lowered", "Loop") ||
                 model_dump_count(m, "program", "segment ") > 1;
    if (p.n_unknown || (bound ? stats.bytes_frames_peak <= bytes : stats.bytes_frames_peak == bytes)) return;
    nc_test_failed(__FILE__, __LINE__, "on %s a run took %llu bytes, predicted were %zu", m->device,
                   (unsigned long long)stats.bytes_frames_peak, bytes);
}

void model_run(model *m) {
    if (!m->failed && model_try_run(m) != NACRE_OK) report(m, "run");
    if (!m->failed) check_prediction(m);
}

nacre_value *model_out(model *m, const char *name) {
    if (m->failed) return NULL;
    for (size_t i = 0; i < nacre_session_n_outputs(m->session); i++)
        if (strcmp(nacre_session_output_name(m->session, i), name) == 0) return m->out[i];
    nc_test_failed(__FILE__, __LINE__, "no output %s", name);
    m->failed = true;
    return NULL;
}

static const void *data_of(model *m, const char *name, nacre_type type, int64_t n) {
    static const double zeros[4096];
    nacre_value *v = model_out(m, name);
    if (!v) return zeros; /* the test has failed already; let it go on */
    if (nacre_value_type(v) == type && nacre_value_count(v) == n) return nacre_value_data(v);
    nc_test_failed(__FILE__, __LINE__, "output %s has type %d and %lld elements, expected %d and %lld", name,
                   (int)nacre_value_type(v), (long long)nacre_value_count(v), (int)type, (long long)n);
    return zeros;
}

const float *model_floats(model *m, const char *name, int64_t n) { return data_of(m, name, NACRE_FLOAT, n); }
const double *model_doubles(model *m, const char *name, int64_t n) { return data_of(m, name, NACRE_DOUBLE, n); }
const int64_t *model_ints(model *m, const char *name, int64_t n) { return data_of(m, name, NACRE_INT64, n); }

nacre_value *model_variable(model *m, const char *name) {
    nacre_value *v = NULL;
    if (!m->failed && nacre_state_get(m->session, NULL, name, &v, &m->err) != NACRE_OK) report(m, name);
    return v;
}

static void add_bytes(model *m, const void *p, size_t n) {
    if (m->n_bytes + n > m->cap_bytes) {
        m->cap_bytes = (m->n_bytes + n) * 2;
        m->bytes = realloc(m->bytes, m->cap_bytes);
    }
    if (n) memcpy(m->bytes + m->n_bytes, p, n);
    m->n_bytes += n;
}

void model_collect(model *m, nacre_value *v) {
    if (!v) return;
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR) {
        for (int64_t i = 0; i < nacre_value_count(v); i++) {
            nacre_value *item = nacre_value_item(v, i);
            model_collect(m, item);
            nacre_value_release(item);
        }
        return;
    }
    add_bytes(m, nacre_value_dims(v), (size_t)nacre_value_rank(v) * sizeof(int64_t));
    for (int64_t i = 0; nacre_value_type(v) == NACRE_STRING && i < nacre_value_count(v); i++) {
        size_t n;
        const char *s = nacre_value_string(v, i, &n);
        add_bytes(m, s, n);
    }
    if (nacre_value_type(v) != NACRE_STRING)
        add_bytes(m, nacre_value_data(v),
                  ((size_t)nacre_value_count(v) * nc_dtype_bits((nc_dtype)nacre_value_type(v)) + 7) / 8);
}

void model_collect_all(model *m) {
    if (m->failed) return;
    for (size_t i = 0; i < nacre_session_n_outputs(m->session); i++) model_collect(m, m->out[i]);
}

int model_dump_count(model *m, const char *stage, const char *part) {
    char *text;
    int n = 0;
    if (m->failed || nacre_session_dump(m->session, stage, &text, &m->err) != NACRE_OK) return -1;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part)) n++;
    nacre_free(text);
    return n;
}

nacre_stats model_stats(model *m) {
    nacre_stats s = {0};
    if (!m->failed) nacre_session_stats(m->session, &s);
    return s;
}

static double next(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (double)(*s >> 11) / 4503599627370496.0 - 1;
}

void random_floats(float *p, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) p[i] = (float)next(&seed);
}

void random_doubles(double *p, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) p[i] = next(&seed);
}
