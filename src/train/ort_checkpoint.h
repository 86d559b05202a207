/* train/ort_checkpoint.h: the fields of onnxruntime's checkpoints, by their numbers in its schema; reader and writer
 * share them. Version 2 is the only one that onnxruntime reads. What the schema has no place for goes where onnxruntime
 * does not mind it: a tensor's CRC32C into its doc_string, the rate, the schedule and the random state into properties
 * whose names begin with "nacre.". */
#ifndef NC_TRAIN_ORT_CHECKPOINT_H
#define NC_TRAIN_ORT_CHECKPOINT_H

#include "onnx/ort_format.h" /* the fields of tensors */

#define NC_ORT_CHECKPOINT "ODTC"
#define NC_ORT_CRC "crc32c:"
enum { NC_ORT_VERSION = 2, NC_ORT_LAST_DTYPE = 20, NC_ORT_EXTERNAL_MIN = 64 };

#define FIELD(table, name, id) \
    static const nc_flat_field nc_ort_##table##_##name __attribute__((unused)) = {id, #table "." #name};
FIELD(checkpoint, version, 0)
FIELD(checkpoint, module_state, 1)
FIELD(checkpoint, optimizer_groups, 2)
FIELD(checkpoint, property_bag, 3)
FIELD(module_state, requires_grad_params, 0)
FIELD(module_state, frozen_params, 1)
FIELD(module_state, is_nominal_state, 2)
FIELD(module_state, has_external_data, 3)
FIELD(group, group_name, 0)
FIELD(group, step, 1)
FIELD(group, initial_learning_rate, 2)
FIELD(group, optimizer_states, 3)
FIELD(optimizer_state, param_name, 0)
FIELD(optimizer_state, momentums, 1)
FIELD(property_bag, ints, 0)
FIELD(property_bag, floats, 1)
FIELD(property_bag, strings, 2)
FIELD(property, name, 0)
FIELD(property, value, 1)
#undef FIELD

/* Properties of our own. */
#define NC_ORT_OWN "nacre."
#define NC_ORT_RATE NC_ORT_OWN "rate"
#define NC_ORT_WARMUP NC_ORT_OWN "warmup"
#define NC_ORT_TOTAL NC_ORT_OWN "total"
#define NC_ORT_SEED NC_ORT_OWN "seed"
#define NC_ORT_DRAWN NC_ORT_OWN "drawn"
#define NC_ORT_SCALE NC_ORT_OWN "loss_scale"
#define NC_ORT_SCALE_UPDATES NC_ORT_OWN "loss_scale_updates"

#endif
