/* onnx/saver.h: what the files of the saver share: save.c (model), save_names.c, save_graph.c, save_value.c. Nobody
 * else includes it. */
#ifndef NC_ONNX_SAVER_H
#define NC_ONNX_SAVER_H

#include "ir/card.h"
#include "onnx/limits.h"
#include "onnx/proto.h"

typedef struct nc_saver {
    nc_work *w;
    const nc_model *m;
    nc_text *out;
    const char **names; /* of values, by id; NULL: not named yet */
    nc_map used;        /* every name given */
    nc_map outputs;     /* names of main outputs: kept free for them */
    nc_opset *opsets;   /* what will be imported */
    int n_opsets;
    bool random; /* some node carries a random id */
} nc_saver;

/* Names every value of the model; captures have the name of what they capture. */
NC_MUST nc_code nc_save_name_all(nc_saver *s);
/* A name near `wish` that nothing has; booked. NULL: out of memory. */
const char *nc_save_new_name(nc_saver *s, const char *wish);

NC_MUST nc_code nc_save_graph(nc_saver *s, const nc_graph *g, uint32_t number, int depth);
NC_MUST nc_code nc_save_tensor(nc_saver *s, uint32_t number, const char *name, const nc_literal *lit);
NC_MUST nc_code nc_save_type(nc_saver *s, uint32_t number, const char *name, const nc_type *t);
NC_MUST nc_code nc_save_value_info(nc_saver *s, uint32_t number, const char *name, const nc_type *t);
NC_MUST nc_code nc_save_attr(nc_saver *s, const nc_node *n, const nc_attr *a, int depth);
bool nc_save_can_say(const nc_type *t); /* has ONNX words for it? */

#endif
