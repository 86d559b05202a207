/* onnx/save.c: nc_model to ModelProto: header, opset imports, properties, then the main graph (save_graph.c), then the
 * functions of nodes that need another opset (save_node.c); and files: the model's, and one for external data. */
#include "onnx/save.h"

#include "base/file.h"
#include "base/log.h"
#include "onnx/ort_format.h"
#include "onnx/saver.h"

#include <string.h>

/* Identity nodes may be added (save_graph.c): from this opset on they take every type. */
enum { OPSET_FOR_IDENTITY = 16 };
/* Of constants that leave a model which is too large for one file. */
enum { USUAL_MIN_BYTES = 1024 };
enum { FIRST_IR_WITH_FREE_INITIALIZERS = 4, FIRST_IR_WITH_NODE_METADATA = 10, USUAL_IR = 10 };

static const char *domain_of(const nc_node *n) {
    const char *d = n->card->domain;
    return d && strcmp(d, "ai.onnx") != 0 ? d : "";
}

static nc_opset *find_opset(const nc_saver *s, const char *domain) {
    for (int i = 0; i < s->n_opsets; i++)
        if (strcmp(s->opsets[i].domain, domain) == 0) return &s->opsets[i];
    return NULL;
}

static nc_code add_opset(nc_saver *s, const char *domain, int64_t version) {
    nc_opset *more = nc_arena_array(&s->w->scratch, (size_t)s->n_opsets + 1, sizeof *more);
    NC_NEED(s->w, more);
    if (s->n_opsets) memcpy(more, s->opsets, (size_t)s->n_opsets * sizeof *more);
    more[s->n_opsets++] = (nc_opset){domain, version};
    s->opsets = more;
    return NC_OK;
}

/* Imports what the graph uses and the model does not import, at the newest version a node has. */
static nc_code complete_opsets(nc_saver *s, const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next) {
        const char *domain = domain_of(n);
        nc_opset *o = find_opset(s, domain);
        if (!o)
            NC_TRY(add_opset(s, domain, n->version->since));
        else if (nc_model_opset(s->m, domain) == 0 && o->version < n->version->since)
            o->version = n->version->since;
        if (n->random_id) s->random = true;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(complete_opsets(s, n->subs[i].graph));
    }
    return NC_OK;
}

const nc_opset *nc_save_opset_of(const nc_saver *s, const nc_node *n) { return find_opset(s, domain_of(n)); }

/* Is a node somewhere of another version than what will be imported? */
static bool has_odd_nodes(const nc_saver *s, const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next) {
        if (nc_card_version(n->card, nc_save_opset_of(s, n)->version) != n->version) return true;
        for (int i = 0; i < n->n_subs; i++)
            if (has_odd_nodes(s, n->subs[i].graph)) return true;
    }
    return false;
}

static nc_code prepare(nc_saver *s) {
    for (int i = 0; i < s->m->n_opsets; i++) NC_TRY(add_opset(s, s->m->opsets[i].domain, s->m->opsets[i].version));
    NC_TRY(nc_save_name_all(s));
    NC_TRY(complete_opsets(s, s->m->main));
    if (!find_opset(s, "")) NC_TRY(add_opset(s, "", OPSET_FOR_IDENTITY));
    s->any_odd = has_odd_nodes(s, s->m->main);
    if (s->any_odd && !find_opset(s, NC_PB_ODD_DOMAIN)) NC_TRY(add_opset(s, NC_PB_ODD_DOMAIN, 1));
    return NC_OK;
}

static void save_opset(nc_text *out, const nc_opset *o) {
    nc_wire_mark mark = nc_wire_begin(out, ModelProto_opset_import, 0);
    nc_wire_put_bytes(out, OperatorSetIdProto_domain, o->domain, strlen(o->domain));
    nc_wire_put_int(out, OperatorSetIdProto_version, o->version);
    nc_wire_end(out, mark);
}

static void save_prop(nc_text *out, const nc_prop *p) {
    nc_wire_mark mark = nc_wire_begin(out, ModelProto_metadata_props, 0);
    nc_wire_put_str(out, StringStringEntryProto_key, p->key);
    nc_wire_put_str(out, StringStringEntryProto_value, p->value);
    nc_wire_end(out, mark);
}

static void save_header(nc_saver *s) {
    const nc_model *m = s->m;
    int64_t ir = m->ir_version ? m->ir_version : USUAL_IR;
    int64_t least = s->random || s->any_odd ? FIRST_IR_WITH_NODE_METADATA : FIRST_IR_WITH_FREE_INITIALIZERS;
    nc_wire_put_int(s->out, ModelProto_ir_version, ir < least ? least : ir);
    nc_wire_put_str(s->out, ModelProto_producer_name, m->producer_name);
    nc_wire_put_str(s->out, ModelProto_producer_version, m->producer_version);
    nc_wire_put_str(s->out, ModelProto_domain, m->domain);
    if (m->model_version) nc_wire_put_int(s->out, ModelProto_model_version, m->model_version);
    nc_wire_put_str(s->out, ModelProto_doc_string, m->doc);
    for (int i = 0; i < s->n_opsets; i++) save_opset(s->out, &s->opsets[i]);
    for (int i = 0; i < m->props.n; i++) save_prop(s->out, &m->props.v[i]);
}

nc_code nc_save_too_large(nc_saver *s) {
    s->too_large = true;
    NC_FAIL(s->w, NC_E_LIMIT, "the model's file would have more than %zu bytes: save its constants as external data",
            s->max_file);
}

static nc_code save_model(nc_saver *s) {
    NC_TRY(prepare(s));
    save_header(s);
    NC_TRY(nc_save_graph(s, s->m->main, ModelProto_graph, 1));
    NC_TRY(nc_save_odd_nodes(s));
    nc_save_extra(s, s->m->extra);
    if (s->out->failed) NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    return s->out->n > s->max_file ? nc_save_too_large(s) : NC_OK;
}

nc_code nc_onnx_save(nc_work *w, const nc_model *m, nc_text *out_bytes) {
    nc_saver s = {.w = w, .m = m, .out = out_bytes, .max_file = SIZE_MAX};
    return save_model(&s);
}

/* ---- files ---- */

static nc_code begin_data(nc_saver *s, const char *path, const nc_onnx_save_options *o) {
    if (!o->data_name) return NC_OK;
    if (!*o->data_name || strchr(o->data_name, '/') || strcmp(o->data_name, ".") == 0 ||
        strcmp(o->data_name, "..") == 0)
        NC_FAIL(s->w, NC_E_ARGUMENT, "external data goes into the model's folder: '%.200s' is not a plain file name",
                o->data_name);
    const char *slash = strrchr(path, '/');
    if (strcmp(slash ? slash + 1 : path, o->data_name) == 0)
        NC_FAIL(s->w, NC_E_ARGUMENT, "external data cannot go into the model's own file '%.200s'", o->data_name);
    const char *data =
        nc_arena_printf(&s->w->scratch, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, o->data_name);
    NC_NEED(s->w, data);
    s->data_name = o->data_name;
    s->min_bytes = o->min_bytes ? o->min_bytes : 1;
    return nc_file_begin(s->w, data, &s->data);
}

/* What was saved, in onnxruntime's format instead. */
static nc_code turn_to_ort(nc_saver *s) {
    nc_text made = {0};
    nc_code code = nc_ort_from_onnx(s->w, (nc_bytes){(const uint8_t *)s->out->s, s->out->n}, s->m->registry, &made);
    nc_text_release(s->out);
    *s->out = made;
    return code;
}

static nc_code save_files(nc_saver *s, const char *path, const nc_onnx_save_options *o) {
    nc_file_writer *model;
    NC_TRY(begin_data(s, path, o));
    NC_TRY(save_model(s));
    if (o->format == NC_FORMAT_ORT) NC_TRY(turn_to_ort(s));
    NC_TRY(nc_file_begin(s->w, path, &model));
    nc_code code = nc_file_add(s->w, model, s->out->s, s->out->n);
    nc_file_writer *data = s->data;
    s->data = NULL;
    if (code == NC_OK && data)
        code = nc_file_end(s->w, data);
    else
        nc_file_drop(data);
    if (code == NC_OK) return nc_file_end(s->w, model);
    nc_file_drop(model);
    return code;
}

static nc_code save_once(nc_work *w, const nc_model *m, const char *path, const nc_onnx_save_options *o,
                         bool *too_large) {
    nc_text bytes = {0};
    nc_saver s = {.w = w, .m = m, .out = &bytes, .max_file = o->max_file ? o->max_file : NC_ONNX_MAX_FILE};
    nc_code code = save_files(&s, path, o);
    nc_file_drop(s.data);
    nc_text_release(&bytes);
    *too_large = s.too_large;
    return code;
}

/* A model that is too large is noticed before much of it is written (save_graph.c), so trying costs little. */
nc_code nc_onnx_save_file(nc_work *w, const nc_model *m, const char *path, const nc_onnx_save_options *given) {
    nc_onnx_save_options o = given ? *given : (nc_onnx_save_options){.data_name = NULL};
    bool too_large;
    size_t n = strlen(path);
    if (o.format == NC_FORMAT_BY_NAME && n >= 4 && strcmp(path + n - 4, ".ort") == 0) o.format = NC_FORMAT_ORT;
    if (o.format == NC_FORMAT_ORT && o.data_name)
        NC_FAIL(w, NC_E_UNSUPPORTED, "onnxruntime's format has no external data: '%.200s' would have it in '%.200s'",
                path, o.data_name);
    nc_code code = save_once(w, m, path, &o, &too_large);
    if (code == NC_OK || !too_large || o.data_name || o.format == NC_FORMAT_ORT) return code;
    const char *slash = strrchr(path, '/');
    NC_NEED(w, o.data_name = nc_arena_printf(&w->scratch, "%s.data", slash ? slash + 1 : path));
    if (!o.min_bytes) o.min_bytes = USUAL_MIN_BYTES;
    w->diag = (nc_diag){.code = NC_OK};
    nc_log(NC_LOG_INFO, "%s: too large for one file, its constants go into %s", path, o.data_name);
    return save_once(w, m, path, &o, &too_large);
}
