/* python/ext/session.c: Env, Session and RunOptions: what a session tells, and runs, which take and give Values by
 * name. The GIL is let go while the library runs. How a session is made is load.c. */
#include "ext.h"

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
    Py_BEGIN_ALLOW_THREADS;
    nacre_session_release(gone);
    Py_END_ALLOW_THREADS;
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

static PyObject *session_trim(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_session *s = ((ncx_session *)self)->s;
    Py_BEGIN_ALLOW_THREADS;
    nacre_session_trim(s);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* ---- running ---- */

/* One call's arguments as the library takes them; `given` says which of out are the caller's own. */
typedef struct call {
    size_t n_in, n_out;
    const char **in_names, **out_names;
    nacre_value **in, **out;
    bool *given;
} call;

static bool allocate_call(call *c, Py_ssize_t n_in, Py_ssize_t n_out) {
    *c = (call){.n_in = (size_t)n_in, .n_out = (size_t)n_out};
    c->in_names = PyMem_Calloc(c->n_in + 1, sizeof *c->in_names);
    c->out_names = PyMem_Calloc(c->n_out + 1, sizeof *c->out_names);
    c->in = PyMem_Calloc(c->n_in + 1, sizeof *c->in);
    c->out = PyMem_Calloc(c->n_out + 1, sizeof *c->out);
    c->given = PyMem_Calloc(c->n_out + 1, sizeof *c->given);
    if (c->in_names && c->out_names && c->in && c->out && c->given) return true;
    PyErr_NoMemory();
    return false;
}

static void free_call(call *c) {
    for (size_t i = 0; c->out && c->given && i < c->n_out; i++)
        if (!c->given[i]) nacre_value_release(c->out[i]);
    PyMem_Free((void *)c->in_names);
    PyMem_Free((void *)c->out_names);
    PyMem_Free(c->in);
    PyMem_Free(c->out);
    PyMem_Free(c->given);
}

static bool read_outputs(call *c, PyObject *names, PyObject *given) {
    for (size_t i = 0; i < c->n_out; i++) {
        c->out_names[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(names, (Py_ssize_t)i), NULL);
        if (!c->out_names[i]) return false;
        PyObject *o = given == Py_None ? Py_None : PyList_GetItem(given, (Py_ssize_t)i);
        if (!o) return false;
        if (o == Py_None) continue;
        nacre_value *v = ncx_value_of(o);
        if (!v) return false;
        if (!((ncx_value *)o)->writable) {
            PyErr_Format(PyExc_ValueError, "the memory given for output '%s' is read only", c->out_names[i]);
            return false;
        }
        c->out[i] = v, c->given[i] = true;
    }
    return true;
}

static bool read_inputs(call *c, PyObject *feeds) {
    Py_ssize_t at = 0;
    PyObject *name, *value;
    for (size_t i = 0; PyDict_Next(feeds, &at, &name, &value); i++) {
        c->in_names[i] = PyUnicode_AsUTF8AndSize(name, NULL);
        c->in[i] = c->in_names[i] ? ncx_value_of(value) : NULL;
        if (!c->in[i]) return false;
    }
    return true;
}

/* The outputs as Values: those of the caller again, or new ones. */
static PyObject *collect(call *c, PyObject *given) {
    PyObject *list = PyList_New((Py_ssize_t)c->n_out);
    for (size_t i = 0; list && i < c->n_out; i++) {
        PyObject *x;
        if (c->given[i]) {
            x = PyList_GetItem(given, (Py_ssize_t)i);
            Py_INCREF(x);
        } else {
            x = ncx_value_wrap(c->out[i], true);
            c->out[i] = NULL;
        }
        if (!x || PyList_SetItem(list, (Py_ssize_t)i, x) < 0) Py_CLEAR(list);
    }
    return list;
}

/* r: what the run obeys; leader: what Ctrl-C cancels, r or the options that r follows. */
static bool run_guarded(nacre_session *s, nacre_run_options *r, nacre_run_options *leader, call *c, nacre_code *code,
                        nacre_error *err) {
    ncx_guard guard;
    ncx_guard_begin(&guard, leader);
    /* A signal that came just before the guard stood would be noticed only after the run. */
    bool early = PyErr_CheckSignals() < 0;
    if (!early) {
        Py_BEGIN_ALLOW_THREADS;
        *code = nacre_run(s, r, c->in_names, c->in, c->n_in, c->out_names, c->n_out, c->out, err);
        Py_END_ALLOW_THREADS;
    }
    bool interrupted = ncx_guard_end(&guard);
    return !early && !(interrupted && PyErr_CheckSignals() < 0);
}

static bool keep_all(nacre_run_options *r, PyObject *kept) {
    nacre_error err;
    for (Py_ssize_t i = 0; i < PyList_Size(kept); i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyList_GetItem(kept, i), NULL);
        if (!name) return false;
        if (nacre_run_options_keep(r, name, &err) == NACRE_OK) continue;
        ncx_raise(NCX_RUNNING, &err);
        return false;
    }
    return true;
}

static bool copy_log(nacre_run_options *own, const ncx_run_options *ro) {
    static const char *const levels[] = {"verbose", "info", "warning", "error", "off"};
    nacre_error err;
    const char *id = ro->log_id ? PyUnicode_AsUTF8AndSize(ro->log_id, NULL) : NULL;
    if (ro->log_id && !id) return false;
    if (nacre_run_options_log(own, ro->log_level >= 0 ? levels[ro->log_level] : NULL, id, &err) == NACRE_OK)
        return true;
    ncx_raise(NCX_RUNNING, &err);
    return false;
}

/* The caller's options may serve several runs at once, and change while one is under way: what belongs to one run goes
 * into options of its own. NULL: the exception is set. */
static nacre_run_options *own_options(const ncx_run_options *ro, PyObject *kept, nacre_state *state) {
    nacre_run_options *own;
    nacre_error err;
    if (nacre_run_options_create(&own, &err) != NACRE_OK) {
        ncx_raise(NCX_RUNNING, &err);
        return NULL;
    }
    if ((kept != Py_None && !keep_all(own, kept)) || (ro && !copy_log(own, ro))) {
        nacre_run_options_release(own);
        return NULL;
    }
    nacre_run_options_state(own, state);
    if (ro) nacre_run_options_follow(own, ro->r);
    return own;
}

static PyObject *run_call(nacre_session *s, ncx_run_options *ro, call *c, PyObject *given, PyObject *kept,
                          nacre_state *state) {
    nacre_run_options *own = NULL;
    nacre_error err;
    nacre_code code = NACRE_OK;
    if (!ro || kept != Py_None || state || ro->log_level >= 0 || ro->log_id) {
        own = own_options(ro, kept, state);
        if (!own) return NULL;
    }
    bool done = run_guarded(s, own ? own : ro->r, ro ? ro->r : own, c, &code, &err);
    if (ro) nacre_run_options_cancel(ro->r, ro->terminate);
    nacre_run_options_release(own);
    if (!done) return NULL;
    return code == NACRE_OK ? collect(c, given) : ncx_raise(NCX_RUNNING, &err);
}

static bool is_a(PyObject *o, PyTypeObject *type, const char *expected) {
    if (o == Py_None || PyObject_TypeCheck(o, type)) return true;
    PyErr_Format(PyExc_TypeError, "%s or None, got %R", expected, (PyObject *)Py_TYPE(o));
    return false;
}

/* Copies of the containers hold what the run borrows: the GIL is let go, and others may change the caller's. */
static PyObject *run_on_copies(PyObject *self, ncx_run_options *ro, PyObject *names, PyObject *feeds, PyObject *given,
                               PyObject *kept, nacre_state *state) {
    call c = {.n_in = 0};
    PyObject *result = NULL, *own_names = PySequence_List(names), *own_feeds = PyDict_Copy(feeds);
    PyObject *own_given = given == Py_None ? Py_NewRef(given) : PySequence_List(given);
    if (own_names && own_feeds && own_given && allocate_call(&c, PyDict_Size(own_feeds), PyList_Size(own_names)) &&
        read_outputs(&c, own_names, own_given) && read_inputs(&c, own_feeds))
        result = run_call(((ncx_session *)self)->s, ro, &c, own_given, kept, state);
    free_call(&c);
    Py_XDECREF(own_names);
    Py_XDECREF(own_feeds);
    Py_XDECREF(own_given);
    return result;
}

/* run(output names, feeds, run options or None, outputs or None, kept or None, state or None): names of wanted outputs,
 * a dict of Values by input name, for each output a Value to write into or None, the names of those that stay in the
 * memory of the session's device, and the state in place of the session's own. Gives a list of Values. */
static PyObject *session_run(PyObject *self, PyObject *args) {
    PyObject *names, *feeds, *options = Py_None, *given = Py_None, *kept = Py_None, *state = Py_None;
    if (!PyArg_ParseTuple(args, "O!O!|OOOO:run", &PyList_Type, &names, &PyDict_Type, &feeds, &options, &given, &kept,
                          &state))
        return NULL;
    if (!is_a(options, ncx_run_options_type, "run_options: expected RunOptions")) return NULL;
    if (!is_a(state, ncx_state_type, "state: expected State")) return NULL;
    if ((given != Py_None && !PyList_Check(given)) || (kept != Py_None && !PyList_Check(kept))) {
        PyErr_SetString(PyExc_TypeError, "outputs and kept: expected a list or None");
        return NULL;
    }
    return run_on_copies(self, options == Py_None ? NULL : (ncx_run_options *)options, names, feeds, given, kept,
                         state == Py_None ? NULL : ((ncx_state *)state)->st);
}

/* ---- runs from arrays to arrays ---- */

static PyObject *to_value, *to_python, *as_array; /* set_converters */

/* set_converters(to_value, to_python, as_array): what run_arrays calls for what is no plain array. */
PyObject *ncx_set_converters(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *in, *out, *array;
    if (!PyArg_ParseTuple(args, "OOO:set_converters", &in, &out, &array)) return NULL;
    PyObject *old[] = {to_value, to_python, as_array};
    to_value = Py_NewRef(in), to_python = Py_NewRef(out), as_array = Py_NewRef(array);
    for (int i = 0; i < 3; i++) Py_XDECREF(old[i]);
    Py_RETURN_NONE;
}

/* A Value for what is fed to an input of this type (None: unknown); a new reference. */
static PyObject *value_for(PyObject *x, PyObject *type) {
    const char *text = type == Py_None ? "tensor(" : PyUnicode_AsUTF8AndSize(type, NULL);
    if (!text) return NULL;
    if (PyObject_TypeCheck(x, ncx_value_type)) return Py_NewRef(x);
    PyObject *v = strncmp(text, "tensor(", 7) == 0 ? ncx_from_array(NULL, x) : Py_NewRef(Py_None);
    if (v != Py_None) return v;
    Py_DECREF(v);
    return PyObject_CallFunctionObjArgs(to_value, x, type, NULL);
}

static PyObject *values_of(PyObject *feeds, PyObject *types) {
    Py_ssize_t at = 0;
    PyObject *name, *x, *values = PyDict_New();
    while (values && PyDict_Next(feeds, &at, &name, &x)) {
        PyObject *type = PyDict_GetItemWithError(types, name); /* borrowed */
        PyObject *v = PyErr_Occurred() ? NULL : value_for(x, type ? type : Py_None);
        if (!v || PyDict_SetItem(values, name, v) < 0) Py_CLEAR(values);
        Py_XDECREF(v);
    }
    return values;
}

/* A tensor of plain numbers in host memory is an array over its memory; python/nacre knows the rest. */
static PyObject *array_of(PyObject *value) {
    const nacre_value *v = ((ncx_value *)value)->v;
    bool plain = nacre_value_kind(v) == NACRE_KIND_TENSOR && ncx_is_plain(nacre_value_type(v)) &&
                 strcmp(nacre_value_device(v, NULL), "cpu") == 0;
    return PyObject_CallFunctionObjArgs(plain ? as_array : to_python, value, NULL);
}

/* run_arrays(output names, feeds, types): as run, from arrays and what else python/nacre takes, by input name, to
 * arrays; types has the type of each input as ONNX writes it. */
static PyObject *session_run_arrays(PyObject *self, PyObject *args) {
    PyObject *names, *feeds, *types;
    if (!PyArg_ParseTuple(args, "O!O!O!:run_arrays", &PyList_Type, &names, &PyDict_Type, &feeds, &PyDict_Type, &types))
        return NULL;
    PyObject *own = PyDict_Copy(feeds), *values = own ? values_of(own, types) : NULL;
    PyObject *results = values ? run_on_copies(self, NULL, names, values, Py_None, Py_None, NULL) : NULL;
    for (Py_ssize_t i = 0; results && i < PyList_Size(results); i++) {
        PyObject *array = array_of(PyList_GetItem(results, i));
        if (!array || PyList_SetItem(results, i, array) < 0) Py_CLEAR(results);
    }
    Py_XDECREF(values);
    Py_XDECREF(own);
    return results;
}

/* ---- types ---- */

static PyMethodDef env_methods[] = {
    {"load_plugin", env_load_plugin, METH_O, "load_plugin(path): adds the operators of a shared library."},
    {"synchronize", env_synchronize, METH_O, "synchronize(device): waits for all work of a device."},
    {"describe", env_describe, METH_O, "describe(device): one line on a device, or EPFail with the reason."},
    {NULL, NULL, 0, NULL}};
static PyMethodDef session_methods[] = {
    {"signature", session_signature, METH_O,
     "signature(side): (name, type, shape) of inputs, outputs, defaults, variables."},
    {"profile", session_profile, METH_NOARGS, "profile(): the trace of the runs so far, as JSON."},
    {"state", session_state, METH_NOARGS, "state(): the session's own State."},
    {"info", session_info, METH_NOARGS, "info(): the model's metadata."},
    {"trim", session_trim, METH_NOARGS, "trim(): gives back memory kept for later runs."},
    {"run", session_run, METH_VARARGS, "run(names, feeds, run_options, outputs, kept, state): a list of Values."},
    {"run_arrays", session_run_arrays, METH_VARARGS, "run_arrays(names, feeds, types): a list of arrays."},
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
