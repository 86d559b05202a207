/* ir/fake_cards_test.c: the registry behind fake_cards.h. */
#include "ir/fake_cards.h"

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/check.h"

#define FLOATS (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
#define ANY NC_TYPES_ANYTHING

static const nc_param x1[] = {{"X", FLOATS, 0, 0}, {0}}, x2[] = {{"A", FLOATS, 0, 0}, {"B", 0, 0, 0}, {0}};
static const nc_param y_same[] = {{"Y", 0, 0, 0}, {0}}, y_any[] = {{"Y", ANY, 0, 0}, {0}};
static const nc_param many[] = {{"Xs", ANY, 0, NC_P_VARIADIC}, {0}}, cond[] = {{"cond", NC_BIT(NC_BOOL), 0, 0}, {0}};
static const nc_param maybe[] = {{"X", FLOATS, 0, 0}, {"lo", 0, 0, NC_P_OPTIONAL}, {"hi", 0, 0, NC_P_OPTIONAL}, {0}};
static const nc_param maybe_out[] = {{"Y", 0, 0, 0}, {"mask", NC_BIT(NC_BOOL), 0, NC_P_OPTIONAL}, {0}};
static const nc_attr_spec alpha[] = {{"alpha", NC_A_FLOAT, NC_ATTR_HAS_DEFAULT, {.f = 0.01f}},
                                     {"mode", NC_A_STRING, NC_ATTR_HAS_DEFAULT, {.s = "fast"}},
                                     {"k", NC_A_INT, NC_ATTR_HAS_DEFAULT, {.i = 7}},
                                     {0}};
static const nc_attr_spec axis[] = {{"axis", NC_A_INT, NC_ATTR_REQUIRED, {0}}, {0}};
static const nc_attr_spec branches[] = {
    {"then_branch", NC_A_GRAPH, NC_ATTR_REQUIRED, {0}}, {"else_branch", NC_A_GRAPH, 0, {0}}, {0}};
static const nc_attr_spec all[] = {
    {"i", NC_A_INT, 0, {0}},         {"f", NC_A_FLOAT, 0, {0}},       {"s", NC_A_STRING, 0, {0}},
    {"ints", NC_A_INTS, 0, {0}},     {"floats", NC_A_FLOATS, 0, {0}}, {"strings", NC_A_STRINGS, 0, {0}},
    {"tensor", NC_A_TENSOR, 0, {0}}, {"type", NC_A_TYPE, 0, {0}},     {0}};

#define ROWS(name, ins, outs, attrs) \
    static const nc_op_version name[] = {{.since = 1, .in = ins, .out = outs, .attr = attrs}, {0}}
ROWS(unary, x1, y_same, NULL);
ROWS(binary, x2, y_same, NULL);
ROWS(concat, many, y_any, axis);
ROWS(split, x1, many, NULL);
ROWS(branch, cond, many, branches);
ROWS(constant, NULL, y_any, all);
ROWS(noise, maybe, maybe_out, NULL);
static const nc_op_version leaky[] = {
    {.since = 16, .in = x1, .out = y_same, .attr = alpha}, {.since = 6, .in = x1, .out = y_same, .attr = NULL}, {0}};
static const nc_op_version gone[] = {{.since = 10, .in = x1, .out = y_same, .attr = NULL, .removed = true},
                                     {.since = 1, .in = x1, .out = y_same, .attr = NULL},
                                     {0}};

static const nc_card cards[] = {
    {.name = "Neg", .versions = unary, .traits = NC_ELEMENTWISE},
    {.name = "Add", .versions = binary, .traits = NC_ELEMENTWISE | NC_COMMUTES},
    {.name = "LeakyRelu", .versions = leaky, .traits = NC_ELEMENTWISE},
    {.name = "Gone", .versions = gone},
    {.name = "Concat", .versions = concat, .traits = NC_GROWS},
    {.name = "Split", .versions = split},
    {.name = "If", .versions = branch, .traits = NC_CONTROL},
    {.name = "Constant", .versions = constant},
    {.name = "Update", .versions = binary, .traits = NC_IN_PLACE, .n_updates = 1},
    {.name = "Noise", .domain = "my.domain", .versions = noise, .traits = NC_RANDOM},
};

static const nc_card *find(const nc_registry *r, const char *domain, const char *op) {
    (void)r;
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++)
        if (strcmp(cards[i].name, op) == 0 && strcmp(cards[i].domain ? cards[i].domain : "", domain) == 0)
            return &cards[i];
    return NULL;
}

static const nc_card *find_nothing(const nc_registry *r, const char *domain, const char *op) {
    (void)r, (void)domain, (void)op;
    return NULL;
}

static const nc_registry below = {.find = find};
const nc_registry nc_fake_registry = {.find = find_nothing, .base = &below};

const nc_card *nc_fake_card(const char *name) { return find(NULL, "", name); }

nc_model *nc_fake_parse(const char *text) {
    nc_work w;
    nc_model *m = NULL;
    char message[700];
    nc_work_init(&w);
    if (nc_graph_parse(&w, text, &nc_fake_registry, &m) != NC_OK || nc_verify(&w, m) != NC_OK) {
        CHECK_STR(nc_diag_print(&w.diag, message, sizeof message), "no error");
        nc_model_destroy(m);
        m = NULL;
    }
    nc_work_release(&w);
    return m;
}

void nc_fake_check_print(const nc_model *m, const char *want) {
    nc_text out = {0};
    nc_graph_print(&out, m);
    CHECK_STR(out.s, want);
    nc_text_release(&out);
}
