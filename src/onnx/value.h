/* onnx/value.h: single values as ONNX stores them beside test data: a TensorProto, SequenceProto or OptionalProto to a
 * counted object. Untrusted input, checked like a model file. Maps and sparse tensors are refused by name. */
#ifndef NC_ONNX_VALUE_H
#define NC_ONNX_VALUE_H

#include "base/object.h"
#include "base/status.h"

/* The bytes do not say which message they are, so the caller does. *out is untouched on failure. */
NC_MUST nc_code nc_onnx_load_value(nc_work *w, const void *bytes, size_t n, nc_object_kind kind, nc_object **out);

#endif
