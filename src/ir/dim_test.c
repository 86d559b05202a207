/* ir/dim_test.c: dims: interning, the rewrites of division, printing and parsing, evaluation, failures. */
#include "ir/dim.h"

#include "base/mem.h"
#include "tests/check.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const nc_dim *parse(nc_dims *t, const char *s) {
    const nc_dim *d = nc_dim_parse(t, &s);
    return *s ? NULL : d;
}

/* Parses, prints, and checks that the printed form is `want` and reads back to the same pointer. */
static void check_form(nc_dims *t, const char *text, const char *want) {
    nc_text out = {0};
    const nc_dim *d = parse(t, text);
    if (!d) {
        CHECK_STR("(does not parse)", text);
        return;
    }
    nc_dim_print(&out, d);
    CHECK_STR(out.s, want);
    CHECK(out.s && parse(t, out.s) == d);
    nc_text_release(&out);
}

TEST(dim_forms) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    REQUIRE(parse(t, "batch+past+seq+a+b+h+n"));
    static const char *const forms[][2] = {
        {"1+2*batch", "2*batch+1"},
        {"seq+past", "past+seq"},
        {"floor((h+1)/3)", "floor((h+1)/3)"},
        {"ceil(h/2)", "ceil(h/2)"},
        {"floor((h+1)/2)", "ceil(h/2)"},
        {"floor((h-1)/2)+1", "ceil(h/2)"},
        {"ceil((h-1)/2)", "floor(h/2)"},
        {"ceil((h+1)/3)", "floor(h/3)+1"},
        {"max(a,b)", "max(a,b)"},
        {"max(b,a)", "max(a,b)"},
        {"max(a,a)", "a"},
        {"max(a,a+3)", "a+3"},
        {"min(a-1,a)", "a-1"},
        {"max(3,-4)", "3"},
        {"min(3,-4)", "-4"},
        {"floor(4*n/2)", "2*n"},
        {"floor(n/n)", "1"},
        {"floor(a*n/n)", "a"},
        {"floor((2*n+1)/2)", "n"},
        {"ceil((2*n+1)/2)", "n+1"},
        {"ceil(a/1)", "a"},
        {"floor(-7/2)", "-4"},
        {"ceil(-7/2)", "-3"},
        {"floor(7/-2)", "-4"},
        {"floor((a*a+2*a*b+b*b)/(a+b))", "a+b"},
        {"floor(4*a/6)", "floor(2*a/3)"},
        {"floor(a*n/(b*n))", "floor(a/b)"},
        {"a*b*a", "a*a*b"},
        {"a-a", "0"},
        {"-a", "-a"},
        {"(a+1)*(a-1)", "a*a-1"},
        {"\"x y\"*2", "2*\"x y\""},
        {"floor(a/(b*h))", "floor(a/(b*h))"},
        {"\"q\\\"\\\\\"", "\"q\\\"\\\\\""},
        {"floor(0/a)", "0"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"max", "max"},
        {"spread(b,a)", "spread(a,b)"},
        {"spread(a,1)", "a"},
        {"spread(7,a)", "7"},
        {"spread(0,1)", "0"},
        {"spread(a,a)", "a"},
        {"spread(spread(a,b),spread(h,a))", "spread(spread(a,b),h)"},
        {"spread(h,spread(b,a))", "spread(spread(a,b),h)"},
        {"spread(2*a,b)", "spread(b,2*a)"},
        {"spread(a,min(a,512))", "a"},
        {"spread(min(a,512),a)", "a"},
        {"spread(spread(a,b),min(a,1))", "spread(a,b)"},
        {"spread(a,min(a,0))", "spread(a,min(a,0))"},
        {"spread(a,min(a,b))", "spread(a,min(a,b))"},
        {"spread(a,min(b,512))", "spread(a,min(b,512))"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check_form(t, forms[i][0], forms[i][1]);
    const char *s = " 2 * a + 1,4";
    CHECK(nc_dim_parse(t, &s) == parse(t, "2*a+1"));
    CHECK_STR(s, ",4");
    CHECK(parse(t, "floor(a/(-2))") == parse(t, "floor(a/-2)"));
    nc_dims_destroy(t);
}

TEST(dim_refuses) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    static const char *const bad[] = {"",
                                      "+",
                                      "a+",
                                      "2a",
                                      "floor(a)",
                                      "max(a)",
                                      "(a",
                                      "a)",
                                      "\"a",
                                      "\"\"",
                                      "floor(a/0)",
                                      "9223372036854775808",
                                      "9223372036854775807+1",
                                      "9223372036854775807*a*2",
                                      "*a",
                                      "a b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(t, bad[i])) CHECK_STR("(parses)", bad[i]);
    char deep[300];
    memset(deep, '(', sizeof deep);
    deep[299] = 0;
    CHECK(!parse(t, deep));
    const nc_dim *big = nc_dim_const(t, INT64_MAX), *a = nc_dim_sym(t, "a");
    CHECK(!nc_dim_add(t, big, nc_dim_const(t, 1)));
    CHECK(!nc_dim_mul(t, nc_dim_mul(t, big, a), nc_dim_const(t, 2)));
    CHECK(!nc_dim_floordiv(t, a, nc_dim_const(t, 0)));
    CHECK(!nc_dim_add(t, NULL, a) && !nc_dim_mul(t, a, NULL) && !nc_dim_max(t, NULL, NULL) &&
          !nc_dim_ceildiv(t, a, NULL));
    nc_dims_destroy(t);
}

TEST(dim_many_terms_and_factors) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    enum { N = 300 };
    int64_t values[N], sum, product, square;
    bool known[N], used[N] = {0};
    const nc_dim *many = nc_dim_const(t, 0), *power = nc_dim_const(t, 1);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        values[i] = i == 0 ? 3 : i;
        known[i] = true;
        many = nc_dim_add(t, many, nc_dim_sym(t, name));
        if (i < 30) power = nc_dim_mul(t, power, nc_dim_sym(t, "s0"));
    }
    REQUIRE(many && power);
    CHECK(nc_dim_eval(many, values, known, &sum) && sum == 3 + N * (N - 1) / 2);
    CHECK(nc_dim_eval(power, values, known, &product) && product == 205891132094649);
    CHECK(nc_dim_eval(nc_dim_mul(t, many, many), values, known, &square) && square == sum * sum);
    nc_dim_mark(many, used);
    for (int i = 0; i < N; i++) CHECK(used[i]);
    nc_dims_destroy(t);
}

/* Each step uses the one before twice: written out it would have 2^2000 atoms. */
TEST(dim_shared_parts) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    const nc_dim *n = nc_dim_sym(t, "n"), *m = nc_dim_sym(t, "m"), *d = n;
    int64_t values[2] = {100, 37}, want = 100, got = 0;
    bool known[2] = {true, true}, used[2] = {false, false};
    for (int i = 0; i < 2000; i++) {
        d = nc_dim_add(t, nc_dim_min(t, d, nc_dim_floordiv(t, nc_dim_add(t, d, m), nc_dim_const(t, 3))), n);
        want = (want < (want + 37) / 3 ? want : (want + 37) / 3) + 100;
    }
    REQUIRE(d);
    CHECK(nc_dim_eval(d, values, known, &got) && got == want);
    nc_dim_mark(d, used);
    CHECK(used[0] && used[1]);
    const nc_dim *by[2] = {m, n};
    const nc_dim *swapped = nc_dim_subst(t, d, by);
    int64_t others[2] = {37, 100};
    CHECK(swapped && nc_dim_eval(swapped, others, known, &got) && got == want);
    nc_dims *copy = nc_dims_clone(t);
    CHECK(copy && nc_dim_eval(nc_dim_carry(copy, d), values, known, &got) && got == want);
    nc_text out = {0};
    nc_dim_print(&out, d);
    CHECK(out.s && strncmp(out.s, "dim_", 4) == 0 && strlen(out.s) < 20);
    nc_text_release(&out);
    nc_dims_destroy(copy);
    nc_dims_destroy(t);
}

TEST(dim_fresh_names) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    const nc_dim *a = nc_dim_fresh(t, "n"), *b = nc_dim_fresh(t, "n"), *c = nc_dim_sym(t, "n_3"),
                 *d = nc_dim_fresh(t, "n");
    REQUIRE(a && b && c && d);
    CHECK_STR(nc_dims_sym_name(t, nc_dim_sym_id(a)), "n");
    CHECK_STR(nc_dims_sym_name(t, nc_dim_sym_id(b)), "n_2");
    CHECK_STR(nc_dims_sym_name(t, nc_dim_sym_id(d)), "n_4");
    CHECK_INT(nc_dims_n_syms(t), 4);
    CHECK(nc_dim_fresh(t, NULL) != nc_dim_fresh(t, ""));
    CHECK_INT(nc_dim_sym_id(nc_dim_add(t, a, b)), -1);
    nc_dims_destroy(t);
}

TEST(dim_eval_against_integers) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    const nc_dim *h = nc_dim_sym(t, "h"), *n = nc_dim_sym(t, "n");
    bool known[2] = {true, true};
    for (int64_t c = -5; c <= 5; c++)
        for (int64_t k = -7; k <= 7; k++)
            for (int64_t scale = -3; scale <= 3; scale++) {
                const nc_dim *num =
                    nc_dim_add(t, nc_dim_add(t, nc_dim_mul(t, h, nc_dim_const(t, scale)), nc_dim_const(t, k)),
                               nc_dim_mul(t, n, nc_dim_const(t, 4)));
                const nc_dim *lo = nc_dim_floordiv(t, num, nc_dim_const(t, c)),
                             *hi = nc_dim_ceildiv(t, num, nc_dim_const(t, c));
                CHECK((lo != NULL) == (c != 0));
                for (int64_t x = 0; x < 9 && c; x++) {
                    int64_t values[2] = {x, x * x}, got_lo = 0, got_hi = 0;
                    double want = (double)(scale * x + k + 4 * x * x) / (double)c;
                    CHECK(nc_dim_eval(lo, values, known, &got_lo) && nc_dim_eval(hi, values, known, &got_hi));
                    CHECK_INT(got_lo, floor(want));
                    CHECK_INT(got_hi, ceil(want));
                }
            }
    nc_dims_destroy(t);
}

TEST(dim_eval_mark_subst) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    const nc_dim *d = parse(t, "a*max(b,floor(a/c))+min(c,2)");
    int64_t v[3] = {10, 1, 3}, out = -1;
    bool known[3] = {true, true, true}, used[4] = {false};
    REQUIRE(d && nc_dim_eval(d, v, known, &out));
    CHECK_INT(out, 32);
    v[2] = 0;
    CHECK(!nc_dim_eval(d, v, known, &out));
    v[2] = 3;
    v[0] = INT64_MAX;
    CHECK(!nc_dim_eval(d, v, known, &out));
    known[1] = false;
    CHECK(!nc_dim_eval(d, v, known, &out));
    REQUIRE(parse(t, "z"));
    nc_dim_mark(d, used);
    CHECK(used[0] && used[1] && used[2] && !used[3]);
    const nc_dim *by[4] = {nc_dim_const(t, 6), NULL, nc_dim_const(t, 4), NULL};
    CHECK(nc_dim_subst(t, d, by) == parse(t, "6*max(b,1)+2"));
    nc_dims_destroy(t);
}

TEST(dim_spread_against_integers) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    const nc_dim *d = parse(t, "spread(spread(a,b),c)");
    bool known[3] = {true, true, true};
    REQUIRE(d);
    for (int64_t big = 0; big < 5; big++)
        for (int mask = 0; mask < 8; mask++) {
            int64_t v[3], out = -1;
            for (int i = 0; i < 3; i++) v[i] = mask >> i & 1 ? big : 1;
            CHECK(nc_dim_eval(d, v, known, &out));
            CHECK_INT(out, mask ? big : 1);
        }
    nc_dims_destroy(t);
}

/* Sums of a chain with what it started from: x = x + f(x), where nothing says that the sizes are the same. */
TEST(dim_spread_does_not_grow) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    const nc_dim *d = nc_dim_sym(t, "n"), *x[3] = {d, nc_dim_sym(t, "k"), nc_dim_sym(t, "m")};
    for (int i = 0; i < 200; i++)
        d = nc_dim_spread(t, nc_dim_spread(t, d, x[i % 3]), nc_dim_spread(t, x[(i + 1) % 3], d));
    REQUIRE(d);
    CHECK(d == parse(t, "spread(n,spread(k,m))"));
    nc_dims_destroy(t);
}

TEST(dim_clone_is_the_same) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t);
    const nc_dim *d = parse(t, "b*floor((a+b)/c)+max(c,ceil(a/2))+a*spread(b,c)"), *u = nc_dim_fresh(t, "a");
    REQUIRE(d && u);
    nc_dim_set_bound(t, u, d);
    nc_dims *c = nc_dims_clone(t);
    REQUIRE(c);
    const nc_dim *e = nc_dim_carry(c, d);
    nc_text p = {0}, q = {0};
    REQUIRE(e);
    nc_dim_print(&p, d);
    nc_dim_print(&q, e);
    CHECK_STR(q.s, p.s);
    for (int i = 0; i < nc_dims_n_syms(t); i++) CHECK(nc_dims_sym_is_fresh(c, i) == nc_dims_sym_is_fresh(t, i));
    CHECK(nc_dim_bound(c, nc_dim_sym_id(u)) == e && !nc_dim_bound(c, 0));
    nc_text_release(&p);
    nc_text_release(&q);
    nc_dims_destroy(t);
    nc_dims_destroy(c);
}

TEST(dim_out_of_memory) {
    uint64_t live = nc_mem_live();
    for (uint64_t k = 1;; k++) {
        nc_mem_fail_at(k);
        nc_dims *t = nc_dims_create();
        const nc_dim *d = t ? parse(t, "b*floor((a+b)/c)+max(c,ceil(a/2))+floor((a*a-1)/(a+1))") : NULL;
        nc_dims *c = t ? nc_dims_clone(t) : NULL;
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK(hit || (d && c));
        nc_dims_destroy(t);
        nc_dims_destroy(c);
        CHECK_INT(nc_mem_live(), live);
        if (!hit || nc_test_has_failed()) break;
    }
}

TEST(dim_declared_takes_a_made_up_name) {
    nc_dims *t = nc_dims_create();
    REQUIRE(t != NULL);
    const nc_dim *made = nc_dim_fresh(t, "x_dim0"), *named = nc_dim_declared(t, "x_dim0");
    CHECK(made != NULL && named != NULL && made != named);
    CHECK(nc_dim_declared(t, "x_dim0") == named && nc_dim_sym(t, "x_dim0") == named);
    CHECK_STR(nc_dims_sym_name(t, nc_dim_sym_id(named)), "x_dim0");
    CHECK_STR(nc_dims_sym_name(t, nc_dim_sym_id(made)), "x_dim0_2");
    CHECK(nc_dim_sym(t, "x_dim0_2") == made);
    nc_dims_destroy(t);
}
