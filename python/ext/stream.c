/* python/ext/stream.c: Stream: work of a device that runs in order, the library's own or one that another library made.
 * A session that has one runs on it (run.c). */
#include "ext.h"

PyTypeObject *ncx_stream_type;

/* Stream(env, device, handle=0, owner=None): a new one, or the one that its library knows by that address, which lives
 * as long as the owner does. */
static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *env, *owner = NULL;
    const char *device;
    unsigned long long handle = 0;
    nacre_error err;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!s|KO:Stream", ncx_env_type, &env, &device, &handle, &owner)) return NULL;
    ncx_stream *s = (ncx_stream *)ncx_allocate(type);
    if (!s) return NULL;
    s->owner = Py_XNewRef(owner);
    nacre_env *e = ((ncx_env *)env)->env;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = handle ? nacre_stream_wrap(e, device, (void *)(uintptr_t)handle, &s->s, &err)
                  : nacre_stream_create(e, device, &s->s, &err);
    Py_END_ALLOW_THREADS;
    if (code == NACRE_OK) return (PyObject *)s;
    Py_DECREF(s);
    return ncx_raise(NCX_LOADING, &err);
}

static void stream_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    nacre_stream *s = ((ncx_stream *)self)->s;
    Py_BEGIN_ALLOW_THREADS;
    nacre_stream_release(s);
    Py_END_ALLOW_THREADS;
    Py_XDECREF(((ncx_stream *)self)->owner);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *stream_synchronize(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_error err;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_stream_synchronize(((ncx_stream *)self)->s, &err);
    Py_END_ALLOW_THREADS;
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    Py_RETURN_NONE;
}

static PyObject *stream_handle(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(nacre_stream_handle(((ncx_stream *)self)->s));
}

static PyMethodDef methods[] = {{"synchronize", stream_synchronize, METH_NOARGS, "synchronize(): waits for its work."},
                                {NULL, NULL, 0, NULL}};
static PyGetSetDef properties[] = {
    {"handle", stream_handle, NULL, "the address by which its own library knows it; 0: none", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)stream_new},
                              {Py_tp_dealloc, (void *)stream_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, properties},
                              {Py_tp_doc, (void *)"Stream(env, device, handle=0, owner=None): work in order."},
                              {0, NULL}};
static PyType_Spec spec = {"nacre._core.Stream", sizeof(ncx_stream), 0, Py_TPFLAGS_DEFAULT, slots};

int ncx_add_stream(PyObject *module) {
    ncx_stream_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return ncx_stream_type ? PyModule_AddType(module, ncx_stream_type) : -1;
}
