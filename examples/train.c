/* examples/train.c: trains the digits model: its last layer forgets what it knows and learns it again from the digits.
 * train MODEL.onnx DIGITS.bin FOLDER; the artifacts and trained.onnx are written to FOLDER. */
#include "nacre/nacre_train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCHS = 4, BATCH = 64, PIXELS = 64 };

static nacre_error err;
#define TRY(call)                                                         \
    do {                                                                  \
        if ((call) != NACRE_OK) {                                         \
            fprintf(stderr, "%s '%s': %s\n", err.op, err.node, err.text); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

/* The file: "DIGITS1\n", how many, how many of them to test with; a byte per label, then 64 bytes per picture. */
static unsigned char *read_digits(const char *path, uint32_t *n, uint32_t *n_test) {
    FILE *f = fopen(path, "rb");
    unsigned char head[16], *all = NULL;
    if (f && fread(head, 1, sizeof head, f) == sizeof head) {
        memcpy(n, head + 8, 4), memcpy(n_test, head + 12, 4);
        all = malloc((size_t)*n * (PIXELS + 1));
        if (all && fread(all, PIXELS + 1, *n, f) != *n) exit(1);
    }
    if (f) fclose(f);
    return all;
}

static nacre_training *open_training(nacre_env *env, const char *model, const char *folder, nacre_checkpoint **c) {
    const char *trainable[] = {"wf", "bf"};
    char path[4][512];
    static const char *const files[] = {"training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint"};
    for (int i = 0; i < 4; i++) snprintf(path[i], sizeof path[i], "%s/%s", folder, files[i]);
    nacre_model *m;
    nacre_training *t;
    TRY(nacre_model_load(env, model, &m, &err));
    nacre_artifacts what = {.size = sizeof what,
                            .trainable = trainable,
                            .n_trainable = 2,
                            .loss = "cross_entropy",
                            .loss_input = "logits",
                            .optimizer = "adamw",
                            .folder = folder};
    TRY(nacre_artifacts_write(m, &what, &err));
    nacre_model_release(m);
    TRY(nacre_checkpoint_load(path[3], c, &err));
    nacre_training_sources from = {.size = sizeof from, .train = path[0], .eval = path[1], .optimizer = path[2]};
    TRY(nacre_training_create(env, *c, &from, &t, &err));
    return t;
}

/* One batch from digit `first` on: a training step, or the loss alone. */
static float batch(nacre_training *t, const unsigned char *digits, uint32_t n, uint32_t first, int train) {
    static float x[BATCH * PIXELS];
    static int64_t y[BATCH];
    const int64_t x_dims[] = {BATCH, 1, 8, 8}, y_dims[] = {BATCH};
    nacre_value *in[2], *loss = NULL;
    for (int i = 0; i < BATCH; i++) y[i] = digits[first + (uint32_t)i];
    for (int i = 0; i < BATCH * PIXELS; i++) x[i] = digits[n + first * PIXELS + (uint32_t)i];
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

int main(int argc, char **argv) {
    uint32_t n = 0, n_test = 0;
    char path[512];
    nacre_env *env;
    nacre_checkpoint *c;
    nacre_value *buffer;
    unsigned char *digits = argc == 4 ? read_digits(argv[2], &n, &n_test) : NULL;
    if (!digits) return fprintf(stderr, "usage: %s digits.onnx digits.bin FOLDER\n", argv[0]), 2;
    TRY(nacre_env_create(0, &env, &err));
    nacre_training *t = open_training(env, argv[1], argv[3], &c);
    TRY(nacre_training_to_buffer(t, 1, &buffer, &err)); /* what trains, as one row of floats: zeros know nothing */
    int64_t size;
    TRY(nacre_training_size(t, 1, &size, &err));
    memset(nacre_value_data(buffer), 0, (size_t)size * sizeof(float));
    TRY(nacre_training_from_buffer(t, 1, buffer, &err));
    nacre_value_release(buffer);
    TRY(nacre_training_set_rate(t, 0.01f, &err));
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        float sum = 0, test = 0;
        uint32_t steps = 0, tests = 0;
        for (uint32_t i = 0; i + BATCH <= n - n_test; i += BATCH, steps++) sum += batch(t, digits, n, i, 1);
        for (uint32_t i = n - n_test; i + BATCH <= n; i += BATCH, tests++) test += batch(t, digits, n, i, 0);
        printf("epoch %d: loss %.3f, of the test digits %.3f\n", epoch, (double)(sum / (float)steps),
               (double)(test / (float)tests));
    }
    snprintf(path, sizeof path, "%s/trained.onnx", argv[3]);
    TRY(nacre_training_export(t, path, (const char *[]){"probabilities"}, 1, &err));
    printf("saved: trained.onnx\n");
    nacre_training_release(t);
    nacre_checkpoint_release(c);
    nacre_env_release(env);
    free(digits);
    return 0;
}
