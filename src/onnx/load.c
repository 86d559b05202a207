/* onnx/load.c: ModelProto to nc_model: header, opset imports, properties, then the main graph (load_graph.c).
 * Model-local functions are noted by name only: a node that calls one is refused. Ends by giving random nodes their
 * ids. */
#include "onnx/load.h"

#include "base/log.h"
#include "onnx/loader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

nc_code nc_load_name(nc_loader *l, nc_bytes b, const char *what, const char **out) {
    if (b.n > NC_ONNX_MAX_NAME)
        NC_FAIL(l->w, NC_E_LIMIT, "%s has %zu bytes, at most %d are allowed", what, b.n, NC_ONNX_MAX_NAME);
    if (b.n && memchr(b.p, 0, b.n)) NC_FAIL(l->w, NC_E_BAD_MODEL, "%s holds a NUL byte", what);
    *out = nc_arena_strn(&l->w->scratch, b.n ? (const char *)b.p : "", b.n);
    NC_NEED(l->w, *out);
    return NC_OK;
}

nc_code nc_load_values(nc_loader *l, size_t n) {
    if (n > (size_t)(NC_ONNX_MAX_VALUES - l->n_values))
        NC_FAIL(l->w, NC_E_LIMIT, "the model has more than %d values", NC_ONNX_MAX_VALUES);
    l->n_values += (int64_t)n;
    return NC_OK;
}

/* Free text of the header: kept up to its first NUL, in the model. */
static nc_code keep_text(nc_loader *l, nc_bytes b, const char **out) {
    *out = nc_arena_strn(&l->m->arena, b.n ? (const char *)b.p : "", b.n);
    NC_NEED(l->w, *out);
    return NC_OK;
}

static nc_code load_opsets(nc_loader *l, nc_bytes b, const nc_pb_model *pb) {
    nc_model *m = l->m;
    m->opsets = nc_arena_array(&m->arena, pb->opset_import + 1, sizeof *m->opsets);
    NC_NEED(l->w, m->opsets);
    nc_map seen;
    nc_map_init(&seen, &l->w->scratch);
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, ModelProto_opset_import, &f)) {
        nc_pb_opset o;
        const char *domain;
        NC_TRY(nc_pb_read_opset(l->w, f.b, &o));
        NC_TRY(nc_load_name(l, o.domain, "OperatorSetIdProto.domain", &domain));
        if (strcmp(domain, "ai.onnx") == 0) domain = "";
        if (o.version < 1 || o.version > INT_MAX)
            NC_FAIL(l->w, NC_E_BAD_MODEL, "opset_import of domain '%.100s' has version %lld", domain,
                    (long long)o.version);
        if (nc_map_get(&seen, domain)) NC_FAIL(l->w, NC_E_BAD_MODEL, "domain '%.100s' is imported twice", domain);
        nc_opset *to = &m->opsets[m->n_opsets];
        to->domain = nc_arena_str(&m->arena, domain);
        to->version = o.version;
        NC_NEED(l->w, to->domain);
        if (!nc_map_put(&seen, to->domain, to)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        m->n_opsets++;
    }
    if (m->n_opsets == 0 && m->ir_version < 3) m->opsets[m->n_opsets++] = (nc_opset){"", 1};
    return NC_OK;
}

static nc_code load_props(nc_loader *l, nc_bytes b) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, ModelProto_metadata_props, &f)) {
        nc_pb_entry e;
        nc_prop p;
        NC_TRY(nc_pb_read_entry(l->w, f.b, &e));
        NC_TRY(keep_text(l, e.key, &p.key));
        NC_TRY(keep_text(l, e.value, &p.value));
        if (!NC_PUSH(&l->m->arena, l->m->props, p)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code note_functions(nc_loader *l, nc_bytes b) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, ModelProto_functions, &f)) {
        nc_pb_function fn;
        const char *name, *domain, *overload;
        NC_TRY(nc_pb_read_function(l->w, f.b, &fn));
        NC_TRY(nc_load_name(l, fn.name, "FunctionProto.name", &name));
        NC_TRY(nc_load_name(l, fn.domain, "FunctionProto.domain", &domain));
        NC_TRY(nc_load_name(l, fn.overload, "FunctionProto.overload", &overload));
        if (strcmp(domain, "ai.onnx") == 0) domain = "";
        char *key = nc_arena_printf(&l->w->scratch, "%s|%s|%s", domain, name, overload);
        NC_NEED(l->w, key);
        if (!nc_map_put(&l->functions, key, key)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code load_header(nc_loader *l, nc_bytes b, const nc_pb_model *pb) {
    nc_model *m = l->m;
    if (pb->ir_version < 1 || pb->ir_version > INT_MAX)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "ModelProto.ir_version is %s", pb->ir_version == 0 ? "missing" : "out of range");
    m->ir_version = pb->ir_version;
    m->model_version = pb->model_version;
    NC_TRY(keep_text(l, pb->producer_name, &m->producer_name));
    NC_TRY(keep_text(l, pb->producer_version, &m->producer_version));
    NC_TRY(keep_text(l, pb->domain, &m->domain));
    NC_TRY(keep_text(l, pb->doc_string, &m->doc));
    if (pb->training_info) nc_log(NC_LOG_WARNING, "the model's training_info is ignored");
    NC_TRY(load_opsets(l, b, pb));
    NC_TRY(load_props(l, b));
    return note_functions(l, b);
}

/* Ids that the file brings are kept; the others are counted on from the largest of them, so that none is used twice. */
static void give_random_ids(nc_loader *l) {
    nc_model *m = l->m;
    if (m->next_random_id < 1) m->next_random_id = 1;
    if (m->next_random_id <= l->max_random_id) m->next_random_id = l->max_random_id + 1;
    for (int i = 0; i < l->random.n; i++) l->random.v[i]->random_id = m->next_random_id++;
}

static nc_code load_model(nc_loader *l, nc_bytes b) {
    nc_pb_model pb;
    nc_map_init(&l->files, &l->w->scratch);
    nc_map_init(&l->functions, &l->w->scratch);
    if (l->keeps) {
        if (!NC_PUSH(&l->m->arena, l->m->buffers, l->keeps)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        nc_buffer_ref(l->keeps);
    }
    NC_TRY(nc_pb_read_model(l->w, b, &pb));
    if (!NC_PB_HAS(pb, ModelProto_graph)) NC_FAIL(l->w, NC_E_BAD_MODEL, "ModelProto.graph is missing");
    NC_TRY(load_header(l, b, &pb));
    nc_pb_graph graph;
    NC_TRY(nc_pb_read_graph(l->w, pb.graph, &graph));
    NC_TRY(keep_text(l, graph.doc_string, &l->m->graph_doc));
    NC_TRY(nc_load_graph(l, pb.graph, NULL, l->m->main));
    give_random_ids(l);
    return NC_OK;
}

static nc_code load(nc_loader *l, nc_bytes b, const nc_registry *r, nc_model **out) {
    nc_model *m = nc_model_create(r);
    NC_NEED(l->w, m);
    l->m = m;
    nc_code code = load_model(l, b);
    if (code != NC_OK) {
        nc_model_destroy(m);
        return code;
    }
    *out = m;
    return NC_OK;
}

nc_code nc_onnx_load(nc_work *w, const void *bytes, size_t n, nc_buffer *keeps, const char *folder,
                     const nc_registry *r, nc_model **out) {
    nc_loader l = {.w = w, .keeps = keeps, .folder = folder};
    return load(&l, (nc_bytes){bytes, n}, r, out);
}

/* "a/b.onnx" -> "a"; "b.onnx" -> "."; "/b.onnx" -> "/". */
static const char *folder_of(nc_arena *a, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return nc_arena_str(a, ".");
    return nc_arena_strn(a, path, slash == path ? 1 : (size_t)(slash - path));
}

nc_code nc_onnx_load_file(nc_work *w, const char *path, const nc_registry *r, nc_model **out) {
    nc_buffer *keeps;
    NC_TRY(nc_load_map(w, path, &keeps));
    char real[PATH_MAX];
    nc_loader l = {.w = w, .keeps = keeps, .folder = folder_of(&w->scratch, path)};
    if (realpath(path, real)) l.real_folder = folder_of(&w->scratch, real);
    nc_code code =
        l.folder ? load(&l, (nc_bytes){keeps->ptr, keeps->bytes}, r, out) : nc_fail(w, NC_E_MEMORY, "out of memory");
    nc_buffer_unref(keeps);
    return code;
}
