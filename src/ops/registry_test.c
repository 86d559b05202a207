/* ops/registry_test.c: cards are found by domain and name, gradient cards exist where they should, every card is
 * whole. */
#include "ops/lane.h"

#include "tests/check.h"

static const nc_card *find(const char *domain, const char *name) {
    const nc_registry *r = nc_ops_registry();
    return r->find(r, domain, name);
}

TEST(ops_are_found_by_domain_and_name) {
    const nc_card *add = find("", "Add");
    REQUIRE(add != NULL);
    CHECK_STR(add->name, "Add");
    CHECK(find("ai.onnx", "Add") == add);
    CHECK(find("com.example", "Add") == NULL);
    CHECK(find("", "NoSuchOp") == NULL);
    CHECK(find("", "add") == NULL);
    CHECK(find("nacre", "Chain") != NULL);
    CHECK(find("", "Chain") == NULL);
}

TEST(gradient_cards_come_from_unary_lanes) {
    const nc_card *g = find("nacre", "LeakyReluGrad");
    REQUIRE(g != NULL);
    CHECK_INT(g->lane, NCK_LANE_leaky_relu_grad + 1);
    CHECK_STR(g->lane_params[0], "alpha");
    CHECK_STR(g->versions[0].attr[0].name, "alpha");
    CHECK(g->decompose != NULL && g->grad == NULL);
    CHECK(find("nacre", "TanhGrad") != NULL);
    CHECK(find("nacre", "AddGrad") == NULL);
    CHECK(find("nacre", "FloorGrad") == NULL);
    CHECK(find("", "TanhGrad") == NULL);
}

TEST(versions_are_picked_by_opset) {
    const nc_card *add = find("", "Add");
    CHECK_INT(nc_card_version(add, 21)->since, 14);
    CHECK_INT(nc_card_version(add, 13)->since, 13);
    CHECK_INT(nc_card_version(add, 12)->since, 7);
    CHECK_INT(nc_card_version(add, 6)->since, 6);
    CHECK(nc_card_version(find("", "Erf"), 8) == NULL);
}

#define OP(x) extern const nc_card nc_card_##x;
#include "ops/ops.list"
#undef OP

TEST(every_card_is_whole) {
    static const nc_card *const cards[] = {
#define OP(x) &nc_card_##x,
#include "ops/ops.list"
#undef OP
    };
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        const nc_card *c = cards[i];
        if (find(c->domain, c->name) != c) nc_test_failed(__FILE__, __LINE__, "%s is in the list twice", c->name);
        if (c->doc == NULL || c->versions == NULL || (c->infer == NULL && c->lane <= 0))
            nc_test_failed(__FILE__, __LINE__, "%s lacks its text, versions or inference", c->name);
        for (const nc_op_version *v = c->versions; v != NULL && v->since != 0; v++) {
            if (v[1].since >= v->since)
                nc_test_failed(__FILE__, __LINE__, "%s: versions are not newest first", c->name);
            if (!v->removed && (v->in == NULL || v->out == NULL || v->attr == NULL))
                nc_test_failed(__FILE__, __LINE__, "%s: version %d lacks a list", c->name, v->since);
        }
    }
}
