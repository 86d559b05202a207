/* api/graph_test.c: looking into a model and changing it through nacre_graph.h. */
#include "nacre/nacre_graph.h"

#include "tests/check.h"

static const char text[] =
    "<opset: \"\" 17>\n"
    "g (float[n,4] x, bool[] c) => (float[n,2] y)\n"
    "<const float[4,2] W = {1, 2, 3, 4, 5, 6, 7, 8}>\n"
    "{ i = Identity(x) \"same\"\n h = MatMul(i, W) \"mm\"\n"
    "  y = If<then_branch = { () => (a) { a = Neg(^h) } }, else_branch = { () => (b) { b = Exp(^h) } }>(c) "
    "\"choose\" }\n";

TEST(graph_is_seen_node_by_node) {
    nacre_env *env;
    nacre_model *m, *copy;
    nacre_error err;
    char type[64];
    REQUIRE(nacre_env_create(1, &env, &err) == NACRE_OK);
    REQUIRE(nacre_model_parse(env, text, &m, &err) == NACRE_OK);
    REQUIRE(nacre_model_infer(m, &err) == NACRE_OK);
    const nacre_graph *g = nacre_model_graph(m);
    CHECK(nacre_graph_n_nodes(g) == 3 && nacre_graph_n_inputs(g) == 2 && nacre_graph_n_constants(g) == 1);
    CHECK_STR(nacre_graph_output_name(g, 0), "y");
    CHECK(!nacre_graph_input(g, 2) && !nacre_graph_constant(g, 1) && !nacre_graph_output_name(g, 1));
    const nacre_node *mm = nacre_node_next(nacre_graph_first(g));
    CHECK_STR(nacre_node_name(mm), "mm");
    CHECK_STR(nacre_node_op(mm), "MatMul");
    nacre_graph_value_type(nacre_node_output(mm, 0), type, sizeof type);
    CHECK_STR(type, "float[n,2]");
    CHECK_INT(nacre_graph_value_bytes(nacre_node_output(mm, 0)), -1);
    CHECK_INT(nacre_graph_value_bytes(nacre_node_input(mm, 1)), 32);
    CHECK(nacre_graph_value_is_constant(nacre_node_input(mm, 1)));
    const nacre_node *choose = nacre_node_next(mm);
    CHECK(nacre_node_n_graphs(choose) == 2 && !nacre_node_next(choose));
    CHECK_STR(nacre_node_op(nacre_graph_first(nacre_node_graph(choose, 1))), "Exp");

    REQUIRE(nacre_model_clone(m, &copy, &err) == NACRE_OK);
    CHECK_INT(nacre_model_add_output(copy, "h", &err), NACRE_OK);
    CHECK_INT(nacre_model_add_output(copy, "h", &err), NACRE_OK);
    CHECK(nacre_graph_n_outputs(nacre_model_graph(copy)) == 2 && nacre_graph_n_outputs(g) == 1);
    CHECK_INT(nacre_model_add_output(copy, "nowhere", &err), NACRE_ARGUMENT);
    const char *level = NULL, *doc = NULL;
    CHECK_STR(nacre_pass_name(0, &level, &doc), "branches");
    CHECK(level && strcmp(level, "basic") == 0 && doc && !nacre_pass_name(1000, NULL, NULL));
    CHECK_INT(nacre_model_optimize(copy, "sideways", NULL, 0, &err), NACRE_ARGUMENT);
    CHECK_INT(nacre_model_optimize(copy, "all", NULL, 0, &err), NACRE_OK);
    CHECK_INT(nacre_graph_n_nodes(nacre_model_graph(copy)), 2); /* the Identity is gone */
    nacre_model_release(copy);
    nacre_model_release(m);
    nacre_env_release(env);
}

TEST(machine_and_types_are_described) {
    nacre_env *env;
    nacre_error err;
    char *machine;
    REQUIRE(nacre_env_create(3, &env, &err) == NACRE_OK);
    REQUIRE(nacre_env_describe_machine(env, &machine, &err) == NACRE_OK);
    CHECK(strstr(machine, "isa\t") && strstr(machine, "threads\t3\n") && strstr(machine, "portable"));
    nacre_free(machine);
    nacre_env_release(env);
    CHECK_STR(nacre_type_name(NACRE_FLOAT16), "float16");
    CHECK_INT(nacre_type_bytes(NACRE_DOUBLE), 8);
    CHECK_INT(nacre_type_bytes(NACRE_STRING), 0);
}
