/* Kernels that take only some calls of a node: which one runs follows from the sizes of the run, on every device, in
 * one plan; what they share is checked when the session is made. The op is of this test: Which(x) = x + the kernel's
 * number. */
#include "api/api.h"
#include "base/mem.h"
#include "ir/text.h"
#include "ops/card.h"
#include "tests/model.h"

static nc_code which_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

typedef struct which {
    float number;
    size_t bytes; /* of workspace */
    uint32_t strided_in;
} which;

static nc_code which_prepare(nc_prep *p) {
    p->state = (void *)(uintptr_t)p->own;
    p->strided_in = ((const which *)p->own)->strided_in;
    return NC_OK;
}

static size_t which_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)in, (void)n_in, (void)out, (void)n_out;
    return ((const which *)state)->bytes;
}

static nc_code which_run(const nc_call *c) {
    const which *s = c->state;
    const float *x = c->in[0]->data;
    if (c->bytes_workspace < s->bytes) return nc_diag_set(c->diag, NC_E_FAIL, c->node, c->op, "too little workspace");
    for (int64_t i = 0; i < c->in[0]->dims[0]; i++) ((float *)c->out[0]->data)[i] = x[i] + s->number;
    return NC_OK;
}

static bool is_one(const void *state, const nc_call *c) { return state != NULL && c->in[0]->dims[0] == 1; }
static bool is_even(const void *state, const nc_call *c) { return state != NULL && c->in[0]->dims[0] % 2 == 0; }

#define ROW(number, bytes, strided)                                                                            \
    .op = "Which", .domain = "test", .prepare = which_prepare, .workspace = which_workspace, .run = which_run, \
    .own = &(const which) {                                                                                    \
        number, bytes, strided                                                                                 \
    }
static const nc_binding rows[] = {{ROW(1, 64, 0), .guard = is_one, .when = "there is one element"},
                                  {ROW(2, 1 << 20, 0), .guard = is_even, .when = "their number is even"},
                                  {ROW(3, 128, 0)},
                                  {ROW(4, 0, 0), .guard = is_one, .when = "never: it stands behind the one for all"},
                                  {0}};
static const nc_binding unlike_rows[] = {
    {ROW(1, 64, 1), .guard = is_one, .when = "there is one element"}, {ROW(3, 128, 0)}, {0}};

static const nc_op_version versions[] = {{.since = 1, IN({"X", NC_BIT(NC_FLOAT)}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};
#define CARD(op, of) \
    { .name = op, .domain = "test", .doc = "x + the number.", .versions = versions, .infer = which_infer, .rows = of }
static const nc_card which_card = CARD("Which", rows), unlike_card = CARD("Unlike", unlike_rows);

static const nc_card *find_which(const nc_registry *r, const char *domain, const char *op) {
    if (strcmp(domain, "test") != 0) return nc_ops_registry()->find(r, domain, op);
    return strcmp(op, "Which") == 0 ? &which_card : strcmp(op, "Unlike") == 0 ? &unlike_card : NULL;
}
static const nc_registry registry = {.find = find_which};

static nacre_code open(model *m, const char *text) {
    nc_work w;
    nc_work_init(&w);
    nacre_model *parsed = nc_alloc_zero(1, sizeof *parsed);
    nacre_options *o = model_options(m); /* with the device */
    nacre_code code = NACRE_FAIL;
    if (nc_graph_parse(&w, text, &registry, &parsed->model) == NC_OK)
        code = nacre_session_create(m->env, parsed, o, &m->session, &m->err);
    else
        nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text);
    nc_work_release(&w);
    return code;
}

#define HEAD "<opset: \"\" 18, \"test\" 1> g (float[n] x) => (y) "

static void by_size(model *m) {
    float x[6] = {0};
    static const int64_t sizes[] = {1, 2, 3, 6, 1, 5};
    static const float want[] = {1, 2, 3, 2, 1, 3};
    if (open(m, HEAD "{ y = test.Which(x) }") != NACRE_OK) nc_test_failed(__FILE__, __LINE__, "%s", m->err.text);
    for (int i = 0; m->session && i < 6; i++) {
        model_input(m, "x", NACRE_FLOAT, 1, &sizes[i], x);
        model_run(m);
        const float *y = model_floats(m, "y", sizes[i]);
        if (y) CHECK_INT((int)y[sizes[i] - 1], (int)want[i]);
        model_collect_all(m);
    }
    CHECK_INT(model_stats(m).plans, 1);
}
TEST(variants_are_picked_by_the_sizes_of_a_run) { model_everywhere(by_size); }

TEST(variants_are_explained) {
    model m;
    char *text = NULL;
    model_init(&m, "cpu", 1);
    if (open(&m, HEAD "{ y = test.Which(x) }") == NACRE_OK) {
        CHECK_INT(nacre_session_explain(m.session, "y", &text, &m.err), NACRE_OK);
        CHECK(text && strstr(text, "variant: when there is one element\n  variant: when their number is even\n"));
        CHECK(text && !strstr(text, "never"));
        nacre_free(text);
    }
    model_close(&m);
}

TEST(a_variant_that_differs_is_refused) {
    model m;
    model_init(&m, "cpu", 1);
    CHECK(open(&m, HEAD "{ y = test.Unlike(x) }") != NACRE_OK);
    CHECK(strstr(m.err.text, "'there is one element' has other strides") != NULL);
    model_close(&m);
}
