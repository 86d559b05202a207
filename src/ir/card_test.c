/* ir/card_test.c: versions, defaults of attributes, and types with their printed form. */
#include "ir/card.h"

#include "ir/edit.h"
#include "ir/fake_cards.h"
#include "tests/check.h"

TEST(card_versions) {
    const nc_card *leaky = nc_fake_card("LeakyRelu"), *gone = nc_fake_card("Gone");
    CHECK(!nc_card_version(leaky, 5));
    CHECK_INT(nc_card_version(leaky, 6)->since, 6);
    CHECK_INT(nc_card_version(leaky, 15)->since, 6);
    CHECK_INT(nc_card_version(leaky, INT64_MAX)->since, 16);
    CHECK(nc_card_version(gone, 9) && !nc_card_version(gone, 10));
}

TEST(card_attributes_through_defaults) {
    nc_model *m =
        nc_fake_parse("(float[n] x) => (y) {\n a = LeakyRelu(x)\n b = LeakyRelu<alpha = 2, mode = \"slow\">(a)\n"
                      "y = Constant<ints = [3, 4]>() }");
    REQUIRE(m);
    const nc_node *a = m->main->first, *b = a->next, *c = b->next;
    CHECK_NEAR(nc_attr_float(a, "alpha"), 0.01f, 0);
    CHECK_STR(nc_attr_str(a, "mode"), "fast");
    CHECK_INT(nc_attr_int(a, "k"), 7);
    CHECK(!nc_attr_has(a, "alpha") && nc_attr_has(b, "alpha"));
    CHECK_NEAR(nc_attr_float(b, "alpha"), 2, 0);
    CHECK_STR(nc_attr_str(b, "mode"), "slow");
    int n = -1;
    const int64_t *ints = nc_attr_ints(c, "ints", &n);
    CHECK(n == 2 && ints && ints[1] == 4);
    CHECK(!nc_attr_ints(c, "floats", &n) && n == 0 && !nc_attr_str(c, "s"));
    nc_model_destroy(m);
}

TEST(type_equality_and_print) {
    nc_model *m = nc_model_create(NULL);
    REQUIRE(m);
    const nc_dim *d[] = {nc_dim_sym(m->dims, "n"), nc_dim_const(m->dims, 4)}, *e[] = {d[0], nc_dim_const(m->dims, 5)};
    nc_arena *a = &m->arena;
    const nc_type *t = nc_type_tensor(a, NC_FLOAT, 2, d), *u = nc_type_tensor(a, NC_FLOAT, 2, d);
    REQUIRE(t && u);
    CHECK(nc_type_equal(t, u) && nc_type_equal(nc_type_copy(a, NULL, t), t));
    CHECK(!nc_type_equal(t, nc_type_tensor(a, NC_DOUBLE, 2, d)) &&
          !nc_type_equal(t, nc_type_tensor(a, NC_FLOAT, 1, d)));
    CHECK(!nc_type_equal(t, nc_type_tensor(a, NC_FLOAT, 2, e)) && !nc_type_equal(t, NULL));
    CHECK(!nc_type_equal(nc_type_tensor(a, NC_FLOAT, -1, NULL), nc_type_tensor(a, NC_FLOAT, 0, NULL)));
    nc_type blocked = *t;
    blocked.layout = (nc_layout){1, 8, d[1]};
    CHECK(!nc_type_equal(t, &blocked));
    CHECK(nc_type_equal(nc_type_holding(a, NC_T_SEQUENCE, t), nc_type_holding(a, NC_T_SEQUENCE, u)));
    CHECK(!nc_type_equal(nc_type_holding(a, NC_T_SEQUENCE, t), nc_type_holding(a, NC_T_OPTIONAL, t)));
    const nc_dim *missing[] = {NULL};
    CHECK(!nc_type_tensor(a, NC_FLOAT, 1, missing));
    nc_text out = {0};
    nc_type_print(&out, nc_type_holding(a, NC_T_OPTIONAL, nc_type_holding(a, NC_T_SEQUENCE, &blocked)));
    CHECK_STR(out.s, "optional(seq(float[n,4]{axis=1,c=8,C=4}))");
    nc_text_release(&out);
    nc_model_destroy(m);
}
