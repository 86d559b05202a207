/* python/ext/module.c: nacre._core: joins the parts, and the few functions that belong to the whole library: version,
 * log, names of passes, names and sizes of element types. */
#include "ext.h"

#include "nacre/nacre_graph.h"

static PyObject *version(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyUnicode_FromString(nacre_version());
}

static PyObject *set_log_level(PyObject *module, PyObject *level) {
    (void)module;
    long n = PyLong_AsLong(level);
    if (PyErr_Occurred()) return NULL;
    if (n < NACRE_LOG_VERBOSE || n > NACRE_LOG_OFF) {
        PyErr_Format(PyExc_ValueError, "log level: expected 0 to 4, got %ld", n);
        return NULL;
    }
    nacre_log_set_level((nacre_log_level)n);
    Py_RETURN_NONE;
}

static PyObject *log_text(PyObject *module, PyObject *args) {
    (void)module;
    int level;
    const char *text;
    if (!PyArg_ParseTuple(args, "is:log", &level, &text)) return NULL;
    nacre_log((nacre_log_level)level, text);
    Py_RETURN_NONE;
}

static PyObject *pass_names(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    const char *name, *level, *doc;
    for (size_t i = 0; list && (name = nacre_pass_name(i, &level, &doc)) != NULL; i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *type_name(PyObject *module, PyObject *type) {
    (void)module;
    long n = PyLong_AsLong(type);
    if (PyErr_Occurred()) return NULL;
    return PyUnicode_FromString(nacre_type_name((nacre_type)n));
}

static PyObject *type_bytes(PyObject *module, PyObject *type) {
    (void)module;
    long n = PyLong_AsLong(type);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromSize_t(nacre_type_bytes((nacre_type)n));
}

static PyObject *type_bits(PyObject *module, PyObject *type) {
    (void)module;
    long n = PyLong_AsLong(type);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromLong(nacre_type_bits((nacre_type)n));
}

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, "The library's version."},
    {"set_log_level", set_log_level, METH_O, "0 verbose, 1 info, 2 warning, 3 error."},
    {"log", log_text, METH_VARARGS, "log(level, text): a message as the library's own."},
    {"pass_names", pass_names, METH_NOARGS, "Names of the passes that can be disabled."},
    {"type_name", type_name, METH_O, "type_name(1) is 'float'."},
    {"type_bytes", type_bytes, METH_O, "Bytes of one element; 0: strings, packed."},
    {"type_bits", type_bits, METH_O, "Bits of one element; 0 for strings."},
    {"gradients", ncx_gradients, METH_VARARGS, "A model with gradients, as bytes."},
    {"training_models", ncx_training_models, METH_VARARGS, "The training and the eval form of a model, as bytes."},
    {"save_parameters", ncx_save_parameters, METH_VARARGS, "A checkpoint of tensors."},
    {NULL, NULL, 0, NULL}};

static int add_all(PyObject *module) {
    if (ncx_interrupt_init() < 0 || ncx_add_errors(module) < 0) return -1;
    if (ncx_add_value(module) < 0 || ncx_add_session(module) < 0 || ncx_add_stream(module) < 0) return -1;
    return ncx_add_state(module) < 0 ? -1 : ncx_add_training(module);
}

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void) {
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT, "_core", "The library behind nacre.", -1, functions, NULL, NULL, NULL, NULL};
    PyObject *module = PyModule_Create(&definition);
    if (module && add_all(module) < 0) Py_CLEAR(module);
    return module;
}
