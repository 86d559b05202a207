/* ops/ml/ml.h: what cards and kernels of the ml family share. */
#ifndef NC_OPS_ML_ML_H
#define NC_OPS_ML_ML_H

#include "kernels/cpu/ml/forest.h"
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

/* Words for infer hooks of scores and labels. Output i_out: (rows of input 0, n) elements of type t. Output 0: a label
 * per row, text if the attribute `strings` is there. */
nc_code nc_ml_scores_infer(nc_infer *c, int i_out, nc_dtype t, int64_t n);
nc_code nc_ml_labels_infer(nc_infer *c, const char *strings);
int64_t nc_ml_n_labels(const nc_node *n, const char *strings, const char *ints);

/* SHAPE unless the list attribute has one element, or one for each column of input 0, its last dim. */
nc_code nc_ml_columns_expect(nc_infer *c, const char *list);

/* A classifier whose labels are the strings of an attribute: the same with numbers for labels, and their names looked
 * up. */
nc_code nc_ml_number_labels(nc_builder *b, const nc_node *n, const char *strings, const char *ints, nc_value **out);

/* The post_transform that a node names; fails on another word. */
nc_code nc_ml_post(nc_prep *p, nck_post *out);
bool nc_ml_no_strings(const nc_node *n, const char **why); /* fits: output 0 is no string tensor */

/* How a classifier of two classes with one score says both, see labels.c. */
typedef enum nc_second { NC_SECOND_NONE, NC_SECOND_REST, NC_SECOND_NEGATIVE } nc_second;

/* Scores of a row through `post` into z; one score becomes two as `second` says. Room for two at least. */
void nc_ml_write_scores(nck_post post, nc_second second, int64_t n, double *scores, float *z, int64_t n_z);

/* Rows of the family's bindings. */
nc_code nc_trees_prepare(nc_prep *p);
nc_code nc_trees_run(const nc_call *c);
size_t nc_trees_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);

nc_code nc_zip_map_prepare(nc_prep *p);
nc_code nc_zip_map(nc_dyn *d);
nc_code nc_dict_prepare(nc_prep *p);
nc_code nc_dict_vectorizer(nc_dyn *d);
nc_code nc_cast_map_prepare(nc_prep *p);
nc_code nc_cast_map(nc_dyn *d);

bool nc_one_hot_fits(const nc_node *n, const char **why);
nc_code nc_one_hot_prepare(nc_prep *p);
nc_code nc_one_hot(nc_dyn *d);

/* Why the models of classical learning have no gradient. */
#define NC_ML_NO_GRAD "models of ai.onnx.ml are trained elsewhere and only run here"

#endif
