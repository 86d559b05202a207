/* Frames stopped after forward and continued with backward later; two alive at once, one released unrun. */
#include "tests/model.h"

static const char text[] = "<opset: \"\" 17>\n"
                           "g (float[n,3] x) => (float[n,2] y)\n"
                           "<const float[3,2] W = {0.5,-0.25,1,2,-1,0.75}, const float[2] b = {0.1,-0.1}>\n"
                           "{\n  h = MatMul(x, W)\n  a = Add(h, b)\n  y = Tanh(a)\n}\n";

static void open(model *m) {
    const char *y = "y", *wrt[] = {"x", "W", "b"};
    CHECK(nacre_options_backward(model_options(m), &y, 1, wrt, 3, &m->err) == NACRE_OK);
    CHECK(nacre_options_cut(model_options(m), "forward", &y, 1, &m->err) == NACRE_OK);
    model_open(m, text);
}

typedef struct half {
    nacre_frame *f;
    float x[12], y[8];
    int n;
} half;

static bool give(model *m, half *h, const char *name, int cols, float *data) {
    nacre_value *v;
    bool ok = nacre_value_tensor(NACRE_FLOAT, 2, D(h->n, cols), data, &v, &m->err) == NACRE_OK;
    if (!ok) return false;
    ok = nacre_frame_input(h->f, name, v, &m->err) == NACRE_OK;
    nacre_value_release(v);
    return ok;
}

static void forward(model *m, half *h, int n, uint64_t seed) {
    nacre_value *y = NULL;
    h->n = n;
    random_floats(h->x, 3 * n, seed);
    CHECK_INT(nacre_frame_create(m->session, m->run, &h->f, &m->err), NACRE_OK);
    CHECK(give(m, h, "x", 3, h->x));
    CHECK_INT(nacre_frame_run(h->f, "forward", &m->err), NACRE_OK);
    CHECK_INT(nacre_frame_output(h->f, "grad:x", &y, &m->err), NACRE_ARGUMENT); /* not yet */
    CHECK_INT(nacre_frame_output(h->f, "y", &y, &m->err), NACRE_OK);
    if (y) memcpy(h->y, nacre_value_data(y), (size_t)(2 * n) * sizeof(float));
    model_collect(m, y);
    nacre_value_release(y);
}

/* dx = (dy * (1 - y^2)) W^T */
static void backward(model *m, half *h) {
    static const float W[3][2] = {{0.5f, -0.25f}, {1, 2}, {-1, 0.75f}};
    float dy[8];
    nacre_value *dx = NULL, *db = NULL;
    for (int i = 0; i < 2 * h->n; i++) dy[i] = (float)(i + 1);
    CHECK(give(m, h, "d:y", 2, dy));
    CHECK_INT(nacre_frame_run(h->f, NULL, &m->err), NACRE_OK);
    CHECK_INT(nacre_frame_output(h->f, "grad:x", &dx, &m->err), NACRE_OK);
    CHECK_INT(nacre_frame_output(h->f, "grad:b", &db, &m->err), NACRE_OK);
    for (int i = 0; dx && i < h->n; i++)
        for (int k = 0; k < 3; k++) {
            double want = 0;
            for (int j = 0; j < 2; j++)
                want += dy[i * 2 + j] * (1 - (double)h->y[i * 2 + j] * h->y[i * 2 + j]) * W[k][j];
            CHECK_CLOSE(((float *)nacre_value_data(dx))[i * 3 + k], want, nc_tol_device_f32);
        }
    model_collect(m, dx);
    model_collect(m, db);
    nacre_value_release(dx);
    nacre_value_release(db);
}

static void two_alive(model *m) {
    half a, b, c;
    open(m);
    if (m->failed) return;
    forward(m, &a, 4, 1);
    forward(m, &b, 2, 2); /* while a stands */
    forward(m, &c, 3, 3);
    nacre_frame_release(c.f); /* never continued */
    backward(m, &b);
    forward(m, &c, 1, 4);
    backward(m, &a);
    backward(m, &c);
    nacre_frame_release(a.f);
    nacre_frame_release(b.f);
    nacre_frame_release(c.f);
    CHECK(model_stats(m).frames <= 3);
    CHECK_INT(model_stats(m).plans, 1);
}

TEST(frames_stop_after_forward_and_go_on_later) { model_everywhere(two_alive); }

static void missing(model *m) {
    half a;
    open(m);
    if (m->failed) return;
    forward(m, &a, 2, 1);
    CHECK_INT(nacre_frame_run(a.f, NULL, &m->err), NACRE_ARGUMENT); /* d:y was not given */
    CHECK(strstr(m->err.text, "d:y") != NULL);
    nacre_frame_release(a.f);
    forward(m, &a, 2, 1);
    backward(m, &a);
    nacre_frame_release(a.f);
}

TEST(a_frame_says_which_input_is_missing) { model_everywhere(missing); }

/* A cut with nothing behind it, and one with nothing before it. */
static void empty_parts(model *m) {
    half a = {.n = 2};
    const char *y = "y";
    nacre_value *v = NULL;
    CHECK(nacre_options_cut(model_options(m), "nothing", NULL, 0, &m->err) == NACRE_OK);
    CHECK(nacre_options_cut(model_options(m), "all", &y, 1, &m->err) == NACRE_OK);
    model_open(m, text);
    if (m->failed) return;
    random_floats(a.x, 6, 1);
    CHECK_INT(nacre_frame_create(m->session, m->run, &a.f, &m->err), NACRE_OK);
    CHECK_INT(nacre_frame_run(a.f, "nothing", &m->err), NACRE_OK);
    CHECK(give(m, &a, "x", 3, a.x));
    CHECK_INT(nacre_frame_run(a.f, "all", &m->err), NACRE_OK);
    CHECK_INT(nacre_frame_output(a.f, "y", &v, &m->err), NACRE_OK);
    CHECK_INT(nacre_frame_run(a.f, NULL, &m->err), NACRE_OK);
    model_collect(m, v);
    nacre_value_release(v);
    nacre_frame_release(a.f);
}

TEST(cuts_with_empty_parts) { model_everywhere(empty_parts); }

/* The first run fails in front of a view that later runs would keep: it was never made. */
static void after_a_failure(model *m) {
    const float x[6] = {1, -2, 3, -4, 5, -6};
    const int64_t wrong[2] = {0, 9}, right[2] = {2, 0};
    model_open(m, "<opset: \"\" 17> g (float[3,2] x, int64[2] i) => (float[2,2] y) "
                  "{ r = Relu(x) a = Gather(r, i) t = Transpose<perm = [1, 0]>(a) y = Softmax<axis = 0>(t) }");
    model_input(m, "x", NACRE_FLOAT, 2, D(3, 2), x);
    model_input(m, "i", NACRE_INT64, 1, D(2), wrong);
    CHECK_INT(model_try_run(m), NACRE_DATA);
    model_input(m, "i", NACRE_INT64, 1, D(2), right);
    model_run(m);
    const float *y = model_floats(m, "y", 4);
    for (int i = 0; y && i < 4; i++) {
        double first = 1 / (1 + exp(i % 2 ? -1 : -5));
        CHECK_CLOSE(y[i], i < 2 ? first : 1 - first, nc_tol_device_f32);
    }
    model_collect_all(m);
}
TEST(frames_make_their_views_after_a_failed_run) { model_everywhere(after_a_failure); }
