/* api/device_value.c: tensors in the memory of a device: made there, wrapped there, copied between there and the
 * host. Runs that read and write them are in run.c. */
#include "api/api.h"

#include "base/mem.h"
#include "kernels/cpu/move/move.h"

#include <string.h>

/* What a buffer over the caller's memory needs until it is let go. */
typedef struct lender {
    nc_env *env;
    void (*release)(void *owner);
    void *owner;
} lender;

static void give_back(nc_buffer *b) {
    lender *l = b->owner;
    nc_env *env = l->env;
    if (l->release) l->release(l->owner);
    nc_free(l);
    nc_env_unref(env);
}

static nacre_code open_for(nacre_env *env, const char *device, nacre_type type, int rank, const int64_t *dims,
                           nc_device **out, size_t *bytes, nacre_error *err) {
    nacre_code code = nc_api_check_shape(type, rank, dims, bytes, err);
    if (code != NACRE_OK) return code;
    if (type == NACRE_STRING) return nc_api_fail(err, NC_E_TYPE, "strings lie in host memory alone");
    nc_work w;
    nc_work_init(&w);
    nc_code opened = nc_env_device(env->env, &w, device, out);
    return nc_api_end(&w, opened, err);
}

static nacre_code wrap(nc_buffer *takes, nacre_type type, int rank, const int64_t *dims, nacre_value **out,
                       nacre_error *err) {
    nc_object *o = nc_object_tensor(takes, (nc_dtype)type, rank, dims);
    if (!o) return nc_api_error(err, NC_E_MEMORY, NULL);
    *out = nc_api_value(o);
    return NACRE_OK;
}

nacre_code nacre_value_new_on(nacre_env *env, const char *device, nacre_type type, int rank, const int64_t *dims,
                              nacre_value **out, nacre_error *err) {
    nc_device *d;
    size_t bytes;
    nc_diag diag = {0};
    nacre_code code = open_for(env, device, type, rank, dims, &d, &bytes, err);
    if (code != NACRE_OK) return code;
    if (d->table->host_memory) return nacre_value_new_tensor(type, rank, dims, out, err);
    nc_buffer *b = nc_env_buffer(env->env, d, NULL, bytes, &diag);
    if (!b) return nc_api_error(err, diag.code ? diag.code : NC_E_MEMORY, &diag);
    nc_code filled = bytes ? d->table->fill(d, NULL, b->ptr, 0, bytes, &diag) : NC_OK;
    if (filled != NC_OK) {
        nc_buffer_unref(b);
        return nc_api_error(err, filled, &diag);
    }
    return wrap(b, type, rank, dims, out, err);
}

nacre_code nacre_value_at(nacre_env *env, const char *device, nacre_type type, int rank, const int64_t *dims,
                          void *keeps_data, void (*release)(void *owner), void *owner, nacre_value **out,
                          nacre_error *err) {
    nc_device *d;
    size_t bytes;
    nacre_code code = open_for(env, device, type, rank, dims, &d, &bytes, err);
    if (code != NACRE_OK) return code;
    if (!keeps_data && bytes) return nc_api_fail(err, NC_E_ARGUMENT, "data is NULL");
    lender *l = nc_alloc_zero(1, sizeof *l);
    nc_buffer *b = l ? nc_buffer_wrap(keeps_data, bytes, NULL, l) : NULL;
    nc_object *o = b ? nc_object_tensor(b, (nc_dtype)type, rank, dims) : NULL;
    if (!o) {
        nc_free(l);
        return nc_api_error(err, NC_E_MEMORY, NULL);
    }
    *l = (lender){nc_env_ref(env->env), release, owner};
    b->release = give_back, b->device = d;
    b->kind = d->table->host_memory ? NC_MEM_HOST : NC_MEM_DEVICE;
    *out = nc_api_value(o);
    return NACRE_OK;
}

/* ---- copies ---- */

nc_code nc_api_copy(nc_work *w, nc_object *dst, const nc_object *src) {
    bool from = nc_object_on_device(src), to = nc_object_on_device(dst);
    size_t bytes;
    if (dst->kind != NC_OBJ_TENSOR || src->kind != NC_OBJ_TENSOR || dst->t.dtype == NC_STRING)
        NC_FAIL(w, NC_E_TYPE, "only tensors of numbers can be copied");
    if (!nc_is_dense(&dst->t)) NC_FAIL(w, NC_E_ARGUMENT, "copy: the tensor to write into must be dense");
    if (!nc_is_dense(&src->t)) {
        nc_object *dense;
        NC_TRY(nc_api_dense(w, src, &dense));
        nc_code code = nc_api_copy(w, dst, dense);
        nc_object_unref(dense);
        return code;
    }
    if (dst->t.dtype != src->t.dtype)
        NC_FAIL(w, NC_E_TYPE, "copy: expected %s, got %s", nc_dtype_name(dst->t.dtype), nc_dtype_name(src->t.dtype));
    if (nc_tensor_numel(&dst->t) != nc_tensor_numel(&src->t))
        NC_FAIL(w, NC_E_SHAPE, "copy: expected %lld elements, got %lld", (long long)nc_tensor_numel(&dst->t),
                (long long)nc_tensor_numel(&src->t));
    if (!nc_tensor_bytes(src->t.dtype, src->t.dims, src->t.rank, &bytes)) NC_FAIL(w, NC_E_LIMIT, "too large to copy");
    if (!bytes) return NC_OK;
    if (!from && !to) {
        memmove(dst->t.data, src->t.data, bytes);
        return NC_OK;
    }
    nc_device *d = (to ? dst : src)->buffer->device;
    if (from && to && !nc_device_same_memory(d, src->buffer->device)) {
        nc_object *host;
        NC_TRY(nc_api_to_host(w, (nc_object *)(uintptr_t)src, &host));
        nc_code code = nc_api_copy(w, dst, host);
        nc_object_unref(host);
        return code;
    }
    return d->table->copy(d, NULL, dst->t.data, !to, src->t.data, !from, bytes, &w->diag);
}

nc_code nc_api_dense(nc_work *w, const nc_object *o, nc_object **out) {
    nc_object *dense = nc_object_host_tensor(o->t.dtype, o->t.rank, o->t.dims);
    NC_NEED(w, dense);
    nck_copy(o->t.rank, o->t.dims, nc_dtype_bytes(o->t.dtype), o->t.data, o->t.strides, dense->t.data, dense->t.strides,
             NULL);
    *out = dense;
    return NC_OK;
}

nc_code nc_api_to_host(nc_work *w, nc_object *o, nc_object **out) {
    nc_object *host =
        nc_object_on_device(o) ? nc_object_host_tensor(o->t.dtype, o->t.rank, o->t.dims) : nc_object_ref(o);
    NC_NEED(w, host);
    nc_code code = host == o ? NC_OK : nc_api_copy(w, host, o);
    if (code != NC_OK) {
        nc_object_unref(host);
        return code;
    }
    *out = host;
    return NC_OK;
}

nc_code nc_api_to_device(nc_work *w, nc_env *env, nc_device *d, nc_object *o, nc_object **out) {
    size_t bytes;
    if (!nc_tensor_bytes(o->t.dtype, o->t.dims, o->t.rank, &bytes)) NC_FAIL(w, NC_E_LIMIT, "too large to copy");
    nc_buffer *b = nc_env_buffer(env, d, NULL, bytes, &w->diag);
    if (!b) return w->diag.code ? w->diag.code : nc_fail(w, NC_E_MEMORY, "out of memory");
    nc_object *there = nc_object_tensor(b, o->t.dtype, o->t.rank, o->t.dims);
    NC_NEED(w, there);
    nc_code code = nc_api_copy(w, there, o);
    if (code != NC_OK) {
        nc_object_unref(there);
        return code;
    }
    *out = there;
    return NC_OK;
}

nacre_code nacre_value_copy(nacre_value *dst, const nacre_value *src, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nc_code code = nc_api_copy(&w, nc_api_object(dst), nc_api_object(src));
    return nc_api_end(&w, code, err);
}

/* ---- pinned host memory ---- */

static void free_pinned(nc_buffer *b) {
    nc_env *env = b->owner;
    b->device->table->host_free(b->device, b->ptr);
    nc_env_unref(env);
}

nacre_code nacre_value_new_pinned(nacre_env *env, const char *device, nacre_type type, int rank, const int64_t *dims,
                                  nacre_value **out, nacre_error *err) {
    nc_device *d;
    size_t bytes;
    nc_diag diag = {0};
    void *p = NULL;
    nacre_code code = open_for(env, device, type, rank, dims, &d, &bytes, err);
    if (code != NACRE_OK) return code;
    nc_code made = d->table->host_alloc(d, bytes ? bytes : 1, &p, &diag);
    if (made != NC_OK) return nc_api_error(err, made, &diag);
    memset(p, 0, bytes ? bytes : 1);
    nc_buffer *b = nc_buffer_wrap(p, bytes, NULL, NULL);
    if (!b) {
        d->table->host_free(d, p);
        return nc_api_error(err, NC_E_MEMORY, NULL);
    }
    b->kind = NC_MEM_PINNED, b->device = d, b->owner = nc_env_ref(env->env), b->release = free_pinned;
    return wrap(b, type, rank, dims, out, err);
}

/* ---- streams ---- */

static nacre_code make_stream(nacre_env *env, const char *device, void *handle, bool wrapped, nacre_stream **out,
                              nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nacre_stream *s = nc_alloc_zero(1, sizeof *s);
    nc_code code = s ? nc_env_device(env->env, &w, device, &s->device) : nc_fail(&w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK && !wrapped) {
        code = s->device->table->stream_create(s->device, &s->stream, &w.diag);
    } else if (code == NC_OK) {
        code = s->device->table->stream_wrap
                   ? s->device->table->stream_wrap(s->device, handle, &s->stream, &w.diag)
                   : nc_fail(&w, NC_E_UNSUPPORTED, "device %s has no streams of others", device);
    }
    if (code == NC_OK) {
        s->env = nc_env_ref(env->env);
        *out = s;
    } else {
        nc_free(s);
    }
    return nc_api_end(&w, code, err);
}

nacre_code nacre_stream_create(nacre_env *env, const char *device, nacre_stream **out, nacre_error *err) {
    return make_stream(env, device, NULL, false, out, err);
}

nacre_code nacre_stream_wrap(nacre_env *env, const char *device, void *handle, nacre_stream **out, nacre_error *err) {
    return make_stream(env, device, handle, true, out, err);
}

void *nacre_stream_handle(const nacre_stream *s) {
    return s->device->table->stream_handle ? s->device->table->stream_handle(s->stream) : NULL;
}

nacre_code nacre_stream_synchronize(nacre_stream *s, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    /* A device whose work is done when issued has no stream to wait for. */
    nc_code code = s->stream ? s->device->table->stream_sync(s->device, s->stream, &w.diag) : NC_OK;
    return nc_api_end(&w, code, err);
}

void nacre_stream_release(nacre_stream *s) {
    if (!s) return;
    if (s->stream) s->device->table->stream_destroy(s->device, s->stream);
    nc_env_unref(s->env);
    nc_free(s);
}

static void nothing(void *unused) { (void)unused; }

nacre_code nacre_env_synchronize(nacre_env *env, const char *device, nacre_error *err) {
    nc_work w;
    nc_device *d;
    nc_work_init(&w);
    nc_code code = nc_env_device(env->env, &w, device, &d);
    if (code == NC_OK && !d->table->host_memory) code = d->table->host_call(d, NULL, nothing, NULL, &w.diag);
    return nc_api_end(&w, code, err);
}

const char *nacre_value_device(const nacre_value *v, int *number) {
    const nc_object *o = nc_api_object(v);
    const nc_device *d = nc_object_on_device(o) ? o->buffer->device : nc_device_cpu();
    if (number) *number = d->number;
    return d->table->name;
}
