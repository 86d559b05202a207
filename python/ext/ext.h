/* python/ext/ext.h: what the files of nacre._core share. The extension is CPython's limited API (3.10) over
 * include/nacre alone: it turns handles into Python objects, lends memory both ways and lets go of the GIL while the
 * library works. Names, defaults and conversions that need no C are in python/nacre. */
#ifndef NCX_EXT_H
#define NCX_EXT_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "nacre/nacre.h"

#include <stdbool.h>

/* A handle of the library in a Python object. Types with a session or a value inside use the same layout. */
typedef struct ncx_value {
    PyObject ob_base;
    nacre_value *v;
    bool writable;
} ncx_value;

typedef struct ncx_env {
    PyObject ob_base;
    nacre_env *env;
} ncx_env;

typedef struct ncx_session {
    PyObject ob_base;
    nacre_session *s;
    PyObject *env;
    PyObject *stream; /* of the caller's, on which it runs; NULL: its own */
} ncx_session;

typedef struct ncx_stream {
    PyObject ob_base;
    nacre_stream *s;
    PyObject *owner; /* what keeps a stream that is wrapped alive; may be NULL */
} ncx_stream;

typedef struct ncx_run_options {
    PyObject ob_base;
    nacre_run_options *r;
    bool terminate;
    int log_level;    /* -1: as the session has it */
    PyObject *log_id; /* NULL: as the session has it */
} ncx_run_options;

typedef struct ncx_state {
    PyObject ob_base;
    nacre_state *st;
} ncx_state;

extern PyTypeObject *ncx_value_type, *ncx_env_type, *ncx_session_type, *ncx_run_options_type, *ncx_state_type,
    *ncx_stream_type;

/* ---- errors.c ---- */

/* Where a call failed: a wrong type or shape is the graph's fault while loading, the argument's while running. */
typedef enum ncx_when { NCX_LOADING, NCX_RUNNING } ncx_when;

int ncx_add_errors(PyObject *module);
PyObject *ncx_raise(ncx_when when, const nacre_error *e); /* sets the exception that fits; always NULL */

/* ---- value.c ---- */

int ncx_add_value(PyObject *module);
PyObject *ncx_value_wrap(nacre_value *takes, bool writable); /* a new Value; NULL: takes is released */
nacre_value *ncx_value_of(PyObject *o);                      /* borrowed; NULL with TypeError when o is no Value */
PyObject *ncx_shape(const int64_t *dims, int rank);
bool ncx_read_shape(PyObject *shape, int *rank, int64_t dims[NACRE_MAX_RANK]);
void ncx_let_go(void *object); /* drops a reference from any thread, with or without the GIL */

/* ---- array.c: numpy's __array_struct__, both ways ---- */

PyObject *ncx_array_struct(PyObject *self, void *unused);
PyObject *ncx_from_array(PyObject *module, PyObject *o);
/* A new tensor over o's memory, and whether that may be written; 0: it cannot be used as it lies, -1: an exception. */
int ncx_borrow_array(PyObject *o, nacre_value **v, bool *writable);
bool ncx_is_plain(nacre_type type); /* numpy has it without ml_dtypes */

/* ---- dlpack.c ---- */

PyObject *ncx_to_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *ncx_dlpack_device(PyObject *self, PyObject *unused);
PyObject *ncx_from_dlpack(PyObject *module, PyObject *args);
PyObject *ncx_dlpack_type(PyObject *module, PyObject *capsule);

/* ---- session.c ---- */

int ncx_add_session(PyObject *module);
PyObject *ncx_allocate(PyTypeObject *type); /* an object of zeros */

/* ---- run.c ---- */

PyObject *ncx_session_run(PyObject *self, PyObject *args);
PyObject *ncx_session_run_arrays(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *ncx_set_converters(PyObject *module, PyObject *args);

/* ---- stream.c ---- */

int ncx_add_stream(PyObject *module);

/* ---- state.c ---- */

int ncx_add_state(PyObject *module);
PyObject *ncx_state_wrap(nacre_state *takes); /* a new State; NULL: takes is released */

/* ---- load.c ---- */

PyObject *ncx_session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* ---- gradients.c ---- */

/* The list's texts, which live as long as it does; NULL: an exception is set. PyMem_Free. */
const char **ncx_read_names(PyObject *list);
PyObject *ncx_gradients(PyObject *module, PyObject *args);

/* ---- training.c ---- */

int ncx_add_training(PyObject *module);

/* ---- artifacts.c ---- */

PyObject *ncx_training_models(PyObject *module, PyObject *args);
PyObject *ncx_save_parameters(PyObject *module, PyObject *args);

/* ---- interrupt.c: Ctrl-C stops the run that the main thread waits for ---- */

typedef struct ncx_guard {
    bool on;
    nacre_run_options *outer;
    int interrupted_outer;
} ncx_guard;

int ncx_interrupt_init(void);
void ncx_guard_begin(ncx_guard *g, nacre_run_options *r); /* with the GIL held, before it is let go */
bool ncx_guard_end(ncx_guard *g);                         /* true: SIGINT came and cancelled r */

#endif
