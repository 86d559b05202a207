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
    CHECK(nck_isa_get() == nck_isa_at(n - 1));
    if (was != NULL) setenv("NACRE_ISA", keep, 1);
    CHECK(nck_isa_set_for_test(NULL));
}
