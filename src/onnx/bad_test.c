/* onnx/bad_test.c: files that are damaged or made to hurt: a model of some megabytes with bits flipped or cut off,
 * sizes that the bytes do not hold, links and paths that lead out of the folder. Every one fails or loads, with a
 * message, in bounded memory: what the allocator was asked for is counted. */
#include "base/mem.h"
#include "ir/verify.h"
#include "onnx/limits.h"
#include "onnx/load.h"
#include "onnx/testing.h"
#include "tests/check.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DATA = 1 << 20, NODES = 20000 };

static uint64_t next_random(uint64_t *x) {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

/* A long chain of nodes, one large constant, functions and a subgraph: about two megabytes. */
static void put_large_model(nc_text *t) {
    char args[64];
    put_header(t, 10, 17);
    put_opset(t, ModelProto_opset_import, "my", 1);
    nc_wire_mark f = begin_function(t, "F", "a -> s", 17);
    put_in_body(t, "", "Relu", "", "a -> s");
    nc_wire_end(t, f);
    nc_wire_mark g = nc_wire_begin(t, ModelProto_graph, 0);
    put_value(t, GraphProto_input, "x", NC_FLOAT, "n");
    put_value(t, GraphProto_input, "c", NC_BOOL, "");
    nc_wire_mark w = nc_wire_begin(t, GraphProto_initializer, DATA);
    char *data = nc_alloc_zero(DATA, 1);
    nc_wire_put_ints(t, TensorProto_dims, (int64_t[]){DATA / 8, 2}, 2);
    nc_wire_put_int(t, TensorProto_data_type, NC_FLOAT);
    nc_wire_put_str(t, TensorProto_name, "W");
    nc_wire_put_bytes(t, TensorProto_raw_data, data, DATA);
    nc_wire_end(t, w);
    nc_free(data);
    for (int i = 0; i < NODES; i++) {
        if (i)
            snprintf(args, sizeof args, "v%d W -> v%d", i - 1, i);
        else
            snprintf(args, sizeof args, "x W -> v0");
        if (i % 64 == 5) nc_wire_end(t, begin_node(t, "", "F", "my", "x -> _"));
        put_node(t, "node", "Add", args);
    }
    put_if(t, "then_y");
    nc_wire_end(t, g);
}

/* Loads and gives back; the memory asked for stays far below 4 GiB, and nothing is left. */
static nc_code load_counted(const char *bytes, size_t n) {
    nc_work w;
    nc_model *m = NULL;
    uint64_t live = nc_mem_live(), asked = nc_mem_bytes();
    nc_work_init(&w);
    nc_code code = nc_onnx_load(&w, bytes, n, NULL, NULL, &test_registry, &m);
    CHECK((code == NC_OK) == (w.diag.code == NC_OK) && (code == NC_OK || w.diag.text[0]));
    if (m) CHECK(nc_verify(&w, m) == NC_OK);
    nc_model_destroy(m);
    nc_work_release(&w);
    CHECK(nc_mem_bytes() - asked < (uint64_t)1 << 31);
    CHECK_INT(nc_mem_live(), live);
    return code;
}

TEST(bad_large_model_with_flipped_bits) {
    nc_text t = {0};
    put_large_model(&t);
    CHECK_INT(load_counted(t.s, t.n), NC_OK);
    uint64_t x = 0x9E3779B97F4A7C15u;
    for (int i = 0; i < (nc_test_emulated() ? 6 : 60); i++) {
        size_t at = next_random(&x) % t.n, bit = next_random(&x) % 8;
        if (i % 3) at %= 1000; /* the head has the lengths of everything else */
        t.s[at] = (char)(t.s[at] ^ 1 << bit);
        nc_code code = load_counted(t.s, t.n);
        (void)code;
        t.s[at] = (char)(t.s[at] ^ 1 << bit);
    }
    nc_text_release(&t);
}

TEST(bad_large_model_cut_off) {
    nc_text t = {0};
    put_large_model(&t);
    uint64_t x = 0xD1B54A32D192ED03u;
    for (int i = 0; i < (nc_test_emulated() ? 4 : 40); i++)
        CHECK(load_counted(t.s, i ? next_random(&x) % t.n : t.n - 1) != NC_OK);
    nc_text_release(&t);
}

TEST(bad_cycles) {
    nc_text t = {0};
    put_header(&t, 10, 17);
    nc_wire_mark g = nc_wire_begin(&t, ModelProto_graph, 0);
    put_node(&t, "p", "Relu", "b -> a");
    put_node(&t, "q", "Relu", "a -> b");
    nc_wire_end(&t, g);
    CHECK_INT(load_counted(t.s, t.n), NC_E_BAD_GRAPH);
    nc_text_release(&t);
    put_header(&t, 10, 17);
    g = nc_wire_begin(&t, ModelProto_graph, 0);
    put_node(&t, "self", "Relu", "a -> a");
    nc_wire_end(&t, g);
    CHECK_INT(load_counted(t.s, t.n), NC_E_BAD_GRAPH);
    nc_text_release(&t);
}

/* A tensor whose dims name terabytes, in every way of giving its data. */
TEST(bad_huge_dims) {
    static const struct {
        uint32_t field;
        int64_t type;
    } ways[] = {{TensorProto_raw_data, NC_FLOAT},     {TensorProto_float_data, NC_FLOAT},
                {TensorProto_int32_data, NC_INT8},    {TensorProto_int64_data, NC_INT64},
                {TensorProto_string_data, NC_STRING}, {TensorProto_double_data, NC_DOUBLE}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        nc_text t = {0};
        put_header(&t, 10, 17);
        nc_wire_mark g = nc_wire_begin(&t, ModelProto_graph, 0), w = nc_wire_begin(&t, GraphProto_initializer, 0);
        nc_wire_put_ints(&t, TensorProto_dims, (int64_t[]){1 << 20, 1 << 20}, 2);
        nc_wire_put_int(&t, TensorProto_data_type, ways[i].type);
        nc_wire_put_str(&t, TensorProto_name, "W");
        nc_wire_put_bytes(&t, ways[i].field, "\0\0\0\0\0\0\0", 8);
        nc_wire_end(&t, w);
        nc_wire_end(&t, g);
        uint64_t asked = nc_mem_bytes();
        CHECK_INT(load_counted(t.s, t.n), NC_E_BAD_MODEL);
        CHECK(nc_mem_bytes() - asked < 1 << 20);
        nc_text_release(&t);
    }
}

/* Many empty things cost little each: counts are checked before memory is taken for them. */
TEST(bad_counts) {
    nc_text t = {0};
    put_header(&t, 10, 17);
    nc_wire_mark g = nc_wire_begin(&t, ModelProto_graph, 0), n = begin_node(&t, "n", "All", "test", "");
    for (int i = 0; i < 1000000; i++) nc_wire_put_bytes(&t, NodeProto_input, "", 0);
    for (int i = 0; i < 1000000; i++) nc_wire_put_bytes(&t, NodeProto_output, "", 0);
    nc_wire_end(&t, n);
    nc_wire_end(&t, g);
    CHECK_INT(load_counted(t.s, t.n), NC_OK);
    nc_text_release(&t);
    put_header(&t, 10, 17);
    g = nc_wire_begin(&t, ModelProto_graph, 0), n = begin_node(&t, "n", "All", "test", "");
    for (int i = 0; i <= NC_ONNX_MAX_ATTRS; i++) nc_wire_put_bytes(&t, NodeProto_attribute, "", 0);
    nc_wire_end(&t, n);
    nc_wire_end(&t, g);
    CHECK_INT(load_counted(t.s, t.n), NC_E_LIMIT);
    nc_text_release(&t);
}

/* ---- external data that leads out ---- */

static void put_outside(nc_text *t, const char *location) {
    put_header(t, 10, 17);
    nc_wire_mark g = nc_wire_begin(t, ModelProto_graph, 0), w = nc_wire_begin(t, GraphProto_initializer, 0);
    nc_wire_put_ints(t, TensorProto_dims, (int64_t[]){2}, 1);
    nc_wire_put_int(t, TensorProto_data_type, NC_FLOAT);
    nc_wire_put_str(t, TensorProto_name, "W");
    nc_wire_put_int(t, TensorProto_data_location, 1);
    put_entry(t, TensorProto_external_data, "location", location);
    nc_wire_end(t, w);
    nc_wire_end(t, g);
}

static void write_file(const char *path) {
    FILE *f = fopen(path, "wb");
    if (f) fwrite("12345678", 1, 8, f), fclose(f);
}

TEST(bad_external_paths) {
    char root[] = "/tmp/nacre_bad_XXXXXX", folder[80], path[160];
    REQUIRE(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/in", root);
    REQUIRE(mkdir(folder, 0700) == 0);
    static const char *const links[][2] = {{"link", "../secret"},       {"folder", ".."}, {"abs", "/etc/hostname"},
                                           {"chain", "link"},           {"loop", "loop"}, {"good", "data"},
                                           {"twice", "../in/../secret"}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, links[i][0]);
        REQUIRE(symlink(links[i][1], path) == 0);
    }
    snprintf(path, sizeof path, "%s/secret", root);
    write_file(path);
    snprintf(path, sizeof path, "%s/data", folder);
    write_file(path);
    static const struct {
        const char *location;
        const char *text;
    } cases[] = {{"data", NULL},
                 {"good", NULL},
                 {"link", "leaves the model's folder"},
                 {"folder/secret", "leaves the model's folder"},
                 {"abs", "leaves the model's folder"},
                 {"chain", "leaves the model's folder"},
                 {"twice", "leaves the model's folder"},
                 {"loop", "not found"},
                 {"..", "leaves the model's folder"},
                 {"./../secret", "leaves the model's folder"},
                 {"//etc/hostname", "leaves the model's folder"},
                 {"data/", "not found"},
                 {"folder", "leaves the model's folder"},
                 {"gone", "not found"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nc_work w;
        nc_text t = {0};
        nc_model *m = NULL;
        nc_work_init(&w);
        put_outside(&t, cases[i].location);
        nc_code code = nc_onnx_load(&w, t.s, t.n, NULL, folder, &test_registry, &m);
        if (code != (cases[i].text ? NC_E_IO : NC_OK) || (cases[i].text && !strstr(w.diag.text, cases[i].text)))
            nc_test_failed(__FILE__, __LINE__, "%s: %d %s", cases[i].location, code, w.diag.text);
        nc_model_destroy(m);
        nc_work_release(&w);
        nc_text_release(&t);
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, links[i][0]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/data", folder);
    unlink(path);
    rmdir(folder);
    snprintf(path, sizeof path, "%s/secret", root);
    unlink(path);
    CHECK(rmdir(root) == 0);
}
