/* python/ext/state.c: State: named buffers that sessions keep their variables in. The GIL is let go wherever the
 * library may wait for a run. */
#include "ext.h"

#include <string.h>

PyTypeObject *ncx_state_type;

PyObject *ncx_state_wrap(nacre_state *takes) {
    ncx_state *x = (ncx_state *)ncx_allocate(ncx_state_type);
    if (x)
        x->st = takes;
    else
        nacre_state_release(takes);
    return (PyObject *)x;
}

static nacre_state *state_of(PyObject *self) { return ((ncx_state *)self)->st; }

static PyObject *answer(nacre_code code, const nacre_error *err) {
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, err);
    Py_RETURN_NONE;
}

/* State(env, device): without variables. */
static PyObject *state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"env", "device", NULL};
    PyObject *env;
    const char *device = NULL;
    nacre_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|z:State", names, ncx_env_type, &env, &device)) return NULL;
    ncx_state *x = (ncx_state *)ncx_allocate(type);
    if (x && nacre_state_create_empty(((ncx_env *)env)->env, device, &x->st, &err) != NACRE_OK) {
        ncx_raise(NCX_RUNNING, &err);
        Py_CLEAR(x);
    }
    return (PyObject *)x;
}

static void state_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    nacre_state *gone = state_of(self);
    Py_BEGIN_ALLOW_THREADS;
    nacre_state_release(gone);
    Py_END_ALLOW_THREADS;
    release(self);
    Py_DECREF(type);
}

/* ---- adding ---- */

static PyObject *add_session(PyObject *self, PyObject *session) {
    nacre_state *st = state_of(self);
    nacre_error err;
    nacre_code code;
    if (!PyObject_TypeCheck(session, ncx_session_type)) {
        PyErr_Format(PyExc_TypeError, "expected a Session, got %R", (PyObject *)Py_TYPE(session));
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_state_add_session(st, ((ncx_session *)session)->s, &err);
    Py_END_ALLOW_THREADS;
    return answer(code, &err);
}

/* add(name, value): a copy of a tensor in host memory. */
static PyObject *add(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *o;
    nacre_error err;
    nacre_code code;
    if (!PyArg_ParseTuple(args, "sO:add", &name, &o)) return NULL;
    nacre_value *v = ncx_value_of(o);
    nacre_state *st = state_of(self);
    if (!v) return NULL;
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR || strcmp(nacre_value_device(v, NULL), "cpu") != 0) {
        PyErr_Format(PyExc_ValueError, "'%s': expected a tensor in host memory", name);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_state_add(st, name, nacre_value_type(v), nacre_value_rank(v), nacre_value_dims(v), nacre_value_data(v),
                           &err);
    Py_END_ALLOW_THREADS;
    return answer(code, &err);
}

/* lend(name, value, writable) */
static PyObject *lend(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *o;
    int writable;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "sOp:lend", &name, &o, &writable)) return NULL;
    nacre_value *v = ncx_value_of(o);
    if (!v) return NULL;
    if (writable && !((ncx_value *)o)->writable) {
        PyErr_Format(PyExc_ValueError, "'%s': the memory is read only, it cannot be lent to be written", name);
        return NULL;
    }
    return answer(nacre_state_lend(state_of(self), name, v, writable ? NACRE_WRITABLE : NACRE_READ_ONLY, &err), &err);
}

/* ---- what it holds ---- */

static PyObject *state_names(PyObject *self, PyObject *unused) {
    (void)unused;
    size_t n = nacre_state_n(state_of(self));
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *name = PyUnicode_FromString(nacre_state_name(state_of(self), i));
        if (!name || PyList_SetItem(list, (Py_ssize_t)i, name) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *describe(PyObject *self, PyObject *index) {
    nacre_variable v;
    nacre_error err;
    nacre_code code;
    int rank;
    int64_t dims[NACRE_MAX_RANK];
    nacre_state *st = state_of(self);
    size_t i = PyLong_AsSize_t(index);
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_state_variable(st, i, &v, &err);
    rank = nacre_state_dims(st, i, dims, NACRE_MAX_RANK);
    Py_END_ALLOW_THREADS;
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    return Py_BuildValue("{s:s,s:i,s:N,s:s,s:i,s:i,s:L,s:N,s:N,s:N,s:N}", "name", v.name, "type", (int)v.type, "shape",
                         ncx_shape(dims, rank), "device", v.device, "device_number", v.device_number, "grow_axis",
                         v.grow_axis, "capacity", (long long)v.capacity, "is_set", PyBool_FromLong(v.is_set),
                         "is_dirty", PyBool_FromLong(v.is_dirty), "is_lent", PyBool_FromLong(v.is_lent), "is_read_only",
                         PyBool_FromLong(v.is_read_only));
}

static PyObject *is_dirty(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(nacre_state_is_dirty(NULL, state_of(self)));
}

/* ---- contents ---- */

typedef nacre_code (*reader)(nacre_session *s, nacre_state *st, const char *variable, nacre_value **out,
                             nacre_error *err);

static PyObject *read_with(PyObject *self, PyObject *name, reader how, bool writable) {
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    nacre_state *st = state_of(self);
    nacre_value *v = NULL;
    nacre_error err;
    nacre_code code;
    if (!text) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = how(NULL, st, text, &v, &err);
    Py_END_ALLOW_THREADS;
    return code == NACRE_OK ? ncx_value_wrap(v, writable) : ncx_raise(NCX_RUNNING, &err);
}

static PyObject *get(PyObject *self, PyObject *name) { return read_with(self, name, nacre_state_get, true); }

/* share(name, writable): over the variable's own memory. */
static PyObject *share(PyObject *self, PyObject *args) {
    PyObject *name;
    int writable;
    if (!PyArg_ParseTuple(args, "O!p:share", &PyUnicode_Type, &name, &writable)) return NULL;
    return read_with(self, name, nacre_state_share, writable);
}

static PyObject *set(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *o;
    nacre_error err;
    nacre_code code;
    if (!PyArg_ParseTuple(args, "sO:set", &name, &o)) return NULL;
    nacre_value *v = ncx_value_of(o);
    nacre_state *st = state_of(self);
    if (!v) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_state_set(NULL, st, name, v, &err);
    Py_END_ALLOW_THREADS;
    return answer(code, &err);
}

/* reset(session, name or None) */
static PyObject *reset(PyObject *self, PyObject *args) {
    PyObject *session;
    const char *name = NULL;
    nacre_state *st = state_of(self);
    nacre_error err;
    nacre_code code;
    if (!PyArg_ParseTuple(args, "O!|z:reset", ncx_session_type, &session, &name)) return NULL;
    nacre_session *s = ((ncx_session *)session)->s;
    Py_BEGIN_ALLOW_THREADS;
    code = name ? nacre_state_reset_variable(s, st, name, &err) : nacre_state_reset(s, st, &err);
    Py_END_ALLOW_THREADS;
    return answer(code, &err);
}

/* ---- the type ---- */

static PyMethodDef methods[] = {
    {"add_session", add_session, METH_O, "add_session(session): the variables of a session that are not here yet."},
    {"add", add, METH_VARARGS, "add(name, value): a copy of a tensor in host memory."},
    {"lend", lend, METH_VARARGS, "lend(name, value, writable): the value's own memory."},
    {"names", state_names, METH_NOARGS, "The names of all variables."},
    {"describe", describe, METH_O, "describe(i): what variable i is."},
    {"get", get, METH_O, "get(name): a copy in host memory."},
    {"share", share, METH_VARARGS, "share(name, writable): a Value over the variable's own memory."},
    {"set", set, METH_VARARGS, "set(name, value): new contents."},
    {"reset", reset, METH_VARARGS, "reset(session, name=None): what the session's model says."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef properties[] = {
    {"is_dirty", is_dirty, NULL, "whether a failed run left a variable half updated", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

int ncx_add_state(PyObject *module) {
    static PyType_Slot slots[] = {{Py_tp_new, (void *)state_new},
                                  {Py_tp_dealloc, (void *)state_dealloc},
                                  {Py_tp_methods, methods},
                                  {Py_tp_getset, properties},
                                  {Py_tp_doc, (void *)"State(env, device=None): named buffers that sessions share."},
                                  {0, NULL}};
    static PyType_Spec spec = {"nacre._core.State", sizeof(ncx_state), 0, Py_TPFLAGS_DEFAULT, slots};
    ncx_state_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return ncx_state_type ? PyModule_AddType(module, ncx_state_type) : -1;
}
