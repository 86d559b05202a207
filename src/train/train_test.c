/* Training graphs as text: variables, updates and outputs that were added. */
#include "train/train.h"

#include "tests/grad_cards.h"
#include "ir/verify.h"
#include "tests/graph_testing.h"

static const char model[] = "(float[2] x) => (loss)"
                            "<const float[2] w = {1, 2}, const float[] b = {0}, const float[] unused = {3}>"
                            "{ h = Mul(x, w)\n k = Add(h, b)\n loss = ReduceSum<keepdims = 0>(k) }";

static nc_model *start(nc_work *w) {
    nc_work_init(w);
    nc_model *m = test_model(w, &nc_test_cards, model);
    if (!m) nc_test_failed(__FILE__, __LINE__, "%s", w->diag.text);
    return m;
}

static void end(nc_work *w, nc_model *m) {
    if (nc_verify(w, m) != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s", w->diag.text);
    nc_model_destroy(m);
    nc_work_release(w);
}

TEST(sgd_of_all_parameters) {
    nc_work w;
    nc_model *m = start(&w);
    REQUIRE(m != NULL);
    CHECK_INT(nc_train_sgd(&w, m, "loss", NULL, 0, "lr"), NC_OK);
    REQUIRE(m->main->vars.n == 2);
    CHECK_STR(m->main->vars.v[0]->name, "w");
    CHECK_EXPR(m->main->vars.v[0]->last, "Sub(w, Mul(lr, Mul(Expand(1, [2]), x)))");
    CHECK(m->main->vars.v[0]->last->def->stage == NC_STAGE_UPDATE);
    CHECK(m->main->vars.v[0]->initial != NULL);
    CHECK_STR(m->main->vars.v[1]->name, "b");
    CHECK_INT(m->main->inputs.n, 2);
    CHECK_TYPE(m->main->inputs.v[1]->type, "float[]");
    end(&w, m);
}

TEST(sgd_of_named_parameters_leaves_others_constant) {
    nc_work w;
    nc_model *m = start(&w);
    REQUIRE(m != NULL);
    const char *names[] = {"b"};
    CHECK_INT(nc_train_sgd(&w, m, "loss", names, 1, "lr"), NC_OK);
    REQUIRE(m->main->vars.n == 1);
    CHECK_STR(m->main->vars.v[0]->name, "b");
    CHECK(nc_graph_find(m->main, "w")->origin == NC_FROM_CONST);
    end(&w, m);
}

TEST(accumulated_gradients_are_variables_beside_their_parameters) {
    nc_work w;
    nc_model *m = start(&w);
    REQUIRE(m != NULL);
    const char *names[] = {"w", "unused"};
    CHECK_INT(nc_train_accumulate(&w, m, "loss", names, 2), NC_OK);
    REQUIRE(m->main->vars.n == 4);
    CHECK(m->main->vars.v[0]->last == m->main->vars.v[0]->first); /* read, not written */
    CHECK_STR(m->main->vars.v[2]->name, "grad:w");
    CHECK_EXPR(m->main->vars.v[2]->last, "Add(grad:w, Mul(Expand(1, [2]), x))");
    CHECK_STR(m->main->vars.v[3]->name, "grad:unused");
    CHECK(m->main->vars.v[3]->last == m->main->vars.v[3]->first); /* no influence: the sum stays zeros */
    CHECK(!m->main->vars.v[3]->initial);
    CHECK_INT(m->main->inputs.n, 1);
    end(&w, m);
}

TEST(sgd_refuses_unknown_names) {
    nc_work w;
    nc_model *m = start(&w);
    REQUIRE(m != NULL);
    CHECK_INT(nc_train_sgd(&w, m, "lost", NULL, 0, "lr"), NC_E_ARGUMENT);
    CHECK_DIAG(&w, "no output 'lost'");
    end(&w, m);
    m = start(&w);
    REQUIRE(m != NULL);
    const char *names[] = {"x"};
    CHECK_INT(nc_train_sgd(&w, m, "loss", names, 1, "lr"), NC_E_ARGUMENT);
    CHECK_DIAG(&w, "'x' is an input");
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(gradients_become_outputs) {
    nc_work w;
    nc_model *m = start(&w);
    REQUIRE(m != NULL);
    const char *names[] = {"x", "unused"};
    CHECK_INT(nc_train_gradients(&w, m, "loss", names, 2), NC_OK);
    REQUIRE(m->main->outputs.n == 3);
    CHECK_STR(m->main->output_names.v[1], "grad:x");
    CHECK_EXPR(m->main->outputs.v[1], "Mul(Expand(1, [2]), w)");
    CHECK_STR(m->main->output_names.v[2], "grad:unused");
    CHECK_EXPR(m->main->outputs.v[2], "0");
    end(&w, m);
}

TEST(backward_takes_gradients_as_inputs) {
    nc_work w;
    nc_model *m = start(&w);
    REQUIRE(m != NULL);
    const char *outputs[] = {"loss"}, *names[] = {"x"};
    CHECK_INT(nc_train_backward(&w, m, outputs, 1, names, 1), NC_OK);
    REQUIRE(m->main->inputs.n == 2 && m->main->outputs.n == 2);
    CHECK_STR(m->main->inputs.v[1]->name, "d:loss");
    CHECK_EXPR(m->main->outputs.v[1], "Mul(Expand(d:loss, [2]), w)");
    end(&w, m);
}
