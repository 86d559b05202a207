/* Variables updated in place that are also read through views, before and after; swaps; cancelled updates; several
 * states. */
#include "tests/model.h"

#include <stdlib.h>

/* before = relu(column of w); w_1 = w - g; after = relu(column of w_1); late = column of w + sum(w_1): reads the old
 * after the new. */
static const char text[] = "<opset: \"\" 17>\n"
                           "g (float[2,3] g) => (float[2,1] before, float[2,1] after, float[2,1] late)\n"
                           "<const int64[1] c0 = {1}, const int64[1] c1 = {2}, const int64[1] ax = {1}, var float[2,3] "
                           "w = {1,2,3,4,5,6} -> w_1>\n"
                           "{\n"
                           "  v = Slice(w, c0, c1, ax)\n"
                           "  w_1 = Sub(w, g)\n"
                           "  sum = ReduceSum<keepdims = 0>(w_1)\n"
                           "  late = Add(v, sum)\n"
                           "  v1 = Slice(w_1, c0, c1, ax)\n"
                           "  after = Relu(v1)\n"
                           "  before = Relu(v)\n"
                           "}\n";

static void in_place(model *m) {
    float g[6] = {1, 1, 1, 1, 1, 1}, w[6] = {1, 2, 3, 4, 5, 6};
    model_open(m, text);
    CHECK_INT(model_dump_count(m, "program", "updates state"), 1);
    for (int step = 0; step < 3; step++) {
        model_input(m, "g", NACRE_FLOAT, 2, D(2, 3), g);
        model_run(m);
        float sum = 0;
        for (int i = 0; i < 6; i++) sum += w[i] - 1;
        const float *before = model_floats(m, "before", 2), *after = model_floats(m, "after", 2),
                    *late = model_floats(m, "late", 2);
        for (int r = 0; r < 2; r++) {
            CHECK_NEAR(before[r], w[r * 3 + 1] > 0 ? w[r * 3 + 1] : 0, 0);
            CHECK_NEAR(after[r], w[r * 3 + 1] - 1 > 0 ? w[r * 3 + 1] - 1 : 0, 0);
            CHECK_NEAR(late[r], w[r * 3 + 1] + sum, 0);
        }
        for (int i = 0; i < 6; i++) w[i] -= 1;
        model_collect_all(m);
    }
    nacre_value *now = model_variable(m, "w");
    if (now) CHECK(memcmp(nacre_value_data(now), w, sizeof w) == 0);
    model_collect(m, now);
    nacre_value_release(now);
}

TEST(variable_read_through_views_before_and_after_its_update) { model_everywhere(in_place); }

/* a, b = b + 1, a + 1: each update reads what the other overwrites. */
static void swap(model *m) {
    model_open(m, "<opset: \"\" 17>\ng (float[2] x) => (float[2] y)\n"
                  "<const float[] one = {1}, var float[2] a = {1,2} -> a_1, var float[2] b = {10,20} -> b_1>\n"
                  "{\n  p = Add(b, one)\n  q = Add(a, one)\n  a_1 = nacre.Assign(a, p)\n  b_1 = nacre.Assign(b, q)\n  "
                  "y = Add(x, a_1)\n}\n");
    float x[2] = {0, 0};
    model_input(m, "x", NACRE_FLOAT, 1, D(2), x);
    model_run(m);
    CHECK_NEAR(model_floats(m, "y", 2)[0], 11, 0);
    model_run(m);
    CHECK_NEAR(model_floats(m, "y", 2)[0], 3, 0); /* b was 2: a is 2 + 1 */
    nacre_value *b = model_variable(m, "b");
    if (b) CHECK_NEAR(((float *)nacre_value_data(b))[1], 22, 0); /* a was 21 */
    model_collect(m, b);
    nacre_value_release(b);
}

TEST(variables_that_swap_their_contents) { model_everywhere(swap); }

/* The update reads its own variable through a view: w - transpose(w) must see the old one everywhere. */
static void own_view(model *m) {
    model_open(m, "<opset: \"\" 17>\ng (float[3,3] x) => (float[3,3] y)\n"
                  "<var float[3,3] w = {1,2,3,4,5,6,7,8,9} -> w_1>\n"
                  "{\n  t = Transpose(w)\n  w_1 = Sub(w, t)\n  y = Add(w_1, x)\n}\n");
    float x[9] = {0};
    model_input(m, "x", NACRE_FLOAT, 2, D(3, 3), x);
    model_run(m);
    const float *y = model_floats(m, "y", 9);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) CHECK_NEAR(y[i * 3 + j], (3 * i + j + 1) - (3 * j + i + 1), 0);
    model_collect_all(m);
}

TEST(variable_updated_from_a_view_of_itself) { model_everywhere(own_view); }

/* A new value that cannot be written over the old one gets an Assign. */
static void assigned(model *m) {
    model_open(m, "<opset: \"\" 17>\ng (float[2,2] x) => (float[2,2] y)\n<var float[2,2] s = {1,0,0,1} -> s_1>\n"
                  "{\n  s_1 = MatMul(s, x)\n  y = Neg(s_1)\n}\n");
    float x[4] = {1, 1, 0, 1};
    CHECK_INT(model_dump_count(m, "lowered", "nacre.Assign"), 1);
    model_input(m, "x", NACRE_FLOAT, 2, D(2, 2), x);
    for (int i = 1; i < 4; i++) {
        model_run(m);
        CHECK_NEAR(model_floats(m, "y", 4)[1], -i, 0);
    }
    model_collect_all(m);
}

TEST(variable_whose_update_is_not_in_place) { model_everywhere(assigned); }

/* ---- failure ---- */

static void load(model *m) {
    char path[1024];
    const char *folder = getenv("NC_TEST_PLUGINS");
    snprintf(path, sizeof path, "%s/compact.so", folder ? folder : NC_TEST_PLUGINS);
    if (nacre_env_load_plugin(m->env, path, &m->err) != NACRE_OK) nc_test_failed(__FILE__, __LINE__, "%s", m->err.text);
}

/* The custom op cancels its own run; what comes after it does not start. `late` chooses whether the update comes before
 * it. */
static const char cancel_after[] = "<opset: \"\" 17, \"test.plugin\" 1>\n"
                                   "g (float[3] g) => (float[3] y)\n<var float[3] w = {1,2,3} -> w_1>\n"
                                   "{\n  w_1 = Sub(w, g)\n  c = test.plugin.Cancel(w_1)\n  y = Neg(c)\n}\n";
static const char cancel_before[] = "<opset: \"\" 17, \"test.plugin\" 1>\n"
                                    "g (float[3] g) => (float[3] y)\n<var float[3] w = {1,2,3} -> w_1>\n"
                                    "{\n  c = test.plugin.Cancel(g)\n  w_1 = Sub(w, c)\n  y = Neg(w_1)\n}\n";

static void cancel(model *m, const char *graph, bool dirty) {
    float g[3] = {1, 1, 1};
    char target[64];
    void (*stop)(nacre_run_options *, int) = nacre_run_options_cancel;
    load(m);
    model_open(m, graph);
    model_input(m, "g", NACRE_FLOAT, 1, D(3), g);
    snprintf(target, sizeof target, "%p %p", (void *)m->run, *(void **)&stop);
    setenv("NACRE_TEST_CANCEL", target, 1);
    CHECK_INT(model_try_run(m), NACRE_CANCELLED);
    unsetenv("NACRE_TEST_CANCEL");
    nacre_run_options_cancel(m->run, 0);
    CHECK_INT(nacre_state_is_dirty(m->session, NULL), dirty);
    if (!dirty) {
        model_run(m);
        CHECK_NEAR(model_floats(m, "y", 3)[0], 0, 0);
        return;
    }
    CHECK_INT(model_try_run(m), NACRE_STATE);
    CHECK(strstr(m->err.text, "dirty") != NULL);
    CHECK_INT(nacre_state_reset(m->session, NULL, &m->err), NACRE_OK);
    model_run(m);
    CHECK_NEAR(model_floats(m, "y", 3)[2], -2, 0);
    model_collect_all(m);
}

static void cancel_late(model *m) { cancel(m, cancel_after, true); }
static void cancel_early(model *m) { cancel(m, cancel_before, false); }
/* Setting what the failed run updates is as good as a reset; the rest of the state is kept. */
static void mend(model *m) {
    float g[3] = {1, 1, 1};
    char target[64];
    void (*stop)(nacre_run_options *, int) = nacre_run_options_cancel;
    load(m);
    model_open(m, cancel_after);
    model_input(m, "g", NACRE_FLOAT, 1, D(3), g);
    snprintf(target, sizeof target, "%p %p", (void *)m->run, *(void **)&stop);
    setenv("NACRE_TEST_CANCEL", target, 1);
    CHECK_INT(model_try_run(m), NACRE_CANCELLED);
    unsetenv("NACRE_TEST_CANCEL");
    nacre_run_options_cancel(m->run, 0);
    CHECK_INT(model_try_run(m), NACRE_STATE);
    CHECK(strstr(m->err.text, "'w'") != NULL);
    nacre_value *v;
    if (nacre_value_tensor(NACRE_FLOAT, 1, D(3), g, &v, &m->err) != NACRE_OK) return;
    CHECK_INT(nacre_state_set(m->session, NULL, "w", v, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_is_dirty(m->session, NULL), 0);
    model_run(m);
    CHECK_NEAR(model_floats(m, "y", 3)[2], 0, 0);
    nacre_value_release(v);
}
TEST(setting_what_a_cancelled_run_updates_mends_the_state) { model_everywhere(mend); }
TEST(cancelled_update_leaves_the_state_dirty) { model_everywhere(cancel_late); }
TEST(cancelled_before_the_update_leaves_the_state_clean) { model_everywhere(cancel_early); }

static void states(model *m) {
    float g[6] = {1, 0, 0, 0, 0, 0};
    nacre_state *other;
    model_open(m, text);
    if (m->failed || nacre_state_create(m->session, &other, &m->err) != NACRE_OK) return;
    model_input(m, "g", NACRE_FLOAT, 2, D(2, 3), g);
    model_run(m);
    model_run(m);
    nacre_run_options_state(m->run, other);
    model_run(m);
    nacre_value *a = model_variable(m, "w"), *b = NULL;
    CHECK_INT(nacre_state_get(m->session, other, "w", &b, &m->err), NACRE_OK);
    if (a && b) {
        CHECK_NEAR(((float *)nacre_value_data(a))[0], -1, 0);
        CHECK_NEAR(((float *)nacre_value_data(b))[0], 0, 0);
    }
    nacre_value_release(a);
    nacre_value_release(b);
    nacre_state_release(other);
}

TEST(several_states_of_one_session) { model_everywhere(states); }
