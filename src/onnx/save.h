/* onnx/save.h: a model to ONNX bytes, or to a file of onnxruntime's own format (ort_format.h). Takes any graph
 * before lowering; what ONNX cannot say (tapes, blocked layouts, variables of unknown size) is refused by name.
 *
 * Variables are written as initializers with their initial value; the last version of each, where a node makes one,
 * is an extra output of the main graph under that value's name. Values get names that are unique over all graphs;
 * names of main inputs, outputs and variables are kept as they are. Random nodes carry their id as metadata. A node
 * of another version than the model imports (it came out of a function) goes into a function of its own. */
#ifndef NC_ONNX_SAVE_H
#define NC_ONNX_SAVE_H

#include "ir/graph.h"

/* Appends to out_bytes, which the caller releases. */
NC_MUST nc_code nc_onnx_save(nc_work *w, const nc_model *m, nc_text *out_bytes);

typedef enum nc_model_format { NC_FORMAT_BY_NAME, NC_FORMAT_ONNX, NC_FORMAT_ORT } nc_model_format;

typedef struct nc_onnx_save_options {
    const char *data_name;  /* file beside the model that takes the data of large constants; NULL: all stay inside if
                            * the model's file gets no larger than max_file, else it is the model's name with .data */
    size_t min_bytes;       /* constants of so many bytes and more are large */
    size_t max_file;        /* the model's own file may not be larger; 0: 2 GiB, where other readers stop */
    nc_model_format format; /* BY_NAME: onnxruntime's where the path ends in .ort, which has no external data */
} nc_onnx_save_options;

/* NULL options: all zero. With data_name that file is written first; both appear whole or not at all. */
NC_MUST nc_code nc_onnx_save_file(nc_work *w, const nc_model *m, const char *path, const nc_onnx_save_options *o);

#endif
