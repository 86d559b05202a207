/* python/ext/dlpack.c: tensors as DLPack capsules, out and in, without a copy. Both forms are spoken: the versioned one
 * when the consumer asks for it (max_version) and the older one otherwise. Memory of a GPU is lent as it lies, too; a
 * copy is made where the consumer asks for one, or for another device. Packed types (4, 2 and 6 bits) do not travel:
 * consumers disagree on how they lie. */
#include "dlpack.h"
#include "ext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    nacre_type type;
    dl_dtype dl;
} known[] = {{NACRE_FLOAT, {DL_FLOAT, 32, 1}},
             {NACRE_DOUBLE, {DL_FLOAT, 64, 1}},
             {NACRE_FLOAT16, {DL_FLOAT, 16, 1}},
             {NACRE_BFLOAT16, {DL_BFLOAT, 16, 1}},
             {NACRE_INT8, {DL_INT, 8, 1}},
             {NACRE_INT16, {DL_INT, 16, 1}},
             {NACRE_INT32, {DL_INT, 32, 1}},
             {NACRE_INT64, {DL_INT, 64, 1}},
             {NACRE_UINT8, {DL_UINT, 8, 1}},
             {NACRE_UINT16, {DL_UINT, 16, 1}},
             {NACRE_UINT32, {DL_UINT, 32, 1}},
             {NACRE_UINT64, {DL_UINT, 64, 1}},
             {NACRE_COMPLEX64, {DL_COMPLEX, 64, 1}},
             {NACRE_COMPLEX128, {DL_COMPLEX, 128, 1}},
             {NACRE_BOOL, {DL_BOOL, 8, 1}},
             {NACRE_FLOAT8E4M3FN, {DL_F8_E4M3FN, 8, 1}},
             {NACRE_FLOAT8E4M3FNUZ, {DL_F8_E4M3FNUZ, 8, 1}},
             {NACRE_FLOAT8E5M2, {DL_F8_E5M2, 8, 1}},
             {NACRE_FLOAT8E5M2FNUZ, {DL_F8_E5M2FNUZ, 8, 1}},
             {NACRE_FLOAT8E8M0, {DL_F8_E8M0FNU, 8, 1}}};
enum { N_KNOWN = sizeof known / sizeof *known };

/* ---- out ---- */

/* One block per capsule: whichever struct is given out, the sizes, and the reference that keeps the memory. */
typedef struct lent {
    union {
        dl_managed old;
        dl_versioned new;
    };
    int64_t shape[NACRE_MAX_RANK], strides[NACRE_MAX_RANK];
    nacre_value *v;
} lent;

static void free_lent(lent *l) {
    nacre_value_release(l->v);
    free(l);
}
static void delete_old(dl_managed *m) { free_lent(m->context); }
static void delete_new(dl_versioned *m) { free_lent(m->context); }

/* A capsule that nobody consumed still owns its tensor; a consumer renames it. */
static void drop_old(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    m->deleter(m);
}
static void drop_new(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
    dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    m->deleter(m);
}

static dl_device device_of(const nacre_value *v) {
    int number = 0;
    const char *name = nacre_value_device(v, &number);
    int type = strcmp(name, "cpu") == 0 ? DL_CPU : strcmp(name, "cuda") == 0 ? DL_CUDA : DL_EXT;
    return (dl_device){type, number};
}

static bool fill(lent *l, dl_tensor *t, nacre_value *v) {
    int i = 0;
    while (i < N_KNOWN && known[i].type != nacre_value_type(v)) i++;
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR || i == N_KNOWN) return false;
    int64_t step = 1;
    *t = (dl_tensor){.data = nacre_value_data(v),
                     .device = device_of(v),
                     .ndim = nacre_value_rank(v),
                     .dtype = known[i].dl,
                     .shape = l->shape,
                     .strides = l->strides};
    for (int d = t->ndim - 1; d >= 0; d--) {
        l->shape[d] = nacre_value_dims(v)[d];
        l->strides[d] = step;
        step *= l->shape[d];
    }
    return true;
}

/* Takes the reference v. */
static PyObject *lend(nacre_value *v, bool versioned, uint64_t flags) {
    lent *l = calloc(1, sizeof *l);
    if (!l || !fill(l, versioned ? &l->new.t : &l->old.t, v)) {
        nacre_value_release(v);
        if (!l) return PyErr_NoMemory();
        free(l);
        PyErr_SetString(PyExc_BufferError, "DLPack has no type for this value: only tensors of numbers of whole bytes "
                                           "can be lent");
        return NULL;
    }
    l->v = v;
    PyObject *capsule;
    if (versioned) {
        l->new.version.major = 1, l->new.flags = flags;
        l->new.context = l, l->new.deleter = delete_new;
        capsule = PyCapsule_New(&l->new, "dltensor_versioned", drop_new);
    } else {
        l->old.context = l, l->old.deleter = delete_old;
        capsule = PyCapsule_New(&l->old, "dltensor", drop_old);
    }
    if (!capsule) free_lent(l);
    return capsule;
}

/* A copy in host memory; a new reference, or NULL with an exception. */
static nacre_value *copy_to_host(nacre_value *v) {
    nacre_error err;
    nacre_value *copy = NULL;
    nacre_code code = NACRE_TYPE;
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR || nacre_value_type(v) == NACRE_STRING) {
        PyErr_SetString(PyExc_BufferError, "DLPack has no type for this value");
        return NULL;
    }
    code = nacre_value_new_tensor(nacre_value_type(v), nacre_value_rank(v), nacre_value_dims(v), &copy, &err);
    Py_BEGIN_ALLOW_THREADS;
    if (code == NACRE_OK) code = nacre_value_copy(copy, v, &err);
    Py_END_ALLOW_THREADS;
    if (code == NACRE_OK) return copy;
    nacre_value_release(copy);
    ncx_raise(NCX_RUNNING, &err);
    return NULL;
}

static bool read_pair(PyObject *pair, long *first, long *second) {
    PyObject *a = PySequence_GetItem(pair, 0), *b = a ? PySequence_GetItem(pair, 1) : NULL;
    *first = a ? PyLong_AsLong(a) : -1, *second = b ? PyLong_AsLong(b) : -1;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return !PyErr_Occurred();
}

static PyObject *answer(ncx_value *x, long major, bool copied, bool to_host) {
    if (!copied && !to_host) {
        if (major >= 1 || x->writable) return lend(nacre_value_ref(x->v), major >= 1, x->writable ? 0 : DL_READ_ONLY);
        PyErr_SetString(PyExc_BufferError, "this tensor is read only, which DLPack before version 1 cannot say");
        return NULL;
    }
    nacre_value *copy = copy_to_host(x->v);
    return copy ? lend(copy, major >= 1, DL_IS_COPIED) : NULL;
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None). What a run wrote is there when it returns,
 * so no stream has to wait. */
PyObject *ncx_to_dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    long major = 0, minor, type, id;
    ncx_value *x = (ncx_value *)self;
    dl_device own = device_of(x->v);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    if (version != Py_None && !read_pair(version, &major, &minor)) return NULL;
    type = own.type, id = own.id;
    if (device != Py_None && !read_pair(device, &type, &id)) return NULL;
    bool elsewhere = type != own.type || id != own.id, copied = copy == Py_True;
    if (elsewhere && (type != DL_CPU || copy == Py_False)) {
        PyErr_Format(PyExc_BufferError,
                     "__dlpack__: the tensor lies on device (%d, %d), it cannot be lent on (%ld, %ld)", (int)own.type,
                     (int)own.id, type, id);
        return NULL;
    }
    if (copied && !elsewhere && own.type != DL_CPU) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__(copy=True): copies are made in host memory alone");
        return NULL;
    }
    return answer(x, major, copied, elsewhere);
}

PyObject *ncx_dlpack_device(PyObject *self, PyObject *unused) {
    (void)unused;
    dl_device d = device_of(((ncx_value *)self)->v);
    return Py_BuildValue("(ii)", (int)d.type, (int)d.id);
}

/* ---- in ---- */

static void return_old(void *m) {
    dl_managed *d = m;
    if (d->deleter) d->deleter(d);
}
static void return_new(void *m) {
    dl_versioned *d = m;
    if (d->deleter) d->deleter(d);
}

static bool dense(const dl_tensor *t) {
    int64_t step = 1;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] == 0) return true; /* whatever its strides are */
    for (int d = t->ndim - 1; t->strides && d >= 0; d--) {
        if (t->shape[d] != 1 && t->strides[d] != step) return false;
        step *= t->shape[d];
    }
    return true;
}

static const char *refuse(const dl_tensor *t, nacre_type *type) {
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST && t->device.type != DL_CUDA &&
        t->device.type != DL_CUDA_MANAGED && t->device.type != DL_EXT)
        return "only tensors in the memory of the host or of a CUDA device can be taken";
    if (t->ndim > NACRE_MAX_RANK) return "tensors of more than 64 dims are not supported";
    if (!dense(t)) return "the tensor is not dense: make it contiguous first";
    for (int i = 0; i < N_KNOWN; i++)
        if (known[i].dl.code == t->dtype.code && known[i].dl.bits == t->dtype.bits && t->dtype.lanes == 1) {
            *type = known[i].type;
            return NULL;
        }
    return "the element type is not one of ONNX's";
}

/* A value over t, on the device where it lies. */
static nacre_code wrap(nacre_type type, const dl_tensor *t, nacre_env *env, void (*done)(void *), void *m,
                       nacre_value **out, nacre_error *err) {
    static char nothing[16];
    char device[32] = "guard";
    void *data = t->data ? (char *)t->data + t->byte_offset : nothing;
    if (t->device.type == DL_CPU || t->device.type == DL_CUDA_HOST)
        return nacre_value_tensor_owned(type, t->ndim, t->shape, data, done, m, out, err);
    if (t->device.type != DL_EXT) snprintf(device, sizeof device, "cuda:%d", (int)t->device.id);
    return nacre_value_at(env, device, type, t->ndim, t->shape, data, done, m, out, err);
}

static PyObject *take(PyObject *capsule, void *m, const dl_tensor *t, nacre_env *env, void (*done)(void *),
                      bool writable) {
    nacre_type type = NACRE_UNDEFINED;
    nacre_value *v;
    nacre_error err;
    const char *why = refuse(t, &type);
    if (why) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: %s", why);
        return NULL;
    }
    if (wrap(type, t, env, done, m, &v, &err) != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    PyCapsule_SetName(capsule, done == return_new ? "used_dltensor_versioned" : "used_dltensor");
    PyCapsule_SetDestructor(capsule, NULL);
    return ncx_value_wrap(v, writable);
}

static const dl_tensor *tensor_of(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return &((dl_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"))->t;
    if (PyCapsule_IsValid(capsule, "dltensor")) return &((dl_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->t;
    PyErr_SetString(PyExc_TypeError, "from_dlpack: expected a capsule 'dltensor' that was not consumed yet");
    return NULL;
}

/* from_dlpack(capsule, env): a Value over the producer's memory; the capsule is consumed. */
PyObject *ncx_from_dlpack(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule, *env;
    if (!PyArg_ParseTuple(args, "OO!:from_dlpack", &capsule, ncx_env_type, &env)) return NULL;
    const dl_tensor *t = tensor_of(capsule);
    if (!t) return NULL;
    nacre_env *e = ((ncx_env *)env)->env;
    if (PyCapsule_IsValid(capsule, "dltensor"))
        return take(capsule, PyCapsule_GetPointer(capsule, "dltensor"), t, e, return_old, true);
    dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m->version.major != 1) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: version %u is not known", (unsigned)m->version.major);
        return NULL;
    }
    return take(capsule, m, t, e, return_new, !(m->flags & DL_READ_ONLY));
}

PyObject *ncx_dlpack_type(PyObject *module, PyObject *capsule) {
    (void)module;
    const dl_tensor *t = tensor_of(capsule);
    return t ? Py_BuildValue("(iii)", t->dtype.code, t->dtype.bits, t->dtype.lanes) : NULL;
}
