/* kernels/cpu/ml/forest_steps.h: forests laid out for speed. A walk down a tree is a chain of loads that depend on each
 * other, so several walks go side by side, and what a walk meets next lies near: a step has 8 bytes, the two children
 * of a node lie together and so do theirs, in one line of the cache. A comparison's result is added, nothing branches;
 * a leaf leads to itself. Results are those of nck_forest_row, bit by bit.
 *
 * Only branches that order numbers are laid out so, and of trees whose places and features fit into 30 bits; other
 * forests stay as they are. */
#ifndef NCK_FOREST_STEPS_H
#define NCK_FOREST_STEPS_H

#include "kernels/cpu/ml/forest.h"

/* A step leads to place `next` of its tree, or to the one behind if x[feature] > at, or if that is NaN and NCK_STEP_NAN
 * is set. The word holds NCK_STEP_* (neither: a leaf), then the feature, then next. */
enum { NCK_STEP_MORE = 1, NCK_STEP_NAN = 2, NCK_STEP_BRANCH = 3, NCK_STEP_FEATURE = 2 /* bits before it */ };
enum { NCK_STEP_LINE = 8 /* steps that are placed together */, NCK_STEP_NO_VOTE = -1 };
typedef struct nck_step_f32 {
    union {
        float at; /* of a leaf of a plain forest: its weight */
        int32_t vote;
    };
    uint32_t word;
} nck_step_f32;
typedef struct nck_step_f64 {
    union {
        double at;
        int32_t vote;
    };
    uint32_t word;
} nck_step_f64;

typedef struct nck_step_vote {
    double weight;
    int32_t target;
    bool last; /* of its leaf's */
} nck_step_vote;

typedef struct nck_steps {
    const nck_step_f32 *f32; /* of inputs that are not double */
    const nck_step_f64 *f64;
    const uint32_t *roots;
    const nck_step_vote *votes;
    int64_t n_roots, n_targets;
    nck_gather gather;
    bool plain; /* sums; each leaf has one vote, all are for target 0 */
    uint32_t feature_mask, next_shift;
} nck_steps;

/* What laying out needs, of the caller's memory. */
typedef struct nck_steps_room {
    void *steps;          /* nck_steps_most of them, on a line of the cache; their size is that of `wide` */
    uint32_t *roots;      /* f->n_roots */
    nck_step_vote *votes; /* as many as f has */
    uint32_t *scratch;    /* 3 n, zeroed */
} nck_steps_room;

/* How many steps the n nodes of f may become; 0: they cannot be laid out so. */
int64_t nck_steps_most(const nck_forest *f, int64_t n);
/* f, of n nodes and n_votes votes, none shared by leaves, as s, whose steps are f64 if wide. How many steps were used;
 * 0: it cannot be laid out so. */
int64_t nck_steps_fill(const nck_forest *f, int64_t n, int64_t n_votes, bool wide, const nck_steps_room *room,
                       nck_steps *s);

/* x (rows, features) of float, double, int32 or int64, features > 0: the scores of rows first to first + n, each
 * `stride` behind the last, and which of them got a vote. */
void nck_steps_rows(const nck_steps *s, const nc_tensor *x, int64_t first, int64_t n, double *scores, bool *voted,
                    int64_t stride);
/* The leaf of each tree from t0 to t1 for each row of x: leaves (rows, trees). Then the scores of a row whose leaves
 * are all known. */
void nck_steps_leaves(const nck_steps *s, const nc_tensor *x, int64_t t0, int64_t t1, uint32_t *leaves);
void nck_steps_collect(const nck_steps *s, const nc_tensor *x, const uint32_t *leaves, double *scores, bool *voted);

#endif
