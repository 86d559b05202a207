/* ir/verify_test.c: the verifier finds each kind of damage and names the node. */
#include "ir/verify.h"

#include "ir/edit.h"
#include "ir/fake_cards.h"
#include "tests/check.h"

static const char *const sound =
    "(float[n] x, bool[] c, double[n] w) => (y)\n<const float[1] k = {1}, var float[n] b -> b_1> {\n"
    "h = Add(x, k) \"sum\"\n y = If<then_branch = { () => (a) { a = Neg(^h) \"in\" } }>(c) \"branch\"\n"
    "b_1 = Update(b, h) \"up\"\n r = my.domain.Noise(h) \"noise\" }";

static nc_node *node(nc_model *m, const char *name) { return nc_graph_find_node(m->main, name); }

static void swap_order(nc_model *m) { nc_edit_move_before(node(m, "branch"), node(m, "sum")); }
static void lose_use(nc_model *m) { nc_graph_find(m->main, "h")->uses.n--; }
static void stale_use(nc_model *m) { nc_graph_find(m->main, "h")->uses.v[0].i = 3; }
static void double_use(nc_model *m) { nc_graph_find(m->main, "h")->uses.v[1] = nc_graph_find(m->main, "h")->uses.v[0]; }
static void foreign_operand(nc_model *m) { node(m, "sum")->in[0] = node(m, "branch")->subs[0].graph->captures.v[0]; }
static void lose_capture(nc_model *m) { node(m, "branch")->subs[0].graph->captures.n = 0; }
static void shift_capture(nc_model *m) { node(m, "branch")->subs[0].first_capture = 0; }
static void wrong_capture_type(nc_model *m) {
    node(m, "branch")->subs[0].graph->captures.v[0]->type = nc_graph_find(m->main, "x")->type;
    nc_graph_find(m->main, "h")->type = nc_graph_find(m->main, "k")->type;
}
static void wrong_def(nc_model *m) { nc_graph_find(m->main, "h")->i_def = 1; }
static void wrong_count(nc_model *m) { m->main->n_nodes = 3; }
static void wrong_back_link(nc_model *m) { node(m, "up")->prev = NULL; }
static void wrong_element(nc_model *m) { nc_edit_set_in(node(m, "sum"), 1, nc_graph_find(m->main, "w")); }
static void wrong_version(nc_model *m) { nc_graph_find(m->main, "b_1")->var = NULL; }
static void wrong_last(nc_model *m) { m->main->vars.v[0]->last = nc_graph_find(m->main, "h"); }
static void fork_version(nc_model *m) {
    nc_node *n = nc_edit_clone(m->main, NULL, node(m, "up"));
    if (n) n->out[0]->var = m->main->vars.v[0];
}
static void no_random_id(nc_model *m) { node(m, "noise")->random_id = 0; }
static void missing_input(nc_model *m) { nc_edit_set_in(node(m, "sum"), 1, NULL); }
static void inner_use(nc_model *m) { node(m, "branch")->subs[0].graph->captures.v[0]->uses.n = 0; }
static void outputs_count(nc_model *m) { nc_graph_find(m->main, "y")->n_outputs = 2; }
static void lose_place(nc_model *m) { node(m, "noise")->at_use[0] += 1; }
static void no_data(nc_model *m) { nc_graph_find(m->main, "k")->lit = NULL; }

TEST(verify_finds_damage) {
    static const struct {
        void (*damage)(nc_model *m);
        nc_code code;
        const char *node, *text;
    } cases[] = {
        {swap_order, NC_E_BAD_GRAPH, "branch", "used before it is defined"},
        {lose_use, NC_E_BAD_GRAPH, "noise", "does not list this use"},
        {stale_use, NC_E_BAD_GRAPH, "sum", "which it is not"},
        {double_use, NC_E_BAD_GRAPH, "sum", "twice"},
        {foreign_operand, NC_E_BAD_GRAPH, "sum", "belongs to another graph"},
        {lose_capture, NC_E_BAD_GRAPH, "branch", "do not fit"},
        {shift_capture, NC_E_BAD_GRAPH, "branch", "do not fit"},
        {wrong_capture_type, NC_E_BAD_GRAPH, "branch", "another type inside"},
        {wrong_def, NC_E_BAD_GRAPH, "sum", "another producer"},
        {wrong_count, NC_E_BAD_GRAPH, "noise", "not linked well"},
        {wrong_back_link, NC_E_BAD_GRAPH, "up", "not linked well"},
        {wrong_element, NC_E_TYPE, "sum", "input 1 ('B') may not be double[n]"},
        {wrong_version, NC_E_BAD_GRAPH, "up", "next version"},
        {wrong_last, NC_E_BAD_GRAPH, "", "newest version of variable 'b'"},
        {fork_version, NC_E_BAD_GRAPH, "up", "one successor"},
        {no_random_id, NC_E_BAD_GRAPH, "noise", "no random id"},
        {missing_input, NC_E_BAD_GRAPH, "sum", "input 1 ('B') is missing"},
        {inner_use, NC_E_BAD_GRAPH, "in", "does not list this use"},
        {outputs_count, NC_E_BAD_GRAPH, "", "is 1 outputs, says 2"},
        {lose_place, NC_E_BAD_GRAPH, "sum", "in a wrong place"},
        {no_data, NC_E_BAD_GRAPH, "", "has no data"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nc_model *m = nc_fake_parse(sound);
        REQUIRE(m);
        cases[i].damage(m);
        nc_work w;
        nc_work_init(&w);
        CHECK_INT(nc_verify(&w, m), cases[i].code);
        CHECK_STR(w.diag.node, cases[i].node);
        if (!strstr(w.diag.text, cases[i].text)) CHECK_STR(w.diag.text, cases[i].text);
        CHECK(!w.at_node && !w.at_op);
        nc_work_release(&w);
        nc_model_destroy(m);
    }
}
