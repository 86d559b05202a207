/* tools/nacre/train_loop.c: the epochs of `nacre train`: batches in an order that seed and epoch alone decide, so that
 * a run that was stopped goes on as if it had not been; the metric, a line of progress, a checkpoint after every epoch.
 */
#include "train.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig) {
    interrupted = 1;
    signal(sig, SIG_DFL); /* a second one ends the process */
}

/* ---- sums over samples ---- */

typedef enum metric { METRIC_NONE, METRIC_ACCURACY, METRIC_ERROR } metric;

typedef struct sums {
    double loss, good, error;
    int64_t samples, judged, steps;
} sums;

typedef struct runner {
    nacre_training *t;
    nacre_checkpoint *c;
    const train_plan *plan;
    metric metric;
    nacre_value *batch[2][INPUT_MAX]; /* whole ones, and what is left at the end of an epoch */
    int64_t n_batch[2];
    int64_t *order;
    curve curve;
    int64_t steps_of_epoch;
    double shown; /* when the line of progress was last written */
    bool terminal;
} runner;

static void judge_labels(sums *s, nacre_value *y, nacre_value *labels) {
    const int64_t *dims = nacre_value_dims(y);
    int64_t classes = dims[1], inner = 1, n = nacre_value_count(labels);
    for (int d = 2; d < nacre_value_rank(y); d++) inner *= dims[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i / inner * classes * inner + i % inner, best = 0;
        for (int64_t k = 1; k < classes; k++)
            if (value_element(y, at + k * inner) > value_element(y, at + best * inner)) best = k;
        s->good += (double)(best == (int64_t)value_element(labels, i));
    }
    s->judged += n;
}

static void judge(const runner *r, sums *s, nacre_value *y, nacre_value *target) {
    int64_t n = nacre_value_count(target);
    if (r->metric == METRIC_NONE) return;
    if (r->metric == METRIC_ACCURACY && !r->plan->logits) {
        judge_labels(s, y, target);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = value_element(y, i), want = value_element(target, i);
        if (r->metric == METRIC_ERROR)
            s->error += fabs(x - want);
        else
            s->good += (x > 0) == (want > 0.5);
    }
    s->judged += n;
}

static void metric_text(const runner *r, const sums *s, char *text, size_t bytes) {
    double n = s->judged ? (double)s->judged : 1;
    text[0] = 0;
    if (r->metric == METRIC_ACCURACY) snprintf(text, bytes, ", accuracy %.2f%%", 100 * s->good / n);
    if (r->metric == METRIC_ERROR) snprintf(text, bytes, ", mean error %.4g", s->error / n);
}

/* ---- progress ---- */

static void memory_text(char *text, size_t bytes) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    bytes_text((double)u.ru_maxrss * 1024, text, bytes);
}

static void show_progress(runner *r, int epoch, const sums *s, int64_t n, double ms) {
    char bar[25], how[64], memory[32];
    if (!r->terminal || now_ms() - r->shown < 100) return;
    r->shown = now_ms();
    int full = (int)(24 * s->samples / n);
    for (int i = 0; i < 24; i++) bar[i] = i < full ? '#' : '.';
    bar[24] = 0;
    metric_text(r, s, how, sizeof how);
    memory_text(memory, sizeof memory);
    fprintf(stderr, "\repoch %d of %d [%s] loss %.4f%s, %.0f samples/s, %s\033[K", epoch, r->plan->epochs, bar,
            s->loss / (double)s->samples, how, (double)s->samples / ms * 1e3, memory);
    fflush(stderr);
}

/* ---- steps ---- */

static double schedule(const train_plan *p, int64_t step, int64_t total) {
    double done = (double)step, all = (double)total, warm = p->warmup;
    if (done < warm) return p->rate * (done + 1) / warm;
    double part = all > warm ? (done - warm) / (all - warm) : 1;
    if (strcmp(p->schedule, "linear") == 0) return p->rate * (1 - part);
    if (strcmp(p->schedule, "cosine") == 0) return p->rate * 0.5 * (1 + cos(3.141592653589793 * part));
    return p->rate;
}

/* One batch: its loss is added to the sums. */
static int one_batch(runner *r, const dataset *d, const int64_t *rows, int64_t n, bool train, sums *s, double *loss) {
    nacre_error err;
    nacre_value *out[2] = {NULL, NULL};
    nacre_value **in = r->batch[n != r->n_batch[0]];
    size_t n_out = r->metric == METRIC_NONE ? 1 : 2;
    dataset_take(d, rows, n, in);
    nacre_code code = (train ? nacre_training_step : nacre_training_eval)(r->t, in, d->n_in, out, n_out, &err);
    if (code == NACRE_OK) {
        *loss = value_element(out[0], 0);
        s->loss += *loss * (double)n, s->samples += n, s->steps++;
        if (n_out > 1) judge(r, s, out[1], in[r->plan->target]);
    }
    for (int i = 0; i < 2; i++) nacre_value_release(out[i]);
    return code == NACRE_OK ? EXIT_DONE : cli_error(&err);
}

static int update(runner *r, int64_t step, int64_t total) {
    nacre_error err;
    if (nacre_training_set_rate(r->t, (float)schedule(r->plan, step, total), &err) != NACRE_OK ||
        nacre_training_update(r->t, NULL, &err) != NACRE_OK)
        return cli_error(&err);
    nacre_training_reset(r->t);
    return EXIT_DONE;
}

/* Tensors for batches of these sizes. */
static int make_batches(runner *r, const dataset *d, int64_t whole, int64_t rest) {
    const int64_t n[2] = {whole, rest};
    int code = EXIT_DONE;
    for (int k = 0; k < 2 && code == EXIT_DONE; k++) {
        if (r->n_batch[k] == n[k]) continue;
        for (size_t i = 0; i < INPUT_MAX; i++) nacre_value_release(r->batch[k][i]), r->batch[k][i] = NULL;
        if (n[k]) code = dataset_batch(d, n[k], r->batch[k]);
        r->n_batch[k] = n[k];
    }
    return code;
}

static int64_t size_of(const runner *r, int64_t n) { return n < r->plan->batch ? n : r->plan->batch; }

static int train_epoch(runner *r, const dataset *d, int epoch, sums *s, double *ms) {
    int64_t whole = size_of(r, d->n), rest = d->n % whole, step = (epoch - 1) * r->steps_of_epoch;
    double start = now_ms(), loss;
    int code = make_batches(r, d, whole, rest);
    dataset_order(r->order, d->n, r->plan->seed, (uint64_t)epoch);
    for (int64_t i = 0; r->plan->in_order && i < d->n; i++) r->order[i] = i;
    for (int64_t i = 0; i < d->n && code == EXIT_DONE; i += whole, step++) {
        if (interrupted) return EXIT_CANCELLED;
        code = one_batch(r, d, r->order + i, d->n - i < whole ? d->n - i : whole, true, s, &loss);
        if (code == EXIT_DONE && !isfinite(loss)) {
            if (r->terminal) fprintf(stderr, "\r\033[K");
            return cli_fail(
                "the loss is %s in epoch %d, update %lld: training stops; a smaller --lr or --clip may help",
                isnan(loss) ? "no number" : "infinite", epoch, (long long)(step + 1));
        }
        if (code == EXIT_DONE) code = update(r, step, (int64_t)r->plan->epochs * r->steps_of_epoch);
        if (code == EXIT_DONE && !curve_add(&r->curve.train, &r->curve.n_train, &r->curve.cap_train, loss))
            code = cli_fail("out of memory");
        show_progress(r, epoch, s, d->n, *ms = now_ms() - start);
    }
    return code;
}

static int validate(runner *r, const dataset *d, sums *s) {
    int64_t whole = size_of(r, d->n);
    double loss;
    int code = make_batches(r, d, whole, d->n % whole);
    int64_t *rows = malloc((size_t)d->n * sizeof *rows);
    if (!rows) return cli_fail("out of memory");
    for (int64_t i = 0; i < d->n; i++) rows[i] = i;
    for (int64_t i = 0; i < d->n && code == EXIT_DONE; i += whole)
        code = one_batch(r, d, rows + i, d->n - i < whole ? d->n - i : whole, false, s, &loss);
    free(rows);
    return code;
}

/* ---- checkpoints ---- */

static int64_t property(const nacre_checkpoint *c, const char *name, int64_t none) {
    nacre_error err;
    nacre_property p;
    for (size_t i = 0; i < nacre_checkpoint_n_properties(c); i++)
        if (nacre_checkpoint_property(c, i, &p, &err) == NACRE_OK && strcmp(p.name, name) == 0 &&
            p.kind == NACRE_PROPERTY_INT)
            return p.i;
    return none;
}

static int save(runner *r, int epoch) {
    nacre_error err;
    const nacre_property p[] = {{.name = "nacre.epoch", .kind = NACRE_PROPERTY_INT, .i = epoch},
                                {.name = "nacre.seed", .kind = NACRE_PROPERTY_INT, .i = (int64_t)r->plan->seed},
                                {.name = "nacre.batch", .kind = NACRE_PROPERTY_INT, .i = r->plan->batch}};
    for (int i = 0; i < 3; i++)
        if (nacre_checkpoint_set_property(r->c, &p[i], &err) != NACRE_OK) return cli_error(&err);
    if (nacre_training_sync(r->t, &err) != NACRE_OK ||
        nacre_checkpoint_save(r->c, r->plan->checkpoint, "safetensors", 1, &err) != NACRE_OK)
        return cli_error(&err);
    return EXIT_DONE;
}

static int resume_at(const runner *r, int *epoch) {
    const train_plan *p = r->plan;
    int64_t seed = property(r->c, "nacre.seed", (int64_t)p->seed), batch = property(r->c, "nacre.batch", p->batch);
    *epoch = (int)property(r->c, "nacre.epoch", 0);
    if (seed != (int64_t)p->seed || batch != p->batch)
        return cli_fail("--resume: the run had --seed %lld and --batch %lld, got %lld and %d", (long long)seed,
                        (long long)batch, (long long)p->seed, p->batch);
    return EXIT_DONE;
}

/* ---- the whole ---- */

static metric metric_of(const runner *r, const dataset *d) {
    int rank;
    int64_t dims[NACRE_MAX_RANK];
    if (nacre_training_n_outputs(r->t, 0) < 2 || nacre_training_n_outputs(r->t, 1) < 2 || r->plan->target < 0)
        return METRIC_NONE;
    nacre_training_output_type(r->t, 0, 1, &rank, dims);
    const nacre_value *target = d->in[r->plan->target];
    if (rank == nacre_value_rank(target) + 1 && nacre_value_type(target) == NACRE_INT64) return METRIC_ACCURACY;
    if (rank != nacre_value_rank(target)) return METRIC_NONE;
    return r->plan->logits ? METRIC_ACCURACY : METRIC_ERROR;
}

/* Before hours are spent. */
static int check_labels(const runner *r, const dataset *d, const char *what) {
    int rank;
    int64_t dims[NACRE_MAX_RANK];
    if (r->metric != METRIC_ACCURACY || r->plan->logits) return EXIT_DONE;
    nacre_training_output_type(r->t, 0, 1, &rank, dims);
    nacre_value *labels = d->in[r->plan->target];
    int64_t n = nacre_value_count(labels);
    for (int64_t i = 0; dims[1] >= 0 && i < n; i++) {
        int64_t x = ((const int64_t *)nacre_value_data(labels))[i];
        if (x < 0 || x >= dims[1])
            return cli_fail("%s data, input '%s': label %lld is %lld, expected 0 to %lld", what,
                            nacre_training_input_name(r->t, 0, (size_t)r->plan->target), (long long)i, (long long)x,
                            (long long)dims[1] - 1);
    }
    return EXIT_DONE;
}

static int tell_epoch(runner *r, int epoch, const sums *s, double ms, const dataset *valid) {
    char how[64], memory[32];
    sums v = {0};
    metric_text(r, s, how, sizeof how);
    memory_text(memory, sizeof memory);
    if (r->terminal) fprintf(stderr, "\r\033[K");
    printf("epoch %d of %d: loss %.4f%s", epoch, r->plan->epochs, s->loss / (double)s->samples, how);
    if (valid) {
        int code = validate(r, valid, &v);
        if (code != EXIT_DONE) return code;
        metric_text(r, &v, how, sizeof how);
        double loss = v.loss / (double)v.samples;
        printf("; validation loss %.4f%s", loss, how);
        if (!curve_add(&r->curve.valid, &r->curve.n_valid, &r->curve.cap_valid, loss)) return cli_fail("out of memory");
    }
    printf("; %.0f samples/s, %s\n", (double)s->samples / (ms > 0 ? ms : 1) * 1e3, memory);
    fflush(stdout);
    return EXIT_DONE;
}

static int run_epochs(runner *r, const dataset *train, const dataset *valid) {
    int code = EXIT_DONE, done = 0;
    if (r->plan->resume) code = resume_at(r, &done);
    if (code == EXIT_DONE && r->plan->resume) printf("going on after epoch %d\n", done);
    for (int epoch = done + 1; code == EXIT_DONE && epoch <= r->plan->epochs; epoch++) {
        sums s = {0};
        double ms = 0;
        code = train_epoch(r, train, epoch, &s, &ms);
        if (code == EXIT_DONE) code = tell_epoch(r, epoch, &s, ms, valid);
        if (code == EXIT_DONE) code = save(r, epoch);
        if (code == EXIT_DONE) done = epoch;
    }
    if (code == EXIT_CANCELLED)
        fprintf(stderr, "%snacre: stopped; --resume goes on after epoch %d\n", r->terminal ? "\r\033[K" : "", done);
    return code;
}

int train_loop(nacre_training *t, nacre_checkpoint *c, const dataset *train, const dataset *valid,
               const train_plan *plan) {
    runner r = {.t = t, .c = c, .plan = plan, .terminal = !plan->quiet && isatty(STDERR_FILENO)};
    int64_t whole = size_of(&r, train->n);
    r.steps_of_epoch = (train->n + whole - 1) / whole;
    r.metric = metric_of(&r, train);
    r.order = malloc((size_t)train->n * sizeof *r.order);
    int code = r.order ? check_labels(&r, train, "training") : cli_fail("out of memory");
    if (code == EXIT_DONE && valid) code = check_labels(&r, valid, "validation");
    signal(SIGINT, on_interrupt);
    if (code == EXIT_DONE) code = run_epochs(&r, train, valid);
    signal(SIGINT, SIG_DFL);
    if (code == EXIT_DONE && !plan->quiet) curve_print(&r.curve, (size_t)r.steps_of_epoch);
    curve_release(&r.curve);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < INPUT_MAX; i++) nacre_value_release(r.batch[k][i]);
    free(r.order);
    return code;
}
