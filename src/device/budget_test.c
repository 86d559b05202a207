/* device/budget_test.c: charging, refusing, giving back; buffers that outlive the one who made the budget. */
#include "device/budget.h"

#include "base/mem.h"
#include "device/device.h"
#include "tests/check.h"

#include <pthread.h>

TEST(budget_refuses_what_is_left) {
    nc_budget *b = nc_budget_create(100);
    REQUIRE(b);
    nc_diag diag = {0};
    CHECK_INT(nc_budget_take(b, 60, &diag), NC_OK);
    CHECK_INT(nc_budget_take(b, 41, &diag), NC_E_LIMIT);
    CHECK(strstr(diag.text, "limit is 100 bytes: 41 wanted, 60 in use, 40 left"));
    diag = (nc_diag){0};
    CHECK_INT(nc_budget_take(b, SIZE_MAX, &diag), NC_E_LIMIT);
    CHECK_INT(nc_budget_take(b, 40, &diag), NC_OK);
    CHECK_INT(nc_budget_take(b, 0, &diag), NC_OK);
    nc_budget_give(b, 100);
    CHECK(b->live == 0 && b->peak == 100);
    nc_budget_unref(b);
}

TEST(budget_without_limit_counts) {
    nc_budget *b = nc_budget_create(0);
    REQUIRE(b);
    nc_diag diag = {0};
    CHECK_INT(nc_budget_take(b, SIZE_MAX - 10, &diag), NC_OK);
    CHECK_INT(nc_budget_take(b, 11, &diag), NC_E_LIMIT);
    nc_budget_unref(b);
    CHECK_INT(nc_budget_take(NULL, SIZE_MAX, &diag), NC_OK);
    nc_budget_give(NULL, 1);
}

TEST(budget_lives_as_long_as_its_buffers) {
    uint64_t live = nc_mem_live();
    nc_budget *b = nc_budget_create(100), *other = nc_budget_create(1000);
    REQUIRE(b && other);
    nc_diag diag = {0};
    nc_buffer *x = nc_device_buffer(nc_device_cpu(), b, 80, &diag);
    nc_buffer *y = nc_device_buffer(nc_device_cpu(), other, 900, &diag);
    REQUIRE(x && y);
    CHECK(nc_device_buffer(nc_device_cpu(), b, 21, &diag) == NULL);
    CHECK(b->live == 80 && other->live == 900);
    nc_budget_unref(b);
    CHECK_INT(b->live, 80);
    nc_buffer_unref(x);
    nc_buffer_unref(y);
    CHECK_INT(other->live, 0);
    nc_budget_unref(other);
    CHECK_INT(nc_mem_live(), live);
}

TEST(budget_gives_back_when_the_buffer_fails) {
    nc_budget *b = nc_budget_create(100);
    REQUIRE(b);
    for (uint64_t n = 1; n <= 2; n++) {
        nc_diag diag = {0};
        nc_mem_fail_at(n);
        CHECK(nc_device_buffer(nc_device_cpu(), b, 50, &diag) == NULL && diag.code == NC_E_MEMORY);
        nc_mem_fail_at(0);
        CHECK_INT(b->live, 0);
        CHECK_INT(b->refs, 1);
    }
    nc_budget_unref(b);
}

static void *churn(void *arg) {
    nc_budget *b = arg;
    long refused = 0;
    for (int i = 0; i < 2000; i++) {
        nc_diag diag = {0};
        if (nc_budget_take(b, 30, &diag) == NC_OK)
            nc_budget_give(b, 30);
        else
            refused++;
    }
    return (void *)refused;
}

TEST(budget_is_never_passed_by_threads) {
    nc_budget *b = nc_budget_create(70);
    REQUIRE(b);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, churn, b);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    CHECK(b->live == 0 && b->peak <= 60);
    nc_budget_unref(b);
}
