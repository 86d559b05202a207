/* onnx/function_test.c: calls of model-local functions: names, defaults and references of attributes, absent
 * arguments, overloads, graphs inside functions and given to them, versions, random ids; recursion, depth and bombs are
 * refused; the work is linear in the calls. */
#include "base/mem.h"
#include "base/steps.h"
#include "ir/verify.h"
#include "onnx/limits.h"
#include "onnx/load.h"
#include "onnx/save.h"
#include "tests/onnx_run.h"

static void start(run *r) {
    *r = (run){0};
    put_header(&r->t, 10, 17);
    put_opset(&r->t, ModelProto_opset_import, "my", 1);
}

static void expect_fail(run *r, nc_code code, const char *text) {
    load_run(r);
    expect_failed(r, code, text);
}

/* A main graph x -> y with the nodes that `args` of calls of my.<op> say. */
static void put_calls(run *r, const char *op, const char *const *args, int n) {
    nc_wire_mark g = nc_wire_begin(&r->t, ModelProto_graph, 0);
    put_value(&r->t, GraphProto_input, "x", NC_FLOAT, "n");
    put_value(&r->t, GraphProto_input, "c", NC_BOOL, "");
    put_value(&r->t, GraphProto_output, "y", NC_FLOAT, "n");
    for (int i = 0; i < n; i++) nc_wire_end(&r->t, begin_node(&r->t, "call", op, "my", args[i]));
    nc_wire_end(&r->t, g);
}

TEST(function_inlined_twice) {
    run r;
    start(&r);
    nc_wire_mark f = begin_function(&r.t, "Twice", "a b -> s", 6);
    put_in_body(&r.t, "first", "Relu", "", "a -> h");
    put_in_body(&r.t, "", "Clip", "", "h b b -> s");
    nc_wire_end(&r.t, f);
    put_calls(&r, "Twice", (const char *[]){"x _ -> mid", "mid x -> y"}, 2);
    load_run(&r);
    CHECK_INT(r.code, NC_E_BAD_GRAPH); /* Clip came with opset 11, the function imports 6 */
    end_run(&r);

    start(&r);
    f = begin_function(&r.t, "Twice", "a b -> s", 13);
    put_in_body(&r.t, "first", "Relu", "", "a -> h");
    put_in_body(&r.t, "", "Clip", "", "h b b -> s");
    nc_wire_end(&r.t, f);
    put_calls(&r, "Twice", (const char *[]){"x _ -> mid", "mid x -> y"}, 2);
    load_run(&r);
    if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
    REQUIRE(r.m);
    const nc_graph *g = r.m->main;
    const nc_node *a = g->first, *b = a->next, *c = b->next, *d = c->next;
    REQUIRE(g->n_nodes == 4);
    CHECK_INT(a->version->since, 6); /* Relu at opset 13, where the model has 17 */
    CHECK_STR(a->name, "Twice_1/first");
    CHECK_STR(a->out[0]->name, "Twice_1/h");
    CHECK_STR(b->out[0]->name, "mid");
    CHECK_STR(c->name, "Twice_2/first");
    CHECK_STR(d->out[0]->name, "y");
    CHECK(!b->in[1] && !b->in[2] && d->in[1] == g->inputs.v[0] && c->in[0] == b->out[0]);
    CHECK(g->outputs.v[0] == d->out[0] && d->out[0]->type->rank == 1);
    nc_text out = {0};
    nc_model *again = NULL;
    CHECK_INT(nc_onnx_save(&r.w, r.m, &out), NC_OK);
    CHECK_INT(nc_onnx_load(&r.w, out.s, out.n, NULL, NULL, &test_registry, &again), NC_OK);
    CHECK(again && again->main->n_nodes == 4 && again->main->first->version->since == 6);
    nc_model_destroy(again);
    nc_text_release(&out);
    end_run(&r);
}

TEST(function_attributes) {
    run r;
    start(&r);
    nc_wire_mark f = begin_function(&r.t, "Inner", "a -> s", 17);
    nc_wire_mark n = begin_node_in(&r.t, FunctionProto_node, "", "All", "test", "a -> s");
    put_int_attr(&r.t, NodeProto_attribute, "i", 0, "given");
    nc_wire_end(&r.t, n);
    put_int_attr(&r.t, FunctionProto_attribute_proto, "given", 42, NULL);
    nc_wire_end(&r.t, f);
    f = begin_function(&r.t, "Outer", "a -> s", 17); /* hands its own attribute on, or lets the default be */
    n = begin_node_in(&r.t, FunctionProto_node, "", "Inner", "my", "a -> s");
    put_int_attr(&r.t, NodeProto_attribute, "given", 0, "outer");
    nc_wire_end(&r.t, n);
    nc_wire_end(&r.t, f);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
    n = begin_node(&r.t, "", "Outer", "my", "x -> p");
    put_int_attr(&r.t, NodeProto_attribute, "outer", 7, NULL);
    nc_wire_end(&r.t, n);
    nc_wire_end(&r.t, begin_node(&r.t, "", "Outer", "my", "p -> q"));
    nc_wire_end(&r.t, g);
    load_run(&r);
    if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
    REQUIRE(r.m && r.m->main->n_nodes == 2);
    CHECK_INT(nc_node_attr(r.m->main->first, "i")->i, 7);
    CHECK_INT(nc_node_attr(r.m->main->last, "i")->i, 42);
    end_run(&r);

    start(&r);
    g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    n = begin_node(&r.t, "", "All", "test", "-> y");
    put_int_attr(&r.t, NodeProto_attribute, "i", 0, "nowhere");
    nc_wire_end(&r.t, n);
    nc_wire_end(&r.t, g);
    expect_fail(&r, NC_E_BAD_MODEL, "attribute 'i' has ref_attr_name outside a function");
}

static void put_graph_attr(nc_text *t, const char *name, const char *ref, const char *args, const char *out) {
    nc_wire_mark a = nc_wire_begin(t, NodeProto_attribute, 0);
    nc_wire_put_str(t, AttributeProto_name, name);
    nc_wire_put_int(t, AttributeProto_type, NC_PB_A_GRAPH);
    if (ref) {
        nc_wire_put_str(t, AttributeProto_ref_attr_name, ref);
    } else {
        nc_wire_mark g = nc_wire_begin(t, AttributeProto_g, 0);
        nc_wire_put_str(t, GraphProto_name, name);
        put_node(t, "", "Relu", args);
        put_value(t, GraphProto_output, out, NC_FLOAT, "n");
        nc_wire_end(t, g);
    }
    nc_wire_end(t, a);
}

/* One branch is the function's own and captures its formal input, the other is the caller's and captures the caller's
 * value of the same name. */
TEST(function_graphs_capture_where_they_are_written) {
    run r;
    start(&r);
    nc_wire_mark f = begin_function(&r.t, "Choose", "cond x -> s", 17);
    nc_wire_mark n = begin_node_in(&r.t, FunctionProto_node, "", "If", "", "cond -> s");
    put_graph_attr(&r.t, "then_branch", NULL, "x -> inner", "inner");
    put_graph_attr(&r.t, "else_branch", "other", NULL, NULL);
    nc_wire_end(&r.t, n);
    nc_wire_end(&r.t, f);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
    put_value(&r.t, GraphProto_input, "z", NC_FLOAT, "n");
    put_value(&r.t, GraphProto_input, "c", NC_BOOL, "");
    n = begin_node(&r.t, "", "Choose", "my", "c z -> y");
    put_graph_attr(&r.t, "other", NULL, "x -> inner", "inner");
    nc_wire_end(&r.t, n);
    put_value(&r.t, GraphProto_output, "y", NC_FLOAT, "n");
    nc_wire_end(&r.t, g);
    load_run(&r);
    if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
    REQUIRE(r.m && r.m->main->n_nodes == 1);
    const nc_node *k = r.m->main->first;
    REQUIRE(k->n_operands == 3);
    CHECK(k->in[1] == r.m->main->inputs.v[1] && k->in[2] == r.m->main->inputs.v[0]);
    CHECK_STR(k->subs[0].graph->first->out[0]->name, "Choose_1/inner");
    end_run(&r);
}

TEST(function_random_ids_differ_by_call) {
    run r;
    start(&r);
    nc_wire_mark f = begin_function(&r.t, "Noise", "a -> s", 17);
    nc_wire_mark n = begin_node_in(&r.t, FunctionProto_node, "", "Dropout", "", "a -> s");
    put_entry(&r.t, NodeProto_metadata_props, NC_PB_RANDOM_KEY, "3");
    nc_wire_end(&r.t, n);
    nc_wire_end(&r.t, f);
    put_calls(&r, "Noise", (const char *[]){"x -> p", "p -> q", "q -> y"}, 3);
    for (int k = 0; k < 2; k++) {
        load_run(&r);
        REQUIRE(r.m && r.m->main->n_nodes == 3);
        const nc_node *a = r.m->main->first;
        CHECK(a->random_id == 1 && a->next->random_id == 2 && r.m->main->last->random_id == 3);
        nc_model_destroy(r.m);
        nc_work_release(&r.w);
        r.m = NULL;
    }
    nc_text_release(&r.t);
}

TEST(function_passes_its_input_on) {
    run r;
    start(&r);
    nc_wire_end(&r.t, begin_function(&r.t, "Same", "a b -> a b", 17));
    put_calls(&r, "Same", (const char *[]){"x -> y"}, 1);
    load_run(&r);
    if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
    REQUIRE(r.m);
    CHECK(r.m->main->outputs.v[0] == r.m->main->inputs.v[0] && r.m->main->n_nodes == 0);
    end_run(&r);
    start(&r);
    nc_wire_end(&r.t, begin_function(&r.t, "Same", "a b -> a b", 17));
    put_calls(&r, "Same", (const char *[]){"x -> y z"}, 1);
    expect_fail(&r, NC_E_BAD_GRAPH, "function 'Same': output 'b' is not defined");
}

TEST(function_bad_calls) {
    static const struct {
        const char *args, *text;
    } cases[] = {{"x x x -> y", "takes at most 2 inputs, got 3"},
                 {"x -> y z", "gives 1 outputs, not 2"},
                 {"gone -> y", "'gone' is not defined before this node"},
                 {"x -> x", "'x' is already defined in it"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r;
        start(&r);
        nc_wire_mark f = begin_function(&r.t, "F", "a b -> s", 17);
        put_in_body(&r.t, "", "Relu", "", "a -> s");
        nc_wire_end(&r.t, f);
        put_calls(&r, "F", &cases[i].args, 1);
        expect_fail(&r, NC_E_BAD_GRAPH, cases[i].text);
    }
    run r;
    start(&r);
    for (int k = 0; k < 2; k++) nc_wire_end(&r.t, begin_function(&r.t, "F", "-> ", 17));
    put_calls(&r, "F", NULL, 0);
    expect_fail(&r, NC_E_BAD_MODEL, "function 'F' of domain 'my' is there twice");
    start(&r);
    nc_wire_mark f = begin_function(&r.t, "F", "a -> s", 17);
    put_in_body(&r.t, "", "Relu", "", "x -> s"); /* a name of the caller */
    nc_wire_end(&r.t, f);
    put_calls(&r, "F", (const char *[]){"x -> y"}, 1);
    expect_fail(&r, NC_E_BAD_GRAPH, "'x' is not defined before this node");
}

TEST(function_recursion_is_refused) {
    run r;
    start(&r);
    const char *calls[] = {"Pong", "Ping"};
    for (int k = 0; k < 2; k++) {
        nc_wire_mark f = begin_function(&r.t, k ? "Pong" : "Ping", "a -> s", 17);
        put_in_body(&r.t, "", calls[k], "my", "a -> s");
        nc_wire_end(&r.t, f);
    }
    put_calls(&r, "Ping", (const char *[]){"x -> y"}, 1);
    expect_fail(&r, NC_E_BAD_GRAPH, "function 'Ping' calls itself");
}

/* F0 is an Identity; F<k> calls F<k-1> `width` times in a row. */
static void put_tower(run *r, int depth, int width) {
    char name[16], inner[16], args[32];
    for (int k = 0; k <= depth; k++) {
        snprintf(name, sizeof name, "F%d", k);
        snprintf(inner, sizeof inner, "F%d", k - 1);
        nc_wire_mark f = begin_function(&r->t, name, "v0 -> s", 17);
        for (int i = 0; i < width; i++) {
            if (i + 1 < width)
                snprintf(args, sizeof args, "v%d -> v%d", i, i + 1);
            else
                snprintf(args, sizeof args, "v%d -> s", i);
            put_in_body(&r->t, "", k ? inner : "Identity", k ? "my" : "", args);
        }
        nc_wire_end(&r->t, f);
    }
}

TEST(function_depth_is_limited) {
    for (int depth = NC_ONNX_MAX_CALLS - 1; depth <= NC_ONNX_MAX_CALLS; depth++) {
        run r;
        char top[16];
        start(&r);
        put_tower(&r, depth, 1);
        snprintf(top, sizeof top, "F%d", depth);
        put_calls(&r, top, (const char *[]){"x -> y"}, 1);
        if (depth == NC_ONNX_MAX_CALLS) {
            expect_fail(&r, NC_E_LIMIT, "calls are nested deeper than 32");
            break;
        }
        load_run(&r);
        CHECK(r.m && r.m->main->n_nodes == 1);
        end_run(&r);
    }
}

/* 8^12 nodes out of two kilobytes. */
TEST(function_bomb_is_refused) {
    if (nc_test_emulated()) {
        nc_test_not_run("emulated: ten million nodes, to a limit that is the same everywhere");
        return;
    }
    run r;
    start(&r);
    put_tower(&r, 11, 8);
    put_calls(&r, "F11", (const char *[]){"x -> y"}, 1);
    uint64_t before = nc_mem_bytes();
    load_run(&r);
    CHECK_INT(r.code, NC_E_LIMIT);
    CHECK(nc_mem_bytes() - before < (uint64_t)4 << 30);
    end_run(&r);
}

typedef struct work {
    uint64_t steps, bytes;
} work;

static work to_load(int calls) {
    run r;
    char(*args)[40] = nc_alloc((size_t)calls * sizeof *args);
    const char **list = nc_alloc((size_t)calls * sizeof *list);
    start(&r);
    put_tower(&r, 7, 1);
    for (int i = 0; i < calls; i++) {
        if (i)
            snprintf(args[i], sizeof *args, "v%d -> v%d", i - 1, i);
        else
            snprintf(args[i], sizeof *args, "x -> v0");
        if (i + 1 == calls) snprintf(args[i], sizeof *args, "v%d -> y", i - 1);
        list[i] = args[i];
    }
    put_calls(&r, "F7", list, calls);
    work begin = {nc_steps(), nc_mem_bytes()};
    load_run(&r);
    work did = {nc_steps() - begin.steps, nc_mem_bytes() - begin.bytes};
    CHECK(r.m && r.m->main->n_nodes == calls);
    end_run(&r);
    nc_free(args);
    nc_free(list);
    return did;
}

/* Maps grow by doubling: what is asked for and what is probed jumps by a part, whatever the size. */
TEST(function_work_is_linear) {
    work once = to_load(4096), four = to_load(4 * 4096);
    CHECK(once.steps > 4096 && once.bytes > 4096);
    CHECK(four.steps < 5 * once.steps);
    CHECK(four.bytes < 5 * once.bytes);
}

TEST(function_out_of_memory) {
    run r;
    start(&r);
    put_tower(&r, 2, 2);
    put_calls(&r, "F2", (const char *[]){"x -> y"}, 1);
    for (uint64_t n = 1;; n++) {
        uint64_t live = nc_mem_live();
        nc_mem_fail_at(n);
        nc_work w;
        nc_model *m = NULL;
        nc_work_init(&w);
        nc_code code = nc_onnx_load(&w, r.t.s, r.t.n, NULL, NULL, &test_registry, &m);
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK_INT(code, hit ? NC_E_MEMORY : NC_OK);
        nc_model_destroy(m);
        nc_work_release(&w);
        CHECK_INT(nc_mem_live(), live);
        if (!hit || nc_test_has_failed()) break;
    }
    nc_text_release(&r.t);
}
