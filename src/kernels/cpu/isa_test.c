/* cpu/isa_test.c: the choice of instruction set. */
#include "kernels/cpu/isa.h"

#include "tests/check.h"

#include <stdlib.h>

TEST(portable_is_always_there) {
    REQUIRE(nck_isa_at(0) != NULL);
    CHECK_STR(nck_isa_at(0)->name, "portable");
    int n = 0;
    while (nck_isa_at(n) != NULL) CHECK(nck_isa_at(n++)->tile != NULL);
    CHECK(nck_isa_at(-1) == NULL && nck_isa_at(n + 1) == NULL);
}

TEST(isa_can_be_forced) {
    CHECK(nck_isa_set_for_test("portable"));
    CHECK_STR(nck_isa_get()->name, "portable");
    CHECK(!nck_isa_set_for_test("abacus"));
    CHECK_STR(nck_isa_get()->name, "portable");
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(isa_follows_the_environment) {
    const char *was = getenv("NACRE_ISA");
    char keep[64];
    snprintf(keep, sizeof keep, "%s", was != NULL ? was : "");
    setenv("NACRE_ISA", "portable", 1);
    CHECK(nck_isa_set_for_test(NULL));
    CHECK_STR(nck_isa_get()->name, "portable");
    unsetenv("NACRE_ISA");
    CHECK(nck_isa_set_for_test(NULL));
    int n = 0;
    while (nck_isa_at(n) != NULL) n++;
    CHECK_STR(nck_isa_get()->name, nck_isa_at(n - 1)->name);
    if (was != NULL) setenv("NACRE_ISA", keep, 1);
    CHECK(nck_isa_set_for_test(NULL));
}

/* Each table comes from the last usable row that has it, and one table can be taken from another row by name. */
TEST(isa_is_chosen_table_by_table) {
    const nck_isa *portable = nck_isa_at(0);
    for (int i = 0; nck_isa_at(i) != NULL; i++) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(i)->name));
        CHECK(nck_isa_get()->gemm == nck_isa_at(i)->gemm && nck_isa_get()->conv == nck_isa_at(i)->conv);
        char spec[64];
        snprintf(spec, sizeof spec, "%s,gemm=portable", nck_isa_at(i)->name);
        REQUIRE(nck_isa_set_for_test(spec));
        CHECK(nck_isa_get()->gemm == portable->gemm && nck_isa_get()->tile == nck_isa_at(i)->tile);
        CHECK_STR(nck_isa_get()->from.gemm, "portable");
    }
    CHECK(nck_isa_set_for_test("tile=portable"));
    CHECK(nck_isa_get()->tile == portable->tile);
    CHECK(!nck_isa_set_for_test("gemm=abacus") && !nck_isa_set_for_test("portable,abacus=portable"));
    CHECK(!nck_isa_set_for_test("portable,gemm"));
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(isa_tells_where_tables_come_from) {
    nck_isa_line line;
    int n = 0;
    for (; nck_isa_table_line(n, &line); n++) CHECK(line.what != NULL && line.text != NULL);
    CHECK(n >= 5 && !nck_isa_table_line(-1, &line));
    for (int i = 0; nck_isa_missing_line(i, &line); i++) CHECK(!nck_isa_set_for_test(line.what));
    CHECK(nck_isa_set_for_test(NULL));
}
