/* base/cpu_test.c: the answers hold together on any machine. */
#include "base/cpu.h"

#include "tests/check.h"

TEST(cpu_is_consistent) {
    const nc_cpu *c = nc_cpu_get();
    CHECK(c == nc_cpu_get());
    CHECK(c->name[0] != '\0');
    CHECK(c->l1d >= 4096 && c->l1d <= (1u << 24));
    CHECK(c->l2 >= c->l1d && c->l2 <= (1u << 28));
    CHECK(!c->avx512_vnni || c->avx512);
    CHECK(!c->avx512 || c->avx2_fma);
    CHECK(!c->amx || c->avx512);
#if defined(__aarch64__)
    CHECK(c->neon && !c->avx2_fma);
#elif defined(__x86_64__)
    CHECK(!c->neon);
    CHECK(c->avx2_fma == (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
    CHECK(c->avx512 == (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")));
#endif
}
