/* ops/shape/shape_cpu_test.c: views and kernels of the shape family through find, prepare and call: strided and
 * unaligned memory, growing in place, host arguments that contradict the plan, strings, choice of rows. */
#include "tests/graph_testing.h"
#include "ops/shape/shape.h"

typedef struct site {
    nc_work w;
    nc_model *m;
    nc_arena arena;
    nc_prep prep;
    const nc_binding *b;
    char why[256];
    nc_tensor *p_in[8], *p_out[8];
} site;

static bool site_init(site *s, const char *text) {
    *s = (site){0};
    nc_work_init(&s->w);
    s->m = test_model(&s->w, nc_ops_registry(), text);
    if (s->m == NULL) {
        nc_test_failed(__FILE__, __LINE__, "%s: %s", text, s->w.diag.text);
        return false;
    }
    s->prep = (nc_prep){.w = &s->w, .arena = &s->arena, .node = s->m->main->last};
    s->b = nc_binding_find(s->prep.node, "cpu", s->why, sizeof s->why);
    return s->b != NULL && nc_binding_prepare(s->b, &s->prep) == NC_OK;
}

static nc_call site_call(site *s, nc_tensor *in, int n_in, nc_tensor *out, int n_out) {
    return (nc_call){.state = s->prep.state,
                     .in = nc_tensor_pointers(s->p_in, in, n_in),
                     .n_in = n_in,
                     .out = nc_tensor_pointers(s->p_out, out, n_out),
                     .n_out = n_out,
                     .diag = &s->w.diag,
                     .node = s->prep.node->name,
                     .op = s->prep.node->card->name};
}

static void site_release(site *s) {
    if (s->m != NULL) nc_model_destroy(s->m);
    nc_arena_release(&s->arena);
    nc_work_release(&s->w);
}

TEST(squeeze_keeps_strides) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[3,1,4] x) => (y) <const int64[1] a = {1}> { y = Squeeze(x, a) }"));
    float data[64];
    nc_tensor in[2] = {{.data = data, .dtype = NC_FLOAT, .rank = 3, .dims = {3, 1, 4}, .strides = {1, 99, 8}}};
    nc_tensor y = {.dtype = NC_FLOAT, .rank = 2, .dims = {3, 4}};
    nc_call c = site_call(&s, in, 2, &y, 1);
    CHECK_INT(s.b->kind, NC_K_VIEW);
    CHECK_INT(s.b->view(&c), NC_OK);
    CHECK(y.data == data && y.strides[0] == 1 && y.strides[1] == 8);
    in[0].strides[0] = 4, in[0].strides[2] = 1;
    CHECK_INT(s.b->view(&c), NC_OK);
    CHECK(nc_is_dense(&y));
    in[0].dims[1] = 2;
    CHECK_INT(s.b->view(&c), NC_E_DATA);
    site_release(&s);
}

TEST(slice_views_of_strided_memory) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (int16[5,4] x, int64[1] a, int64[1] b, int64[1] ax, int64[1] st) => (y) "
                          "{ y = Slice(x, a, b, ax, st) }"));
    int16_t data[64];
    int64_t start = -1, end = INT64_MIN, axis = 0, step = -2;
    nc_tensor in[5] = {{.data = data, .dtype = NC_INT16, .rank = 2, .dims = {5, 4}, .strides = {10, 2}}};
    int64_t *args[4] = {&start, &end, &axis, &step};
    for (int i = 0; i < 4; i++)
        in[i + 1] = (nc_tensor){.data = args[i], .dtype = NC_INT64, .rank = 1, .dims = {1}, .strides = {1}};
    nc_tensor y = {.dtype = NC_INT16, .rank = 2, .dims = {3, 4}};
    nc_call c = site_call(&s, in, 5, &y, 1);
    CHECK_INT(s.b->view(&c), NC_OK);
    CHECK((int16_t *)y.data == data + 40 && y.strides[0] == -20 && y.strides[1] == 2);
    start = 3;
    CHECK_INT(s.b->view(&c), NC_E_DATA); /* two rows, three were planned */
    start = 7, end = 9, step = 1, y.dims[0] = 0;
    CHECK_INT(s.b->view(&c), NC_OK);
    CHECK(y.data == data);
    step = 0;
    CHECK_INT(s.b->view(&c), NC_E_DATA);
    site_release(&s);
}

TEST(slice_ranges_follow_numpy) {
    static const int64_t rows[][6] = {
        /* d, start, end, step, first, count */
        {5, 0, 5, 1, 0, 5},  {5, -3, -1, 1, 2, 2},       {5, 1, INT64_MAX, 2, 1, 2},
        {5, 4, 2, 1, 4, 0},  {5, -9, 9, 1, 0, 5},        {5, -1, INT64_MIN, -1, 4, 5},
        {5, 9, 0, -2, 4, 2}, {0, 0, 9, 1, 0, 0},         {0, -1, -9, -1, 0, 0},
        {5, 3, 3, -1, 3, 0}, {5, 0, 5, INT64_MAX, 0, 1}, {5, 4, INT64_MIN, INT64_MIN, 4, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t first, count;
        nc_slice_range(rows[i][0], rows[i][1], rows[i][2], rows[i][3], &first, &count);
        CHECK_INT(count, rows[i][5]);
        if (count > 0) CHECK_INT(first, rows[i][4]);
    }
}

TEST(split_skips_parts_nobody_wants) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 18> g (float[7,2] x) => (c) { , , c = Split<num_outputs = 3>(x) }"));
    float data[14];
    nc_tensor in = {.data = data, .dtype = NC_FLOAT, .rank = 2, .dims = {7, 2}, .strides = {2, 1}};
    nc_tensor out[3] = {{0}, {0}, {.dtype = NC_FLOAT, .rank = 2, .dims = {1, 2}}};
    nc_call c = site_call(&s, &in, 1, out, 3);
    CHECK_INT(s.b->view(&c), NC_OK);
    CHECK((float *)out[2].data == data + 12 && out[0].data == NULL);
    site_release(&s);
}

TEST(split_says_which_part_does_not_fit) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[n] x, int64[2] s) => (a, b) { a, b = Split(x, s) }"));
    float data[5];
    int64_t sizes[2] = {3, 3};
    nc_tensor in[2] = {{.data = data, .dtype = NC_FLOAT, .rank = 1, .dims = {5}, .strides = {1}},
                       {.data = sizes, .dtype = NC_INT64, .rank = 1, .dims = {2}, .strides = {1}}};
    nc_tensor out[2] = {{.dtype = NC_FLOAT, .rank = 1, .dims = {3}}, {.dtype = NC_FLOAT, .rank = 1, .dims = {2}}};
    nc_call c = site_call(&s, in, 2, out, 2);
    CHECK_INT(s.b->view(&c), NC_E_DATA);
    CHECK(strstr(s.w.diag.text, "part 1 has 3 elements, 2 are left of 5") != NULL);
    s.w.diag = (nc_diag){0};
    sizes[1] = 1;
    CHECK_INT(s.b->view(&c), NC_E_DATA);
    CHECK(strstr(s.w.diag.text, "the sizes of split sum to 4, the dim is 5") != NULL);
    site_release(&s);
}

TEST(concat_grows_in_place) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[2,n] a, float[2,1] b) => (y) { y = Concat<axis = 1>(a, b) }"));
    CHECK_INT(s.prep.strided_in, UINT32_MAX);
    CHECK_INT(s.prep.strided_out, 1);
    float cache[2][8] = {{1, 2, 3}, {4, 5, 6}}, more[2] = {7, 8};
    nc_tensor in[2] = {{.data = cache, .dtype = NC_FLOAT, .rank = 2, .dims = {2, 3}, .strides = {8, 1}},
                       {.data = more, .dtype = NC_FLOAT, .rank = 2, .dims = {2, 1}, .strides = {1, 1}}};
    nc_tensor y = {.data = cache, .dtype = NC_FLOAT, .rank = 2, .dims = {2, 4}, .strides = {8, 1}};
    nc_call c = site_call(&s, in, 2, &y, 1);
    CHECK_INT(s.b->run(&c), NC_OK);
    CHECK(cache[0][2] == 3 && cache[0][3] == 7 && cache[1][0] == 4 && cache[1][3] == 8);
    in[1].dims[0] = 1;
    CHECK_INT(s.b->run(&c), NC_E_DATA);
    site_release(&s);
}

TEST(concat_moves_unaligned_bytes) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (double[1] a, double[2] b) => (y) { y = Concat<axis = 0>(a, b) }"));
    char raw[40];
    double a = NAN, b[2] = {1, -INFINITY}, y[3];
    memcpy(raw + 1, &a, 8), memcpy(raw + 9, b, 16);
    nc_tensor in[2] = {{.data = raw + 1, .dtype = NC_DOUBLE, .rank = 1, .dims = {1}, .strides = {1}},
                       {.data = raw + 9, .dtype = NC_DOUBLE, .rank = 1, .dims = {2}, .strides = {1}}};
    nc_tensor out = {.data = y, .dtype = NC_DOUBLE, .rank = 1, .dims = {3}, .strides = {1}};
    nc_call c = site_call(&s, in, 2, &out, 1);
    CHECK_INT(s.b->run(&c), NC_OK);
    CHECK(isnan(y[0]) && y[1] == 1 && isinf(y[2]));
    site_release(&s);
}

TEST(range_of_floats) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[1] x) => (y) <const float[] a = {0.5}, const float[] b = {3}, "
                          "const float[] d = {0.75}> "
                          "{ y = Range(a, b, d) }"));
    CHECK_TYPE(s.prep.node->out[0]->type, "float[4]");
    float v[3] = {0.5f, 3, 0.75f}, y[4];
    nc_tensor in[3], out = {.data = y, .dtype = NC_FLOAT, .rank = 1, .dims = {4}, .strides = {1}};
    for (int i = 0; i < 3; i++) in[i] = (nc_tensor){.data = &v[i], .dtype = NC_FLOAT};
    nc_call c = site_call(&s, in, 3, &out, 1);
    CHECK_INT(s.b->run(&c), NC_OK);
    CHECK(y[0] == 0.5f && y[3] == 2.75f);
    site_release(&s);
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[] a, float[] b, float[] d) => (y) { y = Range(a, b, d) }"));
    CHECK_INT(s.b->kind, NC_K_DYNAMIC);
    site_release(&s);
}

TEST(strings_are_objects) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (string[2] x) => (y) { y = Cast<to = 1>(x) }"));
    CHECK_INT(s.b->kind, NC_K_DYNAMIC);
    site_release(&s);
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[2] x) => (y) { y = Cast<to = 8>(x) }"));
    CHECK_INT(s.b->kind, NC_K_DYNAMIC);
    site_release(&s);
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (string[2,2] x) => (y) { y = Transpose(x) }"));
    CHECK_INT(s.b->kind, NC_K_DYNAMIC);
    site_release(&s);
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (string[2,3] x) => (y) <const int64[1] h = {-1}> { y = Reshape(x, h) }"));
    CHECK_INT(s.b->kind, NC_K_DYNAMIC);
    int64_t dims[2] = {2, 3}, to = -1;
    nc_object *x = nc_object_host_tensor(NC_STRING, 2, dims), *y = NULL;
    REQUIRE(x != NULL);
    nc_tensor in[2] = {x->t, {.data = &to, .dtype = NC_INT64, .rank = 1, .dims = {1}, .strides = {1}}};
    nc_call c = site_call(&s, in, 2, NULL, 1);
    nc_object *objects[2] = {x, NULL};
    nc_dyn d = {.call = &c, .in = objects, .out = &y, .n_operands = 2};
    CHECK_INT(s.b->dynamic(&d), NC_OK);
    CHECK(y != NULL && y->t.rank == 1 && y->t.dims[0] == 6);
    nc_object_unref(y);
    to = 4, y = NULL;
    CHECK_INT(s.b->dynamic(&d), NC_E_DATA);
    nc_object_unref(x);
    site_release(&s);
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (seq(float[n]) x) => (y) { y = Identity(x) }"));
    CHECK_INT(s.b->kind, NC_K_DYNAMIC);
    CHECK_TYPE(s.prep.node->out[0]->type, "seq(float[n])");
    site_release(&s);
}

TEST(identities_are_seen) {
    static const struct {
        const char *graph;
        bool is;
    } rows[] = {
        {"(float[n,4] x) => (y) <const int64[2] s = {0, 4}> { y = Reshape(x, s) }", true},
        {"(float[n,4] x) => (y) <const int64[2] s = {4, -1}> { y = Reshape(x, s) }", false},
        {"(float[3,3] x) => (y) { y = Transpose(x) }", false},
        {"(float[3,3] x) => (y) { y = Transpose<perm = [0, 1]>(x) }", true},
        {"(float[3] x) => (y) <const int64[1] s = {0}, const int64[1] e = {3}> { y = Slice(x, s, e) }", true},
        {"(float[3] x) => (y) <const int64[1] s = {2}, const int64[1] e = {-9}, const int64[1] a = {0}, const int64[1] "
         "t = {-1}> "
         "{ y = Slice(x, s, e, a, t) }",
         false},
        {"(float[3] x) => (y) { y = Cast<to = 1>(x) }", true},
        {"(float[3] x) => (y) { y = Concat<axis = 0>(x) }", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        site s;
        snprintf(text, sizeof text, "<opset: \"\" 17> g %s", rows[i].graph);
        REQUIRE(site_init(&s, text));
        if (s.prep.node->card->is_identity(s.prep.node) != rows[i].is) nc_test_failed(__FILE__, __LINE__, "%s", text);
        site_release(&s);
    }
}
