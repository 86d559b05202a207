/* ir/told.h: the type of an input or output that people and files are told: the one that the model declares, where runs
 * decide about the rank or know only the dense form of a sparse tensor. */
#ifndef NC_IR_TOLD_H
#define NC_IR_TOLD_H

#include "ir/graph.h"

static inline const nc_type *nc_value_said(const nc_value *v) {
    bool sparse = v->declared && v->declared->kind == NC_T_SPARSE;
    return sparse ? v->declared : nc_value_told(v);
}

#endif
