/* tests/grad_cards_test.c: the cards of ops.list and beside them ops of domain test, for tests of autodiff alone: one
 * that grows, its gradient, one without a gradient. No kernels. */
#include "tests/grad_cards.h"

#include "ops/binding.h"
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

static nc_code same_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

/* Appends a zero: [n] -> [n+1]. */
static nc_code grow_infer(nc_infer *c) {
    const nc_dim *d = nc_dim_add(c->dims, nc_in_dim(c, 0, 0), nc_dim_const(c->dims, 1));
    return nc_out(c, 0, nc_in(c, 0)->elem, 1, &d);
}

static nc_code grow_grad(nc_grad *g) {
    nc_value *in[2] = {nc_grad_dy(g, 0), nc_grad_x(g, 0)};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "test", "Like", in, 2, NULL, 0));
    return nc_grad_end(g);
}

static nc_code like_infer(nc_infer *c) { return nc_out_like(c, 0, 1); }

#define V(...)                                                   \
    (const nc_op_version[]) {                                    \
        {.since = 1, __VA_ARGS__, OUT({"Y", T_ANYTHING})}, { 0 } \
    }
#define X \
    { "X", T_ANYTHING }

static const nc_card cards[] = {
    {.name = "Grow", .domain = "test", .versions = V(IN(X), NO_ATTR), .infer = grow_infer, .grad = grow_grad},
    {.name = "Like", .domain = "test", .versions = V(IN(X, {"like", T_ANYTHING}), NO_ATTR), .infer = like_infer},
    {.name = "Opaque", .domain = "test", .versions = V(IN(X), NO_ATTR), .infer = same_infer},
};

static const nc_card *find(const nc_registry *r, const char *domain, const char *op) {
    (void)r;
    const nc_card *real = nc_ops_registry()->find(nc_ops_registry(), domain, op);
    for (size_t i = 0; !real && i < sizeof cards / sizeof cards[0]; i++) {
        const char *own = cards[i].domain ? cards[i].domain : "";
        if (strcmp(cards[i].name, op) == 0 && strcmp(own, domain) == 0) real = &cards[i];
    }
    return real;
}

const nc_registry nc_test_cards = {.find = find};
