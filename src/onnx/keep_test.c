/* onnx/keep_test.c: what a file says beyond the graph comes back when it is saved; sparse tensors become dense; an
 * initializer that is an input is its default; external data goes out and comes back. */
#include "ir/edit.h"
#include "ir/verify.h"
#include "onnx/load.h"
#include "onnx/save.h"
#include "tests/onnx_run.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_fail(run *r, nc_code code, const char *text) {
    load_run(r);
    expect_failed(r, code, text);
}

static int count(const nc_text *t, const char *word) {
    int n = 0;
    const char *end = t->s + t->n;
    for (const char *s = t->s; s && (s = memmem(s, (size_t)(end - s), word, strlen(word))) != NULL; s++) n++;
    return n;
}

/* ---- fields that the graph has no words for ---- */

enum { DOC_OF_NODE = 6, DOC_OF_GRAPH = 10, ANNOTATION = 14, DOC_OF_TENSOR = 12, DOC_OF_VALUE = 3, NEWER = 900 };

static void put_annotated_model(nc_text *t) {
    put_header(t, 10, 17);
    nc_wire_put_str(t, ModelProto_doc_string, "<model doc>");
    put_entry(t, ModelProto_metadata_props, "k", "<model prop>");
    nc_wire_put_str(t, ModelProto_training_info, "\012\000");
    nc_wire_put_str(t, NEWER, "<newer model>");
    nc_wire_mark g = nc_wire_begin(t, ModelProto_graph, 0);
    nc_wire_put_str(t, DOC_OF_GRAPH, "<graph doc>");
    put_entry(t, ANNOTATION, "x", "<annotation>");
    put_value(t, GraphProto_input, "x", NC_FLOAT, "n");
    nc_wire_mark v = nc_wire_begin(t, GraphProto_value_info, 0);
    nc_wire_put_str(t, ValueInfoProto_name, "a");
    nc_wire_put_str(t, DOC_OF_VALUE, "<value doc>");
    nc_wire_mark type = nc_wire_begin(t, ValueInfoProto_type, 0), tensor = nc_wire_begin(t, TypeProto_tensor_type, 0);
    nc_wire_put_int(t, TypeProto_Tensor_elem_type, NC_FLOAT);
    nc_wire_end(t, tensor);
    nc_wire_end(t, type);
    nc_wire_end(t, v);
    nc_wire_mark w = nc_wire_begin(t, GraphProto_initializer, 0);
    nc_wire_put_int(t, TensorProto_data_type, NC_FLOAT);
    nc_wire_put_str(t, TensorProto_name, "W");
    nc_wire_put_bytes(t, TensorProto_raw_data, "abcd", 4);
    nc_wire_put_str(t, DOC_OF_TENSOR, "<tensor doc>");
    nc_wire_end(t, w);
    nc_wire_mark n = begin_node(t, "d", "Dropout", "", "x -> a");
    nc_wire_put_str(t, DOC_OF_NODE, "<node doc>");
    put_entry(t, NodeProto_metadata_props, NC_PB_RANDOM_KEY, "77");
    put_entry(t, NodeProto_metadata_props, "mine", "<node prop>");
    nc_wire_put_str(t, NEWER, "<newer node>");
    nc_wire_end(t, n);
    put_node(t, "", "Add", "a W -> y");
    put_value(t, GraphProto_output, "y", NC_FLOAT, NULL);
    nc_wire_end(t, g);
}

TEST(keep_unknown_fields) {
    static const char *const words[] = {"<model doc>",  "<model prop>", "<newer model>", "<graph doc>",
                                        "<annotation>", "<value doc>",  "<tensor doc>",  "<node doc>",
                                        "<node prop>",  "<newer node>", NC_PB_RANDOM_KEY};
    run r = {0};
    put_annotated_model(&r.t);
    for (int trip = 0; trip < 3; trip++) {
        load_run(&r);
        if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
        REQUIRE(r.m);
        nc_model *copy = nc_model_clone(r.m);
        nc_model_destroy(r.m);
        r.m = NULL;
        nc_text out = {0};
        REQUIRE(copy && nc_onnx_save(&r.w, copy, &out) == NC_OK);
        nc_model_destroy(copy);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (count(&out, words[i]) != 1) nc_test_failed(__FILE__, __LINE__, "trip %d: %s", trip, words[i]);
        end_run(&r);
        r.t = out;
    }
    nc_pb_model pb;
    nc_work_init(&r.w);
    CHECK(nc_pb_read_model(&r.w, (nc_bytes){(const uint8_t *)r.t.s, r.t.n}, &pb) == NC_OK && pb.training_info == 1);
    end_run(&r);
}

TEST(keep_attributes_of_other_kinds) {
    static const struct {
        int type;
        uint32_t field;
    } kinds[] = {{NC_PB_A_TENSORS, AttributeProto_tensors},
                 {NC_PB_A_GRAPHS, AttributeProto_graphs},
                 {NC_PB_A_TYPES, AttributeProto_type_protos},
                 {NC_PB_A_SPARSE, AttributeProto_sparse_tensor},
                 {NC_PB_A_SPARSES, AttributeProto_sparse_tensors}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        run r = {0};
        put_header(&r.t, 10, 17);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        nc_wire_mark n = begin_node(&r.t, "n", "All", "test", "-> y"), a = nc_wire_begin(&r.t, NodeProto_attribute, 0);
        nc_wire_put_str(&r.t, AttributeProto_name, "other");
        nc_wire_put_int(&r.t, AttributeProto_type, i % 2 ? kinds[i].type : 0);
        nc_wire_put_bytes(&r.t, kinds[i].field, "\x0a\x05maybe", 7);
        nc_wire_end(&r.t, a);
        nc_wire_end(&r.t, n);
        nc_wire_end(&r.t, g);
        load_run(&r);
        if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
        REQUIRE(r.m);
        CHECK_INT(nc_node_attr(r.m->main->first, "other")->kind, NC_A_OTHER);
        nc_text out = {0};
        CHECK_INT(nc_onnx_save(&r.w, r.m, &out), NC_OK);
        CHECK_INT(count(&out, "maybe"), 1);
        end_run(&r);
        r.t = out;
        load_run(&r);
        CHECK(r.m && nc_node_attr(r.m->main->first, "other")->kind == NC_A_OTHER);
        end_run(&r);
    }
}

/* ---- sparse tensors ---- */

typedef struct points {
    int64_t dims[3], at[8];
    int rank, n, per_point; /* per_point 0: linear indices */
} points;

static void put_sparse(nc_text *t, uint32_t number, const points *p) {
    static const float values[] = {NAN, -1, 2, 3};
    nc_wire_mark s = nc_wire_begin(t, number, 0), v = nc_wire_begin(t, SparseTensorProto_values, 0);
    nc_wire_put_ints(t, TensorProto_dims, &(int64_t){p->n}, 1);
    nc_wire_put_int(t, TensorProto_data_type, NC_FLOAT);
    nc_wire_put_str(t, TensorProto_name, "W");
    nc_wire_put_bytes(t, TensorProto_raw_data, values, (size_t)p->n * 4);
    nc_wire_end(t, v);
    nc_wire_mark x = nc_wire_begin(t, SparseTensorProto_indices, 0);
    nc_wire_put_ints(t, TensorProto_dims, (int64_t[]){p->n, p->per_point}, p->per_point ? 2 : 1);
    nc_wire_put_int(t, TensorProto_data_type, NC_INT64);
    nc_wire_put_ints(t, TensorProto_int64_data, p->at, (size_t)(p->n * (p->per_point ? p->per_point : 1)));
    nc_wire_end(t, x);
    nc_wire_put_ints(t, SparseTensorProto_dims, p->dims, (size_t)p->rank);
    nc_wire_end(t, s);
}

static void put_sparse_model(nc_text *t, const points *p) {
    put_header(t, 10, 17);
    nc_wire_mark g = nc_wire_begin(t, ModelProto_graph, 0);
    put_sparse(t, GraphProto_sparse_initializer, p);
    put_node(t, "", "Relu", "W -> y");
    nc_wire_end(t, g);
}

TEST(sparse_initializers_become_dense) {
    static const points cases[] = {{{2, 3}, {0, 4}, 2, 2, 0},    {{2, 3}, {0, 0, 1, 1}, 2, 2, 2},
                                   {{2, 3}, {5, 0, 1}, 2, 3, 0}, {{2, 3}, {1, 2, 0, 0, 0, 1}, 2, 3, 2},
                                   {{5}, {0}, 1, 0, 0},          {{0, 3}, {0}, 2, 0, 0},
                                   {{0}, {0}, 0, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = {0};
        put_sparse_model(&r.t, &cases[i]);
        load_run(&r);
        if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
        REQUIRE(r.m && r.m->main->consts.n == 1);
        const nc_literal *lit = r.m->main->consts.v[0]->lit;
        const float *v = lit->data;
        CHECK_STR(r.m->main->consts.v[0]->name, "W");
        CHECK(lit->rank == cases[i].rank);
        if (i < 2) CHECK(lit->n == 6 && isnan(v[0]) && v[1] == 0 && v[3] == 0 && v[4] == -1 && v[5] == 0);
        if (i == 2 || i == 3) CHECK(lit->n == 6 && isnan(v[5]) && v[0] == -1 && v[1] == 2 && v[2] == 0 && v[4] == 0);
        if (i == 4) CHECK(lit->n == 5 && v[0] == 0 && v[4] == 0);
        if (i == 5) CHECK(lit->n == 0);
        if (i == 6) CHECK(lit->n == 1 && isnan(v[0]));
        end_run(&r);
    }
}

TEST(sparse_tensors_that_are_wrong) {
    static const struct {
        points p;
        nc_code code;
        const char *text;
    } cases[] = {{{{2, 3}, {0, 6}, 2, 2, 0}, NC_E_BAD_MODEL, "index 1 is outside its shape"},
                 {{{2, 3}, {-1, 2}, 2, 2, 0}, NC_E_BAD_MODEL, "index 0 is outside its shape"},
                 {{{2, 3}, {0, 0, 0, 3}, 2, 2, 2}, NC_E_BAD_MODEL, "index 1 is outside its shape"},
                 {{{2, 3}, {3, 3}, 2, 2, 0}, NC_E_BAD_MODEL, "has two values for element 3"},
                 {{{2, 3}, {1, 0, 0, 2, 1, 0}, 2, 3, 2}, NC_E_BAD_MODEL, "has two values for element 3"},
                 {{{2, 3}, {0, 1, 0, 0, 1, 0}, 2, 2, 3}, NC_E_BAD_MODEL, "need int64 indices of shape [2] or [2,2]"},
                 {{{-2, 3}, {0}, 2, 1, 0}, NC_E_BAD_MODEL, "a dim is negative"},
                 {{{(int64_t)1 << 40, (int64_t)1 << 40}, {0}, 2, 1, 0}, NC_E_BAD_MODEL, "overflows"},
                 {{{(int64_t)1 << 20, 1 << 16}, {0}, 2, 1, 0}, NC_E_LIMIT, "it needs more"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = {0};
        put_sparse_model(&r.t, &cases[i].p);
        expect_fail(&r, cases[i].code, cases[i].text);
    }
}

TEST(sparse_constant) {
    run r = {0};
    put_header(&r.t, 10, 17);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0), n = begin_node(&r.t, "", "Constant", "", "-> c");
    nc_wire_mark a = nc_wire_begin(&r.t, NodeProto_attribute, 0);
    nc_wire_put_str(&r.t, AttributeProto_name, "sparse_value");
    nc_wire_put_int(&r.t, AttributeProto_type, NC_PB_A_SPARSE);
    put_sparse(&r.t, AttributeProto_sparse_tensor, &(points){{3}, {2}, 1, 1, 0});
    nc_wire_end(&r.t, a);
    nc_wire_end(&r.t, n);
    nc_wire_end(&r.t, g);
    load_run(&r);
    if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
    REQUIRE(r.m && r.m->main->consts.n == 1);
    const float *v = r.m->main->consts.v[0]->lit->data;
    CHECK(v[0] == 0 && v[1] == 0 && isnan(v[2]));
    end_run(&r);
}

/* ---- initializers that are inputs, old files ---- */

TEST(initializer_that_is_an_input) {
    for (int64_t ir = 1; ir <= 13; ir++) {
        run r = {0};
        nc_wire_put_int(&r.t, ModelProto_ir_version, ir);
        if (ir >= 3) put_opset(&r.t, ModelProto_opset_import, "", 17);
        nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
        put_value(&r.t, GraphProto_input, "x", NC_FLOAT, "n");
        put_value(&r.t, GraphProto_input, "W", NC_FLOAT, "m");
        put_floats(&r.t, GraphProto_initializer, "W", 3);
        put_node(&r.t, "", "Identity", "W -> y");
        put_value(&r.t, GraphProto_output, "y", NC_FLOAT, "m");
        nc_wire_end(&r.t, g);
        load_run(&r);
        if (r.code != NC_OK) CHECK_STR(r.w.diag.text, "");
        REQUIRE(r.m);
        CHECK_INT(r.m->main->inputs.n, ir < 4 ? 1 : 2);
        CHECK_INT(r.m->main->consts.n, ir < 4 ? 1 : 0);
        CHECK_INT(nc_model_opset(r.m, ""), ir < 3 ? 1 : 17);
        nc_text out = {0};
        REQUIRE(nc_onnx_save(&r.w, r.m, &out) == NC_OK);
        end_run(&r);
        r.t = out;
        load_run(&r);
        REQUIRE(r.m);
        const nc_value *w = nc_graph_find(r.m->main, "W");
        CHECK(w && (ir < 4 ? w->lit : w->initial) && (ir < 4) == (w->origin == NC_FROM_CONST));
        end_run(&r);
    }
    run r = {0};
    put_header(&r.t, 10, 17);
    nc_wire_mark g = nc_wire_begin(&r.t, ModelProto_graph, 0);
    put_value(&r.t, GraphProto_input, "W", NC_FLOAT, "4");
    put_floats(&r.t, GraphProto_initializer, "W", 3);
    nc_wire_end(&r.t, g);
    expect_fail(&r, NC_E_BAD_MODEL, "input 'W' and its initializer differ in type or shape");
}

/* ---- external data ---- */

TEST(save_external_data) {
    char folder[] = "/tmp/nacre_keep_XXXXXX", path[64], data[64];
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    snprintf(data, sizeof data, "%s/m.data", folder);
    run r = {0};
    nc_work_init(&r.w);
    r.m = nc_model_create(&test_registry);
    REQUIRE(r.m);
    static float big[20000], small[3] = {1, NAN, 3};
    for (int i = 0; i < 20000; i++) big[i] = (float)i;
    const int64_t sizes[] = {3, 20000, 5, 0};
    const float *from[] = {small, big, big + 7, big};
    for (int i = 0; i < 4; i++) {
        const nc_literal *lit = nc_edit_literal(r.m, NC_FLOAT, 1, &sizes[i], from[i]);
        REQUIRE(lit && nc_edit_const(r.m->main, (char[]){(char)('a' + i), 0}, lit));
    }
    nc_onnx_save_options o = {.max_file = 64, .data_name = "m.data", .min_bytes = 1 << 20};
    CHECK_INT(nc_onnx_save_file(&r.w, r.m, path, &o), NC_E_LIMIT);
    CHECK(strstr(r.w.diag.text, "save its constants as external data") && access(path, F_OK) != 0);
    r.w.diag.code = NC_OK;
    o = (nc_onnx_save_options){.max_file = 4096};
    static const char *const bad[] = {"", ".", "..", "../x", "a/b", "/tmp/x", "m.onnx"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.data_name = bad[i];
        CHECK_INT(nc_onnx_save_file(&r.w, r.m, path, &o), NC_E_ARGUMENT);
        r.w.diag.code = NC_OK;
    }
    o.data_name = "m.data", o.min_bytes = 16;
    for (int again = 0; again < 2; again++) { /* the second time over the files that the model is mapped from */
        CHECK_INT(nc_onnx_save_file(&r.w, r.m, path, &o), NC_OK);
        nc_model_destroy(r.m);
        r.m = NULL;
        struct stat st;
        CHECK(stat(data, &st) == 0 && st.st_size == (80000 + 63) / 64 * 64 + 20);
        if (nc_onnx_load_file(&r.w, path, &test_registry, &r.m) != NC_OK) CHECK_STR(r.w.diag.text, "");
        REQUIRE(r.m && r.m->main->consts.n == 4);
        for (int i = 0; i < 4; i++) {
            const nc_literal *lit = r.m->main->consts.v[i]->lit;
            CHECK(lit->n == sizes[i] && (!lit->bytes || memcmp(lit->data, from[i], lit->bytes) == 0));
        }
    }
    end_run(&r);
    unlink(path);
    unlink(data);
    CHECK(rmdir(folder) == 0); /* and nothing else is left in it */
}

/* Without a name for external data the model stays in one file as long as it fits. */
TEST(save_moves_data_out_of_a_file_that_is_too_large) {
    char folder[] = "/tmp/nacre_keep_XXXXXX", path[64], data[64];
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    snprintf(data, sizeof data, "%s/m.onnx.data", folder);
    run r = {0};
    nc_work_init(&r.w);
    r.m = nc_model_create(&test_registry);
    REQUIRE(r.m);
    static float big[20000];
    for (int i = 0; i < 20000; i++) big[i] = (float)i;
    const nc_literal *lit = nc_edit_literal(r.m, NC_FLOAT, 1, (const int64_t[]){20000}, big);
    REQUIRE(lit && nc_edit_const(r.m->main, "a", lit));
    CHECK_INT(nc_onnx_save_file(&r.w, r.m, path, NULL), NC_OK);
    CHECK(access(path, F_OK) == 0 && access(data, F_OK) != 0);
    CHECK_INT(nc_onnx_save_file(&r.w, r.m, path, &(nc_onnx_save_options){.max_file = 79999}), NC_OK);
    CHECK(access(data, F_OK) == 0 && r.w.diag.code == NC_OK);
    nc_model_destroy(r.m);
    r.m = NULL;
    CHECK_INT(nc_onnx_load_file(&r.w, path, &test_registry, &r.m), NC_OK);
    REQUIRE(r.m && r.m->main->consts.n == 1);
    lit = r.m->main->consts.v[0]->lit;
    CHECK(lit->bytes == sizeof big && memcmp(lit->data, big, sizeof big) == 0);
    end_run(&r);
    unlink(path);
    unlink(data);
    CHECK(rmdir(folder) == 0);
}
