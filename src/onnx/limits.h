/* onnx/limits.h: how large a model file may be in every direction that its bytes alone do not bound. Beyond one of
 * these loading fails with LIMIT and names the place. */
#ifndef NC_ONNX_LIMITS_H
#define NC_ONNX_LIMITS_H

#define NC_ONNX_MAX_DEPTH 64         /* graphs in graphs; types in types */
#define NC_ONNX_MAX_NODES 10000000   /* in all graphs of a model */
#define NC_ONNX_MAX_VALUES 10000000  /* inputs, constants and node outputs in all graphs */
#define NC_ONNX_MAX_NAME 8192        /* bytes of a name; doc strings and data are not names */
#define NC_ONNX_MAX_ATTRS 1024       /* of one node */
#define NC_ONNX_MAX_CALLS 32         /* functions calling functions */
/* Memory that loading takes beyond the file itself: this much, and so many bytes for each of the file's. Functions and
 * sparse tensors can say much in few bytes; this is what stops them. */
#define NC_ONNX_MAX_BYTES ((size_t)1 << 28)
#define NC_ONNX_MAX_GROWTH 64
#define NC_ONNX_MAX_FILE (((size_t)1 << 31) - 1) /* of a saved file without external data: other readers stop there */

#endif
