/* tools/nacre/feed.c: the inputs of a run, from files where given, else repeatable random numbers; and the run. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- files ---- */

nacre_code bytes_read(const char *path, unsigned char **out, size_t *n, nacre_error *err) {
    FILE *f = fopen(path, "rb");
    if (!f) return file_error(err, NACRE_NO_FILE, path, "cannot be opened");
    unsigned char *b = NULL;
    struct stat st;
    size_t used = 0, cap = 0, first = fstat(fileno(f), &st) == 0 && st.st_size > 0 ? (size_t)st.st_size + 1 : 65536;
    for (;;) {
        if (used == cap) {
            cap = cap ? cap * 2 : first;
            unsigned char *more = realloc(b, cap);
            if (!more) break;
            b = more;
        }
        size_t got = fread(b + used, 1, cap - used, f);
        if (!got) break;
        used += got;
    }
    bool whole = feof(f) && !ferror(f);
    fclose(f);
    if (!whole) {
        free(b);
        return file_error(err, NACRE_IO, path, "cannot be read");
    }
    *out = b, *n = used;
    return NACRE_OK;
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

static nacre_code raw_value(const char *path, const unsigned char *b, size_t n, nacre_type type, int rank,
                            const int64_t *dims, nacre_value **out, nacre_error *err) {
    if (rank < 0 || !nacre_type_bytes(type))
        return file_error(err, NACRE_UNSUPPORTED, path, "raw bytes need an input of a number type and known rank");
    nacre_value *v;
    nacre_code code = nacre_value_new_tensor(type, rank, dims, &v, err);
    if (code != NACRE_OK) return code;
    size_t want = (size_t)nacre_value_count(v) * nacre_type_bytes(type);
    if (want != n) {
        char text[160];
        nacre_value_release(v);
        snprintf(text, sizeof text, "raw bytes: expected %zu for this shape (free dims by --dim), got %zu", want, n);
        return file_error(err, NACRE_SHAPE, path, text);
    }
    if (n) memcpy(nacre_value_data(v), b, n);
    *out = v;
    return NACRE_OK;
}

nacre_code value_read(const char *path, const char *member, nacre_kind kind, nacre_type type, int rank,
                      const int64_t *dims, nacre_value **out, nacre_error *err) {
    unsigned char *b;
    size_t n;
    if (ends_with(path, ".npz")) return npz_read(path, member, out, err);
    nacre_code code = bytes_read(path, &b, &n, err);
    if (code != NACRE_OK) return code;
    if (ends_with(path, ".npy")) {
        code = npy_parse(path, b, n, out, err);
    } else if (ends_with(path, ".pb")) {
        code = nacre_value_from_proto(kind, b, n, out, err);
        if (code != NACRE_OK && !err->node[0]) {
            snprintf(err->node, sizeof err->node, "%s", path);
            snprintf(err->op, sizeof err->op, "file");
        }
    } else {
        code = raw_value(path, b, n, type, rank, dims, out, err);
    }
    free(b);
    return code;
}

/* ---- random ---- */

static double next_random(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (double)(*s >> 11) / 9007199254740992.0;
}

/* Small numbers that most models accept: floats in [-1, 1), whole numbers 0 or 1. float16 and bfloat16 are cut from the
 * float's bits. */
static void fill_random(nacre_value *v, uint64_t seed) {
    int64_t n = nacre_value_count(v);
    void *p = nacre_value_data(v);
    for (int64_t i = 0; p && i < n; i++) {
        double r = next_random(&seed);
        float f = (float)(2 * r - 1);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        int e = (int)(bits >> 23 & 255) - 112;
        uint16_t half = (uint16_t)((bits >> 16 & 0x8000) | (e > 0 ? (uint32_t)e << 10 | (bits >> 13 & 0x3ff) : 0));
        int bit = r < 0.5;
        switch (nacre_value_type(v)) {
        case NACRE_FLOAT: ((float *)p)[i] = f; break;
        case NACRE_DOUBLE: ((double *)p)[i] = 2 * r - 1; break;
        case NACRE_FLOAT16: ((uint16_t *)p)[i] = half; break;
        case NACRE_BFLOAT16: ((uint16_t *)p)[i] = (uint16_t)(bits >> 16); break;
        case NACRE_UINT64:
        case NACRE_INT64: ((int64_t *)p)[i] = 1 - bit; break;
        case NACRE_UINT32:
        case NACRE_INT32: ((int32_t *)p)[i] = 1 - bit; break;
        case NACRE_UINT16:
        case NACRE_INT16: ((int16_t *)p)[i] = (int16_t)(1 - bit); break;
        case NACRE_BOOL: ((uint8_t *)p)[i] = (uint8_t)bit; break;
        case NACRE_UINT8:
        case NACRE_INT8: ((int8_t *)p)[i] = (int8_t)(1 - bit); break;
        default: break; /* zeros */
        }
    }
}

/* ---- one input ---- */

/* To the nearest float16, ties to even; what is beyond its range becomes infinite. */
static float to_half(float f) {
    if (!isfinite(f)) return f;
    double scale = ldexp(1, 10 - (fabsf(f) < 0x1p-14f ? -14 : ilogbf(f)));
    float rounded = (float)(rint((double)f * scale) / scale);
    return fabsf(rounded) >= 65520 ? copysignf(INFINITY, f) : rounded;
}

void value_round_to_half(nacre_value *v) {
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR || nacre_value_type(v) != NACRE_FLOAT) return;
    float *p = nacre_value_data(v);
    for (int64_t i = 0; i < nacre_value_count(v); i++) p[i] = to_half(p[i]);
}

static int size_dims(const char *command, const common *c, nacre_session *s, size_t i, int rank, int64_t *dims) {
    for (int d = 0; d < rank; d++) {
        char name[64], *end;
        if (dims[d] >= 0) continue;
        nacre_session_dim_name(s, NACRE_EVERY_INPUT, i, d, name);
        const char *v = list_value(&c->dims, name);
        dims[d] = v ? strtoll(v, &end, 10) : 1;
        if (v && (end == v || *end || dims[d] < 0))
            return cli_usage(command, "--dim %s wants a whole number, got '%s'", name, v);
    }
    return EXIT_DONE;
}

/* The file given for an input: NAME=FILE, or an archive given without a name that holds it. */
static nacre_code read_given(const common *c, const char *name, nacre_kind kind, nacre_type type, int rank,
                             const int64_t *dims, nacre_value **out, nacre_error *err) {
    const char *file = list_value(&c->inputs, name);
    if (file) return value_read(file, name, kind, type, rank, dims, out, err);
    for (int k = 0; k < c->inputs.n; k++) {
        if (strchr(c->inputs.v[k], '=') || !ends_with(c->inputs.v[k], ".npz")) continue;
        nacre_code code = npz_read(c->inputs.v[k], name, out, err);
        if (code != NACRE_ARGUMENT) return code;
    }
    return NACRE_OK;
}

static int make_input(const char *command, const common *c, nacre_session *s, size_t i, nacre_value **out) {
    nacre_error err;
    int64_t dims[NACRE_MAX_RANK];
    const char *name = nacre_session_input_name(s, i);
    nacre_kind kind = nacre_session_input_kind(s, i);
    int rank = nacre_session_dims(s, NACRE_EVERY_INPUT, i, dims, NACRE_MAX_RANK), few;
    nacre_type t = nacre_session_input_type(s, i, &few, (int64_t[16]){0});
    int code = size_dims(command, c, s, i, rank, dims);
    if (code != EXIT_DONE) return code;
    if (read_given(c, name, kind, t, rank, dims, out, &err) != NACRE_OK) return cli_error(&err);
    if (*out) return EXIT_DONE;
    if (rank < 0 || t == NACRE_STRING || kind != NACRE_KIND_TENSOR)
        return cli_usage(command, "input '%s' cannot be made up: give it with --input", name);
    if (nacre_value_new_tensor(t, rank, dims, out, &err) != NACRE_OK) return cli_error(&err);
    fill_random(*out, i + 1);
    return EXIT_DONE;
}

/* ---- all of them ---- */

static bool is_given(const common *c, const char *name) {
    size_t n = strlen(name);
    for (int k = 0; k < c->inputs.n; k++)
        if (!strchr(c->inputs.v[k], '=') || (strncmp(c->inputs.v[k], name, n) == 0 && c->inputs.v[k][n] == '='))
            return true;
    return false;
}

/* Sizes given for dims that no input has are a mistake: the run would use 1 instead. */
static int check_dims(const char *command, const common *c, nacre_session *s) {
    for (int k = 0; k < c->dims.n; k++) {
        const char *given = c->dims.v[k], *eq = strchr(given, '=');
        size_t n = eq ? (size_t)(eq - given) : 0;
        char known[512] = "";
        bool found = false;
        for (size_t i = 0; i < nacre_session_n_inputs(s); i++) {
            int64_t dims[NACRE_MAX_RANK];
            int rank = nacre_session_dims(s, NACRE_EVERY_INPUT, i, dims, NACRE_MAX_RANK);
            for (int d = 0; d < rank; d++) {
                char name[64];
                size_t at = strlen(known);
                if (dims[d] >= 0) continue;
                nacre_session_dim_name(s, NACRE_EVERY_INPUT, i, d, name);
                found |= strlen(name) == n && strncmp(name, given, n) == 0;
                if (at + strlen(name) + 3 < sizeof known && !strstr(known, name))
                    snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", name);
            }
        }
        if (!eq) return cli_usage(command, "--dim wants NAME=N, got '%s'", given);
        if (!found)
            return cli_usage(command, "no input has a free dim '%.*s'; %s%s", (int)n, given,
                             known[0] ? "there are: " : "all sizes are fixed", known);
    }
    return EXIT_DONE;
}

static int check_names(const char *command, const common *c, nacre_session *s) {
    for (int k = 0; k < c->inputs.n; k++) {
        const char *given = c->inputs.v[k], *eq = strchr(given, '=');
        bool known = !eq && ends_with(given, ".npz");
        for (size_t i = 0; eq && i < nacre_session_n_inputs(s); i++) {
            const char *name = nacre_session_input_name(s, i);
            if (strlen(name) == (size_t)(eq - given) && strncmp(name, given, (size_t)(eq - given)) == 0) known = true;
        }
        if (known) continue;
        if (!eq) return cli_usage(command, "--input wants NAME=FILE or FILE.npz, got '%s'", given);
        return cli_usage(command, "the model has no input '%.*s'; nacre inspect lists them", (int)(eq - given), given);
    }
    return EXIT_DONE;
}

int feed_make(const char *command, const common *c, nacre_session *s, feed *f) {
    *f = (feed){.n_in = nacre_session_n_inputs(s), .n_out = nacre_session_n_outputs(s)};
    int code = check_names(command, c, s);
    if (code == EXIT_DONE) code = check_dims(command, c, s);
    if (code != EXIT_DONE) return code;
    f->in_names = calloc(f->n_in + 1, sizeof *f->in_names);
    f->out_names = calloc(f->n_out + 1, sizeof *f->out_names);
    f->in = calloc(f->n_in + 1, sizeof *f->in);
    f->out = calloc(f->n_out + 1, sizeof *f->out);
    if (!f->in_names || !f->out_names || !f->in || !f->out) {
        feed_release(f);
        return cli_fail("out of memory");
    }
    for (size_t i = 0; i < f->n_out; i++) f->out_names[i] = nacre_session_output_name(s, i);
    size_t n_given = 0; /* an input with a default is left to it unless a file is named */
    for (size_t i = 0; code == EXIT_DONE && i < f->n_in; i++) {
        if (nacre_session_input_optional(s, i) && !is_given(c, nacre_session_input_name(s, i))) continue;
        f->in_names[n_given] = nacre_session_input_name(s, i);
        code = make_input(command, c, s, i, &f->in[n_given]);
        if (code == EXIT_DONE && c->half) value_round_to_half(f->in[n_given]);
        n_given++;
    }
    f->n_in = n_given;
    if (code != EXIT_DONE) feed_release(f);
    return code;
}

static void drop_outputs(feed *f) {
    for (size_t i = 0; f->out && i < f->n_out; i++) {
        nacre_value_release(f->out[i]);
        f->out[i] = NULL;
    }
}

int feed_run(nacre_session *s, nacre_run_options *r, feed *f) {
    nacre_error err;
    drop_outputs(f);
    return nacre_run(s, r, f->in_names, f->in, f->n_in, f->out_names, f->n_out, f->out, &err) == NACRE_OK
               ? EXIT_DONE
               : cli_error(&err);
}

void feed_release(feed *f) {
    drop_outputs(f);
    for (size_t i = 0; f->in && i < f->n_in; i++) nacre_value_release(f->in[i]);
    free((void *)f->in_names);
    free((void *)f->out_names);
    free(f->in);
    free(f->out);
    *f = (feed){0};
}
