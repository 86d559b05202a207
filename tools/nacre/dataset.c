/* tools/nacre/dataset.c: samples for the inputs of a training session: which file holds which input, its numbers as the
 * input's type, its shape as the input's; batches of them. */
#include "train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what an input wants ---- */

typedef struct wanted {
    const char *name;
    nacre_type type;
    int rank; /* -1: any */
    int64_t dims[NACRE_MAX_RANK];
    double scale;
} wanted;

static wanted wanted_of(const nacre_training *t, size_t i, const list *scales) {
    wanted w = {.name = nacre_training_input_name(t, 0, i), .scale = 1};
    w.type = nacre_training_input_type(t, 0, i, &w.rank, w.dims);
    const char *scale = list_value(scales, w.name);
    if (scale) w.scale = atof(scale);
    return w;
}

/* Numbers of one sample; -1: free. */
static int64_t sample_size(const wanted *w) {
    int64_t n = 1;
    for (int d = 1; d < w->rank; d++) {
        if (w->dims[d] < 0) return -1;
        n *= w->dims[d];
    }
    return w->rank < 0 ? -1 : n;
}

static void dims_text(char *text, size_t bytes, int rank, const int64_t *dims) {
    size_t n = (size_t)snprintf(text, bytes, "(samples");
    for (int d = 1; d < rank && n < bytes; d++)
        n += (size_t)snprintf(text + n, bytes - n, dims[d] < 0 ? ", ?" : ", %lld", (long long)dims[d]);
    if (n < bytes) snprintf(text + n, bytes - n, ")");
}

/* ---- numbers as the input's type ---- */

static bool is_whole(nacre_type t) {
    return t == NACRE_INT64 || t == NACRE_INT32 || t == NACRE_INT16 || t == NACRE_INT8 || t == NACRE_UINT8 ||
           t == NACRE_BOOL;
}

static bool put_number(nacre_type type, void *to, int64_t i, double x) {
    switch (type) {
    case NACRE_FLOAT: ((float *)to)[i] = (float)x; return true;
    case NACRE_DOUBLE: ((double *)to)[i] = x; return true;
    case NACRE_INT64: ((int64_t *)to)[i] = (int64_t)x; return fabs(x) <= 9e18;
    case NACRE_INT32: ((int32_t *)to)[i] = (int32_t)x; return fabs(x) <= 2147483647;
    case NACRE_INT16: ((int16_t *)to)[i] = (int16_t)x; return fabs(x) <= 32767;
    case NACRE_INT8: ((int8_t *)to)[i] = (int8_t)x; return fabs(x) <= 127;
    case NACRE_UINT8: ((uint8_t *)to)[i] = (uint8_t)x; return x >= 0 && x <= 255;
    case NACRE_BOOL: ((uint8_t *)to)[i] = x != 0; return true;
    default: return false;
    }
}

static int convert(const char *path, const wanted *w, nacre_value *from, nacre_value *to) {
    int64_t n = nacre_value_count(from), samples = nacre_value_dims(from)[0];
    void *data = nacre_value_data(to);
    bool same = nacre_value_type(from) == w->type && w->scale == 1;
    if (same) {
        if (n) memcpy(data, nacre_value_data(from), (size_t)n * nacre_type_bytes(w->type));
        return EXIT_DONE;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = value_element(from, i) * w->scale;
        if (is_whole(w->type) && !(fabs(x) <= 9e18 && x == floor(x)))
            return cli_fail("%s: input '%s', sample %lld: expected a whole number (%s), got %g", path, w->name,
                            (long long)(i / (n / samples)), nacre_type_name(w->type), x);
        if (!put_number(w->type, data, i, x))
            return cli_fail("%s: input '%s', sample %lld: %g is no %s", path, w->name, (long long)(i / (n / samples)),
                            x, nacre_type_name(w->type));
    }
    return EXIT_DONE;
}

/* The shape of the input, where the file's has as many numbers in a sample. */
static bool fit_dims(const wanted *w, const nacre_value *v, int *rank, int64_t *dims) {
    const int64_t *have = nacre_value_dims(v);
    int n = nacre_value_rank(v);
    bool same = w->rank < 0 || w->rank == n;
    int64_t size = 1;
    for (int d = 1; d < n; d++) {
        size *= have[d];
        if (w->rank == n) same &= w->dims[d] < 0 || w->dims[d] == have[d];
    }
    const int64_t *from = same ? have : w->dims;
    *rank = same ? n : w->rank;
    memcpy(dims, from, (size_t)*rank * sizeof *dims);
    dims[0] = have[0];
    return same || (w->rank > 0 && sample_size(w) == size);
}

static int take_value(const char *path, const wanted *w, nacre_value *v, nacre_value **out) {
    char want[160], got[160];
    int rank;
    int64_t dims[NACRE_MAX_RANK];
    nacre_error err;
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR || nacre_value_rank(v) < 1 || w->rank == 0)
        return cli_fail("%s: input '%s': expected samples along a first dim", path, w->name);
    if (!is_whole(w->type) && w->type != NACRE_FLOAT && w->type != NACRE_DOUBLE)
        return cli_fail("input '%s' is of %s: nacre train feeds numbers of float, double, bool and signed whole ones",
                        w->name, nacre_type_name(w->type));
    if (!fit_dims(w, v, &rank, dims)) {
        dims_text(want, sizeof want, w->rank, w->dims);
        value_shape(v, got, sizeof got);
        return cli_fail("%s: input '%s': expected the shape %s, got %s", path, w->name, want, got);
    }
    if (nacre_value_new_tensor(w->type, rank, dims, out, &err) != NACRE_OK) return cli_error(&err);
    return convert(path, w, v, *out);
}

/* ---- files ---- */

typedef struct reading {
    const wanted *w;
    size_t n;
    dataset *d;
} reading;

static int take_into(reading *r, const char *path, size_t i, nacre_value *v) {
    if (r->d->in[i]) return cli_fail("%s: input '%s' has data already", path, r->w[i].name);
    return take_value(path, &r->w[i], v, &r->d->in[i]);
}

/* Every input that has a member of its name. */
static int read_archive(reading *r, const char *path) {
    nacre_error err;
    int code = EXIT_DONE, found = 0;
    for (size_t i = 0; code == EXIT_DONE && i < r->n; i++) {
        nacre_value *v = NULL;
        nacre_code got = rows_read(path, r->w[i].name, NULL, &v, &err);
        if (got == NACRE_ARGUMENT) continue;
        found++;
        code = got == NACRE_OK ? take_into(r, path, i, v) : cli_error(&err);
        nacre_value_release(v);
    }
    return code == EXIT_DONE && !found ? cli_error(&err) : code;
}

/* Columns from..from+n-1 as an array of its own. */
static nacre_value *columns(nacre_value *rows, const int *which, int n) {
    const int64_t *dims = nacre_value_dims(rows), made[2] = {dims[0], n};
    const double *from = nacre_value_data(rows);
    nacre_value *v;
    nacre_error err;
    if (nacre_value_new_tensor(NACRE_DOUBLE, 2, made, &v, &err) != NACRE_OK) return NULL;
    double *to = nacre_value_data(v);
    for (int64_t r = 0; r < dims[0]; r++)
        for (int k = 0; k < n; k++) to[r * n + k] = from[r * dims[1] + which[k]];
    return v;
}

static int column_named(const csv_names *names, const char *name) {
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->v[i], name) == 0) return i;
    return -1;
}

/* Which columns are whose: one named as an input of one number is that; the others are dealt out in order. */
static int deal_columns(reading *r, const char *path, const csv_names *names, int n_cols, int *owner) {
    int64_t need = 0;
    for (int k = 0; k < n_cols; k++) owner[k] = -1;
    for (size_t i = 0; i < r->n; i++) {
        int64_t size = sample_size(&r->w[i]);
        if (r->d->in[i]) continue;
        if (size < 0)
            return cli_fail("%s: input '%s' has free sizes: give it a file of its own, --data %s=FILE.npy", path,
                            r->w[i].name, r->w[i].name);
        need += size;
        int named = size == 1 ? column_named(names, r->w[i].name) : -1;
        if (named >= 0) owner[named] = (int)i;
    }
    if (need != n_cols)
        return cli_fail("%s: its inputs need %lld columns, the file has %d", path, (long long)need, n_cols);
    int at = 0;
    for (size_t i = 0; i < r->n; i++) {
        int64_t size = sample_size(&r->w[i]);
        if (r->d->in[i] || (size == 1 && column_named(names, r->w[i].name) >= 0)) continue;
        while (size) {
            if (owner[at] < 0) owner[at] = (int)i, size--;
            at++;
        }
    }
    return EXIT_DONE;
}

static int deal_table(reading *r, const char *path, const csv_names *names, nacre_value *rows, int *room) {
    int n_cols = (int)nacre_value_dims(rows)[1], *owner = room, *which = room + n_cols;
    int code = deal_columns(r, path, names, n_cols, owner);
    for (size_t i = 0; code == EXIT_DONE && i < r->n; i++) {
        int n = 0;
        for (int k = 0; k < n_cols; k++)
            if (owner[k] == (int)i) which[n++] = k;
        if (r->d->in[i]) continue;
        nacre_value *v = columns(rows, which, n);
        code = v ? take_into(r, path, i, v) : cli_fail("out of memory");
        nacre_value_release(v);
    }
    return code;
}

static int read_table(reading *r, const char *path) {
    nacre_error err;
    nacre_value *rows;
    csv_names names;
    if (rows_read(path, "", &names, &rows, &err) != NACRE_OK) return cli_error(&err);
    int *room = calloc(2 * (size_t)nacre_value_dims(rows)[1] + 1, sizeof *room);
    int code = room ? deal_table(r, path, &names, rows, room) : cli_fail("out of memory");
    free(room);
    csv_names_release(&names);
    nacre_value_release(rows);
    return code;
}

/* INPUT=FILE or INPUT=FILE.npz:MEMBER. */
static int read_named(reading *r, const char *text, const char *eq) {
    char path[4096], name[256];
    nacre_error err;
    nacre_value *v;
    size_t i = 0;
    while (i < r->n && (strncmp(r->w[i].name, text, (size_t)(eq - text)) != 0 || r->w[i].name[eq - text])) i++;
    if (i == r->n) {
        size_t used = 0;
        for (size_t k = 0; k < r->n && used < sizeof path; k++)
            used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", k ? ", " : "", r->w[k].name);
        return cli_fail("--data %s: the model has no such input; it has %s", text, path);
    }
    snprintf(path, sizeof path, "%s", eq + 1);
    snprintf(name, sizeof name, "%s", r->w[i].name);
    char *colon = strstr(path, ".npz:");
    if (colon) snprintf(name, sizeof name, "%s", colon + 5), colon[4] = 0;
    if (rows_read(path, name, NULL, &v, &err) != NACRE_OK) return cli_error(&err);
    int code = take_into(r, path, i, v);
    nacre_value_release(v);
    return code;
}

static int read_file(reading *r, const char *text) {
    const char *eq = strchr(text, '=');
    if (eq) return read_named(r, text, eq);
    if (rows_is_archive(text)) return read_archive(r, text);
    if (rows_is_table(text)) return read_table(r, text);
    if (r->n == 1) {
        char whole[4200];
        int n = snprintf(whole, sizeof whole, "%s=%s", r->w[0].name, text);
        return n > 0 && (size_t)n < sizeof whole ? read_named(r, whole, whole + strlen(r->w[0].name)) : EXIT_FAILED;
    }
    if (access(text, R_OK) != 0) return cli_fail("cannot open '%s': %s", text, strerror(errno));
    return cli_fail("--data %s: which input is it? Give it as INPUT=%s", text, text);
}

static int check_counts(const reading *r) {
    for (size_t i = 0; i < r->n; i++) {
        if (!r->d->in[i])
            return cli_fail("there is no data for the input '%s': give it with --data %s=FILE", r->w[i].name,
                            r->w[i].name);
        int64_t n = nacre_value_dims(r->d->in[i])[0];
        if (i == 0) r->d->n = n;
        if (n != r->d->n)
            return cli_fail("input '%s' has %lld samples, '%s' has %lld", r->w[0].name, (long long)r->d->n,
                            r->w[i].name, (long long)n);
    }
    return r->d->n > 0 ? EXIT_DONE : cli_fail("the data have no samples");
}

int dataset_read(const nacre_training *t, const list *files, const list *scales, dataset *out) {
    wanted w[INPUT_MAX];
    size_t n = nacre_training_n_inputs(t, 0);
    *out = (dataset){.n_in = n};
    if (n == 0 || n > INPUT_MAX) return cli_fail("the model has %zu inputs, 1 to %d are supported", n, INPUT_MAX);
    for (size_t i = 0; i < n; i++) w[i] = wanted_of(t, i, scales);
    reading r = {w, n, out};
    int code = EXIT_DONE;
    for (int i = 0; code == EXIT_DONE && i < files->n; i++) code = read_file(&r, files->v[i]);
    return code == EXIT_DONE ? check_counts(&r) : code;
}

void dataset_release(dataset *d) {
    for (size_t i = 0; i < d->n_in; i++) nacre_value_release(d->in[i]);
    *d = (dataset){0};
}

/* ---- batches ---- */

int dataset_batch(const dataset *d, int64_t n, nacre_value **into) {
    nacre_error err;
    for (size_t i = 0; i < d->n_in; i++) {
        int64_t dims[NACRE_MAX_RANK];
        int rank = nacre_value_rank(d->in[i]);
        memcpy(dims, nacre_value_dims(d->in[i]), (size_t)rank * sizeof *dims);
        dims[0] = n;
        if (nacre_value_new_tensor(nacre_value_type(d->in[i]), rank, dims, &into[i], &err) != NACRE_OK)
            return cli_error(&err);
    }
    return EXIT_DONE;
}

void dataset_take(const dataset *d, const int64_t *rows, int64_t n, nacre_value *const *into) {
    for (size_t i = 0; i < d->n_in; i++) {
        size_t bytes = nacre_value_bytes(d->in[i]) / (size_t)d->n;
        const char *from = nacre_value_data(d->in[i]);
        char *to = nacre_value_data(into[i]);
        for (int64_t k = 0; k < n && bytes; k++) memcpy(to + (size_t)k * bytes, from + (size_t)rows[k] * bytes, bytes);
    }
}

void dataset_order(int64_t *order, int64_t n, uint64_t seed, uint64_t epoch) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + epoch * 0xbf58476d1ce4e5b9u + 1;
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)(fresh_bits(&state) % (uint64_t)(i + 1)), keep = order[i];
        order[i] = order[k], order[k] = keep;
    }
}
