/* ir/edit_test.c: edits keep uses, order, captures and versions right: every test ends with the verifier. */
#include "ir/edit.h"

#include "base/mem.h"
#include "ir/fake_cards.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/check.h"

static void check_valid(const nc_model *m) {
    nc_work w;
    char message[700];
    nc_work_init(&w);
    if (nc_verify(&w, m) != NC_OK) CHECK_STR(nc_diag_print(&w.diag, message, sizeof message), "valid");
    nc_work_release(&w);
}

static nc_node *add(nc_graph *g, nc_node *before, const char *op, nc_value *a, nc_value *b, const char *out) {
    nc_value *in[] = {a, b};
    const nc_card *card = nc_fake_card(op);
    return nc_edit_node(g, before, card, card->versions, NULL, in, b ? 2 : 1, out ? &out : NULL, 1);
}

TEST(edit_builds_a_graph) {
    nc_model *m = nc_model_create(&nc_fake_registry);
    REQUIRE(m);
    const nc_dim *n = nc_dim_sym(m->dims, "n");
    const nc_type *t = nc_type_tensor(&m->arena, NC_FLOAT, 1, &n);
    nc_value *x = nc_edit_input(m->main, "x", t), *c = nc_edit_const_scalar(m->main, "c", NC_FLOAT, 0.5);
    nc_node *s = add(m->main, NULL, "Add", x, c, "s"), *y = add(m->main, NULL, "Add", s->out[0], s->out[0], "y");
    REQUIRE(y && nc_edit_output(m->main, y->out[0], NULL) == NC_OK);
    nc_node *first = add(m->main, s, "Neg", x, NULL, NULL);
    REQUIRE(first);
    CHECK(m->main->first == first && m->main->n_nodes == 3);
    CHECK(strstr(first->out[0]->name, "Neg_"));
    nc_edit_set_in(s, 0, first->out[0]);
    CHECK_INT(x->uses.n, 1);
    CHECK_INT(s->out[0]->uses.n, 2);
    check_valid(m);
    nc_edit_replace(s->out[0], first->out[0]);
    nc_edit_remove(s);
    CHECK_INT(first->out[0]->uses.n, 2);
    nc_edit_move_before(first, NULL);
    nc_edit_move_before(y, NULL);
    CHECK(m->main->last == y && m->main->first == first);
    nc_edit_replace(y->out[0], x);
    nc_edit_remove(y);
    CHECK(m->main->outputs.v[0] == x && x->n_outputs == 1);
    check_valid(m);
    int64_t v[] = {1, 2, 3};
    nc_value *k = nc_edit_const_i64(m->main, "k", 1, 3, v), *e = nc_edit_const_i64(m->main, "e", 1, 0, NULL);
    int64_t out[3], count = -1;
    REQUIRE(k && e && nc_literal_ints(k->lit, out, 3, &count));
    CHECK(count == 3 && out[2] == 3 && !nc_literal_ints(k->lit, out, 2, &count) &&
          !nc_literal_ints(c->lit, out, 3, &count));
    CHECK(nc_literal_ints(e->lit, out, 0, &count) && count == 0);
    check_valid(m);
    nc_model_destroy(m);
}

TEST(edit_captures_move_with_inputs) {
    nc_model *m = nc_fake_parse(
        "(float[n] x, bool[] c, float[n] z) => (y)\n"
        "{ y = If<then_branch = { () => (a) { a = Add(^x, ^z) } }, else_branch = { () => (b) { b = Neg(^z) } }>(c) }");
    REQUIRE(m);
    nc_node *n = m->main->first;
    nc_value *x = nc_graph_find(m->main, "x"), *z = nc_graph_find(m->main, "z"), *y = n->out[0];
    CHECK(n->n_operands == 4 && n->in[3] == z && n->subs[1].first_capture == 3);
    nc_value *in_else = nc_edit_reach(n->subs[1].graph, x);
    REQUIRE(in_else && nc_edit_reach(n->subs[1].graph, x) == in_else);
    CHECK(n->n_operands == 5 && n->in[4] == x && in_else->graph == n->subs[1].graph);
    CHECK(nc_edit_capture(n, 0, z) == n->subs[0].graph->captures.v[1]);
    CHECK(!nc_edit_reach(m->main, in_else));
    check_valid(m);
    nc_node *add_node = n->subs[0].graph->first;
    nc_edit_set_in(add_node, 0, add_node->in[1]);
    nc_edit_remove_capture(n, 0, 0);
    CHECK(n->n_operands == 4 && n->in[1] == z && n->subs[1].first_capture == 2);
    check_valid(m);
    nc_edit_replace(z, x);
    CHECK_INT(z->uses.n, 0);
    check_valid(m);
    CHECK(nc_edit_add_out(n, NULL) && n->n_out == 2 && y->n_outputs == 1);
    check_valid(m);
    nc_model_destroy(m);
}

/* Found by the uses of what is captured where these are fewer than the captures, else among the captures. */
TEST(edit_captures_once) {
    nc_model *m = nc_fake_parse("(float[n] x, bool[] c, float[n] z) => (y)\n"
                                "{ p = Neg(x)\n q = Neg(x)\n r = Neg(x)\n y = If<then_branch = { () => (a) { b = "
                                "Add(^x, ^p)\n d = Add(^q, ^r)\n"
                                " a = Add(b, d) } }, else_branch = { () => (e) { e = Neg(^p) } }>(c) }");
    REQUIRE(m);
    nc_node *n = m->main->last;
    REQUIRE(n->n_operands == 6 && n->subs[0].n_captures == 4);
    for (int k = 0; k < 4; k++) CHECK(nc_edit_capture(n, 0, n->in[1 + k]) == n->subs[0].graph->captures.v[k]);
    CHECK(nc_edit_capture(n, 1, n->in[2]) == n->subs[1].graph->captures.v[0]);
    CHECK_INT(n->n_operands, 6);
    nc_value *fifth = nc_edit_capture(n, 0, nc_graph_find(m->main, "z"));
    CHECK(fifth == n->subs[0].graph->captures.v[4] && n->n_operands == 7 && n->subs[1].first_capture == 6);
    check_valid(m);
    nc_model_destroy(m);
}

TEST(edit_clones_nodes_with_bodies) {
    nc_model *m = nc_fake_parse("(float[n] x, bool[] c) => (y) { y = If<then_branch = { () => (b)\n"
                                "{ b = If<then_branch = { () => (d) { d = Neg(^x) } }>(^c) } }>(c) \"it\" }");
    REQUIRE(m);
    nc_node *copy = nc_edit_clone(m->main, NULL, m->main->first);
    REQUIRE(copy);
    check_valid(m);
    nc_fake_check_print(m, "(float[n] x, bool[] c) => (y)\n{\n"
                           "  y = If<then_branch = { () => (b)\n  {\n    b = If<then_branch = { () => (d)\n    {\n     "
                           " d = Neg(^x)\n    } }>(^c)\n  } }>(c) \"it\"\n"
                           "  y.12 = If<then_branch = { () => (b)\n  {\n    b = If<then_branch = { () => (d)\n    {\n  "
                           "    d = Neg(^x) \"Neg_6\"\n    } }>(^c) \"If_4\"\n  } }>(c) \"it\"\n}\n");
    nc_edit_set_in(copy->subs[0].graph->first->subs[0].graph->first, 0,
                   copy->subs[0].graph->first->subs[0].graph->captures.v[0]);
    nc_edit_remove(m->main->first->next);
    check_valid(m);
    nc_model_destroy(m);
}

TEST(edit_variables) {
    nc_model *m = nc_fake_parse("(float[n] x, float[n] w) => (y) <const float[1] k = {1}, var float[n] b -> b_2> {\n"
                                "b_1 = Update(b, x)\n b_2 = Update(b_1, x)\n y = Neg(b_2) }");
    REQUIRE(m);
    nc_variable *b = m->main->vars.v[0];
    nc_value *b1 = nc_graph_find(m->main, "b_1"), *b2 = nc_graph_find(m->main, "b_2");
    CHECK(b->last == b2 && b1->var == b && b->first->var == b);
    CHECK(nc_edit_make_variable(nc_graph_find(m->main, "w")) == NC_OK && m->main->inputs.n == 1);
    CHECK(nc_edit_make_variable(nc_graph_find(m->main, "k")) == NC_OK && m->main->consts.n == 0);
    CHECK(m->main->vars.v[2]->initial && !m->main->vars.v[2]->first->lit);
    CHECK(nc_edit_make_variable(b1) == NC_E_ARGUMENT);
    check_valid(m);
    nc_edit_replace(b2, b1);
    nc_edit_remove(b2->def);
    CHECK(b->last == b1);
    check_valid(m);
    nc_edit_replace(b->first, nc_graph_find(m->main, "w"));
    CHECK(b->first->var == b && b->last == b1);
    nc_model_destroy(m);
}

TEST(edit_model_clone_prints_the_same) {
    nc_model *m = nc_fake_parse("<opset: \"\" 17>\nnet (float[n,floor(h/2)] x, bool[] c) => (y, float[n,h] out = "
                                "b_1)\n<const string[1] s = {\"q\"}, var float[n,h] b = float[1,1] {2} -> b_1> {\n"
                                "y = If<then_branch = { () => (a) { a = Neg(^x) } }>(c)\n b_1 = Update(b, b)\n k = "
                                "Constant<tensor = int8[1] {4}, type = float[h]>() }");
    REQUIRE(m);
    nc_buffer *buffer = nc_buffer_host(8);
    REQUIRE(buffer);
    memset(buffer->ptr, 0, 8);
    const int64_t dims[] = {2};
    nc_literal l = {
        .dtype = NC_FLOAT, .rank = 1, .dims = dims, .n = 2, .data = buffer->ptr, .bytes = 8, .keeps = buffer};
    REQUIRE(nc_edit_const(m->main, "mapped", &l));
    nc_text want = {0};
    nc_graph_print(&want, m);
    nc_model *copy = nc_model_clone(m);
    REQUIRE(copy);
    CHECK_INT(atomic_load(&buffer->refs), 3);
    CHECK(nc_graph_find(copy->main, "mapped")->lit->data == buffer->ptr);
    nc_model_destroy(m);
    CHECK_INT(atomic_load(&buffer->refs), 2);
    check_valid(copy);
    nc_fake_check_print(copy, want.s);
    nc_model_destroy(copy);
    CHECK_INT(atomic_load(&buffer->refs), 1);
    nc_buffer_unref(buffer);
    nc_text_release(&want);
}

/* What inference left open has to be asked about again wherever the node is copied to. */
TEST(edit_clones_keep_what_inference_left_open) {
    nc_model *m = nc_fake_parse("(float[n] x) => (y) { a = Neg(x)\n y = Neg(a) }");
    REQUIRE(m);
    m->main->first->open = true;
    nc_node *node = nc_edit_clone(m->main, NULL, m->main->first), *next = nc_edit_clone(m->main, NULL, m->main->last);
    nc_model *copy = nc_model_clone(m);
    REQUIRE(node && next && copy);
    CHECK(node->open && next->open);
    CHECK(copy->main->first->open && !copy->main->first->next->open);
    nc_model_destroy(copy);
    nc_model_destroy(m);
}

TEST(edit_sort_is_stable_and_finds_cycles) {
    nc_model *m = nc_fake_parse("(float[n] x) => (d) {\n a = Neg(x)\n b = Neg(a)\n c = Neg(x)\n d = Add(b, c) }");
    REQUIRE(m);
    nc_work w;
    nc_work_init(&w);
    nc_node *a = m->main->first, *c = a->next->next, *d = c->next;
    CHECK(nc_edit_sort(&w, m->main) == NC_OK && m->main->first == a && m->main->last == d && c->next == d);
    nc_edit_move_before(d, a);
    nc_edit_move_before(a, NULL);
    CHECK(nc_verify(&w, m) == NC_E_BAD_GRAPH);
    CHECK_STR(w.diag.node, d->name);
    nc_work_release(&w);
    nc_work_init(&w);
    CHECK(nc_edit_sort(&w, m->main) == NC_OK);
    check_valid(m);
    CHECK(m->main->first == c && m->main->last == d && m->main->n_nodes == 4);
    nc_edit_set_in(a, 0, d->out[0]);
    CHECK(nc_edit_sort(&w, m->main) == NC_E_BAD_GRAPH);
    CHECK(strstr(w.diag.text, "cycle"));
    nc_work_release(&w);
    nc_model_destroy(m);
}

TEST(edit_void_calls_remember_out_of_memory) {
    nc_model *m = nc_fake_parse("(float[n] x, float[n] z) => (y) { y = Neg(x) }");
    REQUIRE(m);
    nc_value *z = nc_graph_find(m->main, "z");
    bool hit = false;
    for (int i = 0; i < 100000 && !hit; i++) {
        nc_mem_fail_at(1);
        nc_node *n = nc_edit_node(m->main, NULL, nc_fake_card("Neg"), nc_fake_card("Neg")->versions, "n",
                                  &m->main->inputs.v[0], 1, NULL, 1);
        if (n) nc_edit_set_in(n, 0, z);
        hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
    }
    CHECK(hit);
    m->out_of_memory = false;
    check_valid(m);
    m->out_of_memory = true;
    nc_work w;
    nc_work_init(&w);
    CHECK(nc_verify(&w, m) == NC_E_MEMORY && nc_edit_sort(&w, m->main) == NC_E_MEMORY);
    nc_work_release(&w);
    nc_model_destroy(m);
}
