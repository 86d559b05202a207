/* python/ext/array.c: numpy's array interface (__array_struct__), which lends memory both ways without a copy and is
 * open to the limited API of 3.10, where the buffer protocol is not. Arrays that are not dense, not in the machine's
 * byte order or of a type that the interface cannot name are left to python/nacre, which makes an array that is.
 * Types of fewer than 8 bits go out as the bytes in which they lie packed. */
#include "ext.h"

#include <string.h>

/* Numpy's own struct, fixed by its documentation. */
typedef struct array_interface {
    int two;
    int nd;
    char kind;
    int itemsize;
    int flags;
    Py_ssize_t *shape, *strides; /* strides in bytes */
    void *data;
    PyObject *descr;
} array_interface;

enum { C_CONTIGUOUS = 1, ALIGNED = 0x100, NATIVE = 0x200, WRITABLE = 0x400 };

/* Types that the interface can name. What only has a size travels as unsigned integers and is named in Python. */
static const struct {
    nacre_type type;
    char kind;
    int bytes;
} known[] = {{NACRE_FLOAT, 'f', 4},     {NACRE_UINT8, 'u', 1},      {NACRE_INT8, 'i', 1},   {NACRE_UINT16, 'u', 2},
             {NACRE_INT16, 'i', 2},     {NACRE_INT32, 'i', 4},      {NACRE_INT64, 'i', 8},  {NACRE_BOOL, 'b', 1},
             {NACRE_FLOAT16, 'f', 2},   {NACRE_DOUBLE, 'f', 8},     {NACRE_UINT32, 'u', 4}, {NACRE_UINT64, 'u', 8},
             {NACRE_COMPLEX64, 'c', 8}, {NACRE_COMPLEX128, 'c', 16}};
enum { N_KNOWN = sizeof known / sizeof *known };

bool ncx_is_plain(nacre_type type) {
    for (int i = 0; i < N_KNOWN; i++)
        if (known[i].type == type) return true;
    return false;
}

/* ---- out ---- */

typedef struct lent {
    array_interface a;
    Py_ssize_t shape[NACRE_MAX_RANK], strides[NACRE_MAX_RANK];
} lent;

static void free_lent(PyObject *capsule) {
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
    PyMem_Free(PyCapsule_GetPointer(capsule, NULL));
}

PyObject *ncx_array_struct(PyObject *self, void *unused) {
    (void)unused;
    ncx_value *x = (ncx_value *)self;
    nacre_type type = nacre_value_type(x->v);
    bool packed = nacre_type_bits(type) % 8 != 0;
    int bytes = packed ? 1 : (int)nacre_type_bytes(type);
    if (nacre_value_kind(x->v) != NACRE_KIND_TENSOR || type == NACRE_STRING || !bytes) {
        PyErr_SetString(PyExc_AttributeError, "__array_struct__: only tensors of numbers have one");
        return NULL;
    }
    if (strcmp(nacre_value_device(x->v, NULL), "cpu") != 0) {
        PyErr_SetString(PyExc_RuntimeError, "the tensor lies in the memory of a device: copy it to the host first");
        return NULL;
    }
    lent *l = PyMem_Calloc(1, sizeof *l);
    if (!l) return PyErr_NoMemory();
    l->a = (array_interface){.two = 2,
                             .nd = packed ? 1 : nacre_value_rank(x->v),
                             .kind = 'u',
                             .itemsize = bytes,
                             .flags = C_CONTIGUOUS | ALIGNED | NATIVE | (x->writable ? WRITABLE : 0),
                             .shape = l->shape,
                             .strides = l->strides,
                             .data = nacre_value_data(x->v)};
    for (int i = 0; i < N_KNOWN; i++)
        if (known[i].type == type) l->a.kind = known[i].kind;
    Py_ssize_t step = bytes;
    for (int d = l->a.nd - 1; d >= 0; d--) {
        l->shape[d] = (Py_ssize_t)(packed ? (int64_t)nacre_value_bytes(x->v) : nacre_value_dims(x->v)[d]);
        l->strides[d] = step;
        step *= l->shape[d] ? l->shape[d] : 1;
    }
    PyObject *capsule = PyCapsule_New(l, NULL, free_lent);
    if (!capsule) {
        PyMem_Free(l);
    } else {
        Py_INCREF(self);
        PyCapsule_SetContext(capsule, self);
    }
    return capsule;
}

/* ---- in ---- */

static nacre_type type_of(const array_interface *a) {
    for (int i = 0; i < N_KNOWN; i++)
        if (known[i].kind == a->kind && known[i].bytes == a->itemsize) return known[i].type;
    return NACRE_UNDEFINED;
}

static bool usable(const array_interface *a) {
    int need = C_CONTIGUOUS | ALIGNED | NATIVE;
    return a->two == 2 && a->nd <= NACRE_MAX_RANK && (a->flags & need) == need && type_of(a) != NACRE_UNDEFINED;
}

/* Keeps the capsule, which keeps the memory: o itself may be a number without an array of its own. */
static int borrow(PyObject *capsule, const array_interface *a, nacre_value **v) {
    static char nothing[16];
    int64_t dims[NACRE_MAX_RANK];
    nacre_error err;
    for (int d = 0; d < a->nd; d++) dims[d] = a->shape[d];
    void *data = a->data ? a->data : nothing;
    if (nacre_value_tensor_owned(type_of(a), a->nd, dims, data, ncx_let_go, capsule, v, &err) != NACRE_OK) {
        ncx_raise(NCX_RUNNING, &err);
        return -1;
    }
    Py_INCREF(capsule);
    return 1;
}

int ncx_borrow_array(PyObject *o, nacre_value **v, bool *writable) {
    static PyObject *name;
    if (!name && !(name = PyUnicode_InternFromString("__array_struct__"))) return -1;
    PyObject *capsule = PyObject_GetAttr(o, name);
    if (!capsule) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
        PyErr_Clear();
        return 0;
    }
    const array_interface *a = PyCapsule_GetPointer(capsule, NULL);
    int done = !a ? -1 : usable(a) ? borrow(capsule, a, v) : 0;
    if (done > 0) *writable = (a->flags & WRITABLE) != 0;
    Py_DECREF(capsule);
    return done;
}

/* from_array(o): a Value over o's memory, or None where it cannot be used as it lies. */
PyObject *ncx_from_array(PyObject *module, PyObject *o) {
    (void)module;
    nacre_value *v;
    bool writable;
    int done = ncx_borrow_array(o, &v, &writable);
    if (done < 0) return NULL;
    return done ? ncx_value_wrap(v, writable) : Py_NewRef(Py_None);
}
