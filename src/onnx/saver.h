/* onnx/saver.h: what the files of the saver share: save.c (model), save_names.c, save_graph.c, save_node.c,
 * save_value.c. Nobody else includes it. */
#ifndef NC_ONNX_SAVER_H
#define NC_ONNX_SAVER_H

#include "base/file.h"
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
    bool random;          /* some node carries a random id */
    nc_file_writer *data; /* takes the data of large constants, or NULL */
    const char *data_name;
    size_t min_bytes;
    size_t max_file;
    bool too_large;      /* that is why it failed */
    uint64_t bytes_data; /* in data so far */
    bool any_odd;
    NC_VEC(const nc_node *) odd; /* nodes of another version than what is imported: each in a function of its own */
} nc_saver;

/* Names every value of the model; captures have the name of what they capture. */
NC_MUST nc_code nc_save_name_all(nc_saver *s);
/* A name near `wish` that nothing has; booked. NULL: out of memory. */
const char *nc_save_new_name(nc_saver *s, const char *wish);

NC_MUST nc_code nc_save_graph(nc_saver *s, const nc_graph *g, uint32_t number, int depth);
NC_MUST nc_code nc_save_tensor(nc_saver *s, uint32_t number, const char *name, const nc_literal *lit);
NC_MUST nc_code nc_save_type(nc_saver *s, uint32_t number, const char *name, const nc_type *t);
NC_MUST nc_code nc_save_value_info(nc_saver *s, uint32_t number, const char *name, const nc_type *t, nc_str extra);
NC_MUST nc_code nc_save_node(nc_saver *s, const nc_node *n, int depth);
void nc_save_identity(nc_saver *s, const char *from, const char *to);
nc_code nc_save_too_large(nc_saver *s);        /* fails */
void nc_save_extra(nc_saver *s, nc_str extra); /* fields as they were read */
const nc_opset *nc_save_opset_of(const nc_saver *s, const nc_node *n);
NC_MUST nc_code nc_save_odd_nodes(nc_saver *s); /* their functions */
bool nc_save_can_say(const nc_type *t);         /* has ONNX words for it? */

#endif
