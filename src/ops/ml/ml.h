/* ops/ml/ml.h: what card and kernel of LabelEncoder share. */
#ifndef NC_OPS_ML_ML_H
#define NC_OPS_ML_ML_H

#include "ops/binding.h"
#include "ops/card.h"

/* A column of the table: elements of one type; strings are nc_str. Data may be unaligned. */
typedef struct nc_label_column {
    nc_dtype type;
    int64_t n;
    const void *data;
} nc_label_column;

/* The keys or values that the node's attributes say; false: none. Not for version 1. */
bool nc_label_list(const nc_node *n, bool values, nc_label_column *out);

#endif
