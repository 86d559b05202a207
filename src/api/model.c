/* api/model.c: environments and models. */
#include "api/api.h"

#include "base/file.h"
#include "base/mem.h"
#include "ir/text.h"
#include "onnx/load.h"
#include "onnx/save.h"

#include <string.h>

nacre_code nacre_env_create(int threads, nacre_env **out, nacre_error *err) {
    if (threads < 0)
        return nc_api_fail(err, NC_E_ARGUMENT, "threads: expected 0 (as many as the machine allows) or more, got %d",
                           threads);
    nacre_env *e = nc_alloc_zero(1, sizeof *e);
    if (e) e->env = nc_env_create(threads);
    if (!e || !e->env) {
        nc_free(e);
        return nc_api_error(err, NC_E_MEMORY, NULL);
    }
    *out = e;
    return NACRE_OK;
}

void nacre_env_release(nacre_env *env) {
    if (!env) return;
    nc_env_unref(env->env);
    nc_free(env);
}

nacre_code nacre_env_describe_device(nacre_env *env, const char *device, char *text, size_t bytes, nacre_error *err) {
    nc_work w;
    nc_device *d;
    nc_work_init(&w);
    nc_code code = nc_env_device(env->env, &w, device, &d);
    if (code == NC_OK && bytes) {
        strncpy(text, d->description, bytes - 1);
        text[bytes - 1] = '\0';
        if (d->table->describe) d->table->describe(d, text, bytes);
    }
    return nc_api_end(&w, code, err);
}

static nacre_code finish(nc_work *w, nacre_env *env, nc_code code, nc_model *m, nacre_model **out, nacre_error *err) {
    nacre_model *p = code == NC_OK ? nc_alloc_zero(1, sizeof *p) : NULL;
    if (code == NC_OK && !p) {
        nc_model_destroy(m);
        code = nc_fail(w, NC_E_MEMORY, "out of memory");
    }
    if (code != NC_OK) nc_api_error(err, code, &w->diag);
    if (p) {
        p->model = m, p->env = nc_env_ref(env->env);
        *out = p;
    }
    nc_work_release(w);
    return (nacre_code)code;
}

static bool is_text(const char *path) {
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".nct") == 0;
}

static nc_code load_text(nc_work *w, const char *path, const nc_registry *r, nc_model **out) {
    nc_mapping file;
    NC_TRY(nc_file_map(w, path, &file));
    char *text = nc_arena_strn(&w->scratch, file.bytes ? (const char *)file.p : "", file.bytes);
    nc_file_unmap(&file);
    NC_NEED(w, text);
    return nc_graph_parse(w, text, r, out);
}

nacre_code nacre_model_load(nacre_env *env, const char *path, nacre_model **out, nacre_error *err) {
    nc_work w;
    nc_model *m = NULL;
    nc_work_init(&w);
    const nc_registry *r = nc_env_registry(env->env);
    nc_code code = is_text(path) ? load_text(&w, path, r, &m) : nc_onnx_load_file(&w, path, r, &m);
    return finish(&w, env, code, m, out, err);
}

nacre_code nacre_model_load_bytes_in(nacre_env *env, const void *bytes, size_t n, const char *folder, nacre_model **out,
                                     nacre_error *err) {
    nc_work w;
    nc_model *m = NULL;
    nc_work_init(&w);
    nc_code code = nc_onnx_load(&w, bytes, n, NULL, folder, nc_env_registry(env->env), &m);
    return finish(&w, env, code, m, out, err);
}

nacre_code nacre_model_load_bytes(nacre_env *env, const void *bytes, size_t n, nacre_model **out, nacre_error *err) {
    return nacre_model_load_bytes_in(env, bytes, n, NULL, out, err);
}

static void free_copy(nc_buffer *b) { nc_free(b->ptr); }

static nc_code copy_file(nc_work *w, const void *contents, size_t bytes, nc_buffer **out) {
    void *copy = nc_alloc(bytes ? bytes : 1);
    NC_NEED(w, copy);
    if (bytes) memcpy(copy, contents, bytes);
    *out = nc_buffer_wrap(copy, bytes, free_copy, NULL);
    if (!*out) nc_free(copy);
    NC_NEED(w, *out);
    return NC_OK;
}

static nc_code load_given(nc_work *w, const nc_registry *r, const char *path, const void *bytes, size_t n,
                          const nacre_given *g, nc_buffer **files, nc_model **out) {
    nc_onnx_given given = {.names = g->names,
                           .tensors = (nc_object *const *)(void *)(uintptr_t)g->values,
                           .n = (int)g->n,
                           .files = g->files,
                           .contents = files,
                           .n_files = (int)g->n_files};
    for (size_t i = 0; i < g->n_files; i++) NC_TRY(copy_file(w, g->contents[i], g->bytes[i], &files[i]));
    if (path) return nc_onnx_load_file_given(w, path, g->folder, &given, r, out);
    return nc_onnx_load_given(w, bytes, n, g->folder, &given, r, out);
}

nacre_code nacre_model_load_given(nacre_env *env, const char *path, const void *bytes, size_t n,
                                  const nacre_given *callers, nacre_model **out, nacre_error *err) {
    nacre_given own, *given = &own;
    nacre_code read = nc_api_read_struct(err, "nacre_given", callers, &own, sizeof own);
    if (read != NACRE_OK) return read;
    nc_work w;
    nc_model *m = NULL;
    nc_work_init(&w);
    nc_buffer **files = nc_arena_array(&w.scratch, given->n_files + 1, sizeof *files);
    nc_code code = files ? load_given(&w, nc_env_registry(env->env), path, bytes, n, given, files, &m) : NC_E_MEMORY;
    for (size_t i = 0; files && i < given->n_files; i++) nc_buffer_unref(files[i]);
    return finish(&w, env, code, m, out, err);
}

nacre_code nacre_model_parse(nacre_env *env, const char *text, nacre_model **out, nacre_error *err) {
    nc_work w;
    nc_model *m = NULL;
    nc_work_init(&w);
    nc_code code = nc_graph_parse(&w, text, nc_env_registry(env->env), &m);
    return finish(&w, env, code, m, out, err);
}

static nacre_code save(const nacre_model *m, const char *path, const nc_onnx_save_options *o, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nc_code code = nc_onnx_save_file(&w, m->model, path, o);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_model_save(const nacre_model *m, const char *path, nacre_error *err) {
    return save(m, path, NULL, err);
}

nacre_code nacre_model_save_external(const nacre_model *m, const char *path, const char *data_name, size_t min_bytes,
                                     nacre_error *err) {
    nc_onnx_save_options o = {.data_name = data_name, .min_bytes = min_bytes};
    return save(m, path, &o, err);
}

nacre_code nacre_model_save_bytes(const nacre_model *m, void **bytes, size_t *n, nacre_error *err) {
    nc_work w;
    nc_text out = {0};
    nc_work_init(&w);
    nc_code code = nc_onnx_save(&w, m->model, &out);
    if (code == NC_OK)
        *bytes = out.s, *n = out.n;
    else
        nc_text_release(&out);
    return nc_api_end(&w, code, err);
}

void nacre_model_release(nacre_model *m) {
    if (!m) return;
    nc_model_destroy(m->model);
    nc_env_unref(m->env);
    nc_free(m);
}
