/* tools/nacre/train.c: nacre train MODEL --data FILE: artifacts where a forward model is given, a training session over
 * the checkpoint, data, the loop, the export. */
#include "train.h"

#include "nacre/nacre_graph.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: nacre train MODEL --loss NAME --data FILE [options]\n"
    "       nacre train FOLDER --data FILE [options]        artifacts that nacre artifacts or onnxruntime made\n"
    "\n"
    "Trains a model on data in files. Each epoch ends with a line (loss, metric, samples per second, peak memory) and "
    "a\n"
    "checkpoint, FOLDER/last.safetensors; the run ends with the curve of the loss. Order of samples and random "
    "numbers\n"
    "follow from --seed alone: the same command gives the same bits, for any number of threads, and also when it was\n"
    "stopped and went on with --resume.\n"
    "\n"
    "data\n"
    "  --data FILE.npz        every input that has an array of its name; the first dim counts samples\n"
    "  --data FILE.csv        columns of numbers (, ; or tab), with or without a heading: a column named as an input "
    "is\n"
    "                         that input, the others are dealt out in the order of the inputs, the target's last\n"
    "  --data INPUT=FILE      one input from .npy, .npz (its array INPUT, or FILE.npz:ARRAY), idx (as MNIST), .csv; "
    "also\n"
    "                         as .gz; may be given several times. Samples are reshaped to the input's shape\n"
    "  --scale INPUT=NUMBER   multiply an input's numbers, e.g. 0.00392157 for pixels of 0 to 255\n"
    "  --validation FILE      data of the same forms, measured after every epoch and not trained on\n"
    "  --split PART           instead: set this part of the samples aside, drawn by the seed, e.g. 0.1\n"
    "\n"
    "training\n"
    "  --epochs N             how often every sample is seen (default 5)\n"
    "  --batch N              samples per update (default 32)\n"
    "  --lr RATE              learning rate (default 0.001)\n"
    "  --schedule NAME        of the rate: constant (default), linear or cosine, which end at 0\n"
    "  --warmup N             updates over which the rate rises first (default 0)\n"
    "  --seed N               of order, split, dropout and fresh parameters (default 0)\n"
    "  --no-shuffle           samples in the order of the file\n"
    "  --fresh                forget what the model knows: draw its trainable parameters anew\n"
    "  --resume               go on from FOLDER/last.safetensors; give the other options as they were\n"
    "\n"
    "the model (where MODEL is a forward model)\n"
    "  --loss NAME            mse, l1, cross_entropy (labels of int64, classes on axis 1), bce_with_logits; without "
    "it\n"
    "                         the model's first output is the loss, and must be one number\n"
    "  --loss-input NAME      the value that the loss looks at (default: the first output)\n"
    "  --target NAME          the input for what is wanted (default: labels for cross_entropy, else target)\n"
    "  --train PATTERN        initializers that train, by name; '*' stands for any letters, '?' for one; may be given\n"
    "                         several times (default: all of floats with at least one dim)\n"
    "  --freeze PATTERN       initializers that do not train\n"
    "  --optimizer NAME       adamw (default), adamw_hf, sgd\n"
    "  --momentum M           of sgd, with --dampening D and --nesterov; as PyTorch's\n"
    "  --weight-decay W       of adamw and sgd (default 0)\n"
    "  --clip N               scale gradients so that their common L2 norm is at most N\n"
    "  --compute NAME         f16 or bf16: products take operands in half precision; parameters, losses, norms and "
    "sums\n"
    "                         stay in f32 (default f32)\n"
    "  --loss-scale N         of f16, to start with (default 65536): halved when gradients overflow, doubled after\n"
    "                         2000 updates\n"
    "  -o FOLDER              of artifacts and checkpoints (default: MODEL without .onnx, with -training)\n"
    "\n"
    "results\n"
    "  --export FILE.onnx     save the trained model for inference\n"
    "  --output NAME          an output of the exported model (default: those of MODEL); may be given several times\n"
    "  --quiet                no line of progress and no curve\n"
    "  --device NAME          cpu (default), guard, cuda, cuda:1\n"
    "  --threads N            0: as many as the machine allows (default)\n"
    "  --plugin FILE.so       load custom operators\n"
    "\n"
    "example: nacre train mnist.onnx --loss cross_entropy --data pixels=train-images-idx3-ubyte.gz\n"
    "           --data labels=train-labels-idx1-ubyte.gz --split 0.1 --epochs 3 --export trained.onnx\n"
    "example: nacre train house.onnx --loss mse --data houses.csv --optimizer sgd --momentum 0.9 --lr 0.01\n"
    "exit codes: 0 done, 1 the model, a file or the run failed, 2 wrong usage, 130 stopped with Ctrl-C\n";

typedef struct wishes {
    common c;
    nacre_artifacts what;
    train_plan plan;
    list data, scales, validation, train, freeze, outputs;
    double split, rate, weight_decay, clip, momentum, dampening, loss_scale;
    bool nesterov, fresh;
    int seed;
    const char *export;
    char folder[3900], last[4096];
} wishes;

/* ---- what is opened ---- */

typedef struct opened_run {
    nacre_env *env;
    nacre_model *model; /* NULL: artifacts were given */
    nacre_checkpoint *checkpoint;
    nacre_training *training;
    dataset data, train, valid;
} opened_run;

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void name_folder(wishes *w) {
    size_t n = strlen(w->c.model);
    if (n > 5 && strcmp(w->c.model + n - 5, ".onnx") == 0) n -= 5;
    if (is_folder(w->c.model))
        snprintf(w->folder, sizeof w->folder, "%s", w->c.model);
    else if (w->what.folder)
        snprintf(w->folder, sizeof w->folder, "%s", w->what.folder);
    else
        snprintf(w->folder, sizeof w->folder, "%.*s-training", (int)n, w->c.model);
    snprintf(w->last, sizeof w->last, "%s/last.safetensors", w->folder);
    w->plan.checkpoint = w->last;
}

/* The prediction is an output behind the loss, for the metric. */
static int make_artifacts(wishes *w, opened_run *o) {
    nacre_error err;
    int code = open_model("train", &w->c, o->env, &o->model);
    if (code != EXIT_DONE) return code;
    nacre_artifacts *a = &w->what;
    const char *seen = a->loss_input ? a->loss_input : nacre_graph_output_name(nacre_model_graph(o->model), 0);
    if (a->loss && seen) a->outputs = &seen, a->n_outputs = 1;
    a->folder = w->folder;
    a->trainable = w->train.v, a->n_trainable = (size_t)w->train.n;
    a->frozen = w->freeze.v, a->n_frozen = (size_t)w->freeze.n;
    a->weight_decay = (float)w->weight_decay, a->max_norm = (float)w->clip;
    a->momentum = (float)w->momentum, a->dampening = (float)w->dampening, a->nesterov = w->nesterov;
    if (mkdir(w->folder, 0777) != 0 && errno != EEXIST)
        return cli_fail("cannot make the folder %s: %s", w->folder, strerror(errno));
    nacre_code made = nacre_artifacts_write(o->model, a, &err);
    a->outputs = NULL, a->n_outputs = 0;
    return made == NACRE_OK ? EXIT_DONE : cli_error(&err);
}

static int open_training(wishes *w, opened_run *o) {
    static const char *const files[] = {"training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint"};
    char path[4][4096];
    nacre_error err;
    for (int i = 0; i < 4; i++) snprintf(path[i], sizeof path[i], "%s/%s", w->folder, files[i]);
    const char *from = w->plan.resume ? w->last : path[3];
    if (nacre_checkpoint_load(from, &o->checkpoint, &err) != NACRE_OK) return cli_error(&err);
    nacre_training_sources s = {.size = sizeof s,
                                .train = path[0],
                                .eval = path[1],
                                .optimizer = path[2],
                                .device = w->c.device,
                                .seed = w->plan.seed};
    return nacre_training_create(o->env, o->checkpoint, &s, &o->training, &err) == NACRE_OK ? EXIT_DONE
                                                                                            : cli_error(&err);
}

static int find_target(const wishes *w, const nacre_training *t) {
    const char *names[] = {w->what.target, "labels", "target"};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; names[k] && i < nacre_training_n_inputs(t, 0); i++)
            if (strcmp(names[k], nacre_training_input_name(t, 0, i)) == 0) return (int)i;
    return -1;
}

/* ---- data ---- */

static int part_of(const dataset *d, const int64_t *rows, int64_t n, dataset *out) {
    *out = (dataset){.n_in = d->n_in, .n = n};
    int code = dataset_batch(d, n, out->in);
    if (code == EXIT_DONE) dataset_take(d, rows, n, out->in);
    return code;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int split(const wishes *w, opened_run *o) {
    int64_t n = o->data.n, aside = (int64_t)llround(w->split * (double)n);
    if (aside < 1 || aside >= n)
        return cli_fail("--split %g of %lld samples sets %lld aside: expected at least one, and one to train with",
                        w->split, (long long)n, (long long)aside);
    int64_t *order = malloc((size_t)n * sizeof *order);
    if (!order) return cli_fail("out of memory");
    dataset_order(order, n, w->plan.seed, UINT64_MAX);
    qsort(order, (size_t)(n - aside), sizeof *order, ascending);
    int code = part_of(&o->data, order, n - aside, &o->train);
    if (code == EXIT_DONE) code = part_of(&o->data, order + n - aside, aside, &o->valid);
    free(order);
    dataset_release(&o->data);
    return code;
}

static int read_data(const wishes *w, opened_run *o) {
    int code = dataset_read(o->training, &w->data, &w->scales, &o->data);
    if (code == EXIT_DONE && w->validation.n) code = dataset_read(o->training, &w->validation, &w->scales, &o->valid);
    if (code != EXIT_DONE) return code;
    if (w->split > 0) return split(w, o);
    o->train = o->data;
    o->data = (dataset){0};
    return EXIT_DONE;
}

/* A model of fixed batch takes no other: what does not fill one is left out. */
static int fix_batch(wishes *w, opened_run *o) {
    int rank;
    int64_t dims[NACRE_MAX_RANK];
    nacre_training_input_type(o->training, 0, 0, &rank, dims);
    if (rank < 1 || dims[0] < 0) return EXIT_DONE;
    w->plan.batch = (int)dims[0];
    for (dataset *d = &o->train; d; d = d == &o->train ? &o->valid : NULL) {
        if (!d->n) continue;
        if (d->n < dims[0])
            return cli_fail("the model takes batches of %lld samples, the data have %lld", (long long)dims[0],
                            (long long)d->n);
        d->n -= d->n % dims[0];
    }
    return EXIT_DONE;
}

/* ---- the end ---- */

static int export(const wishes *w, const opened_run *o) {
    nacre_error err;
    list names = w->outputs;
    const nacre_graph *g = o->model ? nacre_model_graph(o->model) : NULL;
    for (size_t i = 0; !w->outputs.n && g && i < nacre_graph_n_outputs(g); i++)
        list_add(&names, nacre_graph_output_name(g, i));
    for (size_t i = 1; !w->outputs.n && !g && i < nacre_training_n_outputs(o->training, 1); i++)
        list_add(&names, nacre_training_output_name(o->training, 1, i));
    if (!names.n) return cli_fail("--export: the eval model has no output but the loss; name one with --output");
    if (nacre_training_export(o->training, w->export, names.v, (size_t)names.n, &err) != NACRE_OK)
        return cli_error(&err);
    printf("saved for inference: %s\n", w->export);
    return EXIT_DONE;
}

static int train(wishes *w, opened_run *o) {
    nacre_error err;
    int code = is_folder(w->c.model) ? EXIT_DONE : make_artifacts(w, o);
    if (code == EXIT_DONE) code = open_training(w, o);
    if (code == EXIT_DONE && w->fresh && !w->plan.resume)
        code = o->model ? fresh_parameters(o->model, o->training, o->checkpoint, w->plan.seed)
                        : cli_usage("train", "--fresh needs a forward model");
    if (code == EXIT_DONE && w->loss_scale > 0 && !w->plan.resume &&
        nacre_training_set_loss_scale(o->training, (float)w->loss_scale, 2000, &err) != NACRE_OK)
        return cli_error(&err);
    if (code == EXIT_DONE) code = read_data(w, o);
    if (code == EXIT_DONE) code = fix_batch(w, o);
    if (code != EXIT_DONE) return code;
    int64_t size = 0;
    w->plan.target = find_target(w, o->training);
    w->plan.logits = w->what.loss && strcmp(w->what.loss, "bce_with_logits") == 0;
    if (nacre_training_size(o->training, 1, &size, &err) != NACRE_OK) return cli_error(&err);
    printf("%lld samples%s, %lld trainable numbers, batches of %d\n", (long long)o->train.n,
           o->valid.n ? " and validation" : "", (long long)size, w->plan.batch);
    code = train_loop(o->training, o->checkpoint, &o->train, o->valid.n ? &o->valid : NULL, &w->plan);
    return code == EXIT_DONE && w->export ? export(w, o) : code;
}

static void close_run(opened_run *o) {
    dataset_release(&o->data), dataset_release(&o->train), dataset_release(&o->valid);
    nacre_training_release(o->training);
    nacre_checkpoint_release(o->checkpoint);
    nacre_model_release(o->model);
    nacre_env_release(o->env);
}

static int check_usage(wishes *w) {
    static const char *const schedules[] = {"constant", "linear", "cosine"};
    bool known = false;
    for (int i = 0; i < 3; i++) known |= strcmp(w->plan.schedule, schedules[i]) == 0;
    if (!w->c.model) return cli_usage("train", "which model?");
    if (!w->data.n) return cli_usage("train", "--data is needed: what to train on");
    if (!known) return cli_usage("train", "--schedule: expected constant, linear or cosine, got %s", w->plan.schedule);
    if (w->split > 0 && w->validation.n) return cli_usage("train", "--split and --validation: give one of them");
    for (int i = 0; i < w->scales.n; i++)
        if (!strchr(w->scales.v[i], '='))
            return cli_usage("train", "--scale wants INPUT=NUMBER, got '%s'", w->scales.v[i]);
    w->plan.rate = w->rate, w->plan.seed = (uint64_t)w->seed;
    return EXIT_DONE;
}

int cmd_train(int argc, char **argv) {
    wishes w = {.what = {.size = sizeof w.what, .optimizer = "adamw"},
                .plan = {.epochs = 5, .batch = 32, .schedule = "constant"},
                .rate = 1e-3};
    const arg known[] = {{"", ARG_TEXT, &w.c.model, 0},
                         {"--data", ARG_LIST, &w.data, 0},
                         {"--scale", ARG_LIST, &w.scales, 0},
                         {"--validation", ARG_LIST, &w.validation, 0},
                         {"--split", ARG_NUMBER, &w.split, 0},
                         {"--epochs", ARG_INT, &w.plan.epochs, 0},
                         {"--batch", ARG_INT, &w.plan.batch, 1},
                         {"--lr", ARG_NUMBER, &w.rate, 0},
                         {"--schedule", ARG_TEXT, &w.plan.schedule, 0},
                         {"--warmup", ARG_INT, &w.plan.warmup, 0},
                         {"--seed", ARG_INT, &w.seed, 0},
                         {"--no-shuffle", ARG_FLAG, &w.plan.in_order, 0},
                         {"--fresh", ARG_FLAG, &w.fresh, 0},
                         {"--resume", ARG_FLAG, &w.plan.resume, 0},
                         {"--loss", ARG_TEXT, &w.what.loss, 0},
                         {"--loss-input", ARG_TEXT, &w.what.loss_input, 0},
                         {"--target", ARG_TEXT, &w.what.target, 0},
                         {"--train", ARG_LIST, &w.train, 0},
                         {"--freeze", ARG_LIST, &w.freeze, 0},
                         {"--optimizer", ARG_TEXT, &w.what.optimizer, 0},
                         {"--momentum", ARG_NUMBER, &w.momentum, 0},
                         {"--dampening", ARG_NUMBER, &w.dampening, 0},
                         {"--nesterov", ARG_FLAG, &w.nesterov, 0},
                         {"--weight-decay", ARG_NUMBER, &w.weight_decay, 0},
                         {"--clip", ARG_NUMBER, &w.clip, 0},
                         {"--compute", ARG_TEXT, &w.what.compute, 0},
                         {"--loss-scale", ARG_NUMBER, &w.loss_scale, 0},
                         {"-o", ARG_TEXT, &w.what.folder, 0},
                         {"--export", ARG_TEXT, &w.export, 0},
                         {"--output", ARG_LIST, &w.outputs, 0},
                         {"--quiet", ARG_FLAG, &w.plan.quiet, 0},
                         {"--device", ARG_TEXT, &w.c.device, 0},
                         {"--threads", ARG_INT, &w.c.threads, 0},
                         {"--plugin", ARG_LIST, &w.c.plugins, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("train", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if ((code = check_usage(&w)) != EXIT_DONE) return code;
    opened_run o = {0};
    name_folder(&w);
    if ((code = open_env("train", &w.c, &o.env)) != EXIT_DONE) return code;
    code = train(&w, &o);
    close_run(&o);
    return code;
}
