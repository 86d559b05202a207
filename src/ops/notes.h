/* ops/notes.h: how a node is understood where files differ in what they mean (docs/exporters.md), for
 * `nacre explain`. */
#ifndef NC_OPS_NOTES_H
#define NC_OPS_NOTES_H

#include "ir/graph.h"

const char *nc_op_note(const nc_node *n); /* NULL: there is one reading */

#endif
