/* train/checkpoint.h: what a training run keeps between processes: parameters, the optimizer's moments, step, rate and
 * schedule, the random state, and properties of the user's own. In memory it is this struct; in files safetensors, or
 * onnxruntime's own format (flatbuffers, "ODTC").
 *
 * Tensors are objects on the host. A training session lends their memory to its state (nc_state_lend), so that what the
 * caller reads here is what trains.
 *
 * Files: checkpoint.c (the struct), checkpoint_safetensors.c, checkpoint_ort.c, checkpoint_file.c (which format a file
 * has; written to a temporary name, synced, renamed). */
#ifndef NC_TRAIN_CHECKPOINT_H
#define NC_TRAIN_CHECKPOINT_H

#include "base/map.h"
#include "base/mem.h"
#include "base/object.h"
#include "base/status.h"

enum { NC_MOMENTS = 2 }; /* the most that an optimizer keeps of a parameter */

typedef struct nc_parameter {
    const char *name;
    nc_dtype dtype;                 /* known of a nominal one too */
    nc_object *value;               /* a tensor; NULL: nominal, its contents come from the user */
    nc_object *moments[NC_MOMENTS]; /* "momentum0", "momentum1"; NULL: none yet */
    bool trainable;
} nc_parameter;

typedef enum nc_property_kind { NC_PROPERTY_INT, NC_PROPERTY_FLOAT, NC_PROPERTY_STRING } nc_property_kind;

typedef struct nc_property {
    const char *name;
    nc_property_kind kind;
    int64_t i;
    float f;
    const char *s;
} nc_property;

/* What the optimizer goes on with. */
typedef struct nc_optimizer_state {
    bool present; /* false: the checkpoint says nothing of an optimizer */
    int64_t step; /* updates done */
    float initial_rate, rate;
    int64_t warmup, total; /* of a linear schedule; total 0: none */
} nc_optimizer_state;

typedef struct nc_checkpoint {
    nc_arena arena;                 /* names and strings */
    NC_VEC(nc_parameter) params;    /* in the order of the training model's inputs */
    nc_map names;                   /* of params: their place plus one */
    NC_VEC(nc_property) properties; /* sorted by name */
    nc_optimizer_state optimizer;
    bool nominal;
    bool has_random; /* the random state: seed and how many numbers were drawn */
    uint64_t seed, drawn;
    float loss_scale;      /* of models that compute in f16; 0: none yet */
    int64_t scale_updates; /* in a row that it served */
} nc_checkpoint;

typedef enum nc_checkpoint_format { NC_CHECKPOINT_SAFETENSORS, NC_CHECKPOINT_ORT } nc_checkpoint_format;

NC_MUST nc_code nc_checkpoint_create(nc_work *w, nc_checkpoint **out);
void nc_checkpoint_release(nc_checkpoint *c);

/* Takes the reference to `value` (NULL: nominal). ARGUMENT when the name is there already. */
NC_MUST nc_code nc_checkpoint_add(nc_work *w, nc_checkpoint *c, const char *name, nc_dtype dtype, nc_object *value,
                                  bool trainable);
nc_parameter *nc_checkpoint_find(const nc_checkpoint *c, const char *name); /* NULL: none */
/* Adds a property or replaces the one of that name; strings are copied. */
NC_MUST nc_code nc_checkpoint_set_property(nc_work *w, nc_checkpoint *c, const nc_property *p);
const nc_property *nc_checkpoint_property(const nc_checkpoint *c, const char *name); /* NULL: none */

/* The format is told by the bytes. */
NC_MUST nc_code nc_checkpoint_load(nc_work *w, const char *path, nc_checkpoint **out);
NC_MUST nc_code nc_checkpoint_load_bytes(nc_work *w, const void *bytes, size_t n, nc_checkpoint **out);
/* Without the optimizer: no moments, step, rate and schedule. The old file stays until the new one is whole. */
NC_MUST nc_code nc_checkpoint_save(nc_work *w, const nc_checkpoint *c, const char *path, nc_checkpoint_format format,
                                   bool with_optimizer);

#endif
