/* ir/edit_insert.c: outputs put between others: a loop that gets one more carried value has it before its scan outputs.
 * Appending is in edit.c and edit_node.c; here what was appended moves to its place. */
#include "ir/edit.h"

nc_value *nc_edit_insert_out(nc_node *n, int i, const char *name) {
    nc_value *v = nc_edit_add_out(n, name);
    if (!v) return NULL;
    for (int k = n->n_out - 1; k > i; k--) {
        n->out[k] = n->out[k - 1];
        if (n->out[k]) n->out[k]->i_def = k;
    }
    n->out[i] = v;
    v->i_def = i;
    return v;
}

nc_code nc_edit_insert_output(nc_graph *g, int i, nc_value *v, const char *name) {
    nc_code code = nc_edit_output(g, v, name);
    if (code != NC_OK) return code;
    const char *own = g->output_names.v[g->output_names.n - 1];
    for (int k = g->outputs.n - 1; k > i; k--) {
        g->outputs.v[k] = g->outputs.v[k - 1];
        g->output_names.v[k] = g->output_names.v[k - 1];
    }
    g->outputs.v[i] = v;
    g->output_names.v[i] = own;
    return NC_OK;
}
