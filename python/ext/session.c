/* python/ext/session.c: Env, Session and RunOptions: what they tell. How a session is made is load.c, how it runs is
 * run.c. The GIL is let go while the library works. */
#include "ext.h"

#include "nacre/nacre_train.h"

#include <string.h>

PyTypeObject *ncx_env_type, *ncx_session_type, *ncx_run_options_type;

PyObject *ncx_allocate(PyTypeObject *type) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return alloc(type, 0);
}

static void free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- Env ---- */

static PyObject *env_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"threads", NULL};
    int threads = 0;
    nacre_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:Env", names, &threads)) return NULL;
    ncx_env *e = (ncx_env *)ncx_allocate(type);
    if (e && nacre_env_create(threads, &e->env, &err) != NACRE_OK) {
        ncx_raise(NCX_LOADING, &err);
        Py_CLEAR(e);
    }
    return (PyObject *)e;
}

static void env_dealloc(PyObject *self) {
    nacre_env *env = ((ncx_env *)self)->env;
    Py_BEGIN_ALLOW_THREADS;
    nacre_env_release(env);
    Py_END_ALLOW_THREADS;
    free_object(self);
}

static PyObject *env_load_plugin(PyObject *self, PyObject *path) {
    nacre_error err;
    const char *text = PyUnicode_AsUTF8AndSize(path, NULL);
    if (!text) return NULL;
    if (nacre_env_load_plugin(((ncx_env *)self)->env, text, &err) != NACRE_OK) return ncx_raise(NCX_LOADING, &err);
    Py_RETURN_NONE;
}

/* register_gradient(domain, op, bytes of a model or None, stops) */
static PyObject *env_register_gradient(PyObject *self, PyObject *args) {
    nacre_gradient_rule what = {.size = sizeof what};
    nacre_error err;
    const char *model;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "ssz#I:register_gradient", &what.domain, &what.op, &model, &n, &what.stops))
        return NULL;
    what.model = model, what.n_model = (size_t)n;
    if (nacre_env_register_gradient(((ncx_env *)self)->env, &what, &err) != NACRE_OK)
        return ncx_raise(NCX_LOADING, &err);
    Py_RETURN_NONE;
}

static PyObject *env_describe(PyObject *self, PyObject *device) {
    nacre_error err;
    char line[256];
    const char *name = PyUnicode_AsUTF8AndSize(device, NULL);
    if (!name) return NULL;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_env_describe_device(((ncx_env *)self)->env, name, line, sizeof line, &err);
    Py_END_ALLOW_THREADS;
    return code == NACRE_OK ? PyUnicode_FromString(line) : ncx_raise(NCX_LOADING, &err);
}

static PyObject *env_synchronize(PyObject *self, PyObject *device) {
    nacre_error err;
    const char *name = PyUnicode_AsUTF8AndSize(device, NULL);
    if (!name) return NULL;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_env_synchronize(((ncx_env *)self)->env, name, &err);
    Py_END_ALLOW_THREADS;
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    Py_RETURN_NONE;
}

/* ---- RunOptions ---- */

static PyObject *run_options_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    nacre_error err;
    ncx_run_options *r = (ncx_run_options *)ncx_allocate(type);
    if (r) r->log_level = -1;
    if (r && nacre_run_options_create(&r->r, &err) != NACRE_OK) {
        ncx_raise(NCX_RUNNING, &err);
        Py_CLEAR(r);
    }
    return (PyObject *)r;
}

static void run_options_dealloc(PyObject *self) {
    nacre_run_options_release(((ncx_run_options *)self)->r);
    Py_XDECREF(((ncx_run_options *)self)->log_id);
    free_object(self);
}

static PyObject *get_terminate(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((ncx_run_options *)self)->terminate);
}

static int set_terminate(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    int yes = value ? PyObject_IsTrue(value) : 0;
    if (yes < 0) return -1;
    ((ncx_run_options *)self)->terminate = yes != 0;
    nacre_run_options_cancel(((ncx_run_options *)self)->r, yes);
    return 0;
}

/* set_log(level, id): of the runs that begin later; -1 and "" mean what the session has. */
static PyObject *run_options_set_log(PyObject *self, PyObject *args) {
    ncx_run_options *r = (ncx_run_options *)self;
    int level;
    PyObject *id;
    if (!PyArg_ParseTuple(args, "iU:set_log", &level, &id)) return NULL;
    if (level < -1 || level > NACRE_LOG_OFF) {
        PyErr_Format(PyExc_ValueError, "log level: expected -1 to 4, got %d", level);
        return NULL;
    }
    PyObject *old = r->log_id;
    bool named = PyUnicode_GetLength(id) > 0;
    if (named) Py_INCREF(id);
    r->log_level = level, r->log_id = named ? id : NULL;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static void session_dealloc(PyObject *self) {
    ncx_session *s = (ncx_session *)self;
    nacre_session *gone = s->s;
    nacre_stream *stream = s->stream ? ((ncx_stream *)s->stream)->s : NULL;
    nacre_error err;
    Py_BEGIN_ALLOW_THREADS;
    if (stream) nacre_stream_synchronize(stream, &err); /* its runs may be under way; what they met nobody asked for */
    nacre_session_release(gone);
    Py_END_ALLOW_THREADS;
    Py_XDECREF(s->stream);
    Py_XDECREF(s->env);
    free_object(self);
}

/* ---- what a session tells ---- */

static PyObject *shape_of(const nacre_session *s, nacre_side side, size_t i) {
    int64_t dims[NACRE_MAX_RANK];
    int rank = nacre_session_dims(s, side, i, dims, NACRE_MAX_RANK);
    PyObject *shape = PyList_New(rank > 0 ? rank : 0);
    for (int d = 0; shape && d < rank; d++) {
        char name[64];
        PyObject *x;
        if (dims[d] >= 0)
            x = PyLong_FromLongLong(dims[d]);
        else
            x = Py_BuildValue("z", nacre_session_dim_name(s, side, i, d, name) ? name : NULL);
        if (!x || PyList_SetItem(shape, d, x) < 0) Py_CLEAR(shape);
    }
    return shape;
}

/* signature(side): a list of (name, type, shape); side 0 inputs, 1 outputs, 2 overridable initializers,
 * 3 variables. */
static PyObject *session_signature(PyObject *self, PyObject *side) {
    const nacre_session *s = ((ncx_session *)self)->s;
    long which = PyLong_AsLong(side);
    if (PyErr_Occurred()) return NULL;
    size_t n = nacre_session_n(s, (nacre_side)which);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        nacre_signature sig;
        nacre_error err;
        PyObject *row = NULL;
        if (nacre_session_signature(s, (nacre_side)which, i, &sig, &err) != NACRE_OK)
            ncx_raise(NCX_RUNNING, &err);
        else
            row = Py_BuildValue("(ssN)", sig.name, sig.type, shape_of(s, (nacre_side)which, i));
        if (!row || PyList_SetItem(list, (Py_ssize_t)i, row) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *session_info(PyObject *self, PyObject *unused) {
    (void)unused;
    const nacre_session *s = ((ncx_session *)self)->s;
    nacre_model_info info;
    nacre_session_model_info(s, &info);
    PyObject *props = PyDict_New();
    for (size_t i = 0; props && i < info.n_props; i++) {
        const char *value, *key = nacre_session_prop(s, i, &value);
        PyObject *text = PyUnicode_FromString(value);
        if (!text || PyDict_SetItemString(props, key, text) < 0) Py_CLEAR(props);
        Py_XDECREF(text);
    }
    if (!props) return NULL;
    return Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:L,s:N}", "producer_name", info.producer_name, "graph_name",
                         info.graph_name, "domain", info.domain, "description", info.description, "graph_description",
                         info.graph_description, "version", (long long)info.version, "custom_metadata_map", props);
}

/* profile(): the trace of all runs so far, as JSON; needs the option profile=on. */
static PyObject *session_profile(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_error err;
    char *text = NULL;
    nacre_session *s = ((ncx_session *)self)->s;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_session_profile(s, &text, &err);
    Py_END_ALLOW_THREADS;
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    nacre_free(text);
    return result;
}

/* dump(stage): the text of a stage; needs the option dumps=on. */
static PyObject *session_dump(PyObject *self, PyObject *stage) {
    nacre_error err;
    char *text = NULL;
    PyObject *name = PyUnicode_AsUTF8String(stage);
    if (!name) return NULL;
    nacre_code code = nacre_session_dump(((ncx_session *)self)->s, PyBytes_AsString(name), &text, &err);
    Py_DECREF(name);
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    nacre_free(text);
    return result;
}

/* state(): the one that its runs use where they are given none. */
static PyObject *session_state(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_error err;
    nacre_state *st = NULL;
    nacre_session *s = ((ncx_session *)self)->s;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_session_state(s, &st, &err);
    Py_END_ALLOW_THREADS;
    return code == NACRE_OK ? ncx_state_wrap(st) : ncx_raise(NCX_RUNNING, &err);
}

/* use_stream(Stream): runs are queued there from now on. */
static PyObject *session_use_stream(PyObject *self, PyObject *stream) {
    if (!PyObject_TypeCheck(stream, ncx_stream_type)) {
        PyErr_Format(PyExc_TypeError, "use_stream: expected a Stream, got %R", (PyObject *)Py_TYPE(stream));
        return NULL;
    }
    PyObject *old = ((ncx_session *)self)->stream;
    ((ncx_session *)self)->stream = Py_NewRef(stream);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *session_trim(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_session *s = ((ncx_session *)self)->s;
    Py_BEGIN_ALLOW_THREADS;
    nacre_session_trim(s);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* ---- types ---- */

static PyMethodDef env_methods[] = {
    {"load_plugin", env_load_plugin, METH_O, "load_plugin(path): adds the operators of a shared library."},
    {"register_gradient", env_register_gradient, METH_VARARGS,
     "register_gradient(domain, op, model, stops): a gradient of one's own for an operator."},
    {"synchronize", env_synchronize, METH_O, "synchronize(device): waits for all work of a device."},
    {"describe", env_describe, METH_O, "describe(device): one line on a device, or EPFail with the reason."},
    {NULL, NULL, 0, NULL}};
static PyMethodDef session_methods[] = {
    {"signature", session_signature, METH_O,
     "signature(side): (name, type, shape) of inputs, outputs, defaults, variables."},
    {"profile", session_profile, METH_NOARGS, "profile(): the trace of the runs so far, as JSON."},
    {"dump", session_dump, METH_O, "dump(stage): the graph or plan at that stage as text."},
    {"state", session_state, METH_NOARGS, "state(): the session's own State."},
    {"info", session_info, METH_NOARGS, "info(): the model's metadata."},
    {"trim", session_trim, METH_NOARGS, "trim(): gives back memory kept for later runs."},
    {"use_stream", session_use_stream, METH_O, "use_stream(stream): where runs are queued from now on."},
    {"run", ncx_session_run, METH_VARARGS,
     "run(names, feeds, run_options, outputs, kept, state, wait): a list of Values."},
    {"run_arrays", (PyCFunction)(void (*)(void))ncx_session_run_arrays, METH_FASTCALL,
     "run_arrays(names, feeds, types): a list of arrays."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef run_options_properties[] = {
    {"terminate", get_terminate, set_terminate, "whether runs with these options stop", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef run_options_methods[] = {
    {"set_log", run_options_set_log, METH_VARARGS, "set_log(level, id): the log of runs with these options."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot env_slots[] = {{Py_tp_new, (void *)env_new},
                                  {Py_tp_dealloc, (void *)env_dealloc},
                                  {Py_tp_methods, env_methods},
                                  {Py_tp_doc, (void *)"Env(threads=0): threads, devices and packed weights."},
                                  {0, NULL}};
static PyType_Slot session_slots[] = {
    {Py_tp_new, (void *)ncx_session_new},
    {Py_tp_dealloc, (void *)session_dealloc},
    {Py_tp_methods, session_methods},
    {Py_tp_doc, (void *)"Session(env, source, options, dims, folder=None, given=None, files=None, ties=None)"},
    {0, NULL}};
static PyType_Slot run_options_slots[] = {{Py_tp_new, (void *)run_options_new},
                                          {Py_tp_dealloc, (void *)run_options_dealloc},
                                          {Py_tp_getset, run_options_properties},
                                          {Py_tp_methods, run_options_methods},
                                          {Py_tp_doc, (void *)"RunOptions(): what a run obeys."},
                                          {0, NULL}};
static PyType_Spec specs[] = {
    {"nacre._core.Env", sizeof(ncx_env), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, env_slots},
    {"nacre._core.Session", sizeof(ncx_session), 0, Py_TPFLAGS_DEFAULT, session_slots},
    {"nacre._core.RunOptions", sizeof(ncx_run_options), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
     run_options_slots}};

int ncx_add_session(PyObject *module) {
    PyTypeObject **types[] = {&ncx_env_type, &ncx_session_type, &ncx_run_options_type};
    for (int i = 0; i < 3; i++) {
        *types[i] = (PyTypeObject *)PyType_FromSpec(&specs[i]);
        if (!*types[i] || PyModule_AddType(module, *types[i]) < 0) return -1;
    }
    return 0;
}
