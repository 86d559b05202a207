/* tools/nacre/cli.h: what the commands share. A command is one file with one function; the table is in main.c.
 *
 * Files: args.c (arguments), open.c (environment, session, Ctrl-C), feed.c (inputs from files or random), npy.c, npz.c
 * and inflate.c (NumPy's files), show.c (values as text), diff.c (two values compared), table.c (columns, sizes),
 * progress.c. Those of `nacre train` are told in train.h. */
#ifndef NACRE_CLI_H
#define NACRE_CLI_H

#include "nacre/nacre.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Exit codes: 0 done; 1 the model, a file or the run failed; 2 wrong usage; 3 results differ (check); 130 Ctrl-C. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DIFFERS = 3, EXIT_CANCELLED = 130 };

int cmd_run(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_optimize(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_gradients(int argc, char **argv);
int cmd_artifacts(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_explain(int argc, char **argv);

/* Prints "nacre: Op 'node': text [CODE]" to standard error; returns EXIT_FAILED, or EXIT_CANCELLED. */
int cli_error(const nacre_error *err);
int cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int cli_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* EXIT_FAILED */
nacre_code file_error(nacre_error *err, nacre_code code, const char *path, const char *text);

/* ---- args.c ---- */

enum { LIST_MAX = 64 };
typedef struct list {
    const char *v[LIST_MAX];
    int n;
} list;
bool list_add(list *l, const char *s); /* false: full */
/* The text behind "name=" in a list of NAME=VALUE; NULL: none. */
const char *list_value(const list *l, const char *name);

typedef enum arg_kind { ARG_FLAG, ARG_TEXT, ARG_INT, ARG_NUMBER, ARG_LIST } arg_kind;
typedef struct arg {
    const char *name; /* "--dim"; NULL ends the table; "" takes what has no dash, in order */
    arg_kind kind;
    void *to; /* bool, const char *, int, double, list */
    int low;  /* of an INT: the least allowed */
} arg;
/* Fills the targets. --help prints help and returns -1: leave with EXIT_DONE. Else EXIT_DONE or EXIT_USAGE. */
int args_parse(const char *command, const char *help, int argc, char **argv, const arg *known);

/* ---- open.c: what every command that opens a session takes; COMMON_ARGS: and one that runs it ---- */

typedef struct common {
    const char *model, *device;
    list sets, plugins, inputs, dims;
    int threads;
    bool half; /* float inputs are rounded to float16 */
    bool strict;
} common;
#define SESSION_ARGS(c)                                                                                                \
    {"--device", ARG_TEXT, &(c).device, 0}, {"--set", ARG_LIST, &(c).sets, 0}, {"--strict", ARG_FLAG, &(c).strict, 0}, \
        {"--plugin", ARG_LIST, &(c).plugins, 0}, {                                                                     \
        "--threads", ARG_INT, &(c).threads, 0                                                                          \
    }
#define COMMON_ARGS(c) \
    SESSION_ARGS(c), {"--input", ARG_LIST, &(c).inputs, 0}, { "--dim", ARG_LIST, &(c).dims, 0 }
#define COMMON_HELP                                                                                              \
    "  --device NAME        cpu (default), guard, cuda, cuda:1\n"                                                \
    "  --threads N          0: as many as the machine allows (default)\n"                                        \
    "  --set KEY=VALUE      a session option: level, fusion, layouts, views, packing, winograd, capture, seed, " \
    "disable,\n"                                                                                                 \
    "                       memory_limit, streams, stream, tf32, compute, strict, packed_file\n"                 \
    "  --strict             refuse what is otherwise assumed of a model that is wrong or says too little\n"      \
    "  --plugin FILE.so     load custom operators\n"
#define FEED_HELP                                                                                                     \
    "  --input NAME=FILE    an input from FILE.npy, FILE.npz (its member NAME), FILE.pb (TensorProto) or raw bytes\n" \
    "  --input FILE.npz     every input of that name in the archive\n"                                                \
    "  --dim NAME=N         size of a free dim of random inputs (default 1)\n"

typedef struct opened {
    nacre_env *env;
    nacre_session *session;
} opened;
/* more: further KEY=VALUE options, tried after those of --set; NULL ends. A NULL model in c is refused by name. */
int open_env(const char *command, const common *c, nacre_env **out);
int open_model(const char *command, const common *c, nacre_env *env, nacre_model **out);
int open_session(const char *command, const common *c, nacre_env *env, nacre_model *takes, const char *const *more,
                 const list *more_sets, nacre_session **out);
int open_all(const char *command, const common *c, const char *const *more, opened *out);
void open_close(opened *o);
/* Run options that Ctrl-C cancels; a second Ctrl-C ends the process. */
int cancel_options(nacre_run_options **out);
void cancel_release(nacre_run_options *r);

/* ---- feed.c ---- */

typedef struct feed {
    size_t n_in, n_out;
    const char **in_names, **out_names;
    nacre_value **in, **out;
} feed;
int feed_make(const char *command, const common *c, nacre_session *s, feed *f);
int feed_run(nacre_session *s, nacre_run_options *r, feed *f); /* outputs of the run before are released */
void feed_release(feed *f);
/* One value from a file, by its ending. member names the entry of an archive. type and dims are those of raw bytes. */
nacre_code value_read(const char *path, const char *member, nacre_kind kind, nacre_type type, int rank,
                      const int64_t *dims, nacre_value **out, nacre_error *err);
void value_round_to_half(nacre_value *v); /* a float tensor in place; others stay */
nacre_code bytes_read(const char *path, unsigned char **out, size_t *n, nacre_error *err); /* free */

/* ---- write.c ---- */

typedef struct file_piece {
    const void *p;
    size_t bytes;
} file_piece;
/* The pieces one after the other, under a name of their own until all are there: path is whole or as it was. */
nacre_code file_write(const char *path, const file_piece *pieces, int n, nacre_error *err);

/* ---- npy.c, npz.c, inflate.c ---- */

nacre_code npy_parse(const char *path, const unsigned char *bytes, size_t n, nacre_value **out, nacre_error *err);
nacre_code npy_write(const char *path, nacre_value *v, nacre_error *err);
/* One member ("x" or "x.npy") of the archive; NACRE_ARGUMENT: it has none of that name. */
nacre_code npz_read(const char *path, const char *member, nacre_value **out, nacre_error *err);
/* Raw DEFLATE (RFC 1951) of exactly n_out bytes; false: broken, or another size. */
bool inflate_bytes(const unsigned char *in, size_t n_in, unsigned char *out, size_t n_out);
unsigned bytes_crc32(const unsigned char *p, size_t n); /* as zip and gzip have it */

/* ---- show.c ---- */

double narrow_value(nacre_type t, const void *data, int64_t i); /* narrow.c: of at most 8 bits; NaN for other types */
double value_element(nacre_value *v, int64_t i);
void value_shape(const nacre_value *v, char *text, size_t bytes); /* "(2, 3)" */
void value_show(const char *name, nacre_value *v, bool full, int indent);

/* ---- diff.c ---- */

typedef struct diff {
    bool differs;
    double max_abs, max_rel; /* over elements that are finite on both sides */
    int64_t at, n_bad;       /* the worst element, how many are beyond the tolerance */
    char why[384];           /* where one number does not say it: other shape, NaN against a number */
} diff;
/* Equal where |got - want| <= atol + rtol * |want|; NaN equals NaN, an infinity only itself. any_type: numbers of
 * different types are compared by what they are worth. */
void value_diff(nacre_value *got, nacre_value *want, double rtol, double atol, bool any_type, diff *d);

/* ---- table.c ---- */

double now_ms(void);
void bytes_text(double bytes, char *text, size_t n); /* "1.50 MiB" */
void time_text(double ms, char *text, size_t n);     /* "12.3 us" */
/* Columns lined up: every cell is text; columns whose heading starts with '>' stand right. */
typedef struct table {
    char **cells;
    int n_cols, n, cap;
} table;
bool table_row(table *t, int n_cols, ...); /* const char * each; the first row is the heading */
void table_print(const table *t);
void table_release(table *t);
void table_ops(nacre_session *s, int runs); /* where the time of a profiled session went */
void json_text(FILE *f, const char *s);     /* quoted */

/* ---- progress.c: a line on standard error, only where that is a terminal and two seconds are over ---- */

typedef struct progress {
    const char *what;
    atomic_llong done;
    long long total; /* 0: unknown */
    bool runs;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end;
    bool ended;
} progress;
void progress_start(progress *p, const char *what, long long total);
void progress_end(progress *p);

#endif
