/* ops/binding_test.c: every row of every table is found by its op, in the order of the tables, and has a card. */
#include "ops/lane.h"

#include "tests/check.h"

#define FAMILY(x) extern const nc_binding nc_##x##_cpu[], nc_##x##_cuda[];
#include "ops/families.list"
#undef FAMILY

static const nc_binding *const tables[][2] = {
#define FAMILY(x) {nc_##x##_cpu, nc_##x##_cuda},
#include "ops/families.list"
#undef FAMILY
};
enum { N_TABLES = sizeof tables / sizeof tables[0] };

static bool same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static int count_rows(const char *domain, const char *op, int cuda) {
    int n = 0;
    for (int i = 0; i < N_TABLES; i++)
        for (const nc_binding *b = tables[i][cuda]; b->op != NULL; b++) n += same(b->op, op) && same(b->domain, domain);
    return n;
}

/* A version that no row serves makes every row of the op leave its reason. */
static int count_refusals(const nc_card *card, const char *kernels) {
    static const char reason[] = "serves other versions of the op";
    static const nc_op_version none = {.since = -1};
    const nc_node n = {.card = card, .version = &none};
    char why[4096];
    int count = 0;
    CHECK(nc_binding_find(&n, kernels, why, sizeof why) == NULL);
    for (const char *s = why; (s = strstr(s, reason)) != NULL; s += sizeof reason - 1) count++;
    return count - (card->lane > 0);
}

TEST(every_row_is_found_by_its_op) {
    const nc_registry *r = nc_ops_registry();
    for (int cuda = 0; cuda < 2; cuda++)
        for (int i = 0; i < N_TABLES; i++)
            for (const nc_binding *b = tables[i][cuda]; b->op != NULL; b++) {
                const nc_card *card = r->find(r, b->domain, b->op);
                if (card == NULL) nc_test_failed(__FILE__, __LINE__, "there is no op %s", b->op);
                if (card == NULL || card->rows != NULL) continue;
                int found = count_refusals(card, cuda ? "cuda" : "cpu"), rows = count_rows(b->domain, b->op, cuda);
                if (found != rows) nc_test_failed(__FILE__, __LINE__, "%s: %d of %d rows", b->op, found, rows);
            }
}

TEST(rows_stand_in_the_order_of_their_table) {
    const nc_registry *r = nc_ops_registry();
    const nc_card *card = r->find(r, "", "ReduceSum");
    nc_type type = {.kind = NC_T_TENSOR, .elem = NC_FLOAT, .rank = 0};
    nc_value x = {.type = &type}, *in[] = {&x}, *out[] = {&x};
    const nc_node n = {.card = card, .version = &card->versions[0], .in = in, .n_in = 1, .out = out, .n_out = 1};
    char why[256];
    const nc_binding *wide = nc_binding_find(&n, "cpu", why, sizeof why);
    CHECK_STR(why, "");
    type.elem = NC_FLOAT16;
    const nc_binding *narrow = nc_binding_find(&n, "cpu", why, sizeof why);
    CHECK(wide != NULL && narrow == wide + 1);
    CHECK_STR(why, "ReduceSum: float16");
}

TEST(guarded_rows_say_when) {
    for (int i = 0; i < 2 * N_TABLES; i++)
        for (const nc_binding *b = tables[i / 2][i % 2]; b->op != NULL; b++)
            if ((b->guard != NULL) != (b->when != NULL))
                nc_test_failed(__FILE__, __LINE__, "%s: a guard and its words come together", b->op);
}

TEST(prepare_sees_the_own_of_its_row) {
    const nc_binding row = {.op = "Own", .own = "mine"};
    nc_prep p = {.own = "another"};
    CHECK_INT(nc_binding_prepare(&row, &p), NC_OK);
    CHECK_STR(p.own, "mine");
}
