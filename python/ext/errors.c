/* python/ext/errors.c: the library's codes as exception classes with onnxruntime's names. Each carries the code's name,
 * the node, the operator and the text as attributes, beside the sentence. Out of memory is a RuntimeException, as
 * there, and a MemoryError too. */
#include "ext.h"

#include <stdio.h>
#include <string.h>

/* X(class, onnxruntime's number, its name in messages). */
#define NCX_ERRORS(X)                                             \
    X(Fail, 1, "FAIL")                                            \
    X(InvalidArgument, 2, "INVALID_ARGUMENT")                     \
    X(NoSuchFile, 3, "NO_SUCHFILE")                               \
    X(NoModel, 4, "NO_MODEL")                                     \
    X(EngineError, 5, "ENGINE_ERROR")                             \
    X(RuntimeException, 6, "RUNTIME_EXCEPTION")                   \
    X(InvalidProtobuf, 7, "INVALID_PROTOBUF")                     \
    X(ModelLoaded, 8, "MODEL_LOADED")                             \
    X(NotImplemented, 9, "NOT_IMPLEMENTED")                       \
    X(InvalidGraph, 10, "INVALID_GRAPH")                          \
    X(EPFail, 11, "EP_FAIL")                                      \
    X(ModelLoadCanceled, 12, "MODEL_LOAD_CANCELED")               \
    X(ModelRequiresCompilation, 13, "MODEL_REQUIRES_COMPILATION") \
    X(NotFound, 14, "NOT_FOUND")                                  \
    X(DeviceReset, 15, "DEVICE_RESET")

typedef enum error_kind {
#define X(name, number, text) ERROR_##name = number,
    NCX_ERRORS(X)
#undef X
        N_ERRORS
} error_kind;

static const struct {
    const char *name, *full, *text;
} rows[N_ERRORS] = {
#define X(name, number, text) [number] = {#name, "nacre.capi.onnxruntime_pybind11_state." #name, text},
    NCX_ERRORS(X)
#undef X
};
static PyObject *classes[N_ERRORS], *out_of_memory;

int ncx_add_errors(PyObject *module) {
    for (int i = 1; i < N_ERRORS; i++) {
        if (!classes[i]) classes[i] = PyErr_NewException(rows[i].full, PyExc_Exception, NULL);
        if (!classes[i]) return -1;
        Py_INCREF(classes[i]);
        if (PyModule_AddObject(module, rows[i].name, classes[i]) < 0) {
            Py_DECREF(classes[i]);
            return -1;
        }
    }
    PyObject *bases = out_of_memory ? NULL : PyTuple_Pack(2, classes[ERROR_RuntimeException], PyExc_MemoryError);
    if (bases) out_of_memory = PyErr_NewException("nacre.capi.onnxruntime_pybind11_state.OutOfMemory", bases, NULL);
    Py_XDECREF(bases);
    if (!out_of_memory) return -1;
    Py_INCREF(out_of_memory);
    if (PyModule_AddObject(module, "OutOfMemory", out_of_memory) == 0) return 0;
    Py_DECREF(out_of_memory);
    return -1;
}

static error_kind kind_of(ncx_when when, nacre_code code) {
    switch (code) {
    case NACRE_ARGUMENT: return ERROR_InvalidArgument;
    case NACRE_NO_FILE: return ERROR_NoSuchFile;
    case NACRE_BAD_MODEL: return ERROR_InvalidProtobuf;
    case NACRE_BAD_GRAPH: return ERROR_InvalidGraph;
    case NACRE_SHAPE: return when == NCX_LOADING ? ERROR_Fail : ERROR_InvalidArgument;
    case NACRE_TYPE:
    case NACRE_DATA: return when == NCX_LOADING ? ERROR_InvalidGraph : ERROR_InvalidArgument;
    case NACRE_UNSUPPORTED: return ERROR_NotImplemented;
    case NACRE_MEMORY:
    case NACRE_STATE: return ERROR_RuntimeException;
    case NACRE_DEVICE: return ERROR_EPFail;
    case NACRE_OK:
    case NACRE_FAIL:
    case NACRE_LIMIT:
    case NACRE_NO_OP:
    case NACRE_CANCELLED:
    case NACRE_IO: break;
    }
    return ERROR_Fail;
}

static int set_text(PyObject *e, const char *name, const char *text) {
    PyObject *s = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    int rc = s ? PyObject_SetAttrString(e, name, s) : -1;
    Py_XDECREF(s);
    return rc;
}

PyObject *ncx_raise(ncx_when when, const nacre_error *e) {
    error_kind k = kind_of(when, e->code);
    PyObject *class = e->code == NACRE_MEMORY ? out_of_memory : classes[k];
    char text[800], place[200] = "";
    if (e->node[0]) snprintf(place, sizeof place, "%s '%s': ", e->op[0] ? e->op : "node", e->node);
    snprintf(text, sizeof text, "[NacreError] : %d : %s : %s%s", (int)k, rows[k].text, place, e->text);
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *x = message ? PyObject_CallFunctionObjArgs(class, message, NULL) : NULL;
    Py_XDECREF(message);
    if (!x) return NULL;
    if (set_text(x, "code", nacre_code_name(e->code)) == 0 && set_text(x, "node", e->node) == 0 &&
        set_text(x, "op", e->op) == 0 && set_text(x, "text", e->text) == 0)
        PyErr_SetObject(class, x);
    Py_DECREF(x);
    return NULL;
}
