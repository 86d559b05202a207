/* Types that leave control flow, and the kernels of loops and tapes with an executor that is played here. */
#include "tests/grad_cards.h"
#include "base/mem.h"
#include "tests/graph_testing.h"

static void check_types(const char *text, const char *want0, const char *want1) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, &nc_test_cards, text);
    if (!m) nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text);
    for (int i = 0; m && i < m->main->outputs.n; i++) CHECK_TYPE(m->main->outputs.v[i]->type, i ? want1 : want0);
    if (m) nc_model_destroy(m);
    nc_work_release(&w);
}

static void check_refused(const char *text, nc_code code, const char *part) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, &nc_test_cards, text);
    CHECK(m == NULL);
    CHECK_INT(w.diag.code, code);
    CHECK_DIAG(&w, part);
    if (m) nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(if_keeps_equal_dims) {
    check_types("(bool[] c, float[n,3] x) => (y) { y = If(c)<then_branch = { () => (a) { a = Neg(^x) } },"
                " else_branch = { () => (b) { b = Exp(^x) } }> \"if\" }",
                "float[n,3]", NULL);
    check_types("(bool[] c, float[n,3] x, float[n,4] z) => (y) { y = If(c)<then_branch = { () => (a) { a = Neg(^x) } },"
                " else_branch = { () => (b) { b = Neg(^z) } }> \"if\" }",
                "float[n,if_d]", NULL);
    check_types("(bool[] c, float[n,3] x, float[n] z) => (y) { y = If(c)<then_branch = { () => (a) { a = Neg(^x) } },"
                " else_branch = { () => (b) { b = Neg(^z) } }> \"if\" }",
                "float[...]", NULL);
}

TEST(if_with_constant_condition_takes_the_type_of_its_branch) {
    check_types(
        "(float[n,3] x, float[n] z) => (y) <const bool[] c = {0}> {"
        " y = If(c)<then_branch = { () => (a) { a = Neg(^x) } }, else_branch = { () => (b) { b = Neg(^z) } }> }",
        "float[n]", NULL);
}

TEST(if_refuses_differing_types) {
    check_refused("(bool[] c, float[3] x, double[3] z) => (y) { y = If(c)<then_branch = { () => (a) { a = Neg(^x) } },"
                  " else_branch = { () => (b) { b = Neg(^z) } }> }",
                  NC_E_TYPE, "float[3] in one place and double[3]");
}

#define BODY "<body = { (int64[] i, bool[] c, float[] v) => (c, u, w) { u = Neg(v)\n w = Add(^x, v) } }> \"loop\" }"

TEST(loop_scans_are_as_long_as_the_trips_are_known) {
    check_types("(float[3] x, float[] s) => (y, z) <const int64[] m = {5}> { y, z = Loop(m, , s)" BODY, "float[]",
                "float[5,3]");
    check_types("(float[3] x, float[] s) => (y, z) <const int64[] m = {-1}> { y, z = Loop(m, , s)" BODY, "float[]",
                "float[0,3]");
    check_types("(float[3] x, float[] s, bool[] k) => (y, z) <const int64[] m = {5}> { y, z = Loop(m, k, s)" BODY,
                "float[]", "float[loop_n,3]");
    check_types("(float[3] x, float[] s, int64[] m) => (y, z) { y, z = Loop(m, , s)" BODY, "float[]",
                "float[loop_n,3]");
}

/* A body may take its number and the condition as vectors of one element. */
TEST(loop_gives_its_number_as_the_body_declares_it) {
    check_types("(int64[] n, float[2] x) => (y, z) { y, z = Loop(n, , x)<body = { (int64[1] i, bool[1] c, float[2] v)"
                " => (c, v, i) {} }> \"loop\" }",
                "float[2]", "int64[loop_n,1]");
}

TEST(loop_frees_the_dims_that_its_body_changes) {
    check_types("(int64[] n, float[1] x) => (y, z) { y, z = Loop(n, , x)<body = { (int64[] i, bool[] c, v) =>"
                " (c, u, w) { u = test.Grow(v)\n w = Neg(v) } }> \"loop\" }",
                "float[loop_d]", "float[loop_n,loop_d_2]");
}

TEST(loop_checks_its_body) {
    check_refused("(int64[] n, float[1] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c) => (c) {} }> }",
                  NC_E_BAD_GRAPH, "body takes 2 inputs, expected 3");
    check_refused(
        "(int64[] n, float[1] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, v) => (c, i) {} }> }",
        NC_E_TYPE, "in one place and");
}

/* ---- kernels ---- */

enum { N = 6 };

/* One call of a dynamic kernel. Tensors are objects all along; run_sub plays the body
 * (i, c, v, tape) => (c, v+i, tape, v). */
typedef struct stage {
    nc_dyn d;
    nc_call call;
    nc_diag diag;
    nc_tensor in[N];
    nc_object *in_objects[N], *tensors[N], *out[N];
    bool moved[N];
    int stop_after; /* iterations; then the condition is false */
    int64_t n_stacked;
    nc_tensor *p_in[16];
} stage;

static nc_object *number(float f) {
    nc_object *o = nc_object_host_tensor(NC_FLOAT, 0, NULL);
    if (o) *(float *)o->t.data = f;
    return o;
}

static nc_object *object(nc_dyn *d, int i) {
    stage *s = (stage *)d;
    return s->tensors[i] ? nc_object_ref(s->tensors[i]) : NULL;
}

static nc_code alloc(nc_dyn *d, int i, nc_dtype type, int rank, const int64_t *dims, nc_tensor *t) {
    d->out[i] = nc_object_host_tensor(type, rank, dims);
    if (!d->out[i]) return NC_E_MEMORY;
    *t = d->out[i]->t;
    return NC_OK;
}

static nc_code run_sub(nc_dyn *d, int i_sub, nc_object **in, int n_in, nc_object **out, int n_out) {
    stage *s = (stage *)d;
    CHECK(i_sub == 0 && n_in == 4 && n_out == 4);
    int64_t i = *(int64_t *)in[0]->t.data;
    float v = *(float *)in[2]->t.data;
    CHECK(*(bool *)in[1]->t.data);
    CHECK_INT(atomic_load(&in[3]->refs), 1);
    out[0] = nc_object_host_tensor(NC_BOOL, 0, NULL);
    out[1] = number(v + (float)i);
    out[2] = in[3];
    out[3] = number(v);
    nc_object *item = number(v);
    bool ok = item && nc_object_push(in[3], item) && out[0] && out[1] && out[3];
    if (out[0]) *(bool *)out[0]->t.data = i + 1 < s->stop_after;
    for (int k = 0; k < 3; k++) nc_object_unref(in[k]);
    return ok ? NC_OK : NC_E_MEMORY;
}

static nc_object *stack(nc_dyn *d, int i_out, nc_object **items, int64_t n) {
    (void)i_out;
    ((stage *)d)->n_stacked = n;
    nc_object *all = nc_object_host_tensor(NC_FLOAT, 1, &n);
    for (int64_t i = 0; all && i < n; i++) ((float *)all->t.data)[i] = *(float *)items[i]->t.data;
    return all;
}

static bool not_cancelled(nc_dyn *d) { return ((stage *)d)->stop_after < 0; }

static void set(stage *s) {
    s->call.in = nc_tensor_pointers(s->p_in, s->in, (int)(sizeof s->in / sizeof s->in[0]));
    s->call.diag = &s->diag;
    s->call.node = s->call.op = "x";
    s->d = (nc_dyn){.call = &s->call,
                    .in = s->in_objects,
                    .moved = s->moved,
                    .out = s->out,
                    .object = object,
                    .alloc = alloc,
                    .run_sub = run_sub,
                    .stack = stack,
                    .cancelled = not_cancelled};
}

static void give_number(stage *s, int i, float f) {
    s->tensors[i] = number(f);
    if (s->tensors[i]) s->in[i] = s->tensors[i]->t;
}

static void drop(stage *s) {
    for (int i = 0; i < N; i++) {
        nc_object_unref(s->in_objects[i]);
        nc_object_unref(s->tensors[i]);
        nc_object_unref(s->out[i]);
    }
}

/* The binding of the last node of a graph, prepared. */
static const nc_binding *bind(nc_work *w, nc_arena *a, nc_model **m, const char *text, void **state) {
    *m = test_model(w, &nc_test_cards, text);
    const nc_binding *b = *m ? nc_binding_find((*m)->main->last, "cpu", NULL, 0) : NULL;
    nc_prep p = {.w = w, .arena = a, .node = *m ? (*m)->main->last : NULL};
    if (b && nc_binding_prepare(b, &p) != NC_OK) return NULL;
    *state = p.state;
    return b;
}

static const char loop_text[] = "(int64[] n, float[] x, tape t) => (y, r, z) { y, r, z = Loop(n, , x, t)<body = {"
                                " (int64[] i, bool[] c, float[] v, tape q) => (c, u, q, v) { u = Neg(v) } }> }";

/* Runs the loop; the fail_at-th allocation of the kernel fails (0: none). */
static nc_code run_loop(stage *s, int64_t trips, int stop_after, uint64_t fail_at) {
    nc_work w;
    nc_arena a = {0};
    nc_model *m;
    void *state = NULL;
    nc_work_init(&w);
    const nc_binding *b = bind(&w, &a, &m, loop_text, &state);
    *s = (stage){.stop_after = stop_after};
    set(s);
    s->call.state = state;
    s->call.n_in = 4;
    s->call.n_out = 3;
    s->tensors[0] = nc_object_host_tensor(NC_INT64, 0, NULL);
    give_number(s, 2, 10);
    s->in_objects[3] = nc_object_list(NC_OBJ_TAPE, NC_UNDEFINED);
    s->moved[3] = true;
    nc_code code = NC_E_FAIL;
    if (b && s->tensors[0]) {
        *(int64_t *)s->tensors[0]->t.data = trips;
        s->in[0] = s->tensors[0]->t;
        nc_mem_fail_at(fail_at);
        code = b->dynamic(&s->d);
        nc_mem_fail_at(0);
    }
    if (m) nc_model_destroy(m);
    nc_arena_release(&a);
    nc_work_release(&w);
    return code;
}

static void check_loop(int64_t trips, int stop_after, float want, int64_t want_n) {
    stage s;
    uint64_t live = nc_mem_live();
    CHECK_INT(run_loop(&s, trips, stop_after, 0), NC_OK);
    if (s.out[0] && s.out[1] && s.out[2]) {
        CHECK_NEAR(*(float *)s.out[0]->t.data, want, 0);
        CHECK_INT(s.out[1]->n, want_n);
        CHECK_INT(s.out[2]->t.rank, 1);
        CHECK_INT(s.out[2]->t.dims[0], want_n);
    }
    CHECK_INT(s.n_stacked, want_n);
    CHECK(s.in_objects[3] == NULL);
    drop(&s);
    CHECK_INT(nc_mem_live(), live);
}

TEST(loop_kernel) {
    check_loop(4, 100, 10 + 0 + 1 + 2 + 3, 4);
    check_loop(100, 3, 10 + 0 + 1 + 2, 3);
    check_loop(0, 100, 10, 0);
    check_loop(-5, 100, 10, 0);
}

TEST(loop_kernel_is_cancelled) {
    stage s;
    CHECK_INT(run_loop(&s, 4, -1, 0), NC_E_CANCELLED);
    drop(&s);
}

TEST(loop_kernel_out_of_memory) {
    uint64_t live = nc_mem_live(), n = 1;
    for (; n < 1000; n++) {
        stage s;
        nc_code code = run_loop(&s, 3, 100, n);
        drop(&s);
        CHECK_INT(nc_mem_live(), live);
        if (code == NC_OK) break;
        CHECK_INT(code, NC_E_MEMORY);
    }
    CHECK(n > 10 && n < 1000);
}

static const nc_binding *tape_binding(const char *op) {
    static const nc_op_version version = {.since = 1};
    nc_card card = {.name = op, .domain = "nacre", .versions = &version};
    nc_node n = {.card = &card, .version = &version, .name = "n"};
    return nc_binding_find(&n, "cpu", NULL, 0);
}

/* Pushes f on a tape that is moved or shared; gives the new tape. */
static nc_object *push(nc_object *tape, bool moved, float f) {
    stage s = {0};
    set(&s);
    s.call.n_in = 2;
    s.call.n_out = 1;
    s.in_objects[0] = moved ? tape : nc_object_ref(tape);
    s.moved[0] = moved;
    give_number(&s, 1, f);
    CHECK_INT(tape_binding("TapePush")->dynamic(&s.d), NC_OK);
    nc_object *out = s.out[0];
    s.out[0] = NULL;
    drop(&s);
    return out;
}

TEST(tape_is_moved_when_it_can_be_and_else_copied) {
    uint64_t live = nc_mem_live();
    nc_object *first = nc_object_list(NC_OBJ_TAPE, NC_UNDEFINED);
    REQUIRE(first != NULL);
    nc_object *tape = push(first, true, 1);
    CHECK(tape == first && tape->n == 1);
    nc_object *shared = push(tape, false, 2);
    CHECK(shared != tape && shared->n == 2 && tape->n == 1);
    stage s = {0};
    set(&s);
    s.call.n_in = 1;
    s.call.n_out = 2;
    s.in_objects[0] = shared;
    s.moved[0] = true;
    CHECK_INT(tape_binding("TapePop")->dynamic(&s.d), NC_OK);
    CHECK(s.out[0] == shared && shared->n == 1);
    CHECK_NEAR(*(float *)s.out[1]->t.data, 2, 0);
    drop(&s);
    nc_object_unref(tape);
    CHECK_INT(nc_mem_live(), live);
}

TEST(tape_refuses_what_is_not_on_it) {
    stage s = {0};
    set(&s);
    s.call.n_in = 1;
    s.call.n_out = 2;
    s.in_objects[0] = nc_object_list(NC_OBJ_TAPE, NC_UNDEFINED);
    CHECK_INT(tape_binding("TapePop")->dynamic(&s.d), NC_E_DATA);
    CHECK(strstr(s.diag.text, "empty") != NULL);
    s.in_objects[0] = push(s.in_objects[0], true, 3);
    s.call.n_out = 3;
    CHECK_INT(tape_binding("TapePop")->dynamic(&s.d), NC_E_DATA);
    CHECK_INT(tape_binding("TapeLength")->dynamic(&s.d), NC_OK);
    CHECK_INT(*(int64_t *)s.out[0]->t.data, 1);
    drop(&s);
}
