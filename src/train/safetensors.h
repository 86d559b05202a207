/* train/safetensors.h: the names that safetensors files have for element types and metadata; reader and writer share
 * them.
 *
 * A file is the length of a JSON text (8 bytes, little-endian), the text, and the tensors' bytes one behind the other.
 * Parameters are tensors under their own names. Everything else is text in `__metadata__`:
 *   format           "pt", which Hugging Face's tools ask for
 *   nacre.parameters [{"name", "dtype", "trainable", "nominal"?, "moments"?: [name of a tensor, or null]}], in order
 *   nacre.tensors    {name: {"crc32c", "dtype"?, "shape"?}}; the latter for types that safetensors has no name for:
 *                    they are tensors of U8 in the file
 *   nacre.optimizer  {"step", "initial_rate", "rate", "warmup", "total"}
 *   nacre.random     {"seed", "drawn"}
 *   nacre.properties {name: {"int"} or {"float"} or {"string"}}
 *   nacre.nominal    "true"
 *   nacre.crc32c     {key: CRC32C of its text}, for each of the above
 * Floats are texts, since JSON has no infinity. A file without this metadata holds parameters alone. */
#ifndef NC_TRAIN_SAFETENSORS_H
#define NC_TRAIN_SAFETENSORS_H

#include "base/dtype.h"

const char *nc_safetensors_name(nc_dtype t);     /* NULL: the format has no such type */
nc_dtype nc_safetensors_dtype(const char *name); /* UNDEFINED: not known here */
enum { NC_SAFETENSORS_MAX_HEADER = 100000000 };  /* as the safetensors package has it */

#endif
