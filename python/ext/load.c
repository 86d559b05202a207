/* python/ext/load.c: Session(...): a model from a path or from bytes, with options as pairs of texts, and with what the
 * caller gives in place of the file's initializers and external data. The GIL is let go while the library loads and
 * plans. */
#include "ext.h"

/* ---- options ---- */

static bool set_options(nacre_options *o, PyObject *pairs) {
    nacre_error err;
    for (Py_ssize_t i = 0; i < PyList_Size(pairs); i++) {
        const char *key, *value;
        if (!PyArg_ParseTuple(PyList_GetItem(pairs, i), "ss", &key, &value)) return false;
        if (nacre_options_set(o, key, value, &err) != NACRE_OK) {
            ncx_raise(NCX_RUNNING, &err);
            return false;
        }
    }
    return true;
}

static bool set_dims(nacre_options *o, PyObject *pairs) {
    nacre_error err;
    for (Py_ssize_t i = 0; i < PyList_Size(pairs); i++) {
        const char *name;
        long long size;
        if (!PyArg_ParseTuple(PyList_GetItem(pairs, i), "sL", &name, &size)) return false;
        if (nacre_options_dim(o, name, size, &err) != NACRE_OK) {
            ncx_raise(NCX_RUNNING, &err);
            return false;
        }
    }
    return true;
}

static bool set_ties(nacre_options *o, PyObject *pairs) {
    nacre_error err;
    for (Py_ssize_t i = 0; i < PyList_Size(pairs); i++) {
        const char *input, *output;
        if (!PyArg_ParseTuple(PyList_GetItem(pairs, i), "ss", &input, &output)) return false;
        if (nacre_options_tie(o, input, output, &err) != NACRE_OK) {
            ncx_raise(NCX_RUNNING, &err);
            return false;
        }
    }
    return true;
}

/* Messages about the options, under the log that they set. */
static bool tell(const nacre_options *o, PyObject *notes) {
    for (Py_ssize_t i = 0; i < PyList_Size(notes); i++) {
        int level;
        const char *text;
        if (!PyArg_ParseTuple(PyList_GetItem(notes, i), "is", &level, &text)) return false;
        nacre_options_log(o, (nacre_log_level)level, text);
    }
    return true;
}

/* ---- what is given ---- */

static void free_given(nacre_given *g) {
    PyMem_Free((void *)(uintptr_t)g->names);
    PyMem_Free((void *)(uintptr_t)g->values);
    PyMem_Free((void *)(uintptr_t)g->files);
    PyMem_Free((void *)(uintptr_t)g->contents);
    PyMem_Free((void *)(uintptr_t)g->bytes);
}

static bool read_values(PyObject *dict, nacre_given *g) {
    g->n = (size_t)PyDict_Size(dict);
    const char **names = PyMem_Calloc(g->n + 1, sizeof *names);
    nacre_value **values = PyMem_Calloc(g->n + 1, sizeof *values);
    g->names = names, g->values = values;
    Py_ssize_t at = 0;
    PyObject *name, *value;
    if (!names || !values) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; PyDict_Next(dict, &at, &name, &value); i++) {
        names[i] = PyUnicode_AsUTF8AndSize(name, NULL);
        values[i] = names[i] ? ncx_value_of(value) : NULL;
        if (!values[i]) return false;
    }
    return true;
}

static bool read_files(PyObject *dict, nacre_given *g) {
    g->n_files = (size_t)PyDict_Size(dict);
    const char **files = PyMem_Calloc(g->n_files + 1, sizeof *files);
    const void **contents = PyMem_Calloc(g->n_files + 1, sizeof *contents);
    size_t *bytes = PyMem_Calloc(g->n_files + 1, sizeof *bytes);
    g->files = files, g->contents = contents, g->bytes = bytes;
    Py_ssize_t at = 0, size;
    PyObject *name, *value;
    if (!files || !contents || !bytes) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; PyDict_Next(dict, &at, &name, &value); i++) {
        char *p;
        files[i] = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!files[i] || PyBytes_AsStringAndSize(value, &p, &size) < 0) return false;
        contents[i] = p, bytes[i] = (size_t)size;
    }
    return true;
}

/* ---- Session(...) ---- */

static nacre_code load(nacre_env *env, const char *path, const char *bytes, size_t n, const nacre_given *given,
                       const nacre_options *o, nacre_session **out, nacre_error *err) {
    nacre_model *m;
    nacre_code code;
    if (given->n || given->n_files || (path && given->folder))
        code = nacre_model_load_given(env, path, bytes, n, given, &m, err);
    else if (path)
        code = nacre_model_load(env, path, &m, err);
    else
        code = nacre_model_load_bytes_in(env, bytes, n, given->folder, &m, err);
    return code == NACRE_OK ? nacre_session_create(env, m, o, out, err) : code;
}

static bool create(ncx_session *self, PyObject *source, const nacre_given *given, const nacre_options *o) {
    const char *path = NULL;
    char *bytes = NULL;
    Py_ssize_t n = 0;
    nacre_error err;
    nacre_code code;
    if (PyUnicode_Check(source)) {
        path = PyUnicode_AsUTF8AndSize(source, NULL);
        if (!path) return false;
    } else if (PyBytes_AsStringAndSize(source, &bytes, &n) < 0) {
        return false;
    }
    nacre_env *env = ((ncx_env *)self->env)->env;
    Py_BEGIN_ALLOW_THREADS;
    code = load(env, path, bytes, (size_t)n, given, o, &self->s, &err);
    Py_END_ALLOW_THREADS;
    if (code != NACRE_OK) ncx_raise(NCX_LOADING, &err);
    return code == NACRE_OK;
}

/* The GIL is let go while the library borrows from the dicts: copies hold what is in them. */
static PyObject *copy_dict(PyObject *dict) { return dict ? PyDict_Copy(dict) : PyDict_New(); }

/* Session(env, path or bytes, options, dims, folder, given, files, ties, notes): options, dims and ties are lists of
 * pairs, given a dict of Values by initializer, files a dict of bytes by location, notes a list of (log level, text).
 */
PyObject *ncx_session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"env", "source", "options", "dims", "folder", "given", "files", "ties", "notes", NULL};
    PyObject *env, *source, *options, *dims, *values = NULL, *files = NULL, *ties = NULL,
             *notes = NULL;
    nacre_given given = {.size = sizeof given};
    nacre_options *o = NULL;
    nacre_error err;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO!O!|zO!O!O!O!:Session", names, ncx_env_type, &env, &source,
                                     &PyList_Type, &options, &PyList_Type, &dims, &given.folder, &PyDict_Type, &values,
                                     &PyDict_Type, &files, &PyList_Type, &ties, &PyList_Type, &notes))
        return NULL;
    ncx_session *s = (ncx_session *)ncx_allocate(type);
    if (!s) return NULL;
    Py_INCREF(env);
    s->env = env;
    values = copy_dict(values), files = copy_dict(files);
    bool ok = values && files;
    if (ok && nacre_options_create(&o, &err) != NACRE_OK) {
        ncx_raise(NCX_LOADING, &err);
        ok = false;
    }
    ok = ok && set_options(o, options) && set_dims(o, dims) && (!ties || set_ties(o, ties));
    ok = ok && (!notes || tell(o, notes));
    ok = ok && read_values(values, &given) && read_files(files, &given) && create(s, source, &given, o);
    free_given(&given);
    Py_XDECREF(values);
    Py_XDECREF(files);
    nacre_options_release(o);
    if (!ok) Py_CLEAR(s);
    return (PyObject *)s;
}
