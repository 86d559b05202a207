/* A growing past of 1 to 2,000 tokens, fed by the caller and as a variable: one program, at most 12 instances, no
 * planning after step 1, memory within the largest bucket. One attention head over keys and values that grow along axis
 * 1 (two heads: axis 1 is not the outermost, so rows must be kept apart by the capacity). */
#include "tests/model.h"

#include <stdlib.h>

enum { HEADS = 2, DIM = 4, STEPS = 2000 };

static const char text[] =
    "<opset: \"\" 17>\n"
    "g (float[2,1,4] q, float[2,1,4] k, float[2,1,4] v, float[2,past,4] past_k, float[2,past,4] past_v)\n"
    "  => (float[2,1,4] y, float[2,total,4] present_k, float[2,total,4] present_v)\n"
    "{\n"
    "  present_k = Concat<axis = 1>(past_k, k)\n"
    "  present_v = Concat<axis = 1>(past_v, v)\n"
    "  kt = Transpose<perm = [0,2,1]>(present_k)\n"
    "  s = MatMul(q, kt)\n"
    "  p = Softmax<axis = 2>(s)\n"
    "  y = MatMul(p, present_v)\n"
    "}\n";

/* The obvious attention in double. */
static void attend(const float *q, const float *k, const float *v, int64_t len, double *y) {
    for (int h = 0; h < HEADS; h++) {
        double most = -INFINITY, sum = 0, score[STEPS + 1];
        for (int64_t t = 0; t < len; t++) {
            score[t] = 0;
            for (int d = 0; d < DIM; d++) score[t] += (double)q[h * DIM + d] * k[(h * (STEPS + 1) + t) * DIM + d];
            most = score[t] > most ? score[t] : most;
        }
        for (int64_t t = 0; t < len; t++) sum += score[t] = exp(score[t] - most);
        for (int d = 0; d < DIM; d++) y[h * DIM + d] = 0;
        for (int64_t t = 0; t < len; t++)
            for (int d = 0; d < DIM; d++) y[h * DIM + d] += score[t] / sum * v[(h * (STEPS + 1) + t) * DIM + d];
    }
}

typedef struct past {
    float *k, *v;   /* all keys and values, (HEADS, STEPS + 1, DIM) */
    float *pk, *pv; /* dense past, (HEADS, len, DIM) */
} past;

static void gather_past(past *p, int64_t len) {
    for (int h = 0; h < HEADS; h++) {
        memcpy(p->pk + h * len * DIM, p->k + h * (STEPS + 1) * DIM, (size_t)len * DIM * sizeof(float));
        memcpy(p->pv + h * len * DIM, p->v + h * (STEPS + 1) * DIM, (size_t)len * DIM * sizeof(float));
    }
}

static void step(model *m, past *p, int64_t len, bool fed) {
    float q[HEADS * DIM], k[HEADS * DIM], v[HEADS * DIM];
    double want[HEADS * DIM];
    random_floats(q, HEADS * DIM, (uint64_t)len * 3 + 1);
    for (int h = 0; h < HEADS; h++) {
        memcpy(k + h * DIM, p->k + (h * (STEPS + 1) + len) * DIM, DIM * sizeof(float));
        memcpy(v + h * DIM, p->v + (h * (STEPS + 1) + len) * DIM, DIM * sizeof(float));
    }
    model_input(m, "q", NACRE_FLOAT, 3, D(HEADS, 1, DIM), q);
    model_input(m, "k", NACRE_FLOAT, 3, D(HEADS, 1, DIM), k);
    model_input(m, "v", NACRE_FLOAT, 3, D(HEADS, 1, DIM), v);
    if (fed) {
        gather_past(p, len);
        model_input(m, "past_k", NACRE_FLOAT, 3, D(HEADS, len, DIM), p->pk);
        model_input(m, "past_v", NACRE_FLOAT, 3, D(HEADS, len, DIM), p->pv);
    }
    model_run(m);
    const float *y = model_floats(m, "y", HEADS * DIM);
    if (len % 97 == 0 || len < 4) {
        attend(q, p->k, p->v, len + 1, want);
        for (int i = 0; i < HEADS * DIM; i++) CHECK_CLOSE(y[i], want[i], nc_tol_device_f32);
        model_collect(m, model_out(m, "y"));
    }
}

static void decode(model *m, bool fed) {
    past p;
    size_t n = (size_t)HEADS * (STEPS + 1) * DIM;
    p.k = malloc(n * sizeof(float)), p.v = malloc(n * sizeof(float)), p.pk = malloc(n * sizeof(float)),
    p.pv = malloc(n * sizeof(float));
    random_floats(p.k, (int64_t)n, 11);
    random_floats(p.v, (int64_t)n, 12);
    if (!fed) {
        nacre_options_tie(model_options(m), "past_k", "present_k", NULL);
        nacre_options_tie(model_options(m), "past_v", "present_v", NULL);
    }
    model_open(m, text);
    if (!fed) CHECK_INT(model_dump_count(m, "program", "updates state"), 2);
    for (int64_t len = fed ? 1 : 0; len < STEPS && !nc_test_has_failed(); len++) step(m, &p, len, fed);
    nacre_stats s = model_stats(m);
    CHECK_INT(s.plans, 1);
    CHECK(s.instances <= 12);
    CHECK_INT(s.frames, 1);
    /* Fed: scores, probabilities and (on a device) the copies of past and present, all at 2,048 tokens. */
    size_t bucket = 2048, row = HEADS * DIM * sizeof(float);
    CHECK(s.bytes_frames_peak <= bucket * row * 4 + bucket * HEADS * sizeof(float) * 4 + (256 << 10));
    if (!fed) {
        nacre_value *k = model_variable(m, "past_k");
        if (k) CHECK_INT(nacre_value_dims(k)[1], STEPS);
        for (int h = 0; k && h < HEADS; h++)
            CHECK(memcmp((float *)nacre_value_data(k) + h * STEPS * DIM, p.k + h * (STEPS + 1) * DIM,
                         STEPS * DIM * sizeof(float)) == 0);
        nacre_value_release(k);
    }
    free(p.k), free(p.v), free(p.pk), free(p.pv);
}

static void fed(model *m) { decode(m, true); }
static void variable(model *m) { decode(m, false); }
TEST(past_fed_by_the_caller) { model_everywhere(fed); }
TEST(past_as_a_variable) { model_everywhere(variable); }
