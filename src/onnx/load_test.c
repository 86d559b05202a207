/* onnx/load_test.c: models written by hand with the wire writer: what loads, what is refused and with which words,
 * and that truncated, damaged and memory-starved loads fail cleanly. */
#include "onnx/load.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/steps.h"
#include "ir/edit.h"
#include "ir/verify.h"
#include "onnx/limits.h"
#include "onnx/save.h"
#include "tests/onnx_run.h"

#include <stdlib.h>
#include <unistd.h>

/* Loads r->t from a block of exactly its size at an odd address, so that sanitizers see every byte read beyond it. */
static void load(run *r, const char *folder) {
    char *block = malloc(r->t.n + 1);
    memcpy(block + 1, r->t.s ? r->t.s : "", r->t.n);
    nc_buffer *b = nc_buffer_wrap(block + 1, r->t.n, NULL, NULL);
    nc_work_init(&r->w);
    r->m = NULL;
    r->code = b ? nc_onnx_load(&r->w, block + 1, r->t.n, b, folder, &test_registry, &r->m) : NC_E_MEMORY;
    CHECK((r->code == NC_OK) == (r->m != NULL));
    if (r->m && r->code == NC_OK) {
        nc_text again = {0};
        CHECK(nc_verify(&r->w, r->m) == NC_OK);
        nc_code saved = nc_onnx_save(&r->w, r->m, &again);
        CHECK((saved == NC_OK) == (r->w.diag.code == NC_OK));
        nc_text_release(&again);
    }
    nc_model_destroy(r->m);
    nc_work_release(&r->w);
    nc_work_init(&r->w);
    r->m = NULL;
    r->code = b ? nc_onnx_load(&r->w, block + 1, r->t.n, NULL, folder, &test_registry, &r->m) : NC_E_MEMORY;
    nc_buffer_unref(b);
    free(block);
}

static void expect_fail(run *r, nc_code code, const char *text) {
    load(r, NULL);
    expect_failed(r, code, text);
}

TEST(load_small_model) {
    run r = {0};
    put_model(&r.t);
    load(&r, NULL);
    if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
    REQUIRE(r.m);
    nc_graph *g = r.m->main;
    CHECK_STR(g->name, "small");
    CHECK_INT(g->inputs.n, 3);
    CHECK_INT(g->consts.n, 0);
    CHECK_INT(g->n_nodes, 4);
    CHECK_INT(g->outputs.n, 2);
    CHECK_INT(nc_model_opset(r.m, ""), 17);
    const nc_value *w = nc_graph_find(g, "W"), *x = g->inputs.v[0], *a = nc_graph_find(g, "a");
    REQUIRE(w && w->initial && !w->lit && a && a->type);
    float third;
    memcpy(&third, (const char *)w->initial->data + 8, 4);
    CHECK(w->initial->n == 3 && third == 3.0f);
    CHECK(nc_type_equal(a->type, x->type));
    CHECK_STR(nc_dims_sym_name(r.m->dims, nc_dim_sym_id(x->type->dims[0])), "n");
    CHECK_STR(nc_dims_sym_name(r.m->dims, nc_dim_sym_id(g->outputs.v[0]->type->dims[1])), "y_dim1");
    CHECK_INT(g->outputs.v[1]->type->rank, -1);
    const nc_node *drop = nc_graph_find_node(g, "drop"), *cond = nc_graph_find_node(g, "choose");
    REQUIRE(drop && cond);
    CHECK(drop->n_out == 2 && !drop->out[1] && drop->random_id == 1 && r.m->next_random_id == 2);
    CHECK_INT(cond->n_subs, 2);
    CHECK_INT(cond->n_operands, 4); /* c, x and W of one branch, x of the other */
    CHECK(cond->subs[0].graph->captures.n == 2 && cond->subs[1].graph->captures.n == 1);
    CHECK(cond->in[1] == x && cond->in[2] == w && cond->in[3] == x);
    end_run(&r);
}

TEST(load_refuses_bad_names) {
    run r = {0};
    put_header(&r.t, 8, 17);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
    put_node(&r.t, "second", "Relu", "never -> y");
    put_node(&r.t, "first", "Relu", "x -> late");
    nc_wire_end(&r.t, g);
    expect_fail(&r, NC_E_BAD_GRAPH, "'never' is not defined before this node");

    put_header(&r.t, 8, 17);
    g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
    put_node(&r.t, "first", "Relu", "x -> x");
    nc_wire_end(&r.t, g);
    expect_fail(&r, NC_E_BAD_GRAPH, "'x' is already defined in it");

    put_header(&r.t, 8, 17);
    g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    put_value(&r.t, GraphProto_output, "nothing", NC_FLOAT, "n");
    nc_wire_end(&r.t, g);
    expect_fail(&r, NC_E_BAD_GRAPH, "output 'nothing' is not defined");
}

static nc_wire_mark begin_branch(nc_text *t, const char *attr, nc_wire_mark *attribute) {
    *attribute = nc_wire_begin(t, NodeProto_attribute, 0);
    nc_wire_put_str(t, AttributeProto_name, attr);
    nc_wire_put_int(t, AttributeProto_type, NC_PB_A_GRAPH);
    nc_wire_mark g = nc_wire_begin(t, AttributeProto_g, 0);
    nc_wire_put_str(t, GraphProto_name, attr);
    return g;
}

/* Both branches call x, an initializer and a node's output what the graph around them calls otherwise; the second one
 * uses its own `t` before the file makes it. */
static void put_shadows(nc_text *t) {
    nc_wire_mark n = begin_node(t, "choose", "If", "", "c -> y"), a, g = begin_branch(t, "then_branch", &a);
    put_floats(t, GraphProto_initializer, "x", 3);
    put_node(t, "", "Relu", "x -> t");
    put_value(t, GraphProto_output, "t", NC_FLOAT, "n");
    nc_wire_end(t, g);
    nc_wire_end(t, a);
    g = begin_branch(t, "else_branch", &a);
    put_node(t, "", "Relu", "t -> y");
    put_node(t, "", "Identity", "x -> t");
    put_value(t, GraphProto_output, "y", NC_FLOAT, "n");
    nc_wire_end(t, g);
    nc_wire_end(t, a);
    nc_wire_end(t, n);
}

TEST(load_inner_names_hide_outer_ones) {
    for (int late = 0; late < 2; late++) {
        run r = {0};
        put_header(&r.t, 8, 17);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
        put_value(&r.t, GraphProto_input, "c", NC_BOOL, "");
        if (!late) put_node(&r.t, "outer", "Relu", "x -> t");
        put_shadows(&r.t);
        if (late) put_node(&r.t, "outer", "Relu", "x -> t");
        put_value(&r.t, GraphProto_output, "t", NC_FLOAT, "n");
        put_value(&r.t, GraphProto_output, "y", NC_FLOAT, "n");
        nc_wire_end(&r.t, g);
        load(&r, NULL);
        if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
        REQUIRE(r.m);
        const nc_node *choose = nc_graph_find_node(r.m->main, "choose");
        const nc_graph *then_g = choose->subs[0].graph, *else_g = choose->subs[1].graph;
        CHECK(r.m->main->outputs.v[0]->def == nc_graph_find_node(r.m->main, "outer"));
        CHECK(then_g->captures.n == 0 && then_g->first->in[0]->origin == NC_FROM_CONST);
        CHECK(else_g->captures.n == 1 && else_g->first->in[0] == else_g->captures.v[0]);
        CHECK(else_g->last->in[0] == else_g->first->out[0] && else_g->outputs.v[0] == else_g->last->out[0]);
        end_run(&r);
    }
}

static uint64_t steps_of_texts(int n) {
    run r = {0};
    put_header(&r.t, 10, 17);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0), node = begin_node(&r.t, "n", "All", "test", "-> y");
    nc_wire_mark a = nc_wire_begin(&r.t, NodeProto_attribute, 0);
    nc_wire_put_str(&r.t, AttributeProto_name, "strings");
    for (int i = 0; i < n; i++) nc_wire_put_str(&r.t, AttributeProto_strings, "LEAF");
    nc_wire_put_int(&r.t, AttributeProto_type, NC_PB_A_STRINGS);
    nc_wire_end(&r.t, a);
    nc_wire_end(&r.t, node);
    nc_wire_end(&r.t, g);
    uint64_t begin = nc_steps();
    load_run(&r);
    uint64_t did = nc_steps() - begin;
    CHECK(r.m && nc_node_attr(r.m->main->first, "strings")->n == n);
    end_run(&r);
    return did;
}

/* A forest has a text for every node. */
TEST(load_texts_is_linear) { CHECK(steps_of_texts(4000) < 5 * steps_of_texts(1000)); }

static void count_warnings(void *user, nc_log_level level, const char *text) {
    *(int *)user += level == NC_LOG_WARNING && strstr(text, "has version 0") != NULL;
}

/* What is not imported, and what is imported as version 0, means the newest; the main domain says what it means. */
TEST(load_opsets_that_are_not_imported) {
    static const struct {
        const char *domains[3];
        int64_t versions[3];
        const char *refused;
    } cases[] = {{{"", NULL}, {17}, NULL},
                 {{"", "test", "test"}, {17, 0, 0}, NULL},
                 {{"other", NULL}, {1}, NULL},
                 {{NULL}, {0}, "the model imports no opset of domain 'test'"},
                 {{"test", NULL}, {0}, "the model imports no opset of domain 'test'"},
                 {{"", NULL}, {0}, "opset_import of domain '' has version 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = {0};
        int warnings = 0;
        nc_wire_put_int(&r.t, ModelProto_ir_version, 8);
        for (int k = 0; k < 3 && cases[i].domains[k]; k++)
            put_opset(&r.t, ModelProto_opset_import, cases[i].domains[k], cases[i].versions[k]);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
        nc_wire_end(&r.t, begin_node(&r.t, "", "All", "test", "x -> a"));
        put_node(&r.t, "", "Relu", "a -> y");
        nc_wire_end(&r.t, g);
        nc_log_set_sink(count_warnings, &warnings);
        load_run(&r);
        nc_log_set_sink(NULL, NULL);
        CHECK_INT(warnings, i == 1 || i == 4);
        if (cases[i].refused) {
            expect_failed(&r, NC_E_BAD_MODEL, cases[i].refused);
            continue;
        }
        if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
        REQUIRE(r.m);
        CHECK_INT(r.m->main->last->version->since, 14);
        end_run(&r);
    }
}

TEST(load_counts_the_last_import_of_a_domain) {
    static const int64_t versions[2][2] = {{11, 17}, {17, 11}};
    for (int i = 0; i < 2; i++) {
        run r = {0};
        nc_wire_put_int(&r.t, ModelProto_ir_version, 8);
        put_opset(&r.t, ModelProto_opset_import, "ai.onnx", versions[i][0]);
        put_opset(&r.t, ModelProto_opset_import, "", versions[i][1]);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
        put_node(&r.t, "", "Relu", "x -> y");
        nc_wire_end(&r.t, g);
        load_run(&r);
        REQUIRE(r.m);
        CHECK_INT(nc_model_opset(r.m, ""), versions[i][1]);
        CHECK_INT(r.m->main->last->version->since, i ? 6 : 14);
        end_run(&r);
    }
}

TEST(load_tells_an_ort_file_by_its_root) {
    run r = {0};
    nc_text_add_n(&r.t, "\x14\0\0\0ORTM\x0c\0\x10\0", 12);
    expect_fail(&r, NC_E_BAD_MODEL, "flatbuffer: the root, at byte 20, lies outside the file");
    nc_wire_put_int(&r.t, ModelProto_ir_version, 8); /* the letters alone are a name like others */
    nc_wire_put_str(&r.t, ModelProto_producer_name, "ORTModel");
    put_opset(&r.t, ModelProto_opset_import, "", 17);
    nc_wire_end(&r.t, nc_wire_begin(&r.t, ModelProto_graph, 0));
    CHECK(memcmp(r.t.s + 4, "ORTM", 4) == 0);
    load(&r, NULL);
    CHECK_INT(r.code, NC_OK);
    end_run(&r);
}

/* ONNX's domains are written down; others hold what was registered. */
TEST(load_names_unknown_ops) {
    static const struct {
        const char *domain, *op;
        int64_t opset;
        const char *imported;
        nc_code code;
        const char *text;
    } cases[] = {
        {"", "Frob", 17, NULL, NC_E_BAD_GRAPH,
         "No Op registered for Frob with domain_version of 17 in domain 'ai.onnx'"},
        {"", "Relu", 5, NULL, NC_E_BAD_GRAPH, "No Op registered for Relu with domain_version of 5 in domain 'ai.onnx'"},
        {"ai.onnx.ml", "Frob", 17, NULL, NC_E_BAD_GRAPH,
         "No Op registered for Frob with domain_version of 0 in domain 'ai.onnx.ml'"},
        {"ai.onnx.training", "Frob", 17, "ai.onnx.training", NC_E_BAD_GRAPH,
         "No Op registered for Frob with domain_version of 1 in domain 'ai.onnx.training'"},
        {"com.other", "Relu", 17, NULL, NC_E_BAD_GRAPH, "the model imports no opset of domain 'com.other'"},
        {"com.other", "Relu", 17, "com.other", NC_E_NO_OP, "com.other:Relu(1) is not a registered function/op"},
        {"com.microsoft", "Frob", 17, NULL, NC_E_NO_OP, "com.microsoft:Frob(0) is not a registered function/op"},
    };
    run r = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        put_header(&r.t, 8, cases[k].opset);
        if (cases[k].imported) put_opset(&r.t, ModelProto_opset_import, cases[k].imported, 1);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
        nc_wire_end(&r.t, begin_node(&r.t, "odd", cases[k].op, cases[k].domain, "x -> y"));
        nc_wire_end(&r.t, g);
        load(&r, NULL);
        CHECK_STR(r.w.diag.node, "odd");
        CHECK_INT(r.code, cases[k].code);
        CHECK_STR(r.w.diag.text, cases[k].text);
        end_run(&r);
    }
    put_header(&r.t, 8, 17);
    nc_wire_mark f = nc_wire_begin(&r.t, ModelProto_functions, 0);
    nc_wire_put_str(&r.t, FunctionProto_name, "All");
    nc_wire_put_str(&r.t, FunctionProto_domain, "test");
    nc_wire_end(&r.t, f);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    nc_wire_end(&r.t, begin_node(&r.t, "call", "All", "test", "-> y"));
    nc_wire_end(&r.t, g);
    expect_fail(&r, NC_E_BAD_GRAPH, "function 'All' gives 0 outputs, not 1");
}

/* ---- tensors ---- */

static nc_wire_mark begin_tensor(nc_text *t, nc_wire_mark *g, nc_dtype type, int64_t n) {
    put_header(t, 8, 17);
    *g = nc_wire_begin(t, ModelProto_graph, 0);
    nc_wire_mark m = nc_wire_begin(t, GraphProto_initializer, 0);
    nc_wire_put_ints(t, TensorProto_dims, &n, 1);
    nc_wire_put_int(t, TensorProto_data_type, type);
    nc_wire_put_str(t, TensorProto_name, "t");
    return m;
}

static void end_tensor(nc_text *t, nc_wire_mark g, nc_wire_mark m) {
    nc_wire_end(t, m);
    nc_wire_end(t, g);
}

/* `n` elements out of three numbers. */
static void check_numbers(nc_dtype type, int64_t n, uint32_t field, const int64_t *v, const void *want, size_t bytes) {
    for (int packed = 0; packed < 2; packed++) {
        run r = {0};
        nc_wire_mark g, m = begin_tensor(&r.t, &g, type, n);
        if (packed) nc_wire_put_ints(&r.t, field, v, 3);
        for (int i = 0; !packed && i < 3; i++) nc_wire_put_int(&r.t, field, v[i]);
        end_tensor(&r.t, g, m);
        load(&r, NULL);
        if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
        const nc_literal *lit = r.m ? r.m->main->consts.v[0]->lit : NULL;
        CHECK(lit && lit->bytes == bytes && memcmp(lit->data, want, bytes) == 0);
        end_run(&r);
    }
}

static void check_typed(nc_dtype type, uint32_t field, const int64_t *v, const void *want, size_t bytes) {
    check_numbers(type, 3, field, v, want, bytes);
}

TEST(load_typed_data) {
    check_typed(NC_INT64, TensorProto_int64_data, (int64_t[]){-1, 0, INT64_MIN}, (int64_t[]){-1, 0, INT64_MIN}, 24);
    check_typed(NC_INT32, TensorProto_int32_data, (int64_t[]){-1, 7, INT32_MIN}, (int32_t[]){-1, 7, INT32_MIN}, 12);
    check_typed(NC_INT8, TensorProto_int32_data, (int64_t[]){-128, 127, 0}, (int8_t[]){-128, 127, 0}, 3);
    check_typed(NC_UINT8, TensorProto_int32_data, (int64_t[]){255, 1, 0}, (uint8_t[]){255, 1, 0}, 3);
    check_typed(NC_FLOAT16, TensorProto_int32_data, (int64_t[]){0x7e00, 0xfc00, 1}, (uint16_t[]){0x7e00, 0xfc00, 1}, 6);
    check_typed(NC_BOOL, TensorProto_int32_data, (int64_t[]){1, 0, 1}, (uint8_t[]){1, 0, 1}, 3);
    check_typed(NC_UINT32, TensorProto_uint64_data, (int64_t[]){UINT32_MAX, 0, 1}, (uint32_t[]){UINT32_MAX, 0, 1}, 12);
    check_typed(NC_UINT64, TensorProto_uint64_data, (int64_t[]){-1, 0, 1}, (uint64_t[]){UINT64_MAX, 0, 1}, 24);
    check_typed(NC_FLOAT8E5M2, TensorProto_int32_data, (int64_t[]){255, 1, 0}, (uint8_t[]){255, 1, 0}, 3);
    check_typed(NC_FLOAT6E3M2, TensorProto_int32_data, (int64_t[]){63, 1, 2}, (uint8_t[]){0x7F, 0x20, 0}, 3);
    check_numbers(NC_INT4, 5, TensorProto_int32_data, (int64_t[]){0x21, -1, 5}, (uint8_t[]){0x21, 0xFF, 5}, 3);
    check_numbers(NC_UINT2, 12, TensorProto_int32_data, (int64_t[]){0x1B, 255, 0}, (uint8_t[]){0x1B, 255, 0}, 3);
}

TEST(load_float_data_with_nan_and_inf) {
    const float v[] = {NAN, -INFINITY, -0.0f};
    run r = {0};
    nc_wire_mark g, m = begin_tensor(&r.t, &g, NC_FLOAT, 3);
    nc_wire_put_float(&r.t, TensorProto_float_data, v[0]);
    nc_wire_put_floats(&r.t, TensorProto_float_data, v + 1, 2);
    end_tensor(&r.t, g, m);
    load(&r, NULL);
    REQUIRE(r.m);
    CHECK(memcmp(r.m->main->consts.v[0]->lit->data, v, sizeof v) == 0);
    end_run(&r);
}

TEST(load_strings_and_empty_tensors) {
    run r = {0};
    nc_wire_mark g, m = begin_tensor(&r.t, &g, NC_STRING, 2);
    nc_wire_put_bytes(&r.t, TensorProto_string_data, "a\0b", 3);
    nc_wire_put_bytes(&r.t, TensorProto_string_data, "", 0);
    end_tensor(&r.t, g, m);
    load(&r, NULL);
    REQUIRE(r.m);
    const nc_str *s = r.m->main->consts.v[0]->lit->data;
    CHECK(s[0].n == 3 && memcmp(s[0].p, "a\0b", 4) == 0 && s[1].n == 0);
    end_run(&r);
    m = begin_tensor(&r.t, &g, NC_FLOAT, 0);
    end_tensor(&r.t, g, m);
    load(&r, NULL);
    REQUIRE(r.m);
    CHECK(r.m->main->consts.v[0]->lit->n == 0 && r.m->main->consts.v[0]->lit->bytes == 0);
    end_run(&r);
}

TEST(load_refuses_bad_tensors) {
    static const struct {
        nc_dtype type;
        int64_t n, value;
        uint32_t field;
        const char *text;
    } cases[] = {
        {NC_INT32, 2, 1, TensorProto_int32_data, "holds 1 elements, the dims need 2"},
        {NC_INT8, 1, 128, TensorProto_int32_data, "128 is not a value of int8"},
        {NC_UINT8, 1, -1, TensorProto_int32_data, "-1 is not a value of uint8"},
        {NC_BOOL, 1, 2, TensorProto_int32_data, "2 is not a value of bool"},
        {NC_FLOAT, INT64_MAX, 1, TensorProto_int32_data, "its size overflows"},
        {NC_FLOAT, -1, 1, TensorProto_int32_data, "a dim is negative"},
        {NC_FLOAT, (int64_t)1 << 60, 1, TensorProto_dims, "overflow"},
        {NC_STRING, 2, 1, TensorProto_dims, "holds 0 strings, the dims need 2"},
        {NC_INT4, 3, 1, TensorProto_int32_data, "int4 holds 1 bytes, the dims need 2"},
        {NC_UINT2, 1, 256, TensorProto_int32_data, "256 is not a value of uint2"},
        {NC_FLOAT6E2M3, 1, 64, TensorProto_int32_data, "64 is not a value of float6e2m3"},
        {(nc_dtype)99, 1, 1, TensorProto_dims, "99 is not an element type"},
        {NC_FLOAT, 1, 7, TensorProto_data_location, "data_location is 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = {0};
        nc_wire_mark g, m = begin_tensor(&r.t, &g, cases[i].type, cases[i].n);
        nc_wire_put_int(&r.t, cases[i].field, cases[i].field == TensorProto_dims && i == 6 ? 64 : cases[i].value);
        end_tensor(&r.t, g, m);
        load(&r, NULL);
        CHECK(r.code != NC_OK);
        if (!strstr(r.w.diag.text, cases[i].text)) CHECK_STR(r.w.diag.text, cases[i].text);
        end_run(&r);
    }
    run r = {0};
    nc_wire_mark g, m = begin_tensor(&r.t, &g, NC_FLOAT, 2);
    nc_wire_put_bytes(&r.t, TensorProto_raw_data, "1234567", 7);
    end_tensor(&r.t, g, m);
    expect_fail(&r, NC_E_BAD_MODEL, "raw_data has 7 bytes, the dims need 8");
}

/* ---- external data ---- */

static void put_external(nc_text *t, const char *location, const char *offset, const char *length) {
    nc_wire_mark g, m = begin_tensor(t, &g, NC_FLOAT, 2);
    nc_wire_put_int(t, TensorProto_data_location, 1);
    put_entry(t, TensorProto_external_data, "location", location);
    if (offset) put_entry(t, TensorProto_external_data, "offset", offset);
    if (length) put_entry(t, TensorProto_external_data, "length", length);
    end_tensor(t, g, m);
}

TEST(load_external_data) {
    char folder[] = "/tmp/nacre_onnx_XXXXXX", path[64], link_path[64];
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/data.bin", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    FILE *f = fopen(path, "wb");
    REQUIRE(f);
    fwrite("xxx", 1, 3, f);
    fwrite((float[]){5, 6}, 4, 2, f);
    fclose(f);
    CHECK(symlink("/etc/passwd", link_path) == 0);
    static const struct {
        const char *location, *offset, *length, *text;
    } cases[] = {{"data.bin", "3", "8", NULL},
                 {"./data.bin", "3", NULL, NULL},
                 {"data.bin", NULL, "8", NULL},
                 {"data.bin", "4", "8", "are not in 'data.bin' of 11 bytes"},
                 {"data.bin", "12", NULL, "offset 12 is beyond the 11 bytes"},
                 {"data.bin", "18446744073709551615", "8", "is beyond"},
                 {"data.bin", "18446744073709551616", "8", "is not a number"},
                 {"data.bin", "-1", "8", "is not a number"},
                 {"data.bin", "3", "4", "external data has 4 bytes, the dims need 8"},
                 {"../data.bin", "3", "8", "leaves the model's folder"},
                 {"a/../../data.bin", "3", "8", "leaves the model's folder"},
                 {"/etc/passwd", "0", "8", "leaves the model's folder"},
                 {"link", "0", "8", "leaves the model's folder"},
                 {".", "0", "8", ""},
                 {"", "0", "8", "has no location"},
                 {"none.bin", "0", "8", "not found"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = {0};
        put_external(&r.t, cases[i].location, cases[i].offset, cases[i].length);
        load(&r, folder);
        CHECK((r.code == NC_OK) == (cases[i].text == NULL));
        if (cases[i].text && !strstr(r.w.diag.text, cases[i].text)) CHECK_STR(r.w.diag.text, cases[i].text);
        if (r.m && i == 0) CHECK(memcmp(r.m->main->consts.v[0]->lit->data, (float[]){5, 6}, 8) == 0);
        end_run(&r);
    }
    run r = {0};
    put_external(&r.t, "data.bin", "3", "8");
    expect_fail(&r, NC_E_IO, "without a folder");
    unlink(path);
    unlink(link_path);
    rmdir(folder);
}

/* ---- attributes, constants, random ids, depth ---- */

TEST(load_refuses_attribute_kinds_by_name) {
    static const struct {
        int64_t type;
        nc_code code;
        const char *text;
    } cases[] = {{NC_PB_A_SPARSE, NC_E_BAD_GRAPH, "must be an int, got a value of a kind that no operator takes"},
                 {NC_PB_A_TYPES, NC_E_BAD_GRAPH, "must be an int"},
                 {NC_PB_A_GRAPHS, NC_E_BAD_GRAPH, "must be an int"},
                 {77, NC_E_BAD_MODEL, "has no valid type (77)"},
                 {0, NC_E_BAD_MODEL, "has no valid type (0)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = {0};
        put_header(&r.t, 8, 17);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        nc_wire_mark n = begin_node(&r.t, "n", "All", "test", "-> y");
        nc_wire_mark a = nc_wire_begin(&r.t, NodeProto_attribute, 0);
        nc_wire_put_str(&r.t, AttributeProto_name, "i");
        nc_wire_put_int(&r.t, AttributeProto_type, cases[i].type);
        nc_wire_end(&r.t, a);
        nc_wire_end(&r.t, n);
        nc_wire_end(&r.t, g);
        expect_fail(&r, cases[i].code, cases[i].text);
    }
}

TEST(load_constant_nodes) {
    run r = {0};
    put_header(&r.t, 8, 17);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    nc_wire_mark n = begin_node(&r.t, "", "Constant", "", "-> c");
    nc_wire_mark a = nc_wire_begin(&r.t, NodeProto_attribute, 0);
    nc_wire_put_str(&r.t, AttributeProto_name, "value_ints");
    nc_wire_put_int(&r.t, AttributeProto_type, NC_PB_A_INTS);
    nc_wire_put_ints(&r.t, AttributeProto_ints, (int64_t[]){4, -5}, 2);
    nc_wire_end(&r.t, a);
    nc_wire_end(&r.t, n);
    put_node(&r.t, "", "Relu", "c -> y");
    nc_wire_end(&r.t, g);
    load(&r, NULL);
    REQUIRE(r.m);
    const nc_value *c = nc_graph_find(r.m->main, "c");
    CHECK_INT(r.m->main->n_nodes, 1);
    REQUIRE(c && c->origin == NC_FROM_CONST && c->lit->n == 2);
    CHECK(memcmp(c->lit->data, (int64_t[]){4, -5}, 16) == 0);
    end_run(&r);
}

TEST(load_random_ids_do_not_collide) {
    run r = {0};
    put_header(&r.t, 10, 17);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
    put_node(&r.t, "a", "Dropout", "x -> y1");
    nc_wire_mark n = begin_node(&r.t, "b", "Dropout", "", "x -> y2");
    put_entry(&r.t, NodeProto_metadata_props, "nacre.random_id", "7");
    nc_wire_end(&r.t, n);
    put_node(&r.t, "c", "Dropout", "x -> y3");
    nc_wire_end(&r.t, g);
    load(&r, NULL);
    REQUIRE(r.m);
    CHECK_INT(nc_graph_find_node(r.m->main, "a")->random_id, 8);
    CHECK_INT(nc_graph_find_node(r.m->main, "b")->random_id, 7);
    CHECK_INT(nc_graph_find_node(r.m->main, "c")->random_id, 9);
    CHECK_INT(r.m->next_random_id, 10);
    end_run(&r);
}

TEST(load_finds_variables) {
    for (int twice = 0; twice < 2; twice++) {
        run r = {0};
        put_header(&r.t, 10, 17);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        put_floats(&r.t, GraphProto_initializer, "p", 3);
        put_floats(&r.t, GraphProto_initializer, "q", 3);
        nc_wire_end(&r.t, begin_node(&r.t, "s1", "Step", "nacre", "p q -> p1"));
        nc_wire_end(&r.t, begin_node(&r.t, "s2", "Step", "nacre", twice ? "p q -> p2" : "p1 q -> p2"));
        nc_wire_end(&r.t, g);
        load(&r, NULL);
        CHECK_INT(r.code, twice ? NC_E_BAD_GRAPH : NC_OK);
        if (r.m) {
            const nc_graph *h = r.m->main;
            CHECK(h->vars.n == 1 && h->consts.n == 1);
            CHECK(h->vars.v[0]->initial && h->vars.v[0]->last == h->last->out[0]);
        }
        end_run(&r);
    }
}

static void put_nested_ifs(nc_text *t, int depth) {
    char name[32];
    nc_wire_mark n = begin_node(t, "", "If", "", "c");
    snprintf(name, sizeof name, "out%d", depth);
    nc_wire_put_str(t, NodeProto_output, name);
    for (int k = 0; k < 2; k++) {
        nc_wire_mark a = nc_wire_begin(t, NodeProto_attribute, 0);
        nc_wire_put_str(t, AttributeProto_name, k ? "else_branch" : "then_branch");
        nc_wire_mark g = nc_wire_begin(t, AttributeProto_g, 0);
        if (k == 0 && depth > 0) put_nested_ifs(t, depth - 1);
        nc_wire_end(t, g);
        nc_wire_end(t, a);
    }
    nc_wire_end(t, n);
}

TEST(load_limits_depth) {
    for (int depth = NC_ONNX_MAX_DEPTH - 2; depth < NC_ONNX_MAX_DEPTH; depth++) {
        run r = {0};
        put_header(&r.t, 8, 17);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        put_value(&r.t, GraphProto_input, "c", NC_BOOL, "");
        put_nested_ifs(&r.t, depth);
        nc_wire_end(&r.t, g);
        load(&r, NULL);
        CHECK_INT(r.code, depth == NC_ONNX_MAX_DEPTH - 2 ? NC_OK : NC_E_LIMIT);
        end_run(&r);
    }
    run r = {0};
    nc_text type = {0}, next = {0};
    for (int i = 0; i < 2 * NC_ONNX_MAX_DEPTH; i++, next = (nc_text){0}) {
        nc_wire_mark m = nc_wire_begin(&next, TypeProto_sequence_type, 0);
        if (type.n) nc_wire_put_bytes(&next, TypeProto_Sequence_elem_type, type.s, type.n);
        nc_wire_end(&next, m);
        nc_text_release(&type);
        type = next;
    }
    put_header(&r.t, 8, 17);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0), v = nc_wire_begin(&r.t, GraphProto_input, 0);
    nc_wire_put_str(&r.t, ValueInfoProto_name, "x");
    nc_wire_put_bytes(&r.t, ValueInfoProto_type, type.s, type.n);
    nc_wire_end(&r.t, v);
    nc_wire_end(&r.t, g);
    expect_fail(&r, NC_E_LIMIT, "nested deeper than 64");
    nc_text_release(&type);
}

/* ---- damage ---- */

TEST(load_every_truncation) {
    run whole = {0};
    put_model(&whole.t);
    for (size_t n = 0; n < whole.t.n; n++) {
        run r = {0};
        nc_text_add_n(&r.t, whole.t.s, n);
        load(&r, NULL);
        CHECK(r.code != NC_OK);
        CHECK((r.w.diag.code != NC_OK) && r.w.diag.text[0]);
        end_run(&r);
    }
    nc_text_release(&whole.t);
}

TEST(load_bit_flips) {
    run whole = {0};
    put_model(&whole.t);
    uint64_t x = 88172645463325252u;
    int ok = 0;
    nc_log_set_level(NC_LOG_OFF);
    for (int i = 0; i < 2000; i++) {
        run r = {0};
        nc_text_add_n(&r.t, whole.t.s, whole.t.n);
        for (int k = 0; k <= i % 3; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            r.t.s[x % r.t.n] = (char)(r.t.s[x % r.t.n] ^ (1 << (x >> 40 & 7)));
        }
        load(&r, NULL);
        CHECK((r.code == NC_OK) == (r.w.diag.code == NC_OK));
        ok += r.code == NC_OK;
        end_run(&r);
    }
    nc_log_set_level(NC_LOG_WARNING);
    CHECK(ok > 0 && ok < 2000);
    nc_text_release(&whole.t);
}

TEST(load_out_of_memory) {
    run whole = {0};
    put_model(&whole.t);
    for (uint64_t n = 1;; n++) {
        uint64_t live = nc_mem_live();
        nc_work w;
        nc_model *m = NULL;
        nc_text out = {0};
        nc_work_init(&w);
        nc_mem_fail_at(n);
        nc_code code = nc_onnx_load(&w, whole.t.s, whole.t.n, NULL, NULL, &test_registry, &m);
        if (code == NC_OK) code = nc_onnx_save(&w, m, &out);
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK_INT(code, hit ? NC_E_MEMORY : NC_OK);
        nc_text_release(&out);
        nc_model_destroy(m);
        nc_work_release(&w);
        CHECK_INT(nc_mem_live(), live);
        if (!hit || nc_test_has_failed()) break;
    }
    nc_text_release(&whole.t);
}
