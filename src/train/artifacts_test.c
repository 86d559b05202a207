/* train/artifacts_test.c: training and eval forms and losses as text graphs; patterns, files and refusals. */
#include "train/artifacts.h"

#include "base/mem.h"
#include "ir/verify.h"
#include "onnx/load.h"
#include "ops/binding.h"
#include "tests/graph_testing.h"

#include <stdlib.h>
#include <unistd.h>

static const char linear[] = "<opset: \"\" 17>(float[n,3] x) => (y)"
                             "<const float[3,2] w = {1, 2, 3, 4, 5, 6}, const float[2] b = {0, 1}, "
                             "const int64[1] steps = {4}>"
                             "{ h = MatMul(x, w)\n y = Add(h, b) }";

static nc_model *start(nc_work *w, const char *text) {
    nc_work_init(w);
    nc_model *m = test_model(w, nc_ops_registry(), text);
    if (!m) nc_test_failed(__FILE__, __LINE__, "%s", w->diag.text);
    return m;
}

static void end(nc_work *w, nc_model *m, bool whole) {
    if (whole && nc_verify(w, m) != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s", w->diag.text);
    nc_model_destroy(m);
    nc_work_release(w);
}

static void check_names(const nc_graph *g, const char *inputs, const char *outputs) {
    nc_text in = {0}, out = {0};
    for (int i = 0; i < g->inputs.n; i++) nc_text_addf(&in, "%s%s", i ? " " : "", g->inputs.v[i]->name);
    for (int i = 0; i < g->outputs.n; i++) nc_text_addf(&out, "%s%s", i ? " " : "", g->output_names.v[i]);
    CHECK_STR(in.s, inputs);
    CHECK_STR(out.s, outputs);
    nc_text_release(&in);
    nc_text_release(&out);
}

TEST(artifacts_losses) {
    static const struct {
        nc_artifacts_loss loss;
        const char *expr, *target;
    } rows[] = {
        {{.kind = NC_LOSS_MSE},
         "ReduceMean(Mul(Sub(Add(MatMul(x, w), b), target), Sub(Add(MatMul(x, w), b), target)), keepdims=0)",
         "float[n,2]"},
        {{.kind = NC_LOSS_L1, .sum = true},
         "ReduceSum(Abs(Sub(Add(MatMul(x, w), b), target)), keepdims=0)",
         "float[n,2]"},
        {{.kind = NC_LOSS_CROSS_ENTROPY, .target = "target"},
         "SoftmaxCrossEntropyLoss(Add(MatMul(x, w), b), target)",
         "int64[n]"},
        {{.kind = NC_LOSS_BCE_WITH_LOGITS, .input = "h"},
         "ReduceMean(Add(Mul(target, Softplus(Neg(MatMul(x, w)))), Mul(Sub(1, target), Softplus(MatMul(x, w)))), "
         "keepdims=0)",
         "float[n,2]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nc_work w;
        nc_model *m = start(&w, linear);
        REQUIRE(m);
        CHECK_INT(nc_artifacts_add_loss(&w, m, &rows[i].loss), NC_OK);
        check_names(m->main, "x target", "loss");
        for (nc_node *n = m->main->first; n; n = n->next)
            n->stage = NC_STAGE_BACKWARD; /* so that CHECK_EXPR opens it */
        CHECK_EXPR(m->main->outputs.v[0], rows[i].expr);
        CHECK_TYPE(m->main->inputs.v[1]->type, rows[i].target);
        end(&w, m, true);
    }
}

TEST(artifacts_loss_refusals) {
    static const char *const more[] = {"nothing"};
    static const struct {
        nc_artifacts_loss loss;
        nc_code code;
        const char *text;
    } rows[] = {
        {{.kind = NC_LOSS_NONE}, NC_E_SHAPE, "must be one number: 'y' is float[n,2]"},
        {{.kind = NC_LOSS_MSE, .input = "nope"}, NC_E_ARGUMENT, "nope"},
        {{.kind = NC_LOSS_MSE, .input = "steps"}, NC_E_TYPE, "'steps' is no tensor of floats"},
        {{.kind = NC_LOSS_CROSS_ENTROPY, .input = "b"}, NC_E_SHAPE, "'b' must have at least 2 dims"},
        {{.kind = NC_LOSS_MSE, .more = more, .n_more = 1}, NC_E_ARGUMENT, "nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nc_work w;
        nc_model *m = start(&w, linear);
        REQUIRE(m);
        CHECK_INT(nc_artifacts_add_loss(&w, m, &rows[i].loss), rows[i].code);
        if (!strstr(w.diag.text, rows[i].text))
            nc_test_failed(__FILE__, __LINE__, "%s, expected %s", w.diag.text, rows[i].text);
        end(&w, m, false);
    }
}

TEST(artifacts_training_form) {
    const char *moved[] = {"w", "b"}, *more[] = {"y"};
    const nc_artifacts_params p = {moved, 2, moved, 1, NC_UNDEFINED};
    nc_work w;
    nc_model *m = start(&w, linear);
    REQUIRE(m);
    REQUIRE(nc_artifacts_add_loss(&w, m, &(nc_artifacts_loss){.kind = NC_LOSS_MSE, .more = more, .n_more = 1}) ==
            NC_OK);
    CHECK_INT(nc_artifacts_training(&w, m, &p, false), NC_OK);
    check_names(m->main, "x target w b w_grad.accumulation.buffer lazy_reset_grad", "loss y w_grad.accumulation.out");
    CHECK_STR(m->main->last->name, "GradientAccumulator2");
    CHECK(m->main->last->in[0] == m->main->inputs.v[4] && m->main->last->in[2] == m->main->inputs.v[5]);
    CHECK_TYPE(m->main->inputs.v[4]->type, "float[3,2]");
    CHECK(!nc_graph_find(m->main, "w")->lit);
    end(&w, m, true);
}

TEST(artifacts_training_needs_a_way_from_parameter_to_loss) {
    const char *moved[] = {"w"};
    const nc_artifacts_params p = {moved, 1, moved, 1, NC_UNDEFINED};
    nc_work w;
    nc_model *m = start(&w, linear);
    REQUIRE(m);
    REQUIRE(nc_artifacts_add_loss(&w, m, &(nc_artifacts_loss){.kind = NC_LOSS_MSE, .input = "x"}) == NC_OK);
    CHECK_INT(nc_artifacts_training(&w, m, &p, false), NC_E_DATA);
    CHECK(strstr(w.diag.text, "the loss 'loss' does not depend on any trainable parameter"));
    end(&w, m, false);
}

TEST(artifacts_eval_form_is_quiet) {
    nc_work w;
    nc_model *m =
        start(&w, "<opset: \"\" 15>(float[n,2,3] x) => (y)"
                  "<const float[2] s = {1, 1}, const float[2] b = {0, 0}, const float[] r = {0.5}, "
                  "const bool[] t = {1}>"
                  "{ d = Dropout(x, r, t)\n y, m, v = BatchNormalization<training_mode = 1>(d, s, b, s, b) }");
    REQUIRE(m);
    CHECK_INT(nc_artifacts_eval(&w, m, &(nc_artifacts_params){0}), NC_OK);
    CHECK(m->main->first->in[2] == NULL);
    CHECK_INT(m->main->last->n_out, 1);
    CHECK_INT(nc_node_attr(m->main->last, "training_mode")->i, 0);
    CHECK(m->main->outputs.v[0] == m->main->last->out[0]);
    CHECK(!nc_graph_find(m->main, "t"));
    end(&w, m, true);
}

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void check_file(const char *name, const char *inputs, const char *outputs) {
    nc_work w;
    nc_model *m = NULL;
    nc_work_init(&w);
    if (nc_onnx_load_file(&w, in_folder(name), nc_ops_registry(), &m) != NC_OK)
        nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text);
    if (m) check_names(m->main, inputs, outputs);
    nc_model_destroy(m);
    nc_work_release(&w);
    unlink(in_folder(name));
}

TEST(artifacts_files) {
    static const char *const freeze[] = {"?"}, *const train[] = {"w*"}, *const both[] = {"b"};
    snprintf(folder, sizeof folder, "/tmp/nacre_artifacts_XXXXXX");
    REQUIRE(mkdtemp(folder));
    nc_work w;
    nc_model *m = start(&w, linear);
    REQUIRE(m);
    nc_artifacts_ask a = {.trainable = train,
                          .n_trainable = 1,
                          .frozen = both,
                          .n_frozen = 1,
                          .folder = folder,
                          .prefix = "p_",
                          .loss = {.kind = NC_LOSS_MSE},
                          .nominal = true,
                          .optim = {.kind = NC_OPTIM_ADAMW, .beta1 = 0.9f, .beta2 = 0.99f, .max_norm = 1}};
    CHECK_INT(nc_artifacts_write(&w, m, &a), NC_OK);
    check_file("p_training_model.onnx", "x target w b w_grad.accumulation.buffer lazy_reset_grad",
               "loss w_grad.accumulation.out");
    check_file("p_eval_model.onnx", "x target w b", "loss");
    check_file("p_optimizer_model.onnx", "learning_rate step params gradients first_order_moments second_order_moments",
               "updated_flag");
    nc_checkpoint *c = NULL;
    REQUIRE(nc_checkpoint_load(&w, in_folder("p_checkpoint"), &c) == NC_OK);
    CHECK(c->params.n == 2 && nc_checkpoint_find(c, "w")->trainable && !nc_checkpoint_find(c, "b")->trainable);
    CHECK(((float *)nc_checkpoint_find(c, "w")->value->t.data)[5] == 6);
    nc_checkpoint_release(c);
    REQUIRE(nc_checkpoint_load(&w, in_folder("p_nominal_checkpoint"), &c) == NC_OK);
    CHECK(c->nominal && c->params.n == 2);
    nc_checkpoint_release(c);
    unlink(in_folder("p_checkpoint"));
    unlink(in_folder("p_nominal_checkpoint"));
    a.frozen = freeze;
    CHECK_INT(nc_artifacts_write(&w, m, &a), NC_E_ARGUMENT);
    CHECK(strstr(w.diag.text, "'w' cannot be trainable and frozen"));
    CHECK_INT(rmdir(folder), 0); /* nothing was written */
    end(&w, m, true);
}

TEST(artifacts_patterns_refuse) {
    static const struct {
        const char *train, *freeze, *text;
    } rows[] = {
        {"zz", NULL, "no initializer 'zz' that could be trainable"},
        {"w", "q*", "no initializer 'q*' that could be frozen"},
        {"steps", NULL, "'steps' is of int64, so it has no gradient"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nc_work w;
        nc_model *m = start(&w, linear);
        REQUIRE(m);
        nc_artifacts_ask a = {.trainable = &rows[i].train,
                              .n_trainable = 1,
                              .frozen = &rows[i].freeze,
                              .n_frozen = rows[i].freeze != NULL,
                              .folder = "/nowhere"};
        CHECK(nc_artifacts_write(&w, m, &a) != NC_OK);
        if (!strstr(w.diag.text, rows[i].text))
            nc_test_failed(__FILE__, __LINE__, "%s, expected %s", w.diag.text, rows[i].text);
        end(&w, m, true);
    }
}

static nc_code all_forms(nc_work *w, nc_model *training, nc_model *eval) {
    const char *moved[] = {"w", "b"};
    const nc_artifacts_params p = {moved, 2, moved, 1, NC_UNDEFINED};
    const nc_artifacts_loss loss = {.kind = NC_LOSS_CROSS_ENTROPY};
    const nc_artifacts_optim optim = {.kind = NC_OPTIM_ADAMW, .max_norm = 1};
    nc_model *optimizer = NULL;
    NC_TRY(nc_artifacts_add_loss(w, training, &loss));
    NC_TRY(nc_artifacts_training(w, training, &p, true));
    NC_TRY(nc_artifacts_add_loss(w, eval, &loss));
    NC_TRY(nc_artifacts_eval(w, eval, &p));
    NC_TRY(nc_artifacts_optimizer(w, eval->registry, eval->opsets, eval->n_opsets, NC_FLOAT, &optim, &optimizer));
    nc_model_destroy(optimizer);
    return NC_OK;
}

TEST(artifacts_every_allocation_fails) {
    bool hit = true;
    for (uint64_t n = 1; hit; n++) {
        nc_work w, other;
        uint64_t live = nc_mem_live();
        nc_model *training = start(&w, linear), *eval = start(&other, linear);
        REQUIRE(training && eval);
        uint64_t failures = nc_mem_failures();
        nc_mem_fail_at(n);
        nc_code code = nc_work_finish(&w, all_forms(&w, training, eval), failures);
        hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK_INT(code, hit ? NC_E_MEMORY : NC_OK);
        end(&w, training, false);
        end(&other, eval, false);
        CHECK_INT(nc_mem_live(), live);
    }
}
