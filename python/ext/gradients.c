/* python/ext/gradients.c: gradients(...): a model with gradients as further outputs, as the bytes of an ONNX file. */
#include "ext.h"

#include "nacre/nacre_train.h"

const char **ncx_read_names(PyObject *list) {
    size_t n = (size_t)PyList_Size(list);
    const char **names = PyMem_Calloc(n + 1, sizeof *names);
    if (!names) PyErr_NoMemory();
    for (size_t i = 0; names && i < n; i++) {
        names[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, (Py_ssize_t)i), NULL);
        if (names[i]) continue;
        PyMem_Free((void *)names);
        return NULL;
    }
    return names;
}

static nacre_code differentiate(nacre_env *env, const char *path, const char *bytes, size_t n,
                                const nacre_gradients *what, void **out, size_t *n_out, nacre_error *err) {
    nacre_model *m;
    nacre_code code = path ? nacre_model_load(env, path, &m, err) : nacre_model_load_bytes(env, bytes, n, &m, err);
    if (code != NACRE_OK) return code;
    code = nacre_model_gradients(m, what, err);
    if (code == NACRE_OK) code = nacre_model_save_bytes(m, out, n_out, err);
    nacre_model_release(m);
    return code;
}

static PyObject *gradients_of(PyObject *env, PyObject *source, const nacre_gradients *what) {
    const char *path = PyUnicode_Check(source) ? PyUnicode_AsUTF8AndSize(source, NULL) : NULL;
    char *bytes = NULL;
    void *out = NULL;
    size_t n_out = 0;
    Py_ssize_t n = 0;
    nacre_error err;
    nacre_code code;
    if (PyErr_Occurred() || (!path && PyBytes_AsStringAndSize(source, &bytes, &n) < 0)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = differentiate(((ncx_env *)env)->env, path, bytes, (size_t)n, what, &out, &n_out, &err);
    Py_END_ALLOW_THREADS;
    if (code != NACRE_OK) return ncx_raise(NCX_LOADING, &err);
    PyObject *result = PyBytes_FromStringAndSize(out, (Py_ssize_t)n_out);
    nacre_free(out);
    return result;
}

/* gradients(env, path or bytes, ys, xs, stop, cotangents, standard): ys, xs and stop are lists of names that
 * nobody else changes. */
PyObject *ncx_gradients(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *env, *source, *ys, *xs, *stop, *result = NULL;
    nacre_gradients what = {.size = sizeof what};
    if (!PyArg_ParseTuple(args, "O!OO!O!O!pp:gradients", ncx_env_type, &env, &source, &PyList_Type, &ys, &PyList_Type,
                          &xs, &PyList_Type, &stop, &what.cotangents, &what.standard))
        return NULL;
    what.n_ys = (size_t)PyList_Size(ys), what.n_xs = (size_t)PyList_Size(xs), what.n_stop = (size_t)PyList_Size(stop);
    const char **y = ncx_read_names(ys), **x = y ? ncx_read_names(xs) : NULL, **s = x ? ncx_read_names(stop) : NULL;
    what.ys = y, what.xs = x, what.stop = s;
    if (s) result = gradients_of(env, source, &what);
    PyMem_Free((void *)y);
    PyMem_Free((void *)x);
    PyMem_Free((void *)s);
    return result;
}
