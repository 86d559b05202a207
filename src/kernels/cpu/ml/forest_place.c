/* kernels/cpu/ml/forest_place.c: lays forests out as steps; see forest_steps.h. */
#include "kernels/cpu/ml/forest_steps.h"

#include <math.h>

/* Whether v < at stands for the branch: then it goes by the largest number below `at`. */
static bool is_strict(nck_branch mode) { return mode == NCK_BRANCH_LT || mode == NCK_BRANCH_GTE; }

static bool is_turned(nck_branch mode) { return mode == NCK_BRANCH_GTE || mode == NCK_BRANCH_GT; }

static bool is_leaf(const nck_forest *f, int64_t i) { return f->nodes[i].mode == NCK_BRANCH_LEAF; }

static bool has_order(const nck_tree_node *n) {
    if (n->mode > NCK_BRANCH_GT || n->at != n->at) return false;
    return !(is_strict(n->mode) && n->at == -INFINITY) && n->feature < INT32_MAX;
}

/* Groups of 2, 4 or 6 steps, of which less than as many again are lost before each; every tree begins on a line. */
int64_t nck_steps_most(const nck_forest *f, int64_t n) {
    int64_t branches = 0;
    for (int64_t i = 0; i < n; i++) {
        if (is_leaf(f, i)) continue;
        if (!has_order(&f->nodes[i])) return 0;
        branches++;
    }
    int64_t most = 4 * branches + 2 * NCK_STEP_LINE * f->n_roots;
    return branches > 0 && most < INT32_MAX && f->n_targets < INT32_MAX ? most : 0;
}

/* ---- places ---- */

/* pairs[i]: where the children of node i lie, or 0, or QUEUED. heads wait for a place, order has one. */
enum { QUEUED = 1 };
typedef struct placing {
    const nck_forest *f;
    uint32_t *pairs, *heads, *order;
    int64_t n_heads, n_order;
    uint32_t used;
} placing;

static bool waits(const placing *p, int64_t i) { return !is_leaf(p->f, i) && p->pairs[i] <= QUEUED; }

static uint32_t next_line(uint32_t used) { return (used + NCK_STEP_LINE - 1) / NCK_STEP_LINE * NCK_STEP_LINE; }

static void place_one(placing *p, int64_t i) {
    p->pairs[i] = p->used;
    p->used += 2;
    p->order[p->n_order++] = (uint32_t)i;
}

/* The children of node i and theirs, on one line; what comes behind waits. */
static void place_group(placing *p, int64_t i) {
    const nck_tree_node *n = &p->f->nodes[i];
    int64_t kids[2] = {n->yes, n->no};
    uint32_t need = 2;
    for (int k = 0; k < 2; k++) need += waits(p, kids[k]) && (k == 0 || kids[1] != kids[0]) ? 2 : 0;
    if (p->used % NCK_STEP_LINE + need > NCK_STEP_LINE) p->used = next_line(p->used);
    place_one(p, i);
    for (int k = 0; k < 2; k++)
        if (waits(p, kids[k])) place_one(p, kids[k]);
    for (int k = 0; k < 2; k++) {
        const nck_tree_node *kid = &p->f->nodes[kids[k]];
        int64_t behind[2] = {kid->yes, kid->no};
        for (int j = 0; j < 2 && kid->mode != NCK_BRANCH_LEAF; j++)
            if (waits(p, behind[j]) && p->pairs[behind[j]] != QUEUED) {
                p->pairs[behind[j]] = QUEUED;
                p->heads[p->n_heads++] = (uint32_t)behind[j];
            }
    }
}

/* Tree t; where it begins. */
static uint32_t place_tree(placing *p, int64_t t) {
    uint32_t base = next_line(p->used);
    p->used = base + 2;
    p->n_heads = p->n_order = 0;
    if (waits(p, p->f->roots[t])) place_group(p, p->f->roots[t]);
    for (int64_t i = 0; i < p->n_heads; i++)
        if (waits(p, p->heads[i])) place_group(p, p->heads[i]);
    return base;
}

/* ---- steps ---- */

typedef struct filling {
    const nck_forest *f;
    const uint32_t *pairs;
    void *steps;
    nck_steps *s;
    uint32_t base;
    bool wide, fits;
} filling;

static double below(const filling *g, double at, bool strict) {
    if (g->wide) return strict ? nextafter(at, -INFINITY) : at;
    float v = (float)at;
    return (double)((double)v > at || (strict && (double)v >= at) ? nextafterf(v, -INFINITY) : v);
}

static void put_step(filling *g, int64_t i, uint32_t slot) {
    const nck_tree_node *n = &g->f->nodes[i];
    bool leaf = n->mode == NCK_BRANCH_LEAF, right = is_turned(n->mode) == n->nan_is_yes;
    uint32_t to = leaf ? slot : g->pairs[i], next = to - g->base;
    if (to < g->base || (next << g->s->next_shift) >> g->s->next_shift != next) { /* another tree's, or too far */
        g->fits = false;
        return;
    }
    uint32_t word = next << g->s->next_shift;
    if (!leaf)
        word |= (uint32_t)n->feature << NCK_STEP_FEATURE | (right ? NCK_STEP_MORE | NCK_STEP_NAN : NCK_STEP_MORE);
    bool votes = leaf && !g->s->plain;
    int32_t vote = n->yes > 0 ? (int32_t)n->feature : NCK_STEP_NO_VOTE;
    double at = leaf ? (votes ? 0 : g->f->votes[n->feature].weight) : below(g, n->at, is_strict(n->mode));
    if (g->wide) {
        nck_step_f64 *to64 = (nck_step_f64 *)g->steps + slot;
        *to64 = (nck_step_f64){.at = at, .word = word};
        if (votes) to64->vote = vote;
    } else {
        nck_step_f32 *to32 = (nck_step_f32 *)g->steps + slot;
        *to32 = (nck_step_f32){.at = (float)at, .word = word};
        if (votes) to32->vote = vote;
    }
}

/* A float must hold each weight, or it is not the weight that is summed. */
static bool is_plain(const nck_forest *f, int64_t n, bool wide) {
    if (f->n_targets != 1 || f->gather > NCK_GATHER_SUM) return false;
    for (int64_t i = 0; i < n; i++) {
        if (!is_leaf(f, i)) continue;
        if (f->nodes[i].yes != 1) return false;
        double w = f->votes[f->nodes[i].feature].weight;
        if (!wide && (double)(float)w != w) return false;
    }
    return true;
}

static void fill_votes(const nck_forest *f, int64_t n, int64_t n_votes, nck_step_vote *votes) {
    for (int64_t i = 0; i < n_votes; i++)
        votes[i] = (nck_step_vote){.weight = f->votes[i].weight, .target = (int32_t)f->votes[i].target};
    for (int64_t i = 0; i < n; i++)
        if (is_leaf(f, i) && f->nodes[i].yes > 0) votes[f->nodes[i].feature + f->nodes[i].yes - 1].last = true;
}

static uint32_t feature_bits(const nck_forest *f, int64_t n) {
    uint32_t bits = 1;
    for (int64_t i = 0; i < n; i++)
        while (!is_leaf(f, i) && f->nodes[i].feature >> bits != 0) bits++;
    return bits;
}

int64_t nck_steps_fill(const nck_forest *f, int64_t n, int64_t n_votes, bool wide, const nck_steps_room *room,
                       nck_steps *s) {
    placing p = {.f = f, .pairs = room->scratch, .heads = room->scratch + n, .order = room->scratch + 2 * n};
    uint32_t bits = feature_bits(f, n);
    if (n_votes >= INT32_MAX || bits + NCK_STEP_FEATURE >= 30) return 0;
    *s = (nck_steps){.f32 = wide ? NULL : room->steps,
                     .f64 = wide ? room->steps : NULL,
                     .roots = room->roots,
                     .votes = room->votes,
                     .n_roots = f->n_roots,
                     .n_targets = f->n_targets,
                     .gather = f->gather,
                     .plain = is_plain(f, n, wide),
                     .feature_mask = (1u << bits) - 1,
                     .next_shift = bits + NCK_STEP_FEATURE};
    filling g = {.f = f, .pairs = p.pairs, .steps = room->steps, .s = s, .wide = wide, .fits = true};
    fill_votes(f, n, n_votes, room->votes);
    for (int64_t t = 0; t < f->n_roots && g.fits; t++) {
        room->roots[t] = g.base = place_tree(&p, t);
        put_step(&g, f->roots[t], g.base);
        for (int64_t i = 0; i < p.n_order && g.fits; i++) {
            const nck_tree_node *k = &f->nodes[p.order[i]];
            bool turned = is_turned(k->mode);
            put_step(&g, turned ? k->no : k->yes, p.pairs[p.order[i]]);
            put_step(&g, turned ? k->yes : k->no, p.pairs[p.order[i]] + 1);
        }
    }
    return g.fits ? (int64_t)p.used : 0;
}
