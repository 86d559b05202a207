/* python/ext/artifacts.c: training_models(...): the training and the eval form of a model, as bytes; parameters to
 * checkpoints. */
#include "ext.h"

#include "nacre/nacre_train.h"

#include <string.h>

static nacre_code form(nacre_env *env, const char *bytes, size_t n, const char *folder, const nacre_training_form *what,
                       bool training, void **out, size_t *n_out, nacre_error *err) {
    nacre_model *m;
    nacre_code code = nacre_model_load_bytes_in(env, bytes, n, folder, &m, err);
    if (code != NACRE_OK) return code;
    code = training ? nacre_model_training(m, what, err) : nacre_model_evaluation(m, what, err);
    if (code == NACRE_OK) code = nacre_model_save_bytes(m, out, n_out, err);
    nacre_model_release(m);
    return code;
}

typedef struct blob {
    void *p;
    size_t n;
} blob;

static PyObject *both(blob *b) {
    PyObject *result = Py_BuildValue("(y#y#)", b[0].p, (Py_ssize_t)b[0].n, b[1].p, (Py_ssize_t)b[1].n);
    nacre_free(b[0].p);
    nacre_free(b[1].p);
    return result;
}

static PyObject *make(PyObject *env, const char *bytes, Py_ssize_t n, const char *folder,
                      const nacre_training_form *what) {
    blob b[2] = {{0}};
    nacre_error err;
    nacre_code code;
    Py_BEGIN_ALLOW_THREADS;
    code = form(((ncx_env *)env)->env, bytes, (size_t)n, folder, what, true, &b[0].p, &b[0].n, &err);
    if (code == NACRE_OK)
        code = form(((ncx_env *)env)->env, bytes, (size_t)n, folder, what, false, &b[1].p, &b[1].n, &err);
    Py_END_ALLOW_THREADS;
    if (code == NACRE_OK) return both(b);
    nacre_free(b[0].p);
    return ncx_raise(NCX_LOADING, &err);
}

/* training_models(env, bytes, folder, moved, trainable, standard, compute): two lists of names that nobody else
 * changes. */
PyObject *ncx_training_models(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *env, *moved, *trainable, *result = NULL;
    const char *bytes, *folder;
    Py_ssize_t n;
    nacre_training_form what = {.size = sizeof what};
    if (!PyArg_ParseTuple(args, "O!y#sO!O!pz:training_models", ncx_env_type, &env, &bytes, &n, &folder, &PyList_Type,
                          &moved, &PyList_Type, &trainable, &what.standard, &what.compute))
        return NULL;
    const char **m = ncx_read_names(moved), **t = m ? ncx_read_names(trainable) : NULL;
    what.moved = m, what.n_moved = (size_t)PyList_Size(moved);
    what.trainable = t, what.n_trainable = (size_t)PyList_Size(trainable);
    if (t) result = make(env, bytes, n, *folder ? folder : NULL, &what);
    PyMem_Free((void *)m);
    PyMem_Free((void *)t);
    return result;
}

/* ---- parameters and checkpoints ---- */

/* (name, type, trainable, a Value or the bytes of a TensorProto, or empty: nominal) */
static nacre_code add_row(nacre_checkpoint *c, PyObject *row, nacre_error *err) {
    const char *name;
    char *bytes;
    int type, trainable;
    Py_ssize_t n;
    PyObject *from;
    nacre_value *v = NULL;
    nacre_code code = NACRE_OK;
    if (!PyArg_ParseTuple(row, "sipO", &name, &type, &trainable, &from)) return NACRE_ARGUMENT;
    if (PyObject_TypeCheck(from, ncx_value_type))
        return nacre_checkpoint_add(c, name, (nacre_type)type, ((ncx_value *)from)->v, trainable, err);
    if (PyBytes_AsStringAndSize(from, &bytes, &n) < 0) return NACRE_ARGUMENT;
    if (n) code = nacre_value_from_proto(NACRE_KIND_TENSOR, bytes, (size_t)n, &v, err);
    if (code == NACRE_OK) code = nacre_checkpoint_add(c, name, (nacre_type)type, v, trainable, err);
    nacre_value_release(v);
    return code;
}

static nacre_code save(nacre_checkpoint *c, PyObject *rows, const char *path, const char *format, nacre_error *err) {
    nacre_code code = NACRE_OK;
    for (Py_ssize_t i = 0; code == NACRE_OK && i < PyList_Size(rows); i++)
        code = add_row(c, PyList_GetItem(rows, i), err);
    if (code != NACRE_OK) return code;
    Py_BEGIN_ALLOW_THREADS;
    code = nacre_checkpoint_save(c, path, format, 0, err);
    Py_END_ALLOW_THREADS;
    return code;
}

/* save_parameters(path, rows, format) */
PyObject *ncx_save_parameters(PyObject *module, PyObject *args) {
    (void)module;
    const char *path, *format;
    PyObject *rows;
    nacre_checkpoint *c;
    nacre_error err;
    if (!PyArg_ParseTuple(args, "sO!s:save_parameters", &path, &PyList_Type, &rows, &format)) return NULL;
    nacre_code code = nacre_checkpoint_create(&c, &err);
    if (code == NACRE_OK) {
        code = save(c, rows, path, format, &err);
        nacre_checkpoint_release(c);
    }
    if (code == NACRE_OK) Py_RETURN_NONE;
    return PyErr_Occurred() ? NULL : ncx_raise(NCX_RUNNING, &err);
}
