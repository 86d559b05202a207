/* onnx/load.c: ModelProto to nc_model: header, opset imports, properties, then the main graph (load_graph.c).
 * Ends by giving random nodes their ids. A file of onnxruntime's own format is made a ModelProto first (ort_load.c). */
#include "onnx/load.h"

#include "base/mem.h"
#include "ir/assume.h"
#include "onnx/loader.h"
#include "onnx/ort_format.h"

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

nc_code nc_load_room(nc_loader *l, size_t bytes) {
    size_t most = NC_ONNX_MAX_BYTES, has = l->m->arena.total + l->w->scratch.total;
    if (l->bytes_file < (SIZE_MAX - most) / NC_ONNX_MAX_GROWTH) most += l->bytes_file * NC_ONNX_MAX_GROWTH;
    if (has > most || bytes > most - has)
        NC_FAIL(l->w, NC_E_LIMIT, "a model file of %zu bytes may take %zu MiB of memory, it needs more", l->bytes_file,
                most >> 20);
    return NC_OK;
}

/* Free text of the header: kept up to its first NUL, in the model. */
static nc_code keep_text(nc_loader *l, nc_bytes b, const char **out) {
    *out = nc_arena_strn(&l->m->arena, b.n ? (const char *)b.p : "", b.n);
    NC_NEED(l->w, *out);
    return NC_OK;
}

nc_code nc_load_opsets(nc_loader *l, nc_bytes b, uint32_t number, size_t n, nc_opset **out, int *n_out) {
    nc_opset *all = nc_arena_array(&l->m->arena, n + 1, sizeof *all);
    NC_NEED(l->w, all);
    *out = all;
    nc_map seen;
    nc_map_init(&seen, &l->w->scratch);
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, number, &f)) {
        nc_pb_opset o;
        const char *domain;
        NC_TRY(nc_pb_read_opset(l->w, f.b, &o));
        NC_TRY(nc_load_name(l, o.domain, "OperatorSetIdProto.domain", &domain));
        if (strcmp(domain, "ai.onnx") == 0) domain = "";
        if (o.version == 0 && *domain) { /* says nothing: as if it were not there */
            NC_TRY(nc_assume(l->w, l->m, NC_ASSUME_OPSET_ZERO, "domain '%.100s' has version 0", domain));
            continue;
        }
        if (o.version < 1 || o.version > INT_MAX)
            NC_FAIL(l->w, NC_E_BAD_MODEL, "opset_import of domain '%.100s' has version %lld", domain,
                    (long long)o.version);
        if (!*domain && o.version > NC_ONNX_NEWEST_OPSET)
            NC_TRY(nc_assume(l->w, l->m, NC_ASSUME_OPSET_NEWER, "the model is of opset %lld, known are those up to %d",
                             (long long)o.version, NC_ONNX_NEWEST_OPSET));
        nc_opset *before = nc_map_get(&seen, domain); /* some converters write a domain again and again */
        if (before != NULL) {
            if (before->version != o.version)
                NC_TRY(nc_assume(l->w, l->m, NC_ASSUME_OPSET_TWICE,
                                 "domain '%.100s' is imported as version %lld and %lld", domain,
                                 (long long)before->version, (long long)o.version));
            before->version = o.version;
            continue;
        }
        nc_opset *to = &all[*n_out];
        to->domain = nc_arena_str(&l->m->arena, domain);
        to->version = o.version;
        NC_NEED(l->w, to->domain);
        if (!nc_map_put(&seen, to->domain, to)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        ++*n_out;
    }
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

/* training_info is kept as it is and may call functions: then these are kept beside it. */
static nc_code keep_extra(nc_loader *l, nc_bytes b, const nc_pb_model *pb) {
    uint64_t known = NC_PB_BIT(ModelProto_ir_version) | NC_PB_BIT(ModelProto_producer_name) |
                     NC_PB_BIT(ModelProto_producer_version) | NC_PB_BIT(ModelProto_domain) |
                     NC_PB_BIT(ModelProto_model_version) | NC_PB_BIT(ModelProto_doc_string) |
                     NC_PB_BIT(ModelProto_graph) | NC_PB_BIT(ModelProto_opset_import) |
                     NC_PB_BIT(ModelProto_metadata_props);
    if (!pb->training_info) known |= NC_PB_BIT(ModelProto_functions);
    return nc_load_extra(l, b, known, &l->m->extra);
}

static nc_code load_header(nc_loader *l, nc_bytes b, const nc_pb_model *pb) {
    nc_model *m = l->m;
    if (pb->ir_version < 1 || pb->ir_version > INT_MAX)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "ModelProto.ir_version is %s", pb->ir_version == 0 ? "missing" : "out of range");
    m->ir_version = pb->ir_version;
    if (m->ir_version > NC_ONNX_NEWEST_IR)
        NC_TRY(nc_assume(l->w, m, NC_ASSUME_IR_NEWER, "the model has ir_version %lld, known are those up to %d",
                         (long long)m->ir_version, NC_ONNX_NEWEST_IR));
    m->model_version = pb->model_version;
    NC_TRY(keep_text(l, pb->producer_name, &m->producer_name));
    NC_TRY(keep_text(l, pb->producer_version, &m->producer_version));
    NC_TRY(keep_text(l, pb->domain, &m->domain));
    NC_TRY(keep_text(l, pb->doc_string, &m->doc));
    NC_TRY(nc_load_opsets(l, b, ModelProto_opset_import, pb->opset_import, &m->opsets, &m->n_opsets));
    if (m->n_opsets == 0 && m->ir_version < 3) m->opsets[m->n_opsets++] = (nc_opset){"", 1};
    NC_TRY(load_props(l, b));
    NC_TRY(keep_extra(l, b, pb));
    return nc_load_functions(l, b);
}

/* Ids that the file brings are kept; the others are counted on from the largest of them, so that none is used twice. */
static void give_random_ids(nc_loader *l) {
    nc_model *m = l->m;
    if (m->next_random_id < 1) m->next_random_id = 1;
    if (m->next_random_id <= l->max_random_id) m->next_random_id = l->max_random_id + 1;
    for (int i = 0; i < l->random.n; i++) l->random.v[i]->random_id = m->next_random_id++;
}

static nc_code take_files(nc_loader *l) {
    nc_map_init(&l->files, &l->w->scratch);
    nc_map_init(&l->taken, &l->w->scratch);
    for (int i = 0; l->given && i < l->given->n_files; i++) {
        nc_buffer *b = l->given->contents[i];
        if (!NC_PUSH(&l->m->arena, l->m->buffers, b)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        nc_buffer_ref(b);
        if (!nc_map_put(&l->files, l->given->files[i], b)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static void free_text(nc_buffer *b) { nc_free(b->ptr); }

/* onnxruntime's format: *b becomes the ModelProto that says the same, in memory of the model's own. */
static nc_code take_ort(nc_loader *l, nc_bytes *b) {
    nc_text made = {0};
    nc_code code = nc_ort_to_onnx(l->w, *b, &made);
    nc_buffer *own = code == NC_OK ? nc_buffer_wrap(made.s, made.n, free_text, NULL) : NULL;
    if (!own) nc_text_release(&made);
    NC_TRY(code);
    NC_NEED(l->w, own);
    *b = (nc_bytes){own->ptr, own->bytes};
    l->keeps = own;
    if (NC_PUSH(&l->m->arena, l->m->buffers, own)) return NC_OK;
    nc_buffer_unref(own);
    NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
}

static nc_code keep_bytes(nc_loader *l) {
    if (!l->keeps) return NC_OK;
    if (!NC_PUSH(&l->m->arena, l->m->buffers, l->keeps)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    nc_buffer_ref(l->keeps);
    return NC_OK;
}

static nc_code load_model(nc_loader *l, nc_bytes b) {
    nc_pb_model pb;
    NC_TRY(take_files(l));
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        NC_FAIL(l->w, NC_E_UNSUPPORTED, "this machine is big-endian: tensor data would have to be turned around");
    NC_TRY(nc_ort_is_model(b) ? take_ort(l, &b) : keep_bytes(l));
    l->bytes_file = b.n;
    NC_TRY(nc_pb_read_model(l->w, b, &pb));
    if (!NC_PB_HAS(pb, ModelProto_graph)) NC_FAIL(l->w, NC_E_ARGUMENT, "ModelProto.graph is missing");
    NC_TRY(load_header(l, b, &pb));
    nc_pb_graph graph;
    NC_TRY(nc_pb_read_graph(l->w, pb.graph, &graph));
    NC_TRY(keep_text(l, graph.doc_string, &l->m->graph_doc));
    NC_TRY(nc_load_graph(l, pb.graph, NULL, l->m->main));
    for (int i = 0; l->given && i < l->given->n; i++)
        if (!nc_map_get(&l->taken, l->given->names[i]))
            NC_FAIL(l->w, NC_E_FAIL, "initializer '%.200s' was given, the model has none of that name",
                    l->given->names[i]);
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

nc_code nc_onnx_load_given(nc_work *w, const void *bytes, size_t n, const char *folder, const nc_onnx_given *given,
                           const nc_registry *r, nc_model **out) {
    nc_loader l = {.w = w, .folder = folder, .given = given};
    return load(&l, (nc_bytes){bytes, n}, r, out);
}

nc_code nc_onnx_load_file(nc_work *w, const char *path, const nc_registry *r, nc_model **out) {
    return nc_onnx_load_file_given(w, path, NULL, NULL, r, out);
}

nc_code nc_onnx_load_file_given(nc_work *w, const char *path, const char *folder, const nc_onnx_given *given,
                                const nc_registry *r, nc_model **out) {
    nc_buffer *keeps;
    NC_TRY(nc_load_map(w, path, &keeps));
    char real[PATH_MAX];
    nc_loader l = {.w = w, .keeps = keeps, .folder = folder ? folder : folder_of(&w->scratch, path), .given = given};
    if (realpath(path, real)) l.real_folder = folder_of(&w->scratch, real);
    nc_code code =
        l.folder ? load(&l, (nc_bytes){keeps->ptr, keeps->bytes}, r, out) : nc_fail(w, NC_E_MEMORY, "out of memory");
    nc_buffer_unref(keeps);
    return code;
}
