/* run/env_test.c: the store of packed constants: shared by bytes, gone with the last user. */
#include "run/env.h"

#include "base/map.h"
#include "base/mem.h"
#include "tests/check.h"

enum { N = 64 };

static nc_code copy_bytes(const void *state, const nc_tensor *src, void *dst) {
    (void)state;
    memcpy(dst, src->data, N);
    return NC_OK;
}

static nc_buffer *pack(nc_env *e, const char *bytes) {
    nc_pack k = {.form = "copy/1", .bytes = N, .fill = copy_bytes};
    nc_tensor src = {.data = (void *)(uintptr_t)bytes, .dtype = NC_UINT8, .rank = 1, .dims = {N}, .strides = {1}};
    nc_work w;
    nc_buffer *b = NULL;
    nc_work_init(&w);
    CHECK_INT(nc_env_pack(e, &w, &k, NULL, &src, NULL, &b), NC_OK);
    nc_work_release(&w);
    return b;
}

TEST(env_shares_packed_constants_of_equal_bytes) {
    nc_env *e = nc_env_create(1);
    REQUIRE(e);
    char one[N] = "one", again[N] = "one", two[N] = "two";
    nc_buffer *a = pack(e, one), *b = pack(e, again), *c = pack(e, two);
    REQUIRE(a && b && c);
    CHECK(a == b && a != c && e->n_packed == 2);
    nc_env_unpack(e, a);
    CHECK(memcmp(b->ptr, one, N) == 0);
    nc_env_unpack(e, b);
    nc_env_unpack(e, c);
    CHECK(e->packed == NULL);
    nc_env_unref(e);
}

/* What the hash says is not enough. */
TEST(env_tells_packed_constants_of_equal_hash_apart) {
    nc_env *e = nc_env_create(1);
    REQUIRE(e);
    char one[N] = "one", two[N] = "two";
    nc_buffer *a = pack(e, one);
    e->packed->hash = nc_hash(two, N, 0);
    nc_buffer *b = pack(e, two), *c = pack(e, two);
    REQUIRE(a && b && c);
    CHECK(memcmp(b->ptr, two, N) == 0 && memcmp(a->ptr, one, N) == 0);
    CHECK(b == c && e->n_packed == 2);
    nc_env_unpack(e, c);
    nc_env_unpack(e, b);
    nc_env_unpack(e, a);
    CHECK(e->packed == NULL);
    nc_env_unref(e);
}

TEST(env_gives_memory_of_packed_constants_back) {
    nc_env *e = nc_env_create(1);
    REQUIRE(e);
    uint64_t live = nc_mem_live();
    char one[N] = "one";
    nc_buffer *a = pack(e, one), *b = pack(e, one);
    nc_env_unpack(e, a);
    CHECK(nc_mem_live() > live);
    nc_env_unpack(e, b);
    CHECK_INT(nc_mem_live(), live);
    nc_env_unref(e);
}
