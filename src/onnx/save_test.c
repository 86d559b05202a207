/* onnx/save_test.c: models that go out and come back: names, captures, variables, random ids, every attribute kind;
 * and what cannot be saved is refused by name. */
#include "onnx/save.h"

#include "ir/edit.h"
#include "ir/verify.h"
#include "onnx/load.h"
#include "onnx/testing.h"
#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct trip {
    nc_work w;
    nc_model *m, *back;
    nc_text bytes;
} trip;

static const nc_op_version *version_of(const char *domain, const char *op, const nc_card **card) {
    *card = find_test_card(&test_registry, domain, op);
    return nc_card_version(*card, 17);
}

static bool start(trip *t) {
    *t = (trip){0};
    nc_work_init(&t->w);
    t->m = nc_model_create(&test_registry);
    return t->m != NULL;
}

static bool there_and_back(trip *t) {
    if (nc_onnx_save(&t->w, t->m, &t->bytes) != NC_OK ||
        nc_onnx_load(&t->w, t->bytes.s, t->bytes.n, NULL, NULL, &test_registry, &t->back) != NC_OK)
        CHECK_STR(t->w.diag.text, "");
    if (t->back && nc_verify(&t->w, t->back) != NC_OK) CHECK_STR(t->w.diag.text, "");
    return t->back != NULL;
}

static void done(trip *t) {
    nc_model_destroy(t->m);
    nc_model_destroy(t->back);
    nc_text_release(&t->bytes);
    nc_work_release(&t->w);
}

static const nc_type *floats(nc_model *m, int64_t n) {
    const nc_dim *d = n < 0 ? nc_dim_sym(m->dims, "n") : nc_dim_const(m->dims, n);
    return nc_type_tensor(&m->arena, NC_FLOAT, 1, &d);
}

static nc_node *add_node(nc_graph *g, const char *domain, const char *op, nc_value *const *in, int n_in,
                         const char *out) {
    const nc_card *card;
    const nc_op_version *v = version_of(domain, op, &card);
    nc_node *n = nc_edit_node(g, NULL, card, v, NULL, in, n_in, &out, 1);
    if (n) n->out[0]->type = floats(g->model, -1);
    return n;
}

TEST(save_is_stable_after_one_trip) {
    trip t;
    REQUIRE(start(&t));
    nc_text hand = {0}, again = {0};
    put_model(&hand);
    nc_model_destroy(t.m);
    t.m = NULL;
    REQUIRE(nc_onnx_load(&t.w, hand.s, hand.n, NULL, NULL, &test_registry, &t.m) == NC_OK);
    REQUIRE(there_and_back(&t));
    REQUIRE(nc_onnx_save(&t.w, t.back, &again) == NC_OK);
    CHECK(again.n == t.bytes.n && memcmp(again.s, t.bytes.s, again.n) == 0);
    CHECK_INT(t.back->ir_version, 10); /* random ids need node metadata */
    CHECK_INT(nc_graph_find_node(t.back->main, "drop")->random_id, 1);
    const nc_node *cond = nc_graph_find_node(t.back->main, "choose");
    REQUIRE(cond);
    CHECK(cond->n_operands == 4 && cond->in[2] == nc_graph_find(t.back->main, "W"));
    nc_text_release(&hand);
    nc_text_release(&again);
    done(&t);
}

TEST(save_makes_names_unique) {
    trip t;
    REQUIRE(start(&t));
    nc_graph *g = t.m->main;
    nc_value *x = nc_edit_input(g, "x", floats(t.m, -1));
    nc_node *a = add_node(g, "", "Relu", &x, 1, "same"), *b = add_node(g, "", "Relu", &a->out[0], 1, "same");
    nc_node *c = add_node(g, "", "Relu", &b->out[0], 1, "y"); /* not the output called y */
    REQUIRE(nc_edit_output(g, b->out[0], "y") == NC_OK);
    REQUIRE(nc_edit_output(g, b->out[0], "y_again") == NC_OK);
    REQUIRE(nc_edit_output(g, x, "x_out") == NC_OK);
    REQUIRE(nc_edit_output(g, x, "x") == NC_OK);
    REQUIRE(nc_edit_output(g, c->out[0], "z") == NC_OK);
    REQUIRE(there_and_back(&t));
    const nc_graph *h = t.back->main;
    CHECK_INT(h->n_nodes, 5); /* two more: Identity for y_again and x_out */
    static const char *const names[] = {"y", "y_again", "x_out", "x", "z"};
    for (int i = 0; i < 5; i++) CHECK_STR(h->output_names.v[i], names[i]);
    CHECK(h->outputs.v[3] == h->inputs.v[0]);
    CHECK(h->outputs.v[0]->def->in[0]->def->in[0] == h->inputs.v[0]);
    CHECK(h->outputs.v[4]->def->in[0] == h->outputs.v[0]);
    done(&t);
}

TEST(save_refuses_taken_output_names) {
    trip t;
    REQUIRE(start(&t));
    nc_value *x = nc_edit_input(t.m->main, "x", floats(t.m, -1));
    nc_node *a = add_node(t.m->main, "", "Relu", &x, 1, "a");
    REQUIRE(nc_edit_output(t.m->main, a->out[0], "x") == NC_OK);
    CHECK_INT(nc_onnx_save(&t.w, t.m, &t.bytes), NC_E_BAD_GRAPH);
    CHECK_STR(t.w.diag.text, "output 'x': the name is taken");
    done(&t);
}

TEST(save_variables_as_initializers_and_outputs) {
    trip t;
    REQUIRE(start(&t));
    nc_graph *g = t.m->main;
    int64_t dim = 2;
    const nc_literal *lit = nc_edit_literal(t.m, NC_FLOAT, 1, &dim, (float[]){3, 4});
    nc_value *x = nc_edit_input(g, "x", floats(t.m, 2));
    nc_value *p = nc_edit_variable(g, "p", floats(t.m, 2), lit), *q = nc_edit_variable(g, "q", floats(t.m, 2), NULL);
    nc_node *step = add_node(g, "nacre", "Step", (nc_value *[]){p, x}, 2, "p_next");
    step->out[0]->type = p->type;
    nc_edit_set_version(p->var, step->out[0]);
    nc_node *sum = add_node(g, "", "Add", (nc_value *[]){q, x}, 2, "sum");
    REQUIRE(nc_edit_output(g, sum->out[0], "sum") == NC_OK);
    REQUIRE(there_and_back(&t));
    const nc_graph *h = t.back->main;
    CHECK_INT(h->outputs.n, 2);
    CHECK_STR(h->output_names.v[1], "p_next");
    CHECK_STR(h->outputs.v[1]->def->card->domain, "nacre");
    CHECK_INT(nc_model_opset(t.back, "nacre"), 1);
    CHECK_INT(nc_model_opset(t.back, ""), 7);
    const nc_value *p2 = nc_graph_find(h, "p"), *q2 = nc_graph_find(h, "q");
    REQUIRE(p2 && q2 && p2->var && q2->lit);
    CHECK(p2->origin == NC_FROM_VARIABLE && p2->var->last == h->outputs.v[1]);
    CHECK(memcmp(p2->var->initial->data, (float[]){3, 4}, 8) == 0);
    CHECK(memcmp(q2->lit->data, (float[]){0, 0}, 8) == 0);
    nc_text again = {0};
    CHECK(nc_onnx_save(&t.w, t.back, &again) == NC_OK);
    CHECK_INT(again.n, t.bytes.n); /* q came back as a constant, so only the order of initializers differs */
    nc_text_release(&again);
    done(&t);
}

TEST(save_refuses_variables_of_unknown_size) {
    trip t;
    REQUIRE(start(&t));
    nc_edit_variable(t.m->main, "v", floats(t.m, -1), NULL);
    CHECK_INT(nc_onnx_save(&t.w, t.m, &t.bytes), NC_E_UNSUPPORTED);
    CHECK(strstr(t.w.diag.text, "variable 'v'"));
    nc_text_release(&t.bytes);
    nc_work_release(&t.w);
    nc_work_init(&t.w);
    t.m->main->vars.v[0]->grow_axis = 0;
    REQUIRE(there_and_back(&t));
    CHECK_INT(t.back->main->consts.v[0]->lit->n, 0);
    done(&t);
}

TEST(save_every_attribute_kind) {
    trip t;
    REQUIRE(start(&t));
    nc_node *n = add_node(t.m->main, "test", "All", NULL, 0, "y");
    int64_t dim = 3;
    const nc_literal *lit = nc_edit_literal(t.m, NC_INT8, 1, &dim, "\x01\xff\x7f");
    nc_str strings[] = {{(char[]){"a\0b"}, 3}, {(char[]){""}, 0}};
    const nc_type *seq = nc_type_holding(&t.m->arena, NC_T_SEQUENCE, floats(t.m, -1));
    nc_attr attrs[] = {{.name = "i", .kind = NC_A_INT, .i = INT64_MIN},
                       {.name = "f", .kind = NC_A_FLOAT, .f = -INFINITY},
                       {.name = "s", .kind = NC_A_STRING, .s = strings[0]},
                       {.name = "ints", .kind = NC_A_INTS, .n = 0, .ints = &dim},
                       {.name = "floats", .kind = NC_A_FLOATS, .n = 2, .floats = (float[]){NAN, -0.0f}},
                       {.name = "strings", .kind = NC_A_STRINGS, .n = 2, .strings = strings},
                       {.name = "t", .kind = NC_A_TENSOR, .tensor = lit},
                       {.name = "type", .kind = NC_A_TYPE, .type = seq}};
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) REQUIRE(nc_edit_set_attr(n, &attrs[i]) == NC_OK);
    REQUIRE(nc_edit_output(t.m->main, n->out[0], "y") == NC_OK);
    REQUIRE(there_and_back(&t));
    const nc_node *b = t.back->main->first;
    CHECK_INT(b->n_attrs, 8);
    CHECK(nc_attr_int(b, "i") == INT64_MIN && nc_attr_float(b, "f") == -INFINITY);
    const nc_attr *s = nc_node_attr(b, "s"), *fl = nc_node_attr(b, "floats"), *st = nc_node_attr(b, "strings");
    const nc_attr *te = nc_node_attr(b, "t"), *ty = nc_node_attr(b, "type"), *in = nc_node_attr(b, "ints");
    REQUIRE(s && fl && st && te && ty && in);
    CHECK(s->s.n == 3 && memcmp(s->s.p, "a\0b", 3) == 0);
    CHECK(fl->n == 2 && isnan(fl->floats[0]) && signbit(fl->floats[1]));
    CHECK(st->n == 2 && st->strings[0].n == 3 && st->strings[1].n == 0);
    CHECK(te->tensor->n == 3 && memcmp(te->tensor->data, "\x01\xff\x7f", 3) == 0);
    CHECK(ty->type->kind == NC_T_SEQUENCE && ty->type->of->elem == NC_FLOAT);
    CHECK(in->kind == NC_A_INTS && in->n == 0);
    done(&t);
}

TEST(save_types_of_every_kind) {
    trip t;
    REQUIRE(start(&t));
    nc_model *m = t.m;
    nc_type map = {.kind = NC_T_MAP, .elem = NC_INT64, .of = floats(m, -1)};
    const nc_dim *sum = nc_dim_add(m->dims, nc_dim_sym(m->dims, "n"), nc_dim_const(m->dims, 1));
    const nc_type *types[] = {
        nc_type_holding(&m->arena, NC_T_OPTIONAL, nc_type_holding(&m->arena, NC_T_SEQUENCE, floats(m, 3))),
        nc_arena_copy(&m->arena, &map, sizeof map), nc_type_tensor(&m->arena, NC_STRING, -1, NULL),
        nc_type_tensor(&m->arena, NC_DOUBLE, 0, NULL), nc_type_tensor(&m->arena, NC_BOOL, 1, &sum)};
    for (int i = 0; i < 5; i++) nc_edit_input(m->main, (char[]){(char)('a' + i), 0}, types[i]);
    REQUIRE(there_and_back(&t));
    nc_value **in = t.back->main->inputs.v;
    REQUIRE(t.back->main->inputs.n == 5);
    CHECK(in[0]->type->kind == NC_T_OPTIONAL && in[0]->type->of->kind == NC_T_SEQUENCE &&
          in[0]->type->of->of->rank == 1);
    CHECK(in[1]->type->kind == NC_T_MAP && in[1]->type->elem == NC_INT64 && in[1]->type->of->elem == NC_FLOAT);
    CHECK(in[2]->type->elem == NC_STRING && in[2]->type->rank == -1);
    CHECK(in[3]->type->elem == NC_DOUBLE && in[3]->type->rank == 0);
    CHECK_STR(nc_dims_sym_name(t.back->dims, nc_dim_sym_id(in[4]->type->dims[0])), "n+1");
    done(&t);
}

TEST(save_refuses_tapes) {
    trip t;
    REQUIRE(start(&t));
    nc_edit_input(t.m->main, "tape", nc_type_holding(&t.m->arena, NC_T_TAPE, NULL));
    CHECK_INT(nc_onnx_save(&t.w, t.m, &t.bytes), NC_E_UNSUPPORTED);
    CHECK(strstr(t.w.diag.text, "'tape' has a type that ONNX cannot say"));
    done(&t);
}

/* A node that the imported opset would turn into another op travels in a function of its own. */
TEST(save_keeps_versions) {
    trip t;
    REQUIRE(start(&t));
    nc_value *x = nc_edit_input(t.m->main, "x", floats(t.m, -1));
    nc_node *relu = add_node(t.m->main, "", "Relu", &x, 1, "y");
    nc_node *drop = add_node(t.m->main, "", "Dropout", (nc_value *[]){relu->out[0], NULL, x}, 3, "z");
    drop->random_id = 5;
    t.m->opsets = &(nc_opset){"", 12};
    t.m->n_opsets = 1;
    REQUIRE(nc_edit_output(t.m->main, drop->out[0], "z") == NC_OK);
    REQUIRE(there_and_back(&t));
    const nc_node *a = t.back->main->first, *b = t.back->main->last;
    CHECK_INT(nc_model_opset(t.back, ""), 12);
    CHECK(t.back->main->n_nodes == 2 && a->version == relu->version && b->version == drop->version);
    CHECK(a->out[0] == b->in[0] && !b->in[1] && b->in[2] == t.back->main->inputs.v[0] && b->random_id == 5);
    CHECK_STR(a->out[0]->name, "y");
    done(&t);
}

TEST(save_and_load_files) {
    trip t;
    char path[] = "/tmp/nacre_save_XXXXXX";
    int fd = mkstemp(path);
    REQUIRE(fd >= 0 && start(&t));
    close(fd);
    nc_value *x = nc_edit_input(t.m->main, "x", floats(t.m, -1));
    nc_node *n = add_node(t.m->main, "", "Relu", &x, 1, "y");
    REQUIRE(nc_edit_output(t.m->main, n->out[0], "y") == NC_OK);
    CHECK(nc_onnx_save_file(&t.w, t.m, path, NULL) == NC_OK);
    CHECK(nc_onnx_load_file(&t.w, path, &test_registry, &t.back) == NC_OK);
    unlink(path);
    CHECK(t.back && t.back->main->n_nodes == 1);
    nc_model *none = NULL;
    CHECK_INT(nc_onnx_load_file(&t.w, path, &test_registry, &none), NC_E_NO_FILE);
    done(&t);
}
