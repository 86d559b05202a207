/* kernels/cpu/ml/forest.h: sums of decision trees, and what ai.onnx.ml does with scores afterwards. Trees are arrays of
 * nodes, checked by who builds them: children exist and no path comes back. */
#ifndef NCK_FOREST_H
#define NCK_FOREST_H

#include "base/shape.h"
#include "base/threads.h"

typedef enum nck_branch {
    NCK_BRANCH_LEQ,
    NCK_BRANCH_LT,
    NCK_BRANCH_GTE,
    NCK_BRANCH_GT,
    NCK_BRANCH_EQ,
    NCK_BRANCH_NEQ,
    NCK_BRANCH_MEMBER,
    NCK_BRANCH_LEAF
} nck_branch;

typedef struct nck_tree_node {
    double at;         /* what the feature is compared with */
    int64_t feature;   /* LEAF: the first of its votes */
    int64_t yes, no;   /* LEAF: yes is how many votes */
    int64_t set, size; /* MEMBER: the set lies at members[set], size elements */
    nck_branch mode;
    bool nan_is_yes;
} nck_tree_node;

typedef struct nck_vote {
    int64_t target;
    double weight;
} nck_vote;

typedef enum nck_gather { NCK_GATHER_AVERAGE, NCK_GATHER_SUM, NCK_GATHER_MIN, NCK_GATHER_MAX } nck_gather;

typedef struct nck_forest {
    const nck_tree_node *nodes;
    const int64_t *roots;
    const nck_vote *votes;
    const double *members;
    int64_t n_roots, n_targets;
    nck_gather gather;
} nck_forest;

static inline double nck_gathered(nck_gather how, double a, double b, bool single) {
    if (how == NCK_GATHER_MIN) return a < b ? a : b;
    if (how == NCK_GATHER_MAX) return a > b ? a : b;
    return single ? (double)((float)a + (float)b) : a + b;
}

/* The scores of row i of x (rows, features): n_targets numbers, and which of them got a vote at all. Sums are kept in
 * float unless x is double, in the order of the trees. */
void nck_forest_row(const nck_forest *f, const nc_tensor *x, int64_t i, double *scores, bool *voted);

typedef enum nck_post {
    NCK_POST_NONE,
    NCK_POST_SOFTMAX,
    NCK_POST_LOGISTIC,
    NCK_POST_SOFTMAX_ZERO,
    NCK_POST_PROBIT
} nck_post;

double nck_post_logistic(double x);
double nck_post_probit(double x);
/* n scores in place; one alone is changed by PROBIT and LOGISTIC only. */
void nck_post_row(nck_post post, int64_t n, double *scores);

/* Element i of x, of any type that ai.onnx.ml takes. */
double nck_ml_get(const nc_tensor *x, int64_t i);

#endif
