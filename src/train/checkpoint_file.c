/* train/checkpoint_file.c: checkpoints and paths: which format a file has, and files that appear whole or not at all.
 *
 * onnxruntime's format keeps parameters of 1800 MiB and more in a second file. Both are written whole before the first
 * is renamed; a process that dies between the two renames leaves the new data beside the old file, which its checksums
 * tell when it is loaded. */
#include "base/file.h"
#include "train/checkpoint_formats.h"

#define EXTERNAL_FROM ((size_t)1800 << 20)

static nc_code add_to_file(nc_work *w, void *to, const void *p, size_t bytes) { return nc_file_add(w, to, p, bytes); }

static nc_code read_bytes(nc_work *w, const void *bytes, size_t n, const nc_mapping *data, nc_checkpoint *c) {
    if (nc_checkpoint_is_ort(bytes, n)) return nc_checkpoint_read_ort(w, bytes, n, data->p, data->bytes, c);
    if (nc_checkpoint_is_safetensors(bytes, n)) return nc_checkpoint_read_safetensors(w, bytes, n, c);
    NC_FAIL(w, NC_E_BAD_MODEL, "checkpoint: expected a safetensors file or one of onnxruntime's checkpoints, got %s",
            n ? "something else" : "an empty file");
}

static nc_code load(nc_work *w, const void *bytes, size_t n, const nc_mapping *data, nc_checkpoint **out) {
    nc_checkpoint *c;
    NC_TRY(nc_checkpoint_create(w, &c));
    nc_code code = read_bytes(w, bytes, n, data, c);
    if (code != NC_OK) {
        nc_checkpoint_release(c);
        return code;
    }
    *out = c;
    return NC_OK;
}

nc_code nc_checkpoint_load_bytes(nc_work *w, const void *bytes, size_t n, nc_checkpoint **out) {
    return load(w, bytes, n, &(nc_mapping){0}, out);
}

static char *data_path(nc_work *w, const char *path) { return nc_arena_printf(&w->scratch, "%s.data", path); }

static nc_code load_mapped(nc_work *w, const char *path, const nc_mapping *file, nc_checkpoint **out) {
    bool external = false;
    nc_mapping data = {0};
    if (nc_checkpoint_is_ort(file->p, file->bytes))
        NC_TRY(nc_checkpoint_ort_has_data(w, file->p, file->bytes, &external));
    char *beside = data_path(w, path);
    NC_NEED(w, beside);
    if (external) NC_TRY(nc_file_map(w, beside, &data));
    nc_code code = load(w, file->p, file->bytes, &data, out);
    nc_file_unmap(&data);
    return code;
}

nc_code nc_checkpoint_load(nc_work *w, const char *path, nc_checkpoint **out) {
    nc_mapping file;
    NC_TRY(nc_file_map(w, path, &file));
    nc_code code = load_mapped(w, path, &file, out);
    nc_file_unmap(&file);
    return code;
}

/* Takes the writer. */
static nc_code end_file(nc_work *w, nc_file_writer *f, nc_code code) {
    if (code == NC_OK) return nc_file_end(w, f);
    nc_file_drop(f);
    return code;
}

static nc_code save_safetensors(nc_work *w, const nc_checkpoint *c, const char *path, bool with_optimizer) {
    nc_file_writer *f;
    NC_TRY(nc_file_begin(w, path, &f));
    return end_file(w, f, nc_checkpoint_write_safetensors(w, c, with_optimizer, (nc_checkpoint_sink){add_to_file, f}));
}

static bool is_large(const nc_checkpoint *c, size_t from) {
    size_t sum = 0;
    for (int i = 0; i < c->params.n; i++) {
        const nc_object *o = c->params.v[i].value;
        size_t bytes = 0;
        if (o && nc_tensor_bytes(o->t.dtype, o->t.dims, o->t.rank, &bytes)) sum += bytes;
    }
    return sum >= from;
}

nc_code nc_checkpoint_save_ort(nc_work *w, const nc_checkpoint *c, const char *path, bool with_optimizer,
                               size_t external_from) {
    bool large = !c->nominal && is_large(c, external_from);
    char *beside = data_path(w, path);
    nc_file_writer *f, *data = NULL;
    NC_NEED(w, beside);
    NC_TRY(nc_file_begin(w, path, &f));
    nc_code code = large ? nc_file_begin(w, beside, &data) : NC_OK;
    nc_checkpoint_sink sink = {add_to_file, data};
    if (code == NC_OK)
        code =
            nc_checkpoint_write_ort(w, c, with_optimizer, (nc_checkpoint_sink){add_to_file, f}, large ? &sink : NULL);
    if (data) code = end_file(w, data, code);
    return end_file(w, f, code);
}

nc_code nc_checkpoint_save(nc_work *w, const nc_checkpoint *c, const char *path, nc_checkpoint_format format,
                           bool with_optimizer) {
    return format == NC_CHECKPOINT_ORT ? nc_checkpoint_save_ort(w, c, path, with_optimizer, EXTERNAL_FROM)
                                       : save_safetensors(w, c, path, with_optimizer);
}
