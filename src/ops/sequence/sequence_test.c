/* ops/sequence/sequence_test.c: types of sequences, and their host kernels and StringConcat in a small world of their
 * own. */
#include "ops/cases_testing.h"
#include "tests/graph_testing.h"

#include "base/mem.h"

typedef struct world {
    nc_dyn d; /* first */
    nc_work w;
    nc_model *m;
    nc_arena arena;
    const nc_binding *b;
    nc_call call;
    nc_tensor in[4], *p_in[4];
    nc_object *held[4], *out;
    bool moved[4];
} world;

static nc_object *world_object(nc_dyn *d, int i) {
    world *x = (world *)d;
    if (d->in[i] != NULL) return nc_object_ref(d->in[i]);
    const nc_tensor *t = &x->in[i];
    nc_object *o = nc_object_host_tensor(t->dtype, t->rank, t->dims);
    if (o != NULL) memcpy(o->t.data, t->data, (size_t)nc_tensor_numel(t) * nc_dtype_bytes(t->dtype));
    return o;
}

static nc_code world_alloc(nc_dyn *d, int i, nc_dtype type, int rank, const int64_t *dims, nc_tensor *t) {
    d->out[i] = nc_object_host_tensor(type, rank, dims);
    if (d->out[i] == NULL) return NC_E_MEMORY;
    *t = d->out[i]->t;
    return NC_OK;
}

static bool world_init(world *x, const char *text) {
    char why[128] = "";
    *x = (world){0};
    nc_work_init(&x->w);
    x->m = test_model(&x->w, nc_ops_registry(), text);
    if (x->m == NULL) {
        nc_test_failed(__FILE__, __LINE__, "%s: %s", text, x->w.diag.text);
        return false;
    }
    const nc_node *n = x->m->main->last;
    nc_prep prep = {.w = &x->w, .arena = &x->arena, .node = n};
    x->b = nc_binding_find(n, "cpu", why, sizeof why);
    if (x->b == NULL || nc_binding_prepare(x->b, &prep) != NC_OK) return false;
    x->call = (nc_call){.state = prep.state,
                        .in = nc_tensor_pointers(x->p_in, x->in, n->n_in),
                        .n_in = n->n_in,
                        .n_out = 1,
                        .diag = &x->w.diag,
                        .node = "n",
                        .op = n->card->name};
    x->d = (nc_dyn){.call = &x->call,
                    .in = x->held,
                    .moved = x->moved,
                    .out = &x->out,
                    .n_operands = n->n_in,
                    .object = world_object,
                    .alloc = world_alloc};
    return true;
}

static void world_release(world *x) {
    if (x->m != NULL) nc_model_destroy(x->m);
    nc_object_unref(x->out);
    nc_arena_release(&x->arena);
    nc_work_release(&x->w);
}

static nc_object *floats(int64_t rows, int64_t cols, float first) {
    int64_t dims[2] = {rows, cols};
    nc_object *o = nc_object_host_tensor(NC_FLOAT, 2, dims);
    for (int64_t k = 0; o != NULL && k < rows * cols; k++) ((float *)o->t.data)[k] = first + (float)k;
    return o;
}

static nc_object *list_of(int n) {
    nc_object *list = nc_object_list(NC_OBJ_SEQUENCE, NC_FLOAT);
    for (int i = 0; list != NULL && i < n; i++) CHECK(nc_object_push(list, floats(1, 1, (float)i)));
    return list;
}

static float item(const nc_object *list, int64_t i) { return ((const float *)list->items[i]->t.data)[0]; }

#define G "<opset: \"\" 20> g "

TEST(sequence_types) {
    CHECK_INFERS(G "(float[n,4] a, float[3,4] b) => (s) { s = SequenceConstruct(a, b) }", "seq(float[n,4])");
    CHECK_INFERS(G "(float[2,4] a, float[3,4] b) => (s) { s = SequenceConstruct(a, b) }",
                 "seq(float[SequenceConstruct_2_d,4])");
    CHECK_INFERS(G "(float[2] a, float[3,4] b) => (s) { s = SequenceConstruct(a, b) }", "seq(float[...])");
    CHECK_INFERS(G "(float[2] a) => (s) { e = SequenceEmpty<dtype = 7>(); s = SequenceInsert(e, a) }",
                 "a sequence of int64 cannot hold float");
    CHECK_INFERS(G "(seq(float[n,4]) s, int64[] i) => (t) { t = SequenceAt(s, i) }", "float[SequenceAt_2_d,4]");
    CHECK_INFERS(G "(seq(float[n,4]) s) => (t) { t = ConcatFromSequence<axis = -1, new_axis = 1>(s) }",
                 "float[ConcatFromSequence_1_d,4,ConcatFromSequence_1_n]");
    CHECK_INFERS(G "(seq(float[3,4]) s) => (t) { t = ConcatFromSequence<axis = 0>(s) }",
                 "float[ConcatFromSequence_1_n,4]");
    CHECK_INFERS(G "(float[n,4] x) => (s) { s = SplitToSequence<keepdims = 0>(x) }", "seq(float[4])");
    CHECK_INFERS(G "(float[n,6] x) => (s) <const int64[] p = {3}> { s = SplitToSequence<axis = 1>(x, p) }",
                 "seq(float[n,3])");
    CHECK_INFERS(G "(float[n,6] x) => (s) <const int64[2] p = {3, 3}> { s = SplitToSequence<axis = 1>(x, p) }",
                 "seq(float[n,3])");
    CHECK_INFERS(G "(float[n,6] x) => (s) <const int64[] p = {4}> { s = SplitToSequence<axis = 1>(x, p) }",
                 "seq(float[n,SplitToSequence_2_n])");
    CHECK_INFERS(G "(float[n,6] x) => (s) <const int64[2] p = {4, 2}> { s = SplitToSequence<axis = 1>(x, p) }",
                 "seq(float[n,SplitToSequence_2_n])");
    CHECK_INFERS(G "(float[n,6] x) => (s) <const int64[] p = {-3}> { s = SplitToSequence<axis = 1>(x, p) }",
                 "parts of -3 elements");
    CHECK_INFERS(G "(float[2] x) => (s) { s = Optional(x) }", "optional(float[2])");
    CHECK_INFERS(G "(optional(float[2]) o) => (s) { s = OptionalGetElement(o) }", "float[2]");
    CHECK_INFERS(G "(string[n,1] a, string[3] b) => (s) { s = StringConcat(a, b) }", "string[n,3]");
}

TEST(sequence_insert_grows_what_it_owns) {
    world x;
    REQUIRE(world_init(&x, G "(seq(float[1,1]) s, float[1,1] t) => (y) { y = SequenceInsert(s, t) }"));
    float v = 9;
    x.in[1] = (nc_tensor){.data = &v, .dtype = NC_FLOAT, .rank = 2, .dims = {1, 1}, .strides = {1, 1}};
    nc_object *list = list_of(2);
    x.held[0] = list;
    x.moved[0] = true;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(x.out == list && list->n == 3 && item(list, 2) == 9 && x.held[0] == NULL);
    x.held[0] = list; /* borrowed now: the result is another list that shares the items */
    x.out = NULL;
    x.moved[0] = false;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(x.out != list && x.out->n == 4 && list->n == 3 && x.out->items[0] == list->items[0]);
    nc_object_unref(list);
    world_release(&x);
}

TEST(sequence_insert_and_erase_at_positions) {
    world x;
    REQUIRE(world_init(&x, G "(seq(float[1,1]) s, float[1,1] t, int32[] i) => (y) { y = SequenceInsert(s, t, i) }"));
    float v = 9;
    int32_t at = -1;
    x.in[1] = (nc_tensor){.data = &v, .dtype = NC_FLOAT, .rank = 2, .dims = {1, 1}, .strides = {1, 1}};
    x.in[2] = (nc_tensor){.data = &at, .dtype = NC_INT32};
    nc_object *list = list_of(3);
    x.held[0] = list;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(x.out->n == 4 && item(x.out, 2) == 9 && item(x.out, 3) == 2);
    at = 4;
    nc_object_unref(x.out), x.out = NULL;
    CHECK_INT(x.b->dynamic(&x.d), NC_E_DATA);
    CHECK_DIAG(&x.w, "position 4 is out of range for 3 elements");
    world_release(&x);

    REQUIRE(world_init(&x, G "(seq(float[1,1]) s, int64[] i) => (y) { y = SequenceErase(s, i) }"));
    int64_t gone = 0;
    x.in[1] = (nc_tensor){.data = &gone, .dtype = NC_INT64};
    x.held[0] = list;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(x.out->n == 2 && item(x.out, 0) == 1 && list->n == 3);
    nc_object_unref(x.out), x.out = NULL;
    x.in[1].data = NULL;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(x.out->n == 2 && item(x.out, 1) == 1);
    world_release(&x);
    nc_object_unref(list);
}

TEST(sequence_at_and_length) {
    world x;
    REQUIRE(world_init(&x, G "(seq(float[1,1]) s, int64[] i) => (y) { y = SequenceAt(s, i) }"));
    int64_t at = -1;
    nc_object *list = list_of(3), *none = list_of(0);
    x.in[1] = (nc_tensor){.data = &at, .dtype = NC_INT64};
    x.held[0] = list;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(x.out == list->items[2]);
    nc_object_unref(x.out), x.out = NULL;
    x.held[0] = none;
    CHECK_INT(x.b->dynamic(&x.d), NC_E_DATA);
    world_release(&x);
    REQUIRE(world_init(&x, G "(seq(float[1,1]) s) => (y) { y = SequenceLength(s) }"));
    x.held[0] = list;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK_INT(*(int64_t *)x.out->t.data, 3);
    world_release(&x);
    nc_object_unref(list), nc_object_unref(none);
}

TEST(sequence_concat_and_split) {
    world x;
    REQUIRE(world_init(&x, G "(float[3,2] x, int64[2] s) => (y) { y = SplitToSequence<axis = 0>(x, s) }"));
    float data[6] = {0, 1, 2, 3, 4, 5};
    int64_t sizes[2] = {1, 2};
    x.in[0] = (nc_tensor){.data = data, .dtype = NC_FLOAT, .rank = 2, .dims = {3, 2}, .strides = {2, 1}};
    x.in[1] = (nc_tensor){.data = sizes, .dtype = NC_INT64, .rank = 1, .dims = {2}, .strides = {1}};
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    nc_object *list = x.out;
    x.out = NULL;
    REQUIRE(list != NULL && list->n == 2 && list->items[1]->t.dims[0] == 2 && item(list, 1) == 2);
    sizes[1] = 1;
    CHECK_INT(x.b->dynamic(&x.d), NC_E_DATA);
    world_release(&x);

    REQUIRE(world_init(&x, G "(seq(float[n,2]) s) => (y) { y = ConcatFromSequence<axis = 0>(s) }"));
    x.held[0] = list;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(x.out != NULL && x.out->t.dims[0] == 3 && memcmp(x.out->t.data, data, sizeof data) == 0);
    world_release(&x);

    REQUIRE(world_init(&x, G "(seq(float[n,2]) s) => (y) { y = ConcatFromSequence<axis = -1, new_axis = 1>(s) }"));
    x.held[0] = list;
    CHECK_INT(x.b->dynamic(&x.d), NC_E_DATA); /* elements differ */
    nc_object_unref(nc_object_pop(list));
    CHECK(nc_object_push(list, floats(1, 2, 7)));
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    const float *y = x.out->t.data;
    CHECK(x.out->t.rank == 3 && x.out->t.dims[2] == 2 && y[0] == 0 && y[1] == 7 && y[2] == 1 && y[3] == 8);
    world_release(&x);
    nc_object_unref(list);
}

TEST(optional_holds_or_not) {
    world x;
    REQUIRE(world_init(&x, G "(float[2] x) => (y) { y = Optional<type = float[2]>() }"));
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    nc_object *empty = x.out;
    x.out = NULL;
    CHECK(empty != NULL && empty->kind == NC_OBJ_OPTIONAL && empty->n == 0);
    world_release(&x);
    REQUIRE(world_init(&x, G "(optional(float[2]) o) => (y) { y = OptionalHasElement(o) }"));
    x.held[0] = empty;
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(!*(bool *)x.out->t.data);
    world_release(&x);
    REQUIRE(world_init(&x, G "(optional(float[2]) o) => (y) { y = OptionalGetElement(o) }"));
    x.held[0] = empty;
    CHECK_INT(x.b->dynamic(&x.d), NC_E_DATA);
    CHECK(nc_object_push(empty, floats(1, 2, 3)));
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    CHECK(x.out == empty->items[0]);
    world_release(&x);
    nc_object_unref(empty);
}

TEST(string_concat_broadcasts_bytes) {
    world x;
    REQUIRE(world_init(&x, G "(string[2,1] a, string[3] b) => (y) { y = StringConcat(a, b) }"));
    char zero[] = {'a', '\0', 'b'};
    nc_str a[2] = {{zero, 3}, {(char[]){"\xc3\xa4"}, 2}}, b[3] = {{(char[]){"x"}, 1}, {NULL, 0}, {(char[]){"yz"}, 2}};
    int64_t da[2] = {2, 1}, db[1] = {3};
    x.held[0] = nc_object_strings(2, da, a);
    x.held[1] = nc_object_strings(1, db, b);
    CHECK_INT(x.b->dynamic(&x.d), NC_OK);
    REQUIRE(x.out != NULL);
    const nc_str *z = x.out->t.data;
    CHECK(x.out->t.rank == 2 && x.out->t.dims[1] == 3);
    CHECK(z[0].n == 4 && memcmp(z[0].p, "a\0bx", 4) == 0);
    CHECK(z[4].n == 2 && strcmp(z[5].p, "\xc3\xa4yz") == 0);
    nc_object_unref(x.held[0]), nc_object_unref(x.held[1]);
    world_release(&x);
}
