/* python/ext/run.c: runs of a session, which take and give Values by name, or arrays. The GIL is let go while the
 * library runs; what a run borrows, names and feeds, is held until it is over, since others may change the caller's
 * containers meanwhile. */
#include "ext.h"

#include <string.h>

/* One call's arguments as the library takes them. All arrays lie in `room` or, where that is too small, in `block`. */
typedef struct call {
    size_t n_in, n_out, n_held;
    const char **in_names, **out_names;
    nacre_value **in, **out;
    PyObject **held; /* per input its name and what was fed, then names and Values of the outputs */
    bool *made;      /* in[i] was made for this call alone */
    bool *given;     /* out[i] is the caller's own */
    void *block;
    void *room[64];
} call;

static bool allocate_call(call *c, Py_ssize_t n_in, Py_ssize_t n_out) {
    size_t n = (size_t)(n_in + n_out), bytes = 4 * n * sizeof(void *) + n * sizeof(bool);
    c->n_in = (size_t)n_in, c->n_out = (size_t)n_out, c->n_held = 0, c->block = NULL;
    void **at = c->room;
    if (bytes > sizeof c->room && !(at = c->block = PyMem_Malloc(bytes))) {
        PyErr_NoMemory();
        return false;
    }
    memset(at, 0, bytes);
    c->in_names = (const char **)at, c->out_names = c->in_names + n_in;
    c->in = (nacre_value **)(at + n), c->out = c->in + n_in;
    c->held = (PyObject **)(at + 2 * n);
    c->made = (bool *)(at + 4 * n), c->given = c->made + n_in;
    return true;
}

static void free_call(call *c) {
    for (size_t i = 0; i < c->n_in; i++)
        if (c->made[i]) nacre_value_release(c->in[i]);
    for (size_t i = 0; i < c->n_out; i++)
        if (!c->given[i]) nacre_value_release(c->out[i]);
    for (size_t i = 0; i < c->n_held; i++) Py_DECREF(c->held[i]);
    PyMem_Free(c->block);
}

static void hold(call *c, PyObject *o) { c->held[c->n_held++] = Py_NewRef(o); }

/* ---- what is wanted and what is fed ---- */

static bool read_outputs(call *c, PyObject *names, PyObject *given) {
    for (size_t i = 0; i < c->n_out; i++) {
        PyObject *name = PyList_GetItem(names, (Py_ssize_t)i);
        if (!name) return false;
        hold(c, name);
        c->out_names[i] = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!c->out_names[i]) return false;
        PyObject *o = given == Py_None ? Py_None : PyList_GetItem(given, (Py_ssize_t)i);
        if (!o) return false;
        if (o == Py_None) continue;
        hold(c, o);
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

/* Holds all that is fed before anything is made of it: converters are Python and may change the dict. */
static bool read_names(call *c, PyObject *feeds) {
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (c->n_held < 2 * c->n_in && PyDict_Next(feeds, &at, &name, &value)) hold(c, name), hold(c, value);
    for (size_t i = 0; i < c->n_in; i++)
        if (!(c->in_names[i] = PyUnicode_AsUTF8AndSize(c->held[2 * i], NULL))) return false;
    return true;
}

static bool read_values(call *c) {
    for (size_t i = 0; i < c->n_in; i++)
        if (!(c->in[i] = ncx_value_of(c->held[2 * i + 1]))) return false;
    return true;
}

/* ---- running ---- */

/* The outputs as Values: those of the caller again, or new ones. */
static PyObject *collect(call *c, PyObject *given) {
    PyObject *list = PyList_New((Py_ssize_t)c->n_out);
    for (size_t i = 0; list && i < c->n_out; i++) {
        PyObject *x;
        if (c->given[i]) {
            x = PyList_GetItem(given, (Py_ssize_t)i);
            Py_XINCREF(x);
        } else {
            x = ncx_value_wrap(c->out[i], true);
            c->out[i] = NULL;
        }
        if (!x || PyList_SetItem(list, (Py_ssize_t)i, x) < 0) Py_CLEAR(list);
    }
    return list;
}

/* The end of a run that was queued on the caller's stream; what it met there is told as its own failure. */
static nacre_code wait_for(nacre_stream *stream, nacre_code code, nacre_error *err) {
    nacre_error other;
    nacre_code ended = nacre_stream_synchronize(stream, code == NACRE_OK ? err : &other);
    return code == NACRE_OK ? ended : code;
}

/* r: what the run obeys; leader: what Ctrl-C cancels, r or the options that r follows; stream: where it is
 * queued, or NULL; wait: until it has ended there, which a failed run always is. */
static bool run_guarded(nacre_session *s, nacre_run_options *r, nacre_run_options *leader, nacre_stream *stream,
                        bool wait, call *c, nacre_code *code, nacre_error *err) {
    ncx_guard guard;
    ncx_guard_begin(&guard, leader);
    /* A signal that came just before the guard stood would be noticed only after the run. */
    bool early = PyErr_CheckSignals() < 0;
    if (!early) {
        Py_BEGIN_ALLOW_THREADS;
        *code = nacre_run(s, r, c->in_names, c->in, c->n_in, c->out_names, c->n_out, c->out, err);
        if (stream && (wait || *code != NACRE_OK)) *code = wait_for(stream, *code, err);
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
static nacre_run_options *own_options(const ncx_run_options *ro, PyObject *kept, nacre_state *state,
                                      nacre_stream *stream) {
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
    nacre_run_options_stream(own, stream);
    if (ro) nacre_run_options_follow(own, ro->r);
    return own;
}

static PyObject *run_call(ncx_session *s, ncx_run_options *ro, call *c, PyObject *given, PyObject *kept,
                          nacre_state *state, bool wait) {
    PyObject *held = s->stream ? Py_NewRef(s->stream) : NULL;
    nacre_stream *stream = held ? ((ncx_stream *)held)->s : NULL;
    nacre_run_options *own = NULL;
    nacre_error err;
    nacre_code code = NACRE_OK;
    if (!ro || stream || kept != Py_None || state || ro->log_level >= 0 || ro->log_id) {
        own = own_options(ro, kept, state, stream);
        if (!own) {
            Py_XDECREF(held);
            return NULL;
        }
    }
    bool done = run_guarded(s->s, own ? own : ro->r, ro ? ro->r : own, stream, wait, c, &code, &err);
    Py_XDECREF(held);
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

/* run(output names, feeds, run options or None, outputs or None, kept or None, state or None, wait): names of wanted
 * outputs, a dict of Values by input name, for each output a Value to write into or None, the names of those that stay
 * in the memory of the session's device, the state in place of the session's own, and whether a run on the caller's
 * stream is waited for. Gives a list of Values. */
PyObject *ncx_session_run(PyObject *self, PyObject *args) {
    PyObject *names, *feeds, *options = Py_None, *given = Py_None, *kept = Py_None, *state = Py_None;
    int wait = 1;
    if (!PyArg_ParseTuple(args, "O!O!|OOOOp:run", &PyList_Type, &names, &PyDict_Type, &feeds, &options, &given, &kept,
                          &state, &wait))
        return NULL;
    if (!is_a(options, ncx_run_options_type, "run_options: expected RunOptions")) return NULL;
    if (!is_a(state, ncx_state_type, "state: expected State")) return NULL;
    if ((given != Py_None && !PyList_Check(given)) || (kept != Py_None && !PyList_Check(kept))) {
        PyErr_SetString(PyExc_TypeError, "outputs and kept: expected a list or None");
        return NULL;
    }
    call c;
    PyObject *result = NULL, *own = given == Py_None ? Py_NewRef(given) : PyList_GetSlice(given, 0, PyList_Size(given));
    if (!own || !allocate_call(&c, PyDict_Size(feeds), PyList_Size(names))) {
        Py_XDECREF(own);
        return NULL;
    }
    if (read_names(&c, feeds) && read_outputs(&c, names, own) && read_values(&c))
        result = run_call((ncx_session *)self, options == Py_None ? NULL : (ncx_run_options *)options, &c, own, kept,
                          state == Py_None ? NULL : ((ncx_state *)state)->st, wait);
    free_call(&c);
    Py_DECREF(own);
    return result;
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

/* Input i from what is fed to it, of this type (None: unknown): a Value, an array over whose memory a tensor is made
 * for this call, or what python/nacre makes a Value of. */
static bool feed(call *c, size_t i, PyObject *type) {
    PyObject *x = c->held[2 * i + 1];
    const char *text = type == Py_None ? "tensor(" : PyUnicode_AsUTF8AndSize(type, NULL);
    if (!text) return false;
    if (!PyObject_TypeCheck(x, ncx_value_type)) {
        bool unused;
        int done = strncmp(text, "tensor(", 7) == 0 ? ncx_borrow_array(x, &c->in[i], &unused) : 0;
        c->made[i] = done > 0;
        if (done) return done > 0;
        PyObject *v = PyObject_CallFunctionObjArgs(to_value, x, type, NULL);
        if (!v) return false;
        c->held[2 * i + 1] = v;
        Py_DECREF(x);
    }
    c->in[i] = ncx_value_of(c->held[2 * i + 1]);
    return c->in[i] != NULL;
}

static bool read_feeds(call *c, PyObject *types) {
    for (size_t i = 0; i < c->n_in; i++) {
        PyObject *type = PyDict_GetItemWithError(types, c->held[2 * i]); /* borrowed */
        if (!type && PyErr_Occurred()) return false;
        type = Py_NewRef(type ? type : Py_None);
        bool done = feed(c, i, type);
        Py_DECREF(type);
        if (!done) return false;
    }
    return true;
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
PyObject *ncx_session_run_arrays(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    call c;
    PyObject *results = NULL;
    if (n != 3 || !PyList_Check(args[0]) || !PyDict_Check(args[1]) || !PyDict_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "run_arrays: expected a list of names, a dict of feeds and a dict of types");
        return NULL;
    }
    if (!allocate_call(&c, PyDict_Size(args[1]), PyList_Size(args[0]))) return NULL;
    if (read_names(&c, args[1]) && read_outputs(&c, args[0], Py_None) && read_feeds(&c, args[2]))
        results = run_call((ncx_session *)self, NULL, &c, Py_None, Py_None, NULL, true);
    for (Py_ssize_t i = 0; results && i < PyList_Size(results); i++) {
        PyObject *array = array_of(PyList_GetItem(results, i));
        if (!array || PyList_SetItem(results, i, array) < 0) Py_CLEAR(results);
    }
    free_call(&c);
    return results;
}
