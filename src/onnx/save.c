/* onnx/save.c: nc_model to ModelProto: header, opset imports, properties, then the main graph (save_graph.c). Every
 * node's version must be the one that its domain's import gives, or a reader would take it for another op. */
#include "onnx/save.h"

#include "base/file.h"
#include "onnx/saver.h"

#include <string.h>

/* Identity nodes may be added (save_graph.c): from this opset on they take every type. */
enum { OPSET_FOR_IDENTITY = 16 };
enum { FIRST_IR_WITH_FREE_INITIALIZERS = 4, FIRST_IR_WITH_NODE_METADATA = 10, USUAL_IR = 10 };

static const char *domain_of(const nc_node *n) {
    const char *d = n->card->domain;
    return d && strcmp(d, "ai.onnx") != 0 ? d : "";
}

static nc_opset *find_opset(nc_saver *s, const char *domain) {
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
        if (!o) NC_TRY(add_opset(s, domain, n->version->since));
        else if (nc_model_opset(s->m, domain) == 0 && o->version < n->version->since) o->version = n->version->since;
        if (n->random_id) s->random = true;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(complete_opsets(s, n->subs[i].graph));
    }
    return NC_OK;
}

static nc_code check_versions(nc_saver *s, const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next) {
        const nc_opset *o = find_opset(s, domain_of(n));
        if (nc_card_version(n->card, o->version) != n->version)
            NC_FAIL(s->w, NC_E_UNSUPPORTED,
                    "%s '%.100s' is of version %d, which opset %lld of domain '%.100s' does not mean", n->card->name,
                    n->name, n->version->since, (long long)o->version, o->domain);
        for (int i = 0; i < n->n_subs; i++) NC_TRY(check_versions(s, n->subs[i].graph));
    }
    return NC_OK;
}

static nc_code prepare(nc_saver *s) {
    for (int i = 0; i < s->m->n_opsets; i++) NC_TRY(add_opset(s, s->m->opsets[i].domain, s->m->opsets[i].version));
    NC_TRY(nc_save_name_all(s));
    NC_TRY(complete_opsets(s, s->m->main));
    if (!find_opset(s, "")) NC_TRY(add_opset(s, "", OPSET_FOR_IDENTITY));
    return check_versions(s, s->m->main);
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
    int64_t least = s->random ? FIRST_IR_WITH_NODE_METADATA : FIRST_IR_WITH_FREE_INITIALIZERS;
    nc_wire_put_int(s->out, ModelProto_ir_version, ir < least ? least : ir);
    nc_wire_put_str(s->out, ModelProto_producer_name, m->producer_name);
    nc_wire_put_str(s->out, ModelProto_producer_version, m->producer_version);
    nc_wire_put_str(s->out, ModelProto_domain, m->domain);
    if (m->model_version) nc_wire_put_int(s->out, ModelProto_model_version, m->model_version);
    nc_wire_put_str(s->out, ModelProto_doc_string, m->doc);
    for (int i = 0; i < s->n_opsets; i++) save_opset(s->out, &s->opsets[i]);
    for (int i = 0; i < m->props.n; i++) save_prop(s->out, &m->props.v[i]);
}

nc_code nc_onnx_save(nc_work *w, const nc_model *m, nc_text *out_bytes) {
    nc_saver s = {.w = w, .m = m, .out = out_bytes};
    NC_TRY(prepare(&s));
    save_header(&s);
    NC_TRY(nc_save_graph(&s, m->main, ModelProto_graph, 1));
    if (out_bytes->failed) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

nc_code nc_onnx_save_file(nc_work *w, const nc_model *m, const char *path) {
    nc_text bytes = {0};
    nc_code code = nc_onnx_save(w, m, &bytes);
    if (code == NC_OK) code = nc_file_write(w, path, bytes.s, bytes.n);
    nc_text_release(&bytes);
    return code;
}
