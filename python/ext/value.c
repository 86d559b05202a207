/* python/ext/value.c: Value, a tensor, sequence, optional or map of the library, and the functions that make one from
 * strings, addresses and other values. Tensors of numbers are lent and borrowed in array.c and dlpack.c. */
#include "ext.h"

PyTypeObject *ncx_value_type;

void ncx_let_go(void *object) {
    PyGILState_STATE held = PyGILState_Ensure();
    Py_DECREF((PyObject *)object);
    PyGILState_Release(held);
}

PyObject *ncx_value_wrap(nacre_value *takes, bool writable) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(ncx_value_type, Py_tp_alloc);
    ncx_value *x = (ncx_value *)alloc(ncx_value_type, 0);
    if (!x) {
        nacre_value_release(takes);
        return NULL;
    }
    x->v = takes, x->writable = writable;
    return (PyObject *)x;
}

nacre_value *ncx_value_of(PyObject *o) {
    if (PyObject_TypeCheck(o, ncx_value_type)) return ((ncx_value *)o)->v;
    PyErr_Format(PyExc_TypeError, "expected a nacre._core.Value, got %R", (PyObject *)Py_TYPE(o));
    return NULL;
}

static void dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    nacre_value_release(((ncx_value *)self)->v);
    release(self);
    Py_DECREF(type);
}

/* ---- shapes ---- */

PyObject *ncx_shape(const int64_t *dims, int rank) {
    PyObject *t = PyTuple_New(rank);
    for (int d = 0; t && d < rank; d++) {
        PyObject *n = PyLong_FromLongLong(dims[d]);
        if (!n || PyTuple_SetItem(t, d, n) < 0) Py_CLEAR(t);
    }
    return t;
}

bool ncx_read_shape(PyObject *shape, int *rank, int64_t dims[NACRE_MAX_RANK]) {
    Py_ssize_t n = PySequence_Size(shape);
    if (n < 0) return false;
    if (n > NACRE_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "a shape has at most %d dims, got %zd", NACRE_MAX_RANK, n);
        return false;
    }
    for (Py_ssize_t d = 0; d < n; d++) {
        PyObject *item = PySequence_GetItem(shape, d), *whole = item ? PyNumber_Index(item) : NULL;
        dims[d] = whole ? PyLong_AsLongLong(whole) : -1;
        Py_XDECREF(item);
        Py_XDECREF(whole);
        if (PyErr_Occurred()) return false;
    }
    *rank = (int)n;
    return true;
}

/* ---- what a value tells ---- */

static PyObject *get_kind(PyObject *self, void *unused) {
    (void)unused;
    static const char *const names[] = {"tensor", "sequence", "optional", "map", "tape"};
    return PyUnicode_FromString(names[nacre_value_kind(((ncx_value *)self)->v)]);
}

static PyObject *get_type(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(nacre_value_type(((ncx_value *)self)->v));
}

static PyObject *get_shape(PyObject *self, void *unused) {
    (void)unused;
    nacre_value *v = ((ncx_value *)self)->v;
    if (nacre_value_kind(v) == NACRE_KIND_TENSOR) return ncx_shape(nacre_value_dims(v), nacre_value_rank(v));
    int64_t n = nacre_value_count(v);
    return ncx_shape(&n, 1);
}

static PyObject *get_data_ptr(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(nacre_value_data(((ncx_value *)self)->v));
}

static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(nacre_value_bytes(((ncx_value *)self)->v));
}

static PyObject *get_device(PyObject *self, void *unused) {
    (void)unused;
    int number = 0;
    const char *name = nacre_value_device(((ncx_value *)self)->v, &number);
    return Py_BuildValue("(si)", name, number);
}

static PyObject *get_writable(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((ncx_value *)self)->writable);
}

/* strings(): the elements of a string tensor in order, as str. */
static PyObject *strings(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_value *v = ((ncx_value *)self)->v;
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR || nacre_value_type(v) != NACRE_STRING) {
        PyErr_SetString(PyExc_TypeError, "strings(): this is no tensor of strings");
        return NULL;
    }
    int64_t n = nacre_value_count(v);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        size_t bytes;
        const char *p = nacre_value_string(v, i, &bytes);
        PyObject *s = PyUnicode_DecodeUTF8(p, (Py_ssize_t)bytes, "surrogateescape");
        if (!s || PyList_SetItem(list, (Py_ssize_t)i, s) < 0) Py_CLEAR(list);
    }
    return list;
}

/* items(): what a sequence, optional or map holds. */
static PyObject *items(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_value *v = ((ncx_value *)self)->v;
    int64_t n = nacre_value_kind(v) == NACRE_KIND_TENSOR ? 0 : nacre_value_count(v);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *x = ncx_value_wrap(nacre_value_item(v, i), true);
        if (!x || PyList_SetItem(list, (Py_ssize_t)i, x) < 0) Py_CLEAR(list);
    }
    return list;
}

/* copy_from(other): the contents of another tensor of the same type and count, on any device. */
static PyObject *copy_from(PyObject *self, PyObject *other) {
    nacre_value *to = ((ncx_value *)self)->v, *from = ncx_value_of(other);
    nacre_error err;
    nacre_code code;
    if (!from) return NULL;
    if (!((ncx_value *)self)->writable) {
        PyErr_SetString(PyExc_RuntimeError, "the memory is read only");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_value_copy(to, from, &err);
    Py_END_ALLOW_THREADS;
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    Py_RETURN_NONE;
}

/* ---- making values ---- */

static PyObject *made(nacre_code code, nacre_value *v, const nacre_error *err) {
    return code == NACRE_OK ? ncx_value_wrap(v, true) : ncx_raise(NCX_RUNNING, err);
}

static nacre_env *env_of(PyObject *env) {
    if (PyObject_TypeCheck(env, ncx_env_type)) return ((ncx_env *)env)->env;
    PyErr_SetString(PyExc_TypeError, "a value on a device needs an Env");
    return NULL;
}

/* empty(type, shape, env, device): a tensor of zeros, on the host where no device is given; strings are empty. */
static PyObject *empty(PyObject *module, PyObject *args) {
    (void)module;
    int type, rank;
    int64_t dims[NACRE_MAX_RANK];
    PyObject *shape, *env = Py_None;
    const char *device = NULL;
    nacre_value *v = NULL;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "iO|Oz:empty", &type, &shape, &env, &device) || !ncx_read_shape(shape, &rank, dims))
        return NULL;
    nacre_env *e = device ? env_of(env) : NULL;
    if (device && !e) return NULL;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = device ? nacre_value_new_on(e, device, (nacre_type)type, rank, dims, &v, &err)
                  : nacre_value_new_tensor((nacre_type)type, rank, dims, &v, &err);
    Py_END_ALLOW_THREADS;
    return made(code, v, &err);
}

/* at(type, shape, address, keeps, env, device): a tensor over memory at an address, of the host where no device is
 * given, which the object `keeps` holds, if any. */
static PyObject *at(PyObject *module, PyObject *args) {
    (void)module;
    int type, rank;
    int64_t dims[NACRE_MAX_RANK];
    PyObject *shape, *address, *keeps, *env = Py_None;
    const char *device = NULL;
    nacre_value *v = NULL;
    nacre_error err;
    nacre_code code;
    if (!PyArg_ParseTuple(args, "iOOO|Oz:at", &type, &shape, &address, &keeps, &env, &device) ||
        !ncx_read_shape(shape, &rank, dims))
        return NULL;
    void *p = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred() || (device && !env_of(env))) return NULL;
    if (device)
        code = nacre_value_at(env_of(env), device, (nacre_type)type, rank, dims, p, ncx_let_go, keeps, &v, &err);
    else
        code = nacre_value_tensor_owned((nacre_type)type, rank, dims, p, ncx_let_go, keeps, &v, &err);
    if (code == NACRE_OK) Py_INCREF(keeps);
    return made(code, v, &err);
}

/* from_strings(shape, list of bytes) */
static PyObject *from_strings(PyObject *module, PyObject *args) {
    (void)module;
    int rank;
    int64_t dims[NACRE_MAX_RANK], count = 1;
    PyObject *shape, *list;
    nacre_value *v = NULL;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "OO!:from_strings", &shape, &PyList_Type, &list) || !ncx_read_shape(shape, &rank, dims))
        return NULL;
    Py_ssize_t n = PyList_Size(list);
    for (int d = 0; d < rank; d++)
        if (__builtin_mul_overflow(count, dims[d], &count)) count = -1;
    if (count != n) {
        PyErr_Format(PyExc_ValueError, "from_strings: the shape holds %lld strings, got %zd", (long long)count, n);
        return NULL;
    }
    const char **texts = PyMem_Calloc((size_t)n + 1, sizeof *texts);
    size_t *bytes = PyMem_Calloc((size_t)n + 1, sizeof *bytes);
    bool ok = texts && bytes;
    if (!ok) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        char *p;
        Py_ssize_t size;
        ok = PyBytes_AsStringAndSize(PyList_GetItem(list, i), &p, &size) == 0;
        if (ok) texts[i] = p, bytes[i] = (size_t)size;
    }
    nacre_code code = ok ? nacre_value_strings_n(rank, dims, texts, bytes, &v, &err) : NACRE_OK;
    PyMem_Free((void *)texts);
    PyMem_Free(bytes);
    return ok ? made(code, v, &err) : NULL;
}

/* sequence(element type, list of Values) */
static PyObject *sequence(PyObject *module, PyObject *args) {
    (void)module;
    int type;
    PyObject *list;
    nacre_value *v = NULL;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "iO!:sequence", &type, &PyList_Type, &list)) return NULL;
    size_t n = (size_t)PyList_Size(list), done = 0;
    nacre_value **in = PyMem_Calloc(n + 1, sizeof *in);
    if (!in) return PyErr_NoMemory();
    while (done < n && (in[done] = ncx_value_of(PyList_GetItem(list, (Py_ssize_t)done)))) done++;
    nacre_code code = done == n ? nacre_value_sequence((nacre_type)type, in, n, &v, &err) : NACRE_OK;
    PyMem_Free(in);
    return done == n ? made(code, v, &err) : NULL;
}

/* optional(element type, Value or None) */
static PyObject *optional(PyObject *module, PyObject *args) {
    (void)module;
    int type;
    PyObject *item;
    nacre_value *v = NULL, *in = NULL;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "iO:optional", &type, &item)) return NULL;
    if (item != Py_None && !(in = ncx_value_of(item))) return NULL;
    nacre_code code = nacre_value_optional((nacre_type)type, in, &v, &err);
    return made(code, v, &err);
}

/* map(keys, values): both Values. */
static PyObject *map(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *a, *b;
    nacre_value *keys, *values, *v = NULL;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "OO:map", &a, &b)) return NULL;
    if (!(keys = ncx_value_of(a)) || !(values = ncx_value_of(b))) return NULL;
    nacre_code code = nacre_value_map(keys, values, &v, &err);
    return made(code, v, &err);
}

static PyMethodDef functions[] = {
    {"empty", empty, METH_VARARGS, "empty(type, shape, env=None, device=None): a tensor of zeros."},
    {"at", at, METH_VARARGS, "at(type, shape, address, keeps, env=None, device=None): a tensor over memory there."},
    {"from_strings", from_strings, METH_VARARGS, "from_strings(shape, list): a tensor of strings, given as bytes."},
    {"sequence", sequence, METH_VARARGS, "sequence(type, list): a sequence of Values."},
    {"optional", optional, METH_VARARGS, "optional(type, item): an optional that holds a Value, or None."},
    {"map", map, METH_VARARGS, "map(keys, values): a map."},
    {"from_array", ncx_from_array, METH_O, "from_array(o): a Value over o's memory, or None where it does not fit."},
    {"set_converters", ncx_set_converters, METH_VARARGS,
     "set_converters(to_value, to_python, as_array): of run_arrays."},
    {"from_dlpack", ncx_from_dlpack, METH_VARARGS, "from_dlpack(capsule, env): a Value over the producer's memory."},
    {"dlpack_type", ncx_dlpack_type, METH_O, "dlpack_type(capsule): DLPack's (code, bits, lanes) of the elements."},
    {NULL, NULL, 0, NULL}};

static PyMethodDef methods[] = {
    {"strings", strings, METH_NOARGS, "The elements of a string tensor."},
    {"copy_from", copy_from, METH_O, "copy_from(other): the contents of another tensor."},
    {"items", items, METH_NOARGS, "What a sequence, optional or map holds."},
    {"__dlpack__", (PyCFunction)(void (*)(void))ncx_to_dlpack, METH_VARARGS | METH_KEYWORDS, "A DLPack capsule."},
    {"__dlpack_device__", ncx_dlpack_device, METH_NOARGS, "DLPack's device; (1, 0) is the host."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef properties[] = {{"kind", get_kind, NULL, "tensor, sequence, optional or map", NULL},
                                   {"type", get_type, NULL, "ONNX's number of the element type", NULL},
                                   {"shape", get_shape, NULL, "dims of a tensor, length of a sequence", NULL},
                                   {"data_ptr", get_data_ptr, NULL, "address of a tensor's first element", NULL},
                                   {"nbytes", get_nbytes, NULL, "bytes of a tensor of numbers", NULL},
                                   {"device", get_device, NULL, "('cpu', 0), ('cuda', 1), ...", NULL},
                                   {"writable", get_writable, NULL, "whether a run may write here", NULL},
                                   {"__array_struct__", ncx_array_struct, NULL, "numpy's array interface", NULL},
                                   {NULL, NULL, NULL, NULL, NULL}};

int ncx_add_value(PyObject *module) {
    static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc},
                                  {Py_tp_methods, methods},
                                  {Py_tp_getset, properties},
                                  {Py_tp_doc, (void *)"A tensor, sequence, optional or map of the library."},
                                  {0, NULL}};
    static PyType_Spec spec = {"nacre._core.Value", sizeof(ncx_value), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    ncx_value_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!ncx_value_type || PyModule_AddFunctions(module, functions) < 0) return -1;
    return PyModule_AddType(module, ncx_value_type);
}
