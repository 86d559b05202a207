/* kernels/cpu/ml/forest_steps_test.c: forests laid out as steps give what nck_forest_row gives, bit by bit: every order
 * of numbers, NaN and infinities in X, thresholds that float cannot hold, odd numbers of rows and trees, nodes that
 * several others lead to, leaves at the root, every type of X. */
#include "kernels/cpu/ml/forest_steps.h"

#include "base/mem.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { TREES = 11, NODES = 15, FEATURES = 5, ROWS = 21, TARGETS = 3, ALL = TREES * NODES };

typedef struct made {
    nck_tree_node nodes[ALL];
    int64_t roots[TREES];
    nck_vote votes[ALL * 2];
    nck_forest forest;
    uint32_t state;
} made;

static uint32_t draw(made *m, uint32_t below) {
    m->state = m->state * 1664525u + 1013904223u;
    return (m->state >> 8) % below;
}

static double draw_number(made *m) {
    static const double odd[] = {0, -0.0, INFINITY, -INFINITY, 0.1, 1e300, -1e300, 1.0 + 1e-12};
    return draw(m, 4) == 0 ? odd[draw(m, 8)] : (double)draw(m, 64) / 16 - 2;
}

/* Children come behind their parents, so no path comes back; some are shared. */
static void make(made *m, uint32_t seed, nck_gather gather, bool plain) {
    memset(m, 0, sizeof *m);
    m->state = seed;
    for (int64_t i = 0; i < ALL * 2; i++) {
        int64_t target = plain ? 0 : draw(m, TARGETS);
        m->votes[i] = (nck_vote){target, (double)(float)(draw_number(m) / 3)};
    }
    for (int64_t t = 0; t < TREES; t++) {
        int64_t first = t * NODES;
        m->roots[t] = first + (draw(m, 5) == 0 ? NODES - 1 : 0);
        for (int64_t i = 0; i < NODES; i++) {
            int64_t left = NODES - 1 - i;
            nck_tree_node *n = &m->nodes[first + i];
            *n = (nck_tree_node){.mode = NCK_BRANCH_LEAF, .feature = 2 * (first + i), .yes = plain ? 1 : draw(m, 3)};
            if (left < 2 || draw(m, 8) == 0) continue;
            *n = (nck_tree_node){.mode = (nck_branch)draw(m, 4),
                                 .feature = draw(m, FEATURES),
                                 .at = draw_number(m),
                                 .yes = first + i + 1 + draw(m, (uint32_t)left),
                                 .no = first + i + 1 + draw(m, (uint32_t)left),
                                 .nan_is_yes = draw(m, 2)};
            if (n->at == -INFINITY) n->at = 0;
        }
    }
    m->forest = (nck_forest){.nodes = m->nodes,
                             .roots = m->roots,
                             .votes = m->votes,
                             .n_roots = TREES,
                             .n_targets = plain ? 1 : TARGETS,
                             .gather = gather};
}

static void fill(made *m, nc_dtype t, void *to) {
    for (int64_t i = 0; i < ROWS * FEATURES; i++) {
        double v = draw(m, 6) == 0 ? NAN : draw_number(m);
        if (t == NC_FLOAT) ((float *)to)[i] = (float)v;
        if (t == NC_DOUBLE) ((double *)to)[i] = v;
        if (t == NC_INT32) ((int32_t *)to)[i] = (int32_t)draw(m, 7) - 3;
        if (t == NC_INT64) ((int64_t *)to)[i] = (int64_t)draw(m, 7) - 3;
    }
}

static void check_one(uint32_t seed, nc_dtype t, nck_gather gather, bool plain) {
    size_t size = plain ? 1 : TARGETS;
    made m;
    double data[ROWS * FEATURES], want[TARGETS], got[ROWS * TARGETS], one[TARGETS];
    bool voted[TARGETS], got_voted[ROWS * TARGETS], one_voted[TARGETS];
    uint32_t roots[TREES], leaves[ROWS * TREES], scratch[3 * ALL] = {0};
    nck_step_vote votes[ALL * 2];
    nck_steps s;
    nc_tensor x;
    make(&m, seed, gather, plain);
    fill(&m, t, data);
    nc_tensor_set(&x, data, t, 2);
    x.dims[0] = ROWS, x.dims[1] = FEATURES, x.strides[0] = FEATURES, x.strides[1] = 1;
    int64_t most = nck_steps_most(&m.forest, ALL);
    CHECK(most > 0);
    nck_steps_room room = {
        .steps = nc_alloc_zero((size_t)most, sizeof(nck_step_f64)), .roots = roots, .votes = votes, .scratch = scratch};
    int64_t used = nck_steps_fill(&m.forest, ALL, ALL * 2, t == NC_DOUBLE, &room, &s);
    CHECK(used > 0 && used <= most);
    nck_steps_rows(&s, &x, 2, ROWS - 2, got, got_voted, TARGETS);
    nck_steps_leaves(&s, &x, 0, 3, leaves);
    nck_steps_leaves(&s, &x, 3, TREES, leaves);
    CHECK_INT(s.plain, plain && gather <= NCK_GATHER_SUM);
    for (int64_t i = 2; i < ROWS; i++) {
        nck_forest_row(&m.forest, &x, i, want, voted);
        CHECK(memcmp(want, got + (i - 2) * TARGETS, size * sizeof *want) == 0);
        CHECK(memcmp(voted, got_voted + (i - 2) * TARGETS, size * sizeof *voted) == 0);
        nck_steps_collect(&s, &x, leaves + i * TREES, one, one_voted);
        CHECK(memcmp(want, one, size * sizeof *want) == 0 && memcmp(voted, one_voted, size * sizeof *voted) == 0);
    }
    nc_free(room.steps);
}

TEST(forest_steps) {
    static const nc_dtype types[] = {NC_FLOAT, NC_DOUBLE, NC_INT32, NC_INT64};
    for (uint32_t seed = 0; seed < 200; seed++)
        check_one(seed, types[seed % 4], (nck_gather)(seed / 4 % 4), seed / 16 % 2);
}

TEST(forest_steps_refused) {
    made m;
    for (int k = 0; k < 5; k++) {
        make(&m, 1, NCK_GATHER_SUM, false);
        nck_tree_node *n = &m.nodes[0];
        while (n->mode == NCK_BRANCH_LEAF) n++;
        if (k == 0) n->mode = NCK_BRANCH_EQ;
        if (k == 1) n->mode = NCK_BRANCH_NEQ;
        if (k == 2) n->mode = NCK_BRANCH_MEMBER;
        if (k == 3) n->at = NAN;
        if (k == 4) n->mode = NCK_BRANCH_LT, n->at = -INFINITY;
        CHECK_INT(nck_steps_most(&m.forest, ALL), 0);
    }
    for (int64_t i = 0; i < ALL; i++) m.nodes[i] = (nck_tree_node){.mode = NCK_BRANCH_LEAF};
    CHECK_INT(nck_steps_most(&m.forest, ALL), 0); /* leaves alone look at no feature */
}
