/* examples/federated.c: federated averaging. Three clients train the last layer of the digits model, each on digits
 * that only it has; what travels is one row of parameters, and a server averages the rows by how many digits each saw.
 * federated MODEL.onnx DIGITS.bin FOLDER; the artifacts and averaged.onnx are written to FOLDER. */
#include "nacre/nacre_train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 3, ROUNDS = 4, BATCH = 32, PIXELS = 64 };

static nacre_error err;
#define TRY(call)                                                         \
    do {                                                                  \
        if ((call) != NACRE_OK) {                                         \
            fprintf(stderr, "%s '%s': %s\n", err.op, err.node, err.text); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

typedef struct digits {
    uint32_t n, n_test; /* the last n_test are for the test */
    unsigned char *labels, *pixels;
} digits;

/* The file: "DIGITS1\n", how many, how many of them to test with; a byte per label, then 64 bytes per picture. */
static int read_digits(const char *path, digits *d) {
    FILE *f = fopen(path, "rb");
    unsigned char head[16];
    size_t got = 0;
    if (!f) return 0;
    if (fread(head, 1, sizeof head, f) == sizeof head) {
        memcpy(&d->n, head + 8, 4), memcpy(&d->n_test, head + 12, 4);
        d->labels = malloc((size_t)d->n * (PIXELS + 1));
        if (d->labels) got = fread(d->labels, PIXELS + 1, d->n, f);
    }
    fclose(f);
    d->pixels = d->labels ? d->labels + d->n : NULL;
    return d->n > 0 && got == d->n;
}

/* A training session of its own over the artifacts. */
typedef struct client {
    nacre_checkpoint *checkpoint;
    nacre_training *training;
    uint32_t first, end; /* its digits */
} client;

static void make_artifacts(nacre_env *env, const char *model, const char *folder) {
    const char *trainable[] = {"wf", "bf"};
    nacre_model *m;
    TRY(nacre_model_load(env, model, &m, &err));
    nacre_artifacts what = {.size = sizeof what,
                            .trainable = trainable,
                            .n_trainable = 2,
                            .loss = "cross_entropy",
                            .loss_input = "logits",
                            .optimizer = "sgd",
                            .momentum = 0.9f,
                            .folder = folder};
    TRY(nacre_artifacts_write(m, &what, &err));
    nacre_model_release(m);
}

static void open_client(nacre_env *env, const char *folder, client *c) {
    static const char *const files[] = {"training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint"};
    char path[4][512];
    for (int i = 0; i < 4; i++) snprintf(path[i], sizeof path[i], "%s/%s", folder, files[i]);
    TRY(nacre_checkpoint_load(path[3], &c->checkpoint, &err));
    nacre_training_sources from = {.size = sizeof from, .train = path[0], .eval = path[1], .optimizer = path[2]};
    TRY(nacre_training_create(env, c->checkpoint, &from, &c->training, &err));
    TRY(nacre_training_set_rate(c->training, 0.001f, &err));
}

/* BATCH digits from `first` on: a training step and an update, or the loss alone. */
static float batch(nacre_training *t, const digits *d, uint32_t first, int train) {
    static float x[BATCH * PIXELS];
    static int64_t y[BATCH];
    const int64_t x_dims[] = {BATCH, 1, 8, 8}, y_dims[] = {BATCH};
    nacre_value *in[2], *loss = NULL;
    for (uint32_t i = 0; i < BATCH; i++) y[i] = d->labels[first + i];
    for (uint32_t i = 0; i < BATCH * PIXELS; i++) x[i] = d->pixels[first * PIXELS + i];
    TRY(nacre_value_tensor(NACRE_FLOAT, 4, x_dims, x, &in[0], &err));
    TRY(nacre_value_tensor(NACRE_INT64, 1, y_dims, y, &in[1], &err));
    TRY((train ? nacre_training_step : nacre_training_eval)(t, in, 2, &loss, 1, &err));
    if (train) TRY(nacre_training_update(t, NULL, &err));
    if (train) nacre_training_reset(t);
    float out = *(const float *)nacre_value_data(loss);
    for (int i = 0; i < 2; i++) nacre_value_release(in[i]);
    nacre_value_release(loss);
    return out;
}

/* One epoch of every client from the server's parameters on; the server gets the average of what they learnt. */
static void one_round(client *server, client *clients, const digits *d) {
    nacre_value *row, *average;
    int64_t size;
    double total = 0;
    TRY(nacre_training_size(server->training, 1, &size, &err));
    TRY(nacre_training_to_buffer(server->training, 1, &row, &err));
    TRY(nacre_training_to_buffer(server->training, 1, &average, &err));
    float *sum = nacre_value_data(average);
    memset(sum, 0, (size_t)size * sizeof *sum);
    for (client *c = clients; c < clients + CLIENTS; c++) total += c->end - c->first;
    for (client *c = clients; c < clients + CLIENTS; c++) {
        nacre_value *learnt;
        TRY(nacre_training_from_buffer(c->training, 1, row, &err));
        for (uint32_t i = c->first; i + BATCH <= c->end; i += BATCH) batch(c->training, d, i, 1);
        TRY(nacre_training_to_buffer(c->training, 1, &learnt, &err));
        const float *values = nacre_value_data(learnt), share = (float)((c->end - c->first) / total);
        for (int64_t i = 0; i < size; i++) sum[i] += share * values[i];
        nacre_value_release(learnt);
    }
    TRY(nacre_training_from_buffer(server->training, 1, average, &err));
    nacre_value_release(row);
    nacre_value_release(average);
}

/* Zeros: a last layer that knows nothing. */
static void forget(client *c) {
    nacre_value *row;
    int64_t size;
    TRY(nacre_training_size(c->training, 1, &size, &err));
    TRY(nacre_training_to_buffer(c->training, 1, &row, &err));
    memset(nacre_value_data(row), 0, (size_t)size * sizeof(float));
    TRY(nacre_training_from_buffer(c->training, 1, row, &err));
    nacre_value_release(row);
}

int main(int argc, char **argv) {
    digits d = {0};
    client all[CLIENTS + 1] = {{0}}, *server = &all[CLIENTS];
    nacre_env *env;
    char path[512];
    if (argc != 4 || !read_digits(argv[2], &d))
        return fprintf(stderr, "usage: %s digits.onnx digits.bin FOLDER\n", argv[0]), 2;
    TRY(nacre_env_create(0, &env, &err));
    make_artifacts(env, argv[1], argv[3]);
    const uint32_t n = d.n - d.n_test,
                   ends[] = {n / 2, n / 5 * 4, n}; /* the first has half of them, the last a fifth */
    for (int i = 0; i <= CLIENTS; i++) open_client(env, argv[3], &all[i]);
    for (int i = 0; i < CLIENTS; i++) all[i].first = i ? ends[i - 1] : 0, all[i].end = ends[i];
    forget(server);
    for (int round = 1; round <= ROUNDS; round++) {
        float loss = 0;
        uint32_t tests = 0;
        one_round(server, all, &d);
        for (uint32_t i = n; i + BATCH <= d.n; i += BATCH, tests++) loss += batch(server->training, &d, i, 0);
        printf("round %d: the average of %d clients has the loss %.3f\n", round, CLIENTS,
               (double)(loss / (float)tests));
    }
    snprintf(path, sizeof path, "%s/averaged.onnx", argv[3]);
    TRY(nacre_training_export(server->training, path, (const char *[]){"probabilities"}, 1, &err));
    for (int i = 0; i <= CLIENTS; i++) nacre_training_release(all[i].training);
    for (int i = 0; i <= CLIENTS; i++) nacre_checkpoint_release(all[i].checkpoint);
    nacre_env_release(env);
    free(d.labels);
    return 0;
}
