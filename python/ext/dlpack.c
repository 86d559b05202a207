/* python/ext/dlpack.c: tensors as DLPack capsules, out and in, without a copy. Both forms are spoken: the versioned one
 * when the consumer asks for it (max_version) and the older one otherwise. Host memory only. */
#include "dlpack.h"
#include "ext.h"

#include <stdlib.h>

static const struct {
    nacre_type type;
    dl_dtype dl;
} known[] = {{NACRE_FLOAT, {DL_FLOAT, 32, 1}},       {NACRE_DOUBLE, {DL_FLOAT, 64, 1}},
             {NACRE_FLOAT16, {DL_FLOAT, 16, 1}},     {NACRE_BFLOAT16, {DL_BFLOAT, 16, 1}},
             {NACRE_INT8, {DL_INT, 8, 1}},           {NACRE_INT16, {DL_INT, 16, 1}},
             {NACRE_INT32, {DL_INT, 32, 1}},         {NACRE_INT64, {DL_INT, 64, 1}},
             {NACRE_UINT8, {DL_UINT, 8, 1}},         {NACRE_UINT16, {DL_UINT, 16, 1}},
             {NACRE_UINT32, {DL_UINT, 32, 1}},       {NACRE_UINT64, {DL_UINT, 64, 1}},
             {NACRE_COMPLEX64, {DL_COMPLEX, 64, 1}}, {NACRE_COMPLEX128, {DL_COMPLEX, 128, 1}},
             {NACRE_BOOL, {DL_BOOL, 8, 1}}};
enum { N_KNOWN = sizeof known / sizeof *known };

/* ---- out ---- */

/* One block per capsule: whichever struct is given out, the sizes, and the reference that keeps the memory. */
typedef struct lent {
    union {
        dl_managed old;
        dl_versioned new;
    };
    int64_t shape[16], strides[16];
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

static bool fill(lent *l, dl_tensor *t, nacre_value *v) {
    int i = 0;
    while (i < N_KNOWN && known[i].type != nacre_value_type(v)) i++;
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR || i == N_KNOWN) return false;
    int64_t step = 1;
    *t = (dl_tensor){.data = nacre_value_data(v),
                     .device = {DL_CPU, 0},
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

static PyObject *lend(ncx_value *x, bool versioned) {
    lent *l = calloc(1, sizeof *l);
    if (!l) return PyErr_NoMemory();
    if (!fill(l, versioned ? &l->new.t : &l->old.t, x->v)) {
        free(l);
        PyErr_SetString(PyExc_BufferError, "DLPack has no type for this value: only tensors of numbers can be lent");
        return NULL;
    }
    l->v = nacre_value_ref(x->v);
    PyObject *capsule;
    if (versioned) {
        l->new.version.major = 1, l->new.flags = x->writable ? 0 : DL_READ_ONLY;
        l->new.context = l, l->new.deleter = delete_new;
        capsule = PyCapsule_New(&l->new, "dltensor_versioned", drop_new);
    } else {
        l->old.context = l, l->old.deleter = delete_old;
        capsule = PyCapsule_New(&l->old, "dltensor", drop_old);
    }
    if (!capsule) free_lent(l);
    return capsule;
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) */
PyObject *ncx_to_dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    long major = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    if (version != Py_None) {
        PyObject *first = PySequence_GetItem(version, 0);
        if (!first) return NULL;
        major = PyLong_AsLong(first);
        Py_DECREF(first);
        if (major == -1 && PyErr_Occurred()) return NULL;
    }
    if (copy != Py_None && PyObject_IsTrue(copy)) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__(copy=True): the memory is lent as it lies; copy the result");
        return NULL;
    }
    ncx_value *x = (ncx_value *)self;
    if (major < 1 && !x->writable) {
        PyErr_SetString(PyExc_BufferError, "this tensor is read only, which DLPack before version 1 cannot say");
        return NULL;
    }
    return lend(x, major >= 1);
}

PyObject *ncx_dlpack_device(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", DL_CPU, 0);
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
    for (int d = t->ndim - 1; t->strides && d >= 0; d--) {
        if (t->shape[d] == 0) return true;
        if (t->shape[d] != 1 && t->strides[d] != step) return false;
        step *= t->shape[d];
    }
    return true;
}

static const char *refuse(const dl_tensor *t, nacre_type *type) {
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST) return "only tensors in host memory can be taken";
    if (t->ndim > 16) return "tensors of more than 16 dims are not supported";
    if (!dense(t)) return "the tensor is not dense: make it contiguous first";
    for (int i = 0; i < N_KNOWN; i++)
        if (known[i].dl.code == t->dtype.code && known[i].dl.bits == t->dtype.bits && t->dtype.lanes == 1) {
            *type = known[i].type;
            return NULL;
        }
    return "the element type is not one of ONNX's";
}

static PyObject *take(PyObject *capsule, void *m, const dl_tensor *t, const char *used, void (*done)(void *),
                      bool writable) {
    static char nothing[16];
    nacre_type type = NACRE_UNDEFINED;
    nacre_value *v;
    nacre_error err;
    const char *why = refuse(t, &type);
    if (why) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: %s", why);
        return NULL;
    }
    void *data = t->data ? (char *)t->data + t->byte_offset : nothing;
    if (nacre_value_tensor_owned(type, t->ndim, t->shape, data, done, m, &v, &err) != NACRE_OK)
        return ncx_raise(NCX_RUNNING, &err);
    PyCapsule_SetName(capsule, used);
    PyCapsule_SetDestructor(capsule, NULL);
    return ncx_value_wrap(v, writable);
}

/* from_dlpack(capsule): a Value over the producer's memory; the capsule is consumed. */
PyObject *ncx_from_dlpack(PyObject *module, PyObject *capsule) {
    (void)module;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (m->version.major != 1) {
            PyErr_Format(PyExc_BufferError, "from_dlpack: version %u is not known", (unsigned)m->version.major);
            return NULL;
        }
        return take(capsule, m, &m->t, "used_dltensor_versioned", return_new, !(m->flags & DL_READ_ONLY));
    }
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        return take(capsule, m, &m->t, "used_dltensor", return_old, true);
    }
    PyErr_SetString(PyExc_TypeError, "from_dlpack: expected a capsule 'dltensor' that was not consumed yet");
    return NULL;
}
