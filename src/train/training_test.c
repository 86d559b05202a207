/* Training sessions over models written as text: what becomes a variable, sums that are told apart by what reads them,
 * steps that allocate nothing after the first and go on where memory ran out, and what is refused.
 * tests/py/test_training_api.py has the numbers. */
#include "train/training.h"

#include "infer/infer.h"
#include "onnx/save.h"
#include "ops/binding.h"
#include "tests/graph_testing.h"

#include <string.h>

/* An input that is called like a gradient, and a sum that is not. */
static const char train_text[] =
    "<opset: \"\" 15, \"com.microsoft\" 1> g (float[n,2] x_grad, float[2] w, float[2] total, bool[1] anew) => (loss, "
    "ok) "
    "{ y = Mul(x_grad, w)\n loss = ReduceSum<keepdims = 0>(y)\n axes = Constant<value_ints = [0]>()\n"
    " d = ReduceSum<keepdims = 0>(x_grad, axes)\n ok = com.microsoft.InPlaceAccumulatorV2(total, d, anew) }";
static const char eval_text[] = "<opset: \"\" 15> g (float[n,2] x_grad, float[2] w) => (float[] loss) "
                                "{ y = Mul(x_grad, w)\n loss = ReduceSum<keepdims = 0>(y) }";
static const char sgd_text[] =
    "<opset: \"\" 15, \"com.microsoft\" 1> g (float[1] learning_rate, int64[1] step, seq(float[?]) params, "
    "seq(float[?]) gradients) => (done) "
    "{ c = com.microsoft.InplaceClipGradNorm<max_norm = 1.0>(gradients)\n"
    " done = com.microsoft.SGDOptimizerV2(learning_rate, params, c) }";

typedef struct fixture {
    nc_work w;
    nc_env *env;
    nc_checkpoint *c;
    nc_text train, eval, optimizer;
} fixture;

static nc_text bytes_of(nc_work *w, const char *text) {
    nc_text out = {0};
    nc_model *m;
    if (nc_graph_parse(w, text, nc_ops_registry(), &m) != NC_OK || nc_infer_model(w, m) != NC_OK ||
        nc_onnx_save(w, m, &out) != NC_OK)
        nc_test_failed(__FILE__, __LINE__, "%s", w->diag.text);
    else
        nc_model_destroy(m);
    return out;
}

static bool start(fixture *f, const int64_t n) {
    *f = (fixture){0};
    nc_work_init(&f->w);
    f->env = nc_env_create(1);
    if (!f->env || nc_checkpoint_create(&f->w, &f->c) != NC_OK) return false;
    nc_object *value = nc_object_host_tensor(NC_FLOAT, 1, &n);
    if (!value) return false;
    for (int64_t i = 0; i < n; i++) ((float *)value->t.data)[i] = (float)(i + 1);
    if (nc_checkpoint_add(&f->w, f->c, "w", NC_FLOAT, value, true) != NC_OK) return false;
    f->train = bytes_of(&f->w, train_text), f->eval = bytes_of(&f->w, eval_text);
    f->optimizer = bytes_of(&f->w, sgd_text);
    return f->train.s && f->eval.s && f->optimizer.s;
}

static void end(fixture *f) {
    nc_checkpoint_release(f->c);
    nc_env_unref(f->env);
    nc_text_release(&f->train), nc_text_release(&f->eval), nc_text_release(&f->optimizer);
    nc_work_release(&f->w);
}

static nc_training *create(fixture *f) {
    nc_training *t = NULL;
    nc_training_models m = {.train = {.bytes = f->train.s, .n = f->train.n},
                            .eval = {.bytes = f->eval.s, .n = f->eval.n},
                            .optimizer = {.bytes = f->optimizer.s, .n = f->optimizer.n}};
    return nc_training_create(&f->w, f->env, f->c, &m, &t) == NC_OK ? t : NULL;
}

static nc_object *batch(void) {
    nc_object *x = nc_object_host_tensor(NC_FLOAT, 2, (const int64_t[]){3, 2});
    for (int i = 0; x && i < 6; i++) ((float *)x->t.data)[i] = (float)i;
    return x;
}

TEST(training_tells_inputs_by_what_they_are_bound_to) {
    fixture f;
    REQUIRE(start(&f, 2));
    nc_training *t = create(&f);
    if (!t) nc_test_failed(__FILE__, __LINE__, "%s", f.w.diag.text);
    REQUIRE(t != NULL);
    REQUIRE(t->train.n_inputs == 1 && t->eval.n_inputs == 1);
    CHECK_STR(t->train.inputs[0], "x_grad");
    CHECK_STR(t->params[0].sum, "total");
    CHECK_INT(t->train.n_outputs, 1);
    nc_object *x = batch(), *loss = NULL;
    REQUIRE(x != NULL);
    CHECK_INT(nc_training_step(&f.w, t, &x, 1, &loss, 1), NC_OK);
    CHECK(loss && *(const float *)loss->t.data == 1 * (0 + 2 + 4) + 2 * (1 + 3 + 5));
    CHECK(((const float *)t->sums[0]->t.data)[0] == 6 && ((const float *)t->sums[0]->t.data)[1] == 9);
    bool done = false;
    CHECK_INT(nc_training_set_rate(&f.w, t, 0.5f), NC_OK);
    CHECK_INT(nc_training_update(&f.w, t, &done), NC_OK);
    CHECK(done && f.c->optimizer.step == 1);
    float *w = f.c->params.v[0].value->t.data; /* the gradients are clipped to norm 1 */
    CHECK_CLOSE(w[0], 1 - 0.5 * 6 / 10.816653826391969, nc_tol_op_f32);
    CHECK_CLOSE(w[1], 2 - 0.5 * 9 / 10.816653826391969, nc_tol_op_f32);
    nc_object_unref(loss), nc_object_unref(x);
    nc_training_release(t);
    end(&f);
}

TEST(training_steps_allocate_nothing_after_the_first) {
    fixture f;
    REQUIRE(start(&f, 2));
    nc_training *t = create(&f);
    REQUIRE(t != NULL);
    nc_object *x = batch(), *loss = nc_object_host_tensor(NC_FLOAT, 0, NULL);
    REQUIRE(x != NULL && loss != NULL);
    bool done;
    uint64_t before = 0;
    for (int i = 0; i < 4; i++) {
        if (i == 2) before = nc_mem_count();
        CHECK_INT(nc_training_step(&f.w, t, &x, 1, &loss, 1), NC_OK);
        CHECK_INT(nc_training_update(&f.w, t, &done), NC_OK);
        CHECK_INT(nc_training_eval(&f.w, t, &x, 1, &loss, 1), NC_OK);
        nc_training_reset(t);
    }
    CHECK_INT((int)(nc_mem_count() - before), 0);
    nc_object_unref(loss), nc_object_unref(x);
    nc_training_release(t);
    end(&f);
}

/* One call of a session: a step, or the update behind it. */
static nc_code call(fixture *f, nc_training *t, nc_object *x, bool update) {
    nc_object *loss = NULL;
    bool done = false;
    nc_code code = update ? nc_training_update(&f->w, t, &done) : nc_training_step(&f->w, t, &x, 1, &loss, 1);
    nc_object_unref(loss);
    return code;
}

/* Makes the n-th allocation of a call fail, and calls again. False: the call has fewer. */
static bool fails_and_goes_on(fixture *f, nc_training *t, nc_object *x, bool update, uint64_t n) {
    uint64_t failures = nc_mem_failures();
    nc_mem_fail_at(n);
    nc_code code = nc_work_finish(&f->w, call(f, t, x, update), failures);
    bool hit = nc_mem_fail_hit();
    nc_mem_fail_at(0);
    if (code == NC_OK) return hit;
    CHECK_INT(code, NC_E_MEMORY);
    if (call(f, t, x, update) != NC_OK) nc_test_failed(__FILE__, __LINE__, "allocation %d: %s", (int)n, f->w.diag.text);
    return true;
}

/* The parameter after a step and an update, one of which meets no memory at its n-th allocation. */
static bool trained_without_memory(uint64_t n, bool update, float out[2]) {
    fixture f;
    bool hit = false, ready = start(&f, 2);
    nc_training *t = ready ? create(&f) : NULL;
    nc_object *x = batch();
    CHECK(t != NULL && x != NULL);
    if (!t || !x) return false;
    CHECK_INT(nc_training_set_rate(&f.w, t, 0.5f), NC_OK);
    if (!update) hit = fails_and_goes_on(&f, t, x, false, n);
    if (update) CHECK_INT(call(&f, t, x, false), NC_OK);
    if (update) hit = fails_and_goes_on(&f, t, x, true, n);
    if (!update) CHECK_INT(call(&f, t, x, true), NC_OK);
    memcpy(out, f.c->params.v[0].value->t.data, 2 * sizeof *out);
    nc_object_unref(x);
    nc_training_release(t);
    end(&f);
    return hit;
}

TEST(training_goes_on_where_memory_ran_out) {
    float want[2], got[2];
    CHECK(!trained_without_memory(UINT64_MAX, false, want));
    for (int update = 0; update < 2; update++) {
        uint64_t n = 1;
        for (; n < 2000 && trained_without_memory(n, update, got); n++) CHECK(memcmp(got, want, sizeof want) == 0);
        CHECK(n > 5 && n < 2000);
    }
}

/* Creating fails, and leaves nothing that would keep it from working. */
TEST(training_is_created_once_there_is_memory) {
    fixture f;
    REQUIRE(start(&f, 2));
    uint64_t n = 1;
    for (bool hit = true; hit && n < 20000; n += 7) {
        uint64_t failures = nc_mem_failures();
        nc_mem_fail_at(n);
        nc_training *t = create(&f);
        nc_code code = nc_work_finish(&f.w, t != NULL ? NC_OK : f.w.diag.code, failures);
        hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK_INT(code, t != NULL ? NC_OK : NC_E_MEMORY);
        nc_training_release(t);
    }
    nc_training *t = create(&f);
    CHECK(t != NULL && n > 100);
    nc_training_release(t);
    end(&f);
}

static const char dropout_text[] =
    "<opset: \"\" 15, \"com.microsoft\" 1> g (float[n,2] x, float[2] w, float[2] total, bool[1] anew) => (loss, ok) "
    "<const float[] ratio = {0.5}, const bool[] on = {1}> { h = Dropout(x, ratio, on)\n y = Mul(h, w)\n"
    " loss = ReduceSum<keepdims = 0>(y)\n axes = Constant<value_ints = [0]>()\n"
    " d = ReduceSum<keepdims = 0>(h, axes)\n ok = com.microsoft.InPlaceAccumulatorV2(total, d, anew) }";

static float loss_of(fixture *f, nc_training *t, nc_object *x) {
    nc_object *loss = NULL;
    CHECK_INT(nc_training_step(&f->w, t, &x, 1, &loss, 1), NC_OK);
    float value = loss ? *(const float *)loss->t.data : 0;
    nc_object_unref(loss);
    return value;
}

TEST(training_draws_go_on_from_a_checkpoint) {
    fixture f, g;
    REQUIRE(start(&f, 2) && start(&g, 2));
    nc_text_release(&f.train), nc_text_release(&g.train);
    f.train = bytes_of(&f.w, dropout_text), g.train = bytes_of(&g.w, dropout_text);
    nc_object *x = nc_object_host_tensor(NC_FLOAT, 2, (const int64_t[]){64, 2});
    REQUIRE(x != NULL);
    for (int i = 0; i < 128; i++) ((float *)x->t.data)[i] = (float)(i * i);
    nc_training *t = create(&f);
    REQUIRE(t != NULL);
    float first = loss_of(&f, t, x);
    CHECK_INT(nc_training_sync(&f.w, t), NC_OK);
    CHECK(f.c->has_random);
    g.c->has_random = true, g.c->seed = f.c->seed, g.c->drawn = f.c->drawn;
    nc_training *u = create(&g);
    REQUIRE(u != NULL);
    float second = loss_of(&f, t, x);
    CHECK(first != second);
    CHECK(loss_of(&g, u, x) == second);
    nc_object_unref(x);
    nc_training_release(t), nc_training_release(u);
    end(&f), end(&g);
}

TEST(training_refuses_another_checkpoint) {
    fixture f;
    REQUIRE(start(&f, 3));
    CHECK(create(&f) == NULL);
    CHECK_DIAG(&f.w, "parameter 'w': the model expects float[2], the checkpoint has float[3]");
    end(&f);
}
