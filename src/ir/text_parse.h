/* ir/text_parse.h: what text_parse.c and text_attr.c share; private to ir/. */
#ifndef NC_IR_TEXT_PARSE_H
#define NC_IR_TEXT_PARSE_H

#include "ir/card.h"
#include "ir/edit.h"
#include "ir/text_core.h"

typedef struct nc_text_version {
    nc_variable *var;
    const char *name, *at; /* of its newest version, and where that is written */
} nc_text_version;

/* The names of one graph while it is read. */
typedef struct nc_text_scope {
    nc_graph *g;
    const struct nc_text_scope *up;
    nc_map names;
    NC_VEC(nc_text_version) versions;
} nc_text_scope;

NC_MUST nc_code nc_read_graph(nc_reader *r, nc_graph *g, const nc_text_scope *up);
NC_MUST nc_code nc_read_attrs(nc_reader *r, const nc_text_scope *s, nc_node *n); /* < ... > */

#endif
