/* cpu/isa_narrow_test.c: a few elements go to tables of at most 256 bits, to the chosen ones where those are such. */
#include "kernels/cpu/isa_narrow.h"

#include "tests/check.h"

/* The last choice up to `i` whose vectors are of at most 256 bits. */
static const nck_isa *last_narrow(int i) {
    while (nck_isa_at(i)->reduce->width > 8) i--;
    return nck_isa_at(i);
}

TEST(narrow_tables_are_the_best_of_at_most_256_bits) {
    for (int i = 0; nck_isa_at(i) != NULL; i++) {
        const nck_isa *isa = nck_isa_at(i);
        REQUIRE(nck_isa_set_for_test(isa->name));
        CHECK(nck_narrow_reduce()->width <= 8 && nck_narrow_gemm()->width <= 8);
        if (isa->reduce->width <= 8) CHECK(nck_narrow_reduce() == isa->reduce);
        if (isa->gemm->width <= 8) CHECK(nck_narrow_gemm() == isa->gemm);
        if (isa->reduce->width > 8) CHECK(nck_narrow_reduce() == last_narrow(i)->reduce);
        if (isa->gemm->width > 8) CHECK(nck_narrow_gemm() == last_narrow(i)->gemm);
    }
    CHECK(nck_isa_set_for_test(NULL));
}
