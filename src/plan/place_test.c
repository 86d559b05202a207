/* plan/place_test.c: where nodes run, planned for a device with CUDA's kernels, what is taken apart to run there, and
 * the copies in between. */
#include "base/log.h"
#include "tests/lowering.h"

static nc_code place(nc_work *w, nc_model *m, const nc_plan_options *o) { return nc_lower_place(w, m, o, true); }

/* All steps that need no compiled kernel. */
static nc_code lower(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place_and_decompose(w, m, o));
    NC_TRY(nc_lower_layout(w, m, o));
    NC_TRY(nc_lower_chain(w, m, o));
    return nc_lower_copy(w, m->main, o);
}

#define PLACES(graph, want) LOWERS_ON(&cuda_planning, graph, place, want)
#define COPIES(graph, want) OPS_ON(&cuda_planning, graph, lower, want)
#define DECOMPOSES(graph, want) OPS_ON(&cuda_planning, graph, nc_lower_place_and_decompose, want)

TEST(place_keeps_shape_math_on_the_host) {
    PLACES("(float[n,k] x) => (y) { s = Shape(x) t = Mul(s, s) y = Expand(x, t) }",
           "s = Shape(x); t = Mul(s, s); y = Expand(x, t) @device");
    PLACES("(int64[n] x) => (y) { y = Mul(x, x) }", "y = Mul(x, x) @device");
    PLACES("(float[n,k] x) => (y, t) { s = Shape(x) t = Mul(s, s) y = Expand(x, t) }",
           "s = Shape(x); t = Mul(s, s) @device; y = Expand(x, t) @device");
}

TEST(place_keeps_on_the_host_what_only_that_can_run) {
    PLACES("(float[n] x) => (y) { a = Exp(x) y = nacre.NumpyDropout(a) }",
           "a = Exp(x) @device; y = nacre.NumpyDropout(a)");
    PLACES("(string[n] x) => (y) { y = Identity(x) }", "y = Identity(x)");
}

typedef struct heard {
    int n;
    char text[400];
} heard;

static void hear(void *user, nc_log_level level, const char *message) {
    heard *h = user;
    if (level != NC_LOG_WARNING) return;
    h->n++;
    snprintf(h->text, sizeof h->text, "%s", message);
}

/* Two nodes that only the host has, and shape math, which belongs there. */
static nc_code place_left(const nc_plan_options *o, nc_work *w, heard *h) {
    *h = (heard){0};
    nc_work_init(w);
    nc_model *m = test_model(w, nc_ops_registry(),
                             LOWERING_HEAD "(float[n,n] x, float[] d) => (y, z, t) { s = Shape(x) t = Expand(x, s) "
                                           "y = nacre.NumpyDropout<seed = 1>(x, d) e = Exp(x) "
                                           "z = nacre.NumpyDropout<seed = 1>(e, d) }");
    nc_log_set_sink(hear, h);
    nc_code code = m != NULL ? nc_lower_place(w, m, o, true) : NC_E_MEMORY;
    nc_log_set_sink(NULL, NULL);
    if (m != NULL) nc_model_destroy(m);
    return code;
}

TEST(place_warns_once_of_what_computes_on_the_host) {
    nc_work w;
    heard h;
    CHECK_INT(place_left(&(nc_plan_options){.device = &cuda_planning}, &w, &h), NC_OK);
    CHECK_INT(h.n, 1);
    CHECK(strstr(h.text, "2 of the model's nodes compute on the host") != NULL);
    CHECK(strstr(h.text, "NumpyDropout") != NULL);
    nc_work_release(&w);
    CHECK_INT(place_left(&(nc_plan_options){.device = &cuda_planning, .no_host = true}, &w, &h), NC_E_UNSUPPORTED);
    CHECK_INT(h.n, 0);
    CHECK_STR(w.diag.op, "NumpyDropout");
    CHECK(strstr(w.diag.text, "host_nodes refuses") != NULL);
    nc_work_release(&w);
    CHECK_INT(place_left(&(nc_plan_options){.device = nc_device_cpu(), .no_host = true}, &w, &h), NC_OK);
    CHECK_INT(h.n, 0);
    nc_work_release(&w);
}

TEST(place_takes_ops_apart_on_the_device) {
    DECOMPOSES("(float[n,k] x, float[k] s, float[k] b) => (y) { y = LayerNormalization(x, s, b) }",
               "LayerNormalization@device");
    DECOMPOSES("(float[n,k] x) => (y) { y = LpNormalization(x) }",
               "Mul@device ReduceSum@device Equal@device Where@device Sqrt@device Div@device");
    DECOMPOSES("(float[n,k] x) => (y) { y = Gelu(x) }", "GeluErf@device");
    OPS_ON(nc_device_cpu(), "(float[n,k] x, float[k] s, float[k] b) => (y) { y = LayerNormalization(x, s, b) }",
           nc_lower_place_and_decompose, "LayerNormalization");
}

/* What the device has no kernel for is there in pieces, none on the host. */
TEST(place_sends_no_composed_op_to_the_host) {
    static const char *const graphs[] = {
        "(float[n,k] x, float[k] s, float[k] b) => (y) { y = LayerNormalization(x, s, b) }",
        "(float16[n,k] x, float16[k] s) => (y) { y = RMSNormalization(x, s) }",
        "(float[n,k] x) => (y) { y = Gelu(x) }",
        "(float[n,k] x) => (y) { y = Gelu<approximate = \"tanh\">(x) }",
        "(float[n,c,h,w] x, float[c] s, float[c] b) => (y) { y = InstanceNormalization(x, s, b) }",
        "(float[n,4,h,w] x, float[4] s, float[4] b) => (y) { y = GroupNormalization<num_groups = 2>(x, s, b) }",
        "(float[n,k] x) => (y) { y = ReduceL2(x) }",
        "(float[n,k] x) => (y) { y = LogSoftmax(x) }",
        "(float[n,c,h,w] x) => (y) { y = GlobalAveragePool(x) }",
    };
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        nc_work w;
        nc_work_init(&w);
        const nc_plan_options o = {.device = &cuda_planning};
        char text[512];
        snprintf(text, sizeof text, LOWERING_HEAD "%s", graphs[i]);
        nc_model *m = test_model(&w, nc_ops_registry(), text);
        if (m == NULL || lower(&w, m, &o) != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s: %s", text, w.diag.text);
        for (const nc_node *n = m != NULL ? m->main->first : NULL; n != NULL; n = n->next) {
            bool computes = !(n->card->traits & NC_COPIES) && nc_dtype_is_float(n->out[0]->type->elem);
            if (computes && !n->place) nc_test_failed(__FILE__, __LINE__, "%s: %s on the host", text, n->card->name);
        }
        if (m != NULL) nc_model_destroy(m);
        nc_work_release(&w);
    }
}

/* Its decomposition is for labels that are strings and refuses these; nothing of the try is left. */
TEST(place_keeps_whole_what_cannot_be_taken_apart) {
    OPS_ON(&cuda_planning,
           "(float[n,2] x) => (c) { c, z = ai.onnx.ml.TreeEnsembleClassifier<classlabels_int64s = [7, 3], "
           "nodes_treeids = [0], nodes_nodeids = [0], nodes_featureids = [0], nodes_values = [0.0], "
           "nodes_modes = [\"LEAF\"], nodes_truenodeids = [0], nodes_falsenodeids = [0], class_treeids = [0], "
           "class_nodeids = [0], class_ids = [0], class_weights = [1.0]>(x) }",
           lower, "TreeEnsembleClassifier");
}

TEST(place_puts_copies_where_places_meet) {
    COPIES("(float[n] x) => (y) { y = Exp(x) }", "Copy@device Exp@device Copy");
    COPIES("(float[n] x) => (y) { a = Exp(x) b = nacre.NumpyDropout(a) y = Cast<to = 11>(b) }",
           "Copy@device Exp@device Copy NumpyDropout Copy@device Cast@device Copy");
    COPIES("(float[n,k] x) => (y) { s = Shape(x) a = Exp(x) y = Expand(a, s) }",
           "Copy@device Shape Exp@device Expand@device Copy");
    COPIES("(float[n] x, float[2*n] z) => (y, w) { y = Exp(x) w = Abs(z) }",
           "Copy@device Exp@device Copy@device Abs@device Copy Copy");
}
