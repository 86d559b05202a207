/* tools/nacre/train.h: what the files of `nacre train` share.
 *
 * Files: train.c (the command: options, artifacts, sessions), train_loop.c (epochs, metric, checkpoints), dataset.c
 * (samples for the inputs of a model), rows.c (tables of numbers in files: .npy, .npz, idx, .csv, also under gzip),
 * fresh.c (parameters drawn anew), curve.c (losses as text). */
#ifndef NACRE_CLI_TRAIN_H
#define NACRE_CLI_TRAIN_H

#include "cli.h"

#include "nacre/nacre_train.h"

/* ---- rows.c ---- */

typedef struct csv_names {
    char **v; /* of the columns; NULL: the file has no heading */
    int n;
} csv_names;
/* A tensor whose first dim counts samples, told by the file's bytes. member names the entry of an archive. names (may
 * be NULL): the columns of a .csv, for csv_names_release. NACRE_ARGUMENT: the archive has no such member. */
nacre_code rows_read(const char *path, const char *member, csv_names *names, nacre_value **out, nacre_error *err);
void csv_names_release(csv_names *names);
bool rows_is_archive(const char *path);
bool rows_is_table(const char *path); /* text: neither .npy nor idx nor an archive */

/* ---- dataset.c ---- */

enum { INPUT_MAX = 16 };
typedef struct dataset {
    size_t n_in;
    nacre_value *in[INPUT_MAX]; /* (samples, ...), of the input's type, in the order of the session's inputs */
    int64_t n;                  /* samples */
} dataset;
/* files: FILE or INPUT=FILE; scales: INPUT=NUMBER. Types and shapes are those of the training session's inputs. */
int dataset_read(const nacre_training *t, const list *files, const list *scales, dataset *out);
/* The samples named by rows as tensors of `into`, which has n_in of n samples each. */
void dataset_take(const dataset *d, const int64_t *rows, int64_t n, nacre_value *const *into);
int dataset_batch(const dataset *d, int64_t n, nacre_value **into); /* n_in new tensors of n samples each */
void dataset_release(dataset *d);
/* A fixed order of 0..n-1 for these two numbers. */
void dataset_order(int64_t *order, int64_t n, uint64_t seed, uint64_t epoch);

/* ---- fresh.c ---- */

/* The model's trainable parameters drawn anew: weights as Glorot says, scales of normalizations 1, biases 0;
 * what multiplies stays. */
int fresh_parameters(const nacre_model *m, nacre_training *t, const nacre_checkpoint *c, uint64_t seed);
uint64_t fresh_bits(uint64_t *state);

/* ---- curve.c ---- */

typedef struct curve {
    double *train, *valid; /* per update; per epoch, NAN: not measured */
    size_t n_train, n_valid, cap_train, cap_valid;
} curve;
bool curve_add(double **v, size_t *n, size_t *cap, double x);
void curve_print(const curve *c, size_t steps_of_epoch);
void curve_release(curve *c);

/* ---- train_loop.c ---- */

typedef struct train_plan {
    int epochs, batch, warmup;
    const char *schedule;
    double rate;
    uint64_t seed;
    bool in_order, resume, quiet;
    int target;             /* which input holds what is wanted; -1: not known */
    bool logits;            /* the prediction is the logarithm of odds, the target 0 or 1 */
    const char *checkpoint; /* where it is saved after every epoch */
} train_plan;
int train_loop(nacre_training *t, nacre_checkpoint *c, const dataset *train, const dataset *valid,
               const train_plan *plan);

#endif
