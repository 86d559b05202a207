/* onnx/ort_test.c: models through onnxruntime's format and back, and files that lie: graphs that hold themselves,
 * lists that name one table again and again, kinds that do not exist. Files of onnxruntime's own are read in
 * tests/py. */
#include "onnx/load.h"
#include "onnx/ort_format.h"
#include "onnx/save.h"
#include "onnx/testing.h"
#include "tests/check.h"

#include <string.h>

/* A session with a model of opset 17 and an empty graph; gives the place of the graph's offset. */
static size_t begin_file(nc_text *out) {
    nc_flat_put s[] = {{nc_ort_session_model.id, 0, 0, 0}};
    nc_flat_put_table(out, nc_flat_begin(out, NC_ORT_MODEL), s, 1);
    nc_flat_put m[] = {{nc_ort_model_ir_version.id, 8, 8, 0},
                       {nc_ort_model_opset_import.id, 0, 0, 0},
                       {nc_ort_model_graph.id, 0, 0, 0}};
    nc_flat_put_table(out, s[0].at, m, 3);
    nc_flat_put o[] = {{nc_ort_opset_version.id, 8, 17, 0}};
    nc_flat_put_table(out, nc_flat_put_offsets(out, m[1].at, 1), o, 1);
    return m[2].at;
}

static void expect(const nc_text *file, nc_code code, const char *says) {
    nc_work w;
    nc_model *m = NULL;
    nc_work_init(&w);
    nc_code got = nc_onnx_load(&w, file->s, file->n, NULL, NULL, &test_registry, &m);
    CHECK_INT(got, code);
    if (code != NC_OK && !strstr(w.diag.text, says)) CHECK_STR(w.diag.text, says);
    nc_model_destroy(m);
    nc_work_release(&w);
}

/* A node with one attribute of that kind; gives the place of its value's offset. */
static size_t put_node_with(nc_text *out, size_t graph, int kind, int field) {
    nc_flat_put g[] = {{nc_ort_graph_nodes.id, 0, 0, 0}};
    nc_flat_put_table(out, graph, g, 1);
    nc_flat_put n[] = {{nc_ort_node_op_type.id, 0, 0, 0}, {nc_ort_node_attributes.id, 0, 0, 0}};
    nc_flat_put_table(out, nc_flat_put_offsets(out, g[0].at, 1), n, 2);
    nc_flat_put_string(out, n[0].at, "If", 2);
    nc_flat_put a[] = {{nc_ort_attribute_type.id, 4, (uint64_t)kind, 0}, {field, 0, 0, 0}};
    nc_flat_put_table(out, nc_flat_put_offsets(out, n[1].at, 1), a, 2);
    return a[1].at;
}

TEST(ort_a_graph_that_nests_too_deep_is_refused) {
    nc_text file = {0};
    size_t at = begin_file(&file);
    for (int i = 0; i < 70; i++) at = put_node_with(&file, at, NC_PB_A_GRAPH, nc_ort_attribute_g.id);
    nc_flat_put_table(&file, at, NULL, 0);
    expect(&file, NC_E_LIMIT, "flatbuffer: graphs nest more than 64 deep");
    nc_text_release(&file);
}

/* The n offsets from `first` on all lead where the first one does. */
static void share(nc_text *file, size_t first, size_t n) {
    uint32_t to;
    memcpy(&to, file->s + first, 4);
    for (size_t i = 1; i < n; i++) {
        uint32_t distance = to - (uint32_t)(4 * i);
        memcpy(file->s + first + 4 * i, &distance, 4);
    }
}

/* Each of 40 graphs lists the next one sixty-four times. */
TEST(ort_a_bomb_of_shared_tables_is_refused) {
    enum { LEVELS = 40, TIMES = 64 };
    nc_text file = {0};
    size_t list = put_node_with(&file, begin_file(&file), NC_PB_A_GRAPHS, nc_ort_attribute_graphs.id);
    for (int i = 0; i < LEVELS; i++) {
        size_t first = nc_flat_put_offsets(&file, list, TIMES);
        list = put_node_with(&file, first, NC_PB_A_GRAPHS, nc_ort_attribute_graphs.id);
        share(&file, first, TIMES);
    }
    nc_flat_put_offsets(&file, list, 0);
    expect(&file, NC_E_LIMIT, "flatbuffer: the model may take");
    nc_text_release(&file);
}

TEST(ort_what_is_missing_or_unknown_is_named) {
    nc_text file = {0};
    nc_flat_put_table(&file, nc_flat_begin(&file, NC_ORT_MODEL), NULL, 0);
    expect(&file, NC_E_BAD_MODEL, "flatbuffer: session.model is missing");
    nc_text_release(&file);
    put_node_with(&file, begin_file(&file), 11, nc_ort_attribute_t.id);
    expect(&file, NC_E_UNSUPPORTED, "an attribute is of kind 11");
    nc_text_release(&file);
    begin_file(&file);
    expect(&file, NC_E_BAD_MODEL, "flatbuffer: model.graph");
    nc_text_release(&file);
    nc_flat_put_table(&file, begin_file(&file), NULL, 0);
    expect(&file, NC_OK, "");
    nc_text_release(&file);
}
