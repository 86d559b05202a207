/* train/safetensors.c: element types as safetensors calls them. */
#include "train/safetensors.h"

#include <string.h>

static const struct {
    nc_dtype dtype;
    const char *name;
} rows[] = {
    {NC_BOOL, "BOOL"},          {NC_UINT8, "U8"},      {NC_INT8, "I8"},
    {NC_FLOAT8E5M2, "F8_E5M2"}, {NC_INT16, "I16"},     {NC_FLOAT8E4M3FN, "F8_E4M3"},
    {NC_FLOAT8E8M0, "F8_E8M0"}, {NC_UINT16, "U16"},    {NC_FLOAT16, "F16"},
    {NC_BFLOAT16, "BF16"},      {NC_INT32, "I32"},     {NC_UINT32, "U32"},
    {NC_FLOAT, "F32"},          {NC_DOUBLE, "F64"},    {NC_INT64, "I64"},
    {NC_UINT64, "U64"},         {NC_COMPLEX64, "C64"},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

const char *nc_safetensors_name(nc_dtype t) {
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].dtype == t) return rows[i].name;
    return NULL;
}

nc_dtype nc_safetensors_dtype(const char *name) {
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].dtype;
    return NC_UNDEFINED;
}
