/* python/ext/training.c: Checkpoint and Training: checkpoints and training sessions. Conversions between numpy and
 * values are python/nacre's; the GIL is let go while the library works. */
#include "ext.h"

#include "nacre/nacre_train.h"

#include <string.h>

typedef struct ncx_checkpoint {
    PyObject ob_base;
    nacre_checkpoint *c;
} ncx_checkpoint;

typedef struct ncx_training {
    PyObject ob_base;
    nacre_training *t;
    PyObject *checkpoint; /* kept: the session borrows it */
} ncx_training;

static PyTypeObject *checkpoint_type, *training_type;

static nacre_checkpoint *checkpoint_of(PyObject *self) { return ((ncx_checkpoint *)self)->c; }
static nacre_training *training_of(PyObject *self) { return ((ncx_training *)self)->t; }

static PyObject *answer(nacre_code code, const nacre_error *err) {
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, err);
    Py_RETURN_NONE;
}

/* A path, or bytes, or None. */
typedef struct source {
    const char *path;
    char *bytes;
    Py_ssize_t n;
} source;

static bool read_source(PyObject *o, source *s) {
    *s = (source){0};
    if (o == Py_None) return true;
    if (PyUnicode_Check(o)) return (s->path = PyUnicode_AsUTF8AndSize(o, NULL)) != NULL;
    return PyBytes_AsStringAndSize(o, &s->bytes, &s->n) == 0;
}

/* ---- Checkpoint ---- */

/* Checkpoint(path or bytes) */
static PyObject *checkpoint_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *from;
    source s;
    nacre_error err;
    nacre_code code;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O:Checkpoint", &from) || !read_source(from, &s)) return NULL;
    ncx_checkpoint *x = (ncx_checkpoint *)ncx_allocate(type);
    if (!x) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = s.path ? nacre_checkpoint_load(s.path, &x->c, &err)
                  : nacre_checkpoint_load_bytes(s.bytes, (size_t)s.n, &x->c, &err);
    Py_END_ALLOW_THREADS;
    if (code == NACRE_OK) return (PyObject *)x;
    Py_DECREF(x);
    return ncx_raise(NCX_LOADING, &err);
}

static void checkpoint_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (checkpoint_of(self)) nacre_checkpoint_release(checkpoint_of(self));
    release(self);
    Py_DECREF(type);
}

/* save(path, format, optimizer) */
static PyObject *checkpoint_save(PyObject *self, PyObject *args) {
    const char *path, *format;
    int optimizer;
    nacre_checkpoint *c = checkpoint_of(self);
    nacre_error err;
    nacre_code code;
    if (!PyArg_ParseTuple(args, "ssp:save", &path, &format, &optimizer)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_checkpoint_save(c, path, format, optimizer, &err);
    Py_END_ALLOW_THREADS;
    return answer(code, &err);
}

/* (name, type, trainable) of each parameter */
static PyObject *checkpoint_parameters(PyObject *self, PyObject *unused) {
    (void)unused;
    size_t n = nacre_checkpoint_n(checkpoint_of(self));
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        nacre_type type;
        int trainable;
        const char *name = nacre_checkpoint_name(checkpoint_of(self), i, &type, &trainable);
        PyObject *row = Py_BuildValue("(siN)", name, (int)type, PyBool_FromLong(trainable));
        if (!row || PyList_SetItem(list, (Py_ssize_t)i, row) < 0) Py_CLEAR(list);
    }
    return list;
}

/* The tensor of parameter i itself; None: nominal. */
static PyObject *checkpoint_value(PyObject *self, PyObject *index) {
    size_t i = PyLong_AsSize_t(index);
    if (PyErr_Occurred()) return NULL;
    nacre_value *v = nacre_checkpoint_value(checkpoint_of(self), i);
    if (!v) Py_RETURN_NONE;
    return ncx_value_wrap(v, true);
}

static PyObject *property_value(const nacre_property *p) {
    switch (p->kind) {
    case NACRE_PROPERTY_INT: return PyLong_FromLongLong(p->i);
    case NACRE_PROPERTY_FLOAT: return PyFloat_FromDouble((double)p->f);
    case NACRE_PROPERTY_STRING: break;
    }
    return PyUnicode_FromString(p->s);
}

static PyObject *checkpoint_properties(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *all = PyDict_New();
    for (size_t i = 0; all && i < nacre_checkpoint_n_properties(checkpoint_of(self)); i++) {
        nacre_property p;
        nacre_error err;
        if (nacre_checkpoint_property(checkpoint_of(self), i, &p, &err) != NACRE_OK) {
            Py_DECREF(all);
            return ncx_raise(NCX_RUNNING, &err);
        }
        PyObject *value = property_value(&p);
        if (!value || PyDict_SetItemString(all, p.name, value) < 0) Py_CLEAR(all);
        Py_XDECREF(value);
    }
    return all;
}

/* set_property(name, int, float or str) */
static PyObject *checkpoint_set_property(PyObject *self, PyObject *args) {
    PyObject *value;
    nacre_property p = {0};
    nacre_error err;
    if (!PyArg_ParseTuple(args, "sO:set_property", &p.name, &value)) return NULL;
    if (PyUnicode_Check(value)) {
        p.kind = NACRE_PROPERTY_STRING;
        p.s = PyUnicode_AsUTF8AndSize(value, NULL);
    } else if (PyFloat_Check(value)) {
        p.kind = NACRE_PROPERTY_FLOAT;
        p.f = (float)PyFloat_AsDouble(value);
    } else {
        p.kind = NACRE_PROPERTY_INT;
        p.i = PyLong_AsLongLong(value);
    }
    if (PyErr_Occurred()) return NULL;
    return answer(nacre_checkpoint_set_property(checkpoint_of(self), &p, &err), &err);
}

static PyObject *checkpoint_nominal(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(nacre_checkpoint_is_nominal(checkpoint_of(self)));
}

/* ---- Training ---- */

/* Training(env, checkpoint, train, eval, device, seed, recompute, cudnn_dropout): models are paths or bytes, eval may
 * be None. */
static PyObject *training_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *env, *checkpoint, *train, *eval;
    unsigned long long seed;
    nacre_training_sources from = {.size = sizeof from};
    source s[2];
    nacre_error err;
    nacre_code code;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O!OOsKpp:Training", ncx_env_type, &env, checkpoint_type, &checkpoint, &train, &eval,
                          &from.device, &seed, &from.recompute, &from.cudnn_dropout))
        return NULL;
    if (!read_source(train, &s[0]) || !read_source(eval, &s[1])) return NULL;
    from.train = s[0].path, from.train_bytes = s[0].bytes, from.n_train_bytes = (size_t)s[0].n;
    from.eval = s[1].path, from.eval_bytes = s[1].bytes, from.n_eval_bytes = (size_t)s[1].n;
    from.seed = seed;
    ncx_training *x = (ncx_training *)ncx_allocate(type);
    if (!x) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_training_create(((ncx_env *)env)->env, checkpoint_of(checkpoint), &from, &x->t, &err);
    Py_END_ALLOW_THREADS;
    if (code == NACRE_OK) {
        Py_INCREF(checkpoint);
        x->checkpoint = checkpoint;
        return (PyObject *)x;
    }
    Py_DECREF(x);
    return ncx_raise(NCX_LOADING, &err);
}

static void training_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    nacre_training *gone = training_of(self);
    PyObject *checkpoint = ((ncx_training *)self)->checkpoint;
    Py_BEGIN_ALLOW_THREADS;
    nacre_training_release(gone);
    Py_END_ALLOW_THREADS;
    Py_XDECREF(checkpoint);
    release(self);
    Py_DECREF(type);
}

static PyObject *add_optimizer(PyObject *self, PyObject *from) {
    source s;
    nacre_training *t = training_of(self);
    nacre_error err;
    nacre_code code;
    if (!read_source(from, &s)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_training_add_optimizer(t, s.path, s.bytes, (size_t)s.n, &err);
    Py_END_ALLOW_THREADS;
    return code == NACRE_OK ? answer(code, &err) : ncx_raise(NCX_LOADING, &err);
}

typedef const char *(*name_at)(const nacre_training *t, int eval, size_t i);

static PyObject *names(PyObject *self, PyObject *eval, name_at at) {
    int of_eval = PyObject_IsTrue(eval);
    PyObject *list = PyList_New(0);
    const char *name;
    for (size_t i = 0; list && (name = at(training_of(self), of_eval, i)) != NULL; i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *inputs(PyObject *self, PyObject *eval) { return names(self, eval, nacre_training_input_name); }
static PyObject *outputs(PyObject *self, PyObject *eval) { return names(self, eval, nacre_training_output_name); }

/* ---- steps ---- */

enum { MOST = 64 };

/* Values of a list; None is left out. -1: an exception is set. */
static Py_ssize_t read_values(PyObject *list, nacre_value **to) {
    Py_ssize_t n = PyList_Size(list);
    if (n > MOST) {
        PyErr_Format(PyExc_ValueError, "%zd inputs, at most %d are supported", n, MOST);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyList_GetItem(list, i);
        to[i] = o == Py_None ? NULL : ncx_value_of(o);
        if (!to[i] && o != Py_None) return -1;
    }
    return n;
}

static PyObject *take_values(nacre_value **v, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; i < n; i++) {
        PyObject *o = ncx_value_wrap(v[i], true);
        if (list && (!o || PyList_SetItem(list, (Py_ssize_t)i, o) < 0))
            Py_CLEAR(list);
        else if (!list)
            Py_XDECREF(o);
    }
    return list;
}

/* step(values, eval): the outputs */
static PyObject *step(PyObject *self, PyObject *args) {
    PyObject *list;
    int eval;
    nacre_value *in[MOST], *out[MOST] = {NULL};
    nacre_error err;
    nacre_code code;
    if (!PyArg_ParseTuple(args, "O!p:step", &PyList_Type, &list, &eval)) return NULL;
    Py_ssize_t n = read_values(list, in);
    if (n < 0) return NULL;
    nacre_training *t = training_of(self);
    size_t n_out = nacre_training_n_outputs(t, eval);
    if (n_out > MOST) n_out = MOST;
    Py_BEGIN_ALLOW_THREADS;
    code = (eval ? nacre_training_eval : nacre_training_step)(t, in, (size_t)n, out, n_out, &err);
    Py_END_ALLOW_THREADS;
    if (code != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    return take_values(out, n_out);
}

static PyObject *reset(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_training_reset(training_of(self));
    Py_RETURN_NONE;
}

static PyObject *update(PyObject *self, PyObject *unused) {
    (void)unused;
    int done = 0;
    nacre_training *t = training_of(self);
    nacre_error err;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_training_update(t, &done, &err);
    Py_END_ALLOW_THREADS;
    return code == NACRE_OK ? PyBool_FromLong(done) : ncx_raise(NCX_RUNNING, &err);
}

static PyObject *use_optimizer(PyObject *self, PyObject *which) {
    nacre_error err;
    size_t i = PyLong_AsSize_t(which);
    if (PyErr_Occurred()) return NULL;
    return answer(nacre_training_use_optimizer(training_of(self), i, &err), &err);
}

/* ---- the rate ---- */

static PyObject *rate(PyObject *self, PyObject *unused) {
    (void)unused;
    float value;
    nacre_error err;
    if (nacre_training_rate(training_of(self), &value, &err) != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    return PyFloat_FromDouble((double)value);
}

static PyObject *set_rate(PyObject *self, PyObject *to) {
    nacre_error err;
    double value = PyFloat_AsDouble(to);
    if (PyErr_Occurred()) return NULL;
    return answer(nacre_training_set_rate(training_of(self), (float)value, &err), &err);
}

static PyObject *loss_scale(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyFloat_FromDouble((double)nacre_training_loss_scale(training_of(self)));
}

/* set_loss_scale(scale, grow_every) */
static PyObject *set_loss_scale(PyObject *self, PyObject *args) {
    double scale;
    long long grow_every;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "dL:set_loss_scale", &scale, &grow_every)) return NULL;
    return answer(nacre_training_set_loss_scale(training_of(self), (float)scale, grow_every, &err), &err);
}

/* set_schedule(warmup, total, initial) */
static PyObject *set_schedule(PyObject *self, PyObject *args) {
    long long warmup, total;
    double initial;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "LLd:set_schedule", &warmup, &total, &initial)) return NULL;
    return answer(nacre_training_set_schedule(training_of(self), warmup, total, (float)initial, &err), &err);
}

static PyObject *schedule(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_error err;
    return answer(nacre_training_schedule(training_of(self), &err), &err);
}

/* ---- parameters ---- */

static PyObject *size(PyObject *self, PyObject *trainable) {
    int64_t n;
    nacre_error err;
    if (nacre_training_size(training_of(self), PyObject_IsTrue(trainable), &n, &err) != NACRE_OK)
        return ncx_raise(NCX_RUNNING, &err);
    return PyLong_FromLongLong(n);
}

static PyObject *to_buffer(PyObject *self, PyObject *trainable) {
    nacre_value *v;
    nacre_error err;
    if (nacre_training_to_buffer(training_of(self), PyObject_IsTrue(trainable), &v, &err) != NACRE_OK)
        return ncx_raise(NCX_RUNNING, &err);
    return ncx_value_wrap(v, true);
}

/* from_buffer(value, trainable) */
static PyObject *from_buffer(PyObject *self, PyObject *args) {
    PyObject *o;
    int trainable;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "Op:from_buffer", &o, &trainable)) return NULL;
    nacre_value *v = ncx_value_of(o);
    if (!v) return NULL;
    return answer(nacre_training_from_buffer(training_of(self), trainable, v, &err), &err);
}

/* set_parameter(name, value) */
static PyObject *set_parameter(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *o;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "sO:set_parameter", &name, &o)) return NULL;
    nacre_value *v = ncx_value_of(o);
    if (!v) return NULL;
    return answer(nacre_training_set_parameter(training_of(self), name, v, &err), &err);
}

/* gradient(name): None where there is none */
static PyObject *gradient(PyObject *self, PyObject *name) {
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    nacre_value *v;
    nacre_error err;
    if (!text) return NULL;
    if (nacre_training_gradient(training_of(self), text, &v, &err) != NACRE_OK) return ncx_raise(NCX_RUNNING, &err);
    if (!v) Py_RETURN_NONE;
    return ncx_value_wrap(v, true);
}

static PyObject *sync_checkpoint(PyObject *self, PyObject *unused) {
    (void)unused;
    nacre_error err;
    return answer(nacre_training_sync(training_of(self), &err), &err);
}

/* export(path, names) */
static PyObject *export_model(PyObject *self, PyObject *args) {
    const char *path, *list[MOST];
    PyObject *given;
    nacre_training *t = training_of(self);
    nacre_error err;
    nacre_code code;
    if (!PyArg_ParseTuple(args, "sO!:export", &path, &PyList_Type, &given)) return NULL;
    Py_ssize_t n = PyList_Size(given);
    for (Py_ssize_t i = 0; i < n && i < MOST; i++)
        if (!(list[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(given, i), NULL))) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_training_export(t, path, list, (size_t)(n < MOST ? n : MOST), &err);
    Py_END_ALLOW_THREADS;
    return answer(code, &err);
}

/* dump(which, stage) */
static PyObject *dump(PyObject *self, PyObject *args) {
    const char *which, *stage;
    char *text;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "ss:dump", &which, &stage)) return NULL;
    if (nacre_training_dump(training_of(self), which, stage, &text, &err) != NACRE_OK)
        return ncx_raise(NCX_RUNNING, &err);
    PyObject *result = PyUnicode_FromString(text);
    nacre_free(text);
    return result;
}

/* ---- types ---- */

static PyMethodDef checkpoint_methods[] = {
    {"save", checkpoint_save, METH_VARARGS, "save(path, format, optimizer)"},
    {"parameters", checkpoint_parameters, METH_NOARGS, "(name, type, trainable) of each"},
    {"value", checkpoint_value, METH_O, "The tensor of parameter i; None: nominal."},
    {"properties", checkpoint_properties, METH_NOARGS, "All of them, by name."},
    {"set_property", checkpoint_set_property, METH_VARARGS, "set_property(name, value)"},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef checkpoint_getset[] = {{"is_nominal", checkpoint_nominal, NULL, NULL, NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef training_methods[] = {
    {"add_optimizer", add_optimizer, METH_O, "add_optimizer(path or bytes)"},
    {"inputs", inputs, METH_O, "inputs(eval)"},
    {"outputs", outputs, METH_O, "outputs(eval)"},
    {"step", step, METH_VARARGS, "step(values, eval)"},
    {"reset", reset, METH_NOARGS, "The next step's gradients replace the sums."},
    {"use_optimizer", use_optimizer, METH_O, "use_optimizer(i): the one that makes the next step."},
    {"update", update, METH_NOARGS, "The optimizer's step; whether it was made."},
    {"rate", rate, METH_NOARGS, NULL},
    {"set_rate", set_rate, METH_O, NULL},
    {"loss_scale", loss_scale, METH_NOARGS, NULL},
    {"set_loss_scale", set_loss_scale, METH_VARARGS, "set_loss_scale(scale, grow_every)"},
    {"set_schedule", set_schedule, METH_VARARGS, "set_schedule(warmup, total, initial)"},
    {"schedule", schedule, METH_NOARGS, NULL},
    {"size", size, METH_O, "size(trainable)"},
    {"to_buffer", to_buffer, METH_O, "to_buffer(trainable)"},
    {"from_buffer", from_buffer, METH_VARARGS, "from_buffer(value, trainable)"},
    {"set_parameter", set_parameter, METH_VARARGS, "set_parameter(name, value)"},
    {"gradient", gradient, METH_O, "gradient(name)"},
    {"sync", sync_checkpoint, METH_NOARGS, "The checkpoint takes what it lacks."},
    {"export", export_model, METH_VARARGS, "export(path, names)"},
    {"dump", dump, METH_VARARGS, "dump(which, stage)"},
    {NULL, NULL, 0, NULL}};

int ncx_add_training(PyObject *module) {
    static PyType_Slot checkpoint_slots[] = {{Py_tp_new, checkpoint_new},
                                             {Py_tp_dealloc, checkpoint_dealloc},
                                             {Py_tp_methods, checkpoint_methods},
                                             {Py_tp_getset, checkpoint_getset},
                                             {0, NULL}};
    static PyType_Slot training_slots[] = {
        {Py_tp_new, training_new}, {Py_tp_dealloc, training_dealloc}, {Py_tp_methods, training_methods}, {0, NULL}};
    static PyType_Spec specs[2] = {
        {"nacre._core.Checkpoint", sizeof(ncx_checkpoint), 0, Py_TPFLAGS_DEFAULT, checkpoint_slots},
        {"nacre._core.Training", sizeof(ncx_training), 0, Py_TPFLAGS_DEFAULT, training_slots}};
    checkpoint_type = (PyTypeObject *)PyType_FromSpec(&specs[0]);
    training_type = (PyTypeObject *)PyType_FromSpec(&specs[1]);
    if (!checkpoint_type || !training_type) return -1;
    if (PyModule_AddObjectRef(module, "Checkpoint", (PyObject *)checkpoint_type) < 0) return -1;
    return PyModule_AddObjectRef(module, "Training", (PyObject *)training_type);
}
