/* onnx/save.h: a model to ONNX bytes. Takes any graph before lowering; what ONNX cannot say (tapes, blocked layouts,
 * variables of unknown size) is refused by name.
 *
 * Variables are written as initializers with their initial value; the last version of each, where a node makes one,
 * is an extra output of the main graph under that value's name. Values get names that are unique over all graphs;
 * names of main inputs, outputs and variables are kept as they are. Random nodes carry their id as metadata. */
#ifndef NC_ONNX_SAVE_H
#define NC_ONNX_SAVE_H

#include "ir/graph.h"

/* Appends to out_bytes, which the caller releases. */
NC_MUST nc_code nc_onnx_save(nc_work *w, const nc_model *m, nc_text *out_bytes);
NC_MUST nc_code nc_onnx_save_file(nc_work *w, const nc_model *m, const char *path);

#endif
