/* ops/registry.c: from (domain, name) to the card, over ops.list; and the cards nacre.XGrad, one for every unary
 * lane op with a derivative. The table is filled once, on first use, and never changes. Knows no version: ir/card.h
 * picks the row. */
#include "ops/lane.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define OP(x) extern const nc_card nc_card_##x;
#include "ops/ops.list"
#undef OP

static const nc_card *const cards[] = {
#define OP(x) &nc_card_##x,
#include "ops/ops.list"
#undef OP
};

enum { N_CARDS = sizeof cards / sizeof cards[0], N_SLOTS = 4096 };
_Static_assert(N_CARDS * 4 <= N_SLOTS, "the table of ops needs more slots");

typedef struct grad_card {
    nc_card card;
    nc_op_version versions[2];
    char name[NC_LANE_GRAD_NAME];
} grad_card;

static const nc_card *slots[N_SLOTS];
static grad_card grads[N_CARDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *plain_domain(const char *domain) {
    return domain == NULL || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static uint64_t hash_of(const char *domain, const char *name) {
    return nc_hash(name, strlen(name), nc_hash(domain, strlen(domain), 0));
}

/* The slot of the card, or the free slot where it belongs. */
static const nc_card **slot_of(const char *domain, const char *name) {
    domain = plain_domain(domain);
    for (uint64_t i = hash_of(domain, name);; i++) {
        const nc_card **s = &slots[i % N_SLOTS];
        if (*s == NULL) return s;
        if (strcmp((*s)->name, name) == 0 && strcmp(plain_domain((*s)->domain), domain) == 0) return s;
    }
}

static const nc_param grad_in[] = {{"dY", T_FLOAT_ALL}, {"S", SAME(0)}, {0}};
static const nc_param grad_out[] = {{"dX", SAME(0)}, {0}};

void nc_lane_grad_name(const nc_card *card, char name[NC_LANE_GRAD_NAME]) {
    snprintf(name, NC_LANE_GRAD_NAME, "%sGrad", card->name);
}

static void add_grad(const nc_card *card, grad_card *g) {
    const nck_lane_info *lane = card->lane > 0 ? nck_lane_get(card->lane - 1) : NULL;
    if (lane == NULL || lane->n_in != 1 || lane->grad < 0) return;
    nc_lane_grad_name(card, g->name);
    g->versions[0] = (nc_op_version){.since = 1, .in = grad_in, .out = grad_out, .attr = card->versions[0].attr};
    g->card = (nc_card){.name = g->name,
                        .domain = "nacre",
                        .doc = "dY times the derivative of the op it is named after.",
                        .versions = g->versions,
                        .lane = (int16_t)(lane->grad + 1),
                        .lane_params = {card->lane_params[0], card->lane_params[1]},
                        .traits = NC_ELEMENTWISE,
                        .decompose = nc_lane_grad_decompose};
    *slot_of("nacre", g->name) = &g->card;
}

static void registry_fill(void) {
    for (int i = 0; i < N_CARDS; i++) *slot_of(cards[i]->domain, cards[i]->name) = cards[i];
    for (int i = 0; i < N_CARDS; i++) add_grad(cards[i], &grads[i]);
}

static const nc_card *registry_find(const nc_registry *r, const char *domain, const char *op) {
    (void)r;
    return *slot_of(domain, op);
}

static const nc_registry registry = {.find = registry_find};

const nc_registry *nc_ops_registry(void) {
    pthread_once(&once, registry_fill);
    return &registry;
}
