/* api/options.c: session options by key, and the structured ones. */
#include "api/api.h"
#include "nacre/nacre_train.h"

#include "base/fpmode.h"
#include "base/mem.h"
#include "ir/assume.h"
#include "train/train.h"
#include "transform/rules.h"
#include "transform/transform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nacre_code nacre_options_create(nacre_options **out, nacre_error *err) {
    nacre_options *o = nc_alloc_zero(1, sizeof *o);
    if (!o) return nc_api_error(err, NC_E_MEMORY, NULL);
    o->o.level = 3;
    o->o.save.min_bytes = 1024;
    *out = o;
    return NACRE_OK;
}

void nacre_options_release(nacre_options *o) {
    if (!o) return;
    nc_arena_release(&o->arena);
    nc_free(o);
}

static nc_code differentiate(nc_work *w, nc_model *m, const void *ctx) {
    const nacre_options *o = ctx;
    switch (o->diff) {
    case NC_DIFF_GRADIENTS: return nc_train_gradients(w, m, o->diff_outputs[0], o->diff_wrt, o->n_diff_wrt);
    case NC_DIFF_BACKWARD:
        return nc_train_backward(w, m, o->diff_outputs, o->n_diff_outputs, o->diff_wrt, o->n_diff_wrt);
    case NC_DIFF_SGD: return nc_train_sgd(w, m, o->diff_outputs[0], o->diff_wrt, o->n_diff_wrt, o->lr_input);
    case NC_DIFF_ACCUMULATE: return nc_train_accumulate(w, m, o->diff_outputs[0], o->diff_wrt, o->n_diff_wrt);
    case NC_DIFF_NONE: break;
    }
    return NC_OK;
}

void nc_api_options(const nacre_options *o, nc_session_options *out) {
    *out = (nc_session_options){.level = 3};
    if (!o) return;
    *out = o->o;
    out->device = o->device[0] ? o->device : NULL;
    out->passes_off = o->off.v, out->n_passes_off = o->off.n;
    out->recompute = o->recompute.v, out->n_recompute = o->recompute.n;
    out->variables = o->variables.v, out->n_variables = o->variables.n;
    out->stops = o->stops.v, out->n_stops = o->stops.n;
    out->ties = o->ties.v, out->n_ties = o->ties.n;
    out->cuts = o->cuts.v, out->n_cuts = o->cuts.n;
    out->fixed_dims = o->fixed_dims.v, out->n_fixed_dims = o->fixed_dims.n;
    out->given = o->given.v, out->n_given = o->given.n;
    if (o->diff != NC_DIFF_NONE) out->differentiate = differentiate, out->differentiate_ctx = o;
}

typedef nacre_code (*setter)(nacre_options *o, const char *key, const char *value, nacre_error *err);

static nacre_code refuse(nacre_error *err, const char *key, const char *value, const char *expected) {
    return nc_api_fail(err, NC_E_ARGUMENT, "option %s: expected %s, got '%s'", key, expected, value);
}

static nacre_code set_device(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    if (strlen(value) >= sizeof o->device) return refuse(err, key, value, "a device name");
    snprintf(o->device, sizeof o->device, "%s", value);
    return NACRE_OK;
}

int nc_api_level(const char *name) {
    static const char *const names[] = {"off", "basic", "extended", "all"};
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

bool nc_api_compute(const char *name, nc_dtype *out) {
    static const char *const names[] = {"f32", "f16", "bf16"};
    static const nc_dtype types[] = {NC_UNDEFINED, NC_FLOAT16, NC_BFLOAT16};
    for (int i = 0; i < 3; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = types[i];
        return true;
    }
    return false;
}

static nacre_code set_level(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    int level = nc_api_level(value);
    if (level < 0) return refuse(err, key, value, "off, basic, extended or all");
    o->o.level = level;
    return NACRE_OK;
}

static nacre_code set_switch(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    bool on = strcmp(value, "on") == 0;
    if (!on && strcmp(value, "off") != 0) return refuse(err, key, value, "on or off");
    if (strcmp(key, "fusion") == 0) o->o.no_fusion = !on;
    if (strcmp(key, "layouts") == 0) o->o.no_layout = !on;
    if (strcmp(key, "views") == 0) o->o.no_views = !on;
    if (strcmp(key, "packing") == 0) o->o.no_packing = !on;
    if (strcmp(key, "winograd") == 0) o->o.no_winograd = !on;
    if (strcmp(key, "tf32") == 0) o->o.tf32 = on;
    if (strcmp(key, "tune") == 0) o->o.tune = on;
    if (strcmp(key, "cudnn_dropout") == 0) o->o.dnn_draws = on;
    if (strcmp(key, "capture") == 0) o->o.capture = on;
    if (strcmp(key, "host_nodes") == 0) o->o.no_host = !on;
    if (strcmp(key, "dumps") == 0) o->o.keep_dumps = on;
    if (strcmp(key, "profile") == 0) o->o.profile = on;
    if (strcmp(key, "part_symbols") == 0) o->o.parts_symbols = on;
    if (strcmp(key, "flush_denormals") == 0) {
        if (on && !nc_fpmode_can_flush())
            return nc_api_fail(err, NC_E_UNSUPPORTED, "option %s: this processor's mode is not known here", key);
        o->o.flush_denormals = on;
    }
    return NACRE_OK;
}

nacre_code nc_api_log_level(nacre_error *err, const char *value, nc_log_scope *out) {
    static const char *const names[] = {"verbose", "info", "warning", "error", "off"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(names[i], value) != 0) continue;
        out->has_level = true, out->level = (nc_log_level)i;
        return NACRE_OK;
    }
    return refuse(err, "log_level", value, "verbose, info, warning, error or off");
}

static nacre_code set_log_level(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    (void)key;
    return nc_api_log_level(err, value, &o->o.log);
}

static nacre_code set_number(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(value, &end, 10);
    if (errno || end == value || *end || value[0] == '-') return refuse(err, key, value, "a whole number");
    if (strcmp(key, "seed") == 0) o->o.seed = v;
    if (strcmp(key, "memory_limit") == 0) o->o.bytes_limit = (size_t)v;
    if (strcmp(key, "save_data_bytes") == 0) o->o.save.min_bytes = (size_t)v;
    if (strcmp(key, "save_file_bytes") == 0) o->o.save.max_file = (size_t)v;
    return NACRE_OK;
}

static nacre_code check_pass(const char *key, const char *value, nacre_error *err) {
    char known[400] = "one of ";
    const char *name;
    for (int i = 0; (name = nc_transform_name(i, NULL, NULL)) != NULL; i++) {
        if (strcmp(name, value) == 0) return NACRE_OK;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i > 0 ? ", " : "", name);
    }
    return refuse(err, key, value, known);
}

enum { MAX_STREAMS = 64 };

static nacre_code set_streams(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (errno || end == value || *end || n < 1 || n > MAX_STREAMS) return refuse(err, key, value, "1 to 64");
    o->o.n_streams = (int)n;
    return NACRE_OK;
}

/* The text form of nacre_options_stream: "1 conv3". */
static nacre_code set_stream(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    char *end;
    errno = 0;
    long stream = strtol(value, &end, 10);
    if (errno || end == value || *end != ' ' || !end[1] || stream < 0 || stream >= MAX_STREAMS)
        return refuse(err, key, value, "the number of a stream, a space and the name of a node");
    return nacre_options_stream(o, end + 1, (int)stream, err);
}

static nacre_code set_format(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    if (strcmp(value, "name") == 0)
        o->o.save.format = NC_FORMAT_BY_NAME;
    else if (strcmp(value, "onnx") == 0)
        o->o.save.format = NC_FORMAT_ONNX;
    else if (strcmp(value, "ort") == 0)
        o->o.save.format = NC_FORMAT_ORT;
    else
        return refuse(err, key, value, "onnx, ort or name");
    return NACRE_OK;
}

static nacre_code set_strict(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    if (strcmp(value, "on") == 0)
        o->o.strict = ~0u;
    else if (strcmp(value, "shapes") == 0)
        o->o.strict = 1u << NC_ASSUME_SHAPE | 1u << NC_ASSUME_RANK;
    else if (strcmp(value, "off") == 0)
        o->o.strict = 0;
    else
        return refuse(err, key, value, "on, off or shapes");
    return NACRE_OK;
}

/* tf32 is a way in which a GPU multiplies floats, no type of elements: it is the option of that name. */
static nacre_code set_compute(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    bool tf32 = strcmp(value, "tf32") == 0;
    if (tf32) o->o.tf32 = true;
    if (nc_api_compute(tf32 ? "f32" : value, &o->o.compute)) return NACRE_OK;
    return refuse(err, key, value, "f32, tf32, f16 or bf16");
}

/* Read here to be refused here; the session reads them again, into memory of its own. */
static nacre_code add_patterns(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    nc_work w;
    nc_rules rules;
    (void)key;
    nc_work_init(&w);
    nc_code code = nc_rules_parse(&w, &w.scratch, value, &rules);
    const char *before = o->o.patterns;
    if (code == NC_OK) {
        o->o.patterns = nc_arena_printf(&o->arena, "%s%s%s", before ? before : "", before ? "\n" : "", value);
        if (!o->o.patterns) code = NC_E_MEMORY;
    }
    return nc_api_end(&w, code, err);
}

static nacre_code add_name(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    nacre_code code = strcmp(key, "disable") == 0 ? check_pass(key, value, err) : NACRE_OK;
    if (code != NACRE_OK) return code;
    if (strcmp(key, "packed_file") == 0 && !value[0]) return refuse(err, key, value, "a path");
    const char *name = nc_arena_str(&o->arena, value);
    bool ok = name != NULL;
    if (ok && strcmp(key, "disable") == 0) ok = NC_PUSH(&o->arena, o->off, name);
    if (ok && strcmp(key, "recompute") == 0) ok = NC_PUSH(&o->arena, o->recompute, name);
    if (ok && strcmp(key, "variables") == 0) ok = NC_PUSH(&o->arena, o->variables, name);
    if (ok && strcmp(key, "stop_gradient") == 0) ok = NC_PUSH(&o->arena, o->stops, name);
    if (ok && strcmp(key, "save") == 0) o->o.save_path = name;
    if (ok && strcmp(key, "save_data") == 0) o->o.save.data_name = name;
    if (ok && strcmp(key, "packed_file") == 0) o->o.packed_file = name;
    if (ok && strcmp(key, "log_id") == 0) o->o.log.id = name;
    return ok ? NACRE_OK : nc_api_error(err, NC_E_MEMORY, NULL);
}

nacre_code nacre_options_set(nacre_options *o, const char *key, const char *value, nacre_error *err) {
    static const struct {
        const char *key;
        setter set;
    } keys[] = {{"device", set_device},          {"level", set_level},      {"fusion", set_switch},
                {"layouts", set_switch},         {"views", set_switch},     {"packing", set_switch},
                {"winograd", set_switch},        {"tf32", set_switch},      {"capture", set_switch},
                {"host_nodes", set_switch},      {"dumps", set_switch},     {"disable", add_name},
                {"patterns", add_patterns},      {"recompute", add_name},   {"seed", set_number},
                {"memory_limit", set_number},    {"profile", set_switch},   {"flush_denormals", set_switch},
                {"log_level", set_log_level},    {"log_id", add_name},      {"save", add_name},
                {"save_format", set_format},     {"save_data", add_name},   {"save_data_bytes", set_number},
                {"save_file_bytes", set_number}, {"variables", add_name},   {"stop_gradient", add_name},
                {"streams", set_streams},        {"stream", set_stream},    {"compute", set_compute},
                {"strict", set_strict},          {"packed_file", add_name}, {"part_symbols", set_switch},
                {"cudnn_dropout", set_switch},   {"tune", set_switch}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].key, key) == 0) return keys[i].set(o, key, value, err);
    char known[500] = "";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", keys[i].key);
    return nc_api_fail(err, NC_E_ARGUMENT, "no option '%s'; there are %s", key, known);
}

void nacre_options_log(const nacre_options *o, nacre_log_level level, const char *text) {
    nc_log_scope before = nc_log_enter(o->o.log);
    nacre_log(level, text);
    nc_log_enter(before);
}

nacre_code nacre_options_tie(nacre_options *o, const char *input, const char *output, nacre_error *err) {
    nc_tie t = {nc_arena_str(&o->arena, input), nc_arena_str(&o->arena, output)};
    if (!t.input || !t.output || !NC_PUSH(&o->arena, o->ties, t)) return nc_api_error(err, NC_E_MEMORY, NULL);
    return NACRE_OK;
}

nacre_code nacre_options_dim(nacre_options *o, const char *name, int64_t value, nacre_error *err) {
    if (!*name || value < 0)
        return nc_api_fail(err, NC_E_ARGUMENT, "dim '%s': expected a name and a size, got %lld", name,
                           (long long)value);
    nc_fixed_dim f = {nc_arena_str(&o->arena, name), value};
    if (!f.name || !NC_PUSH(&o->arena, o->fixed_dims, f)) return nc_api_error(err, NC_E_MEMORY, NULL);
    return NACRE_OK;
}

nacre_code nacre_options_stream(nacre_options *o, const char *node, int stream, nacre_error *err) {
    if (!*node || stream < 0 || stream >= MAX_STREAMS)
        return nc_api_fail(err, NC_E_ARGUMENT, "a stream for node '%s': expected a name and 0 to %d, got %d", node,
                           MAX_STREAMS - 1, stream);
    nc_plan_stream s = {nc_arena_str(&o->arena, node), stream};
    if (!s.node || !NC_PUSH(&o->arena, o->given, s)) return nc_api_error(err, NC_E_MEMORY, NULL);
    return NACRE_OK;
}

static const char *const *copy_names(nacre_options *o, const char *const *names, size_t n) {
    const char **copy = nc_arena_array(&o->arena, n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (!(copy[i] = nc_arena_str(&o->arena, names[i]))) return NULL;
    return copy;
}

nacre_code nacre_options_cut(nacre_options *o, const char *name, const char *const *outputs, size_t n,
                             nacre_error *err) {
    nc_plan_cut c = {.name = nc_arena_str(&o->arena, name), .outputs = copy_names(o, outputs, n), .n_outputs = (int)n};
    if (!c.name || !c.outputs || !NC_PUSH(&o->arena, o->cuts, c)) return nc_api_error(err, NC_E_MEMORY, NULL);
    return NACRE_OK;
}

static nacre_code set_diff(nacre_options *o, int kind, const char *const *outputs, size_t n_out, const char *const *wrt,
                           size_t n, nacre_error *err) {
    if (o->diff != NC_DIFF_NONE) return nc_api_fail(err, NC_E_ARGUMENT, "these options differentiate already");
    if (n_out < 1) return nc_api_fail(err, NC_E_ARGUMENT, "no output to differentiate was given");
    o->diff_outputs = copy_names(o, outputs, n_out), o->n_diff_outputs = (int)n_out;
    o->diff_wrt = copy_names(o, wrt, n), o->n_diff_wrt = (int)n;
    if (!o->diff_outputs || !o->diff_wrt) return nc_api_error(err, NC_E_MEMORY, NULL);
    o->diff = kind;
    return NACRE_OK;
}

nacre_code nacre_options_gradients(nacre_options *o, const char *loss, const char *const *wrt, size_t n,
                                   nacre_error *err) {
    return set_diff(o, NC_DIFF_GRADIENTS, &loss, 1, wrt, n, err);
}

nacre_code nacre_options_backward(nacre_options *o, const char *const *outputs, size_t n_outputs,
                                  const char *const *wrt, size_t n, nacre_error *err) {
    return set_diff(o, NC_DIFF_BACKWARD, outputs, n_outputs, wrt, n, err);
}

nacre_code nacre_options_sgd(nacre_options *o, const char *loss, const char *const *params, size_t n,
                             const char *lr_input, nacre_error *err) {
    const char *lr = nc_arena_str(&o->arena, lr_input);
    if (!lr) return nc_api_error(err, NC_E_MEMORY, NULL);
    nacre_code code = set_diff(o, NC_DIFF_SGD, &loss, 1, params, n, err);
    if (code == NACRE_OK) o->lr_input = lr;
    return code;
}

nacre_code nacre_options_accumulate(nacre_options *o, const char *loss, const char *const *params, size_t n,
                                    nacre_error *err) {
    return set_diff(o, NC_DIFF_ACCUMULATE, &loss, 1, params, n, err);
}
