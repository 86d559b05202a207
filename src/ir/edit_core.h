/* ir/edit_core.h: what the files of ir/edit.h share; private to ir/. Functions that return NULL or false ran out
 * of memory and left the graph valid. */
#ifndef NC_IR_EDIT_CORE_H
#define NC_IR_EDIT_CORE_H

#include "ir/edit.h"

/* Room that an operand or output array of n entries has: arrays are regrown when n passes it. */
int nc_edit_room(int n);
nc_graph *nc_edit_new_graph(nc_model *m, nc_node *owner, const char *name);
/* A value that belongs to g but stands in none of its lists yet. name is copied; NULL: made up from the id. */
nc_value *nc_edit_new_value(nc_graph *g, nc_origin origin, const char *name, const nc_type *type);
bool nc_edit_add_use(nc_value *v, nc_node *n, int i);
void nc_edit_drop_use(nc_value *v, const nc_node *n, int i);
bool nc_edit_keep(nc_model *m, nc_buffer *b);                               /* b lives as long as m; NULL is fine */
const nc_literal *nc_edit_copy_literal(nc_model *m, const nc_literal *lit); /* data by reference */
bool nc_edit_copy_attr(nc_model *m, const nc_attr *from, nc_attr *to);      /* deep, all but subgraphs */
void nc_edit_link(nc_graph *g, nc_node *before, nc_node *n);                /* into the list of nodes */
void nc_edit_unlink(nc_node *n);

#endif
