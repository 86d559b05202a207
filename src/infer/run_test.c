/* infer/run_test.c: sizes while running: from actual dims, from contents the host can read, and refusals. */
#include "tests/graph_testing.h"

typedef struct site {
    nc_work w;
    nc_model *m;
    nc_dims *dims;
    nc_arena arena;
    const nc_node *node;
} site;

static bool site_init(site *s, const char *text) {
    *s = (site){0};
    nc_work_init(&s->w);
    s->m = test_model(&s->w, nc_ops_registry(), text);
    s->dims = nc_dims_create();
    if (s->m == NULL || s->dims == NULL) return false;
    s->node = s->m->main->last;
    return true;
}

static void site_release(site *s) {
    if (s->m != NULL) nc_model_destroy(s->m);
    if (s->dims != NULL) nc_dims_destroy(s->dims);
    nc_arena_release(&s->arena);
    nc_work_release(&s->w);
}

TEST(infer_run_gives_actual_dims) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[n,1] a, float[k] b) => (y) { y = Less(a, b) }"));
    const nc_type *before = s.node->out[0]->type;
    nc_tensor in[2] = {{.dtype = NC_FLOAT, .rank = 2, .dims = {5, 1}}, {.dtype = NC_FLOAT, .rank = 1, .dims = {0}}},
              out = {0};
    REQUIRE(nc_infer_run(&s.w, s.node, s.dims, &s.arena, in, NULL, 2, &out, 1) == NC_OK);
    CHECK_INT(out.rank, 2);
    CHECK_INT(out.dims[0], 5);
    CHECK_INT(out.dims[1], 0);
    CHECK_INT(out.dtype, NC_BOOL);
    in[1].dims[0] = 3;
    in[0].dims[1] = 2;
    CHECK_INT(nc_infer_run(&s.w, s.node, s.dims, &s.arena, in, NULL, 2, &out, 1), NC_E_SHAPE);
    CHECK_STR(s.w.diag.op, "Less");
    CHECK(s.node->out[0]->type == before);
    site_release(&s);
}

TEST(infer_run_reads_host_contents) {
    site s;
    REQUIRE(site_init(
        &s, "<opset: \"\" 17, \"nacre\" 1> g (float[n,k] a, int64[r] shape) => (y) { y = nacre.SumTo(a, shape) }"));
    int64_t reversed[3] = {4, 77, 1};
    nc_tensor in[2] = {{.dtype = NC_FLOAT, .rank = 2, .dims = {5, 4}, .strides = {4, 1}},
                       {.data = &reversed[2], .dtype = NC_INT64, .rank = 1, .dims = {2}, .strides = {-2}}};
    nc_tensor out = {0};
    bool readable[2] = {false, true};
    REQUIRE(nc_infer_run(&s.w, s.node, s.dims, &s.arena, in, readable, 2, &out, 1) == NC_OK);
    CHECK_INT(out.rank, 2);
    CHECK_INT(out.dims[0], 1);
    CHECK_INT(out.dims[1], 4);
    readable[1] = false;
    CHECK_INT(nc_infer_run(&s.w, s.node, s.dims, &s.arena, in, readable, 2, &out, 1), NC_E_SHAPE);
    CHECK_DIAG(&s.w, "does not follow from the inputs");
    site_release(&s);
}

TEST(infer_run_of_a_chain_leaves_the_body_alone) {
    site s;
    REQUIRE(site_init(
        &s, "<opset: \"\" 17, \"nacre\" 1> g (float[n] a, float[1] b) => (y) { y = nacre.Chain<body = { (p, q) => (t) "
            "{ s = Add(p, q) t = Exp(s) } }>(a, b) }"));
    const nc_type *inner = s.node->subs[0].graph->outputs.v[0]->type;
    nc_tensor in[2] = {{.dtype = NC_FLOAT, .rank = 1, .dims = {9}}, {.dtype = NC_FLOAT, .rank = 1, .dims = {1}}},
              out = {0};
    REQUIRE(nc_infer_run(&s.w, s.node, s.dims, &s.arena, in, NULL, 2, &out, 1) == NC_OK);
    CHECK_INT(out.dims[0], 9);
    CHECK(s.node->subs[0].graph->outputs.v[0]->type == inner);
    site_release(&s);
}
