/* ops/ml/trees_build.c: trees out of attributes. The old ops name nodes by (tree, node) pairs and list the weights of
 * leaves by the same pairs; TreeEnsemble has interior nodes and leaves in two lists. Both become one list of nodes, in
 * which every child exists and no path comes back to where it was: a model is not trusted to hold trees. */
#include "ops/ml/trees.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- attributes ---- */

typedef struct numbers {
    const void *data;
    nc_dtype type;
    int64_t n;
} numbers;

static numbers floats_of(const nc_node *n, const char *name, const char *as_tensor) {
    const nc_attr *a = nc_node_attr(n, name), *t = as_tensor != NULL ? nc_node_attr(n, as_tensor) : NULL;
    if (t != NULL) return (numbers){t->tensor->data, t->tensor->dtype, t->tensor->n};
    if (a != NULL && a->kind == NC_A_TENSOR) return (numbers){a->tensor->data, a->tensor->dtype, a->tensor->n};
    return a != NULL ? (numbers){a->floats, NC_FLOAT, a->n} : (numbers){NULL, NC_FLOAT, 0};
}

/* Data of a file may be unaligned. */
static double number_at(const numbers *l, int64_t i) {
    const char *p = l->data;
    float f;
    double d;
    uint16_t h;
    switch (l->type) {
    case NC_DOUBLE: memcpy(&d, p + i * 8, 8); return d;
    case NC_FLOAT16: memcpy(&h, p + i * 2, 2); return (double)nc_f16_to_f32(h);
    case NC_UINT8: return ((const uint8_t *)l->data)[i];
    default: memcpy(&f, p + i * 4, 4); return (double)f;
    }
}

/* A list of exactly n integers; n < 0: any. */
static nc_code ints_of(nc_prep *p, const char *name, int64_t n, const int64_t **out, int64_t *n_out) {
    int count = 0;
    *out = nc_attr_ints(p->node, name, &count);
    if (n >= 0 && count != n)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "%s has %d elements, expected %lld", name, count, (long long)n);
    if (n_out != NULL) *n_out = count;
    return NC_OK;
}

static nc_code enough(nc_prep *p, const char *name, const numbers *l, int64_t n) {
    if (l->n != n)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "%s has %lld elements, expected %lld", name, (long long)l->n, (long long)n);
    return NC_OK;
}

/* ---- checks ---- */

/* Depth first with an explicit stack; a node on the way that is met again closes a cycle. */
static nc_code check_paths(nc_prep *p, const nck_tree_node *nodes, int64_t n, const int64_t *roots, int64_t n_roots) {
    enum { NEW, OPEN, DONE };
    char *state = nc_alloc_zero((size_t)n + 1, 1);
    int64_t *stack = nc_alloc(((size_t)n + 1) * sizeof *stack);
    nc_code code = state != NULL && stack != NULL ? NC_OK : nc_fail(p->w, NC_E_MEMORY, "out of memory");
    for (int64_t r = 0; code == NC_OK && r < n_roots; r++) {
        int64_t top = 0;
        if (state[roots[r]] == NEW) stack[top++] = roots[r];
        while (top > 0 && code == NC_OK) {
            int64_t at = stack[top - 1], child[2] = {nodes[at].yes, nodes[at].no}, next = -1;
            state[at] = OPEN;
            for (int k = 0; nodes[at].mode != NCK_BRANCH_LEAF && k < 2; k++) {
                if (state[child[k]] == OPEN)
                    code = nc_fail(p->w, NC_E_BAD_GRAPH, "a tree comes back to its node %lld", (long long)child[k]);
                if (state[child[k]] == NEW && next < 0) next = child[k];
            }
            if (next >= 0)
                stack[top++] = next;
            else
                state[at] = DONE, top--;
        }
    }
    nc_free(state);
    nc_free(stack);
    return code;
}

static nc_code check_features(nc_prep *p, nc_trees *t, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const nck_tree_node *k = &t->forest.nodes[i];
        if (k->mode == NCK_BRANCH_LEAF) continue;
        if (k->feature < 0)
            NC_FAIL(p->w, NC_E_BAD_GRAPH, "node %lld looks at feature %lld", (long long)i, (long long)k->feature);
        if (k->feature >= t->n_features) t->n_features = k->feature + 1;
    }
    return NC_OK;
}

/* Scratch memory for n objects on a line of the cache. */
static void *scratch_line(nc_prep *p, size_t n, size_t size) {
    char *at = nc_arena_array(&p->w->scratch, n + 64, size);
    return at != NULL ? at + (64 - (uintptr_t)at % 64) % 64 : NULL;
}

/* Steps of scratch memory, as many as were used, for good. */
static nc_code keep_steps(nc_prep *p, nck_steps *s, int64_t used) {
    size_t size = s->f64 != NULL ? sizeof *s->f64 : sizeof *s->f32;
    char *steps = nc_arena_alloc(p->arena, (size_t)used * size + 64);
    NC_NEED(p->w, steps);
    steps += (64 - (uintptr_t)steps % 64) % 64;
    memcpy(steps, s->f64 != NULL ? (const void *)s->f64 : (const void *)s->f32, (size_t)used * size);
    if (s->f64 != NULL)
        s->f64 = (const nck_step_f64 *)(const void *)steps;
    else
        s->f32 = (const nck_step_f32 *)(const void *)steps;
    return NC_OK;
}

/* Nodes out of scratch memory as what runs: steps where the branches allow it, else a copy. */
static nc_code lay_out(nc_prep *p, nc_trees *t, int64_t n, int64_t n_votes) {
    nck_forest *f = &t->forest;
    nc_dtype type = p->node->in[0]->type->elem;
    bool wide = type == NC_DOUBLE;
    int64_t most = type != NC_FLOAT16 ? nck_steps_most(f, n) : 0, used = 0;
    if (most > 0) {
        nck_steps_room room = {.steps =
                                   scratch_line(p, (size_t)most, wide ? sizeof(nck_step_f64) : sizeof(nck_step_f32)),
                               .roots = nc_arena_array(p->arena, (size_t)f->n_roots + 1, sizeof *room.roots),
                               .votes = nc_arena_array(p->arena, (size_t)n_votes + 1, sizeof *room.votes),
                               .scratch = nc_arena_array(&p->w->scratch, (size_t)n, 3 * sizeof *room.scratch)};
        NC_NEED(p->w, room.steps);
        NC_NEED(p->w, room.roots);
        NC_NEED(p->w, room.votes);
        NC_NEED(p->w, room.scratch);
        used = nck_steps_fill(f, n, n_votes, wide, &room, &t->steps);
    }
    if (used > 0) {
        f->nodes = NULL;
        return keep_steps(p, &t->steps, used);
    }
    nck_tree_node *copy = nc_arena_array(p->arena, (size_t)n + 1, sizeof *copy);
    NC_NEED(p->w, copy);
    if (n > 0) memcpy(copy, f->nodes, (size_t)n * sizeof *copy);
    f->nodes = copy;
    return NC_OK;
}

/* ---- the old ops ---- */

typedef struct place {
    int64_t tree, node, at;
} place;

static int compare_places(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* The first place of (tree, node), or n. */
static int64_t trees_build_find(const place *sorted, int64_t n, int64_t tree, int64_t node) {
    int64_t lo = 0, hi = n;
    place key = {tree, node, -1};
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (compare_places(&sorted[mid], &key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && sorted[lo].tree == tree && sorted[lo].node == node ? lo : n;
}

/* Where ids count on, as converters write them, `guess` is the place. */
static int64_t find_near(const place *sorted, int64_t n, int64_t guess, int64_t tree, int64_t node) {
    bool found = guess >= 0 && guess < n && sorted[guess].tree == tree && sorted[guess].node == node;
    bool first = found && (guess == 0 || sorted[guess - 1].tree != tree || sorted[guess - 1].node != node);
    return first ? guess : trees_build_find(sorted, n, tree, node);
}

static place *sorted_places(nc_prep *p, const int64_t *trees, const int64_t *nodes, int64_t n) {
    place *l = nc_arena_array(&p->w->scratch, (size_t)n + 1, sizeof *l);
    bool in_order = true;
    for (int64_t i = 0; l != NULL && i < n; i++) {
        l[i] = (place){trees[i], nodes[i], i};
        in_order = in_order && (i == 0 || compare_places(&l[i - 1], &l[i]) < 0);
    }
    if (l != NULL && !in_order) qsort(l, (size_t)n, sizeof *l, compare_places);
    return l;
}

static nc_code mode_of(nc_prep *p, const nc_str *s, nck_branch *out) {
    static const char *const words[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "",           "LEAF"};
    for (int k = 0; k < 8; k++)
        if (s->n > 0 && s->n == strlen(words[k]) && memcmp(s->p, words[k], s->n) == 0) {
            *out = (nck_branch)k;
            return NC_OK;
        }
    NC_FAIL(p->w, NC_E_BAD_GRAPH, "a node has the mode '%.*s'", (int)(s->n < 40 ? s->n : 40), s->p);
}

typedef struct old_nodes {
    const int64_t *trees, *ids, *features, *yes, *no, *nan_is_yes;
    int64_t n;
    const place *sorted;
} old_nodes;

static nc_code old_children(nc_prep *p, const old_nodes *o, int64_t i, nck_tree_node *out) {
    int64_t root = (int64_t)((uint64_t)i - (uint64_t)o->ids[i]); /* if ids count on from it; wraps where they do not */
    int64_t yes = find_near(o->sorted, o->n, (int64_t)((uint64_t)root + (uint64_t)o->yes[i]), o->trees[i], o->yes[i]),
            no = find_near(o->sorted, o->n, (int64_t)((uint64_t)root + (uint64_t)o->no[i]), o->trees[i], o->no[i]);
    if (yes == o->n || no == o->n)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "node %lld of tree %lld has no child %lld", (long long)o->ids[i],
                (long long)o->trees[i], (long long)(yes == o->n ? o->yes[i] : o->no[i]));
    out->yes = o->sorted[yes].at;
    out->no = o->sorted[no].at;
    return NC_OK;
}

/* Weights of leaves, sorted by leaf: those of one leaf lie together. */
static nc_code old_votes(nc_prep *p, nc_trees *t, const old_nodes *o, nck_tree_node *nodes, const char *kind,
                         int64_t *n_votes) {
    char name[4][40];
    static const char *const parts[4] = {"treeids", "nodeids", "ids", "weights"};
    for (int k = 0; k < 4; k++) {
        size_t len = strlen(kind);
        memcpy(name[k], kind, len);
        memcpy(name[k] + len, parts[k], strlen(parts[k]) + 1);
    }
    char as_tensor[40];
    memcpy(as_tensor, name[3], strlen(name[3]));
    memcpy(as_tensor + strlen(name[3]), "_as_tensor", sizeof "_as_tensor");
    const int64_t *trees, *ids, *targets;
    int64_t n;
    NC_TRY(ints_of(p, name[0], -1, &trees, &n));
    NC_TRY(ints_of(p, name[1], n, &ids, NULL));
    NC_TRY(ints_of(p, name[2], n, &targets, NULL));
    numbers weights = floats_of(p->node, name[3], as_tensor);
    NC_TRY(enough(p, name[3], &weights, n));
    place *sorted = sorted_places(p, trees, ids, n);
    nck_vote *votes = nc_arena_array(p->arena, (size_t)n + 1, sizeof *votes);
    NC_NEED(p->w, sorted);
    NC_NEED(p->w, votes);
    t->one_sided = t->positive = true;
    for (int64_t i = 0, at = 0; i < n; i++) { /* both are sorted: the place of a weight is never before the last one */
        const place leaf_of = {sorted[i].tree, sorted[i].node, -1};
        int64_t from = sorted[i].at;
        while (at < o->n && compare_places(&o->sorted[at], &leaf_of) < 0) at++;
        votes[i] = (nck_vote){targets[from], number_at(&weights, from)};
        if (targets[from] < 0 || targets[from] >= t->forest.n_targets)
            NC_FAIL(p->w, NC_E_BAD_GRAPH, "a weight is for target %lld of %lld", (long long)targets[from],
                    (long long)t->forest.n_targets);
        if (votes[i].target != votes[0].target) t->one_sided = false;
        if (votes[i].weight < 0) t->positive = false;
        if (at == o->n || o->sorted[at].tree != leaf_of.tree || o->sorted[at].node != leaf_of.node)
            NC_FAIL(p->w, NC_E_BAD_GRAPH, "a weight is for a node that is not there");
        nck_tree_node *leaf = &nodes[o->sorted[at].at];
        if (leaf->mode != NCK_BRANCH_LEAF) continue;
        if (leaf->yes++ == 0) leaf->feature = i;
    }
    t->forest.votes = votes;
    *n_votes = n;
    return NC_OK;
}

static nc_code old_nodes_of(nc_prep *p, old_nodes *o) {
    NC_TRY(ints_of(p, "nodes_treeids", -1, &o->trees, &o->n));
    NC_TRY(ints_of(p, "nodes_nodeids", o->n, &o->ids, NULL));
    NC_TRY(ints_of(p, "nodes_featureids", o->n, &o->features, NULL));
    NC_TRY(ints_of(p, "nodes_truenodeids", o->n, &o->yes, NULL));
    NC_TRY(ints_of(p, "nodes_falsenodeids", o->n, &o->no, NULL));
    int64_t n_nan;
    NC_TRY(ints_of(p, "nodes_missing_value_tracks_true", -1, &o->nan_is_yes, &n_nan));
    if (n_nan != o->n) o->nan_is_yes = NULL;
    if (o->n == 0) NC_FAIL(p->w, NC_E_BAD_GRAPH, "has no nodes");
    o->sorted = sorted_places(p, o->trees, o->ids, o->n);
    NC_NEED(p->w, o->sorted);
    return NC_OK;
}

/* A tree starts where the number of the tree changes in the list. */
static nc_code old_forest(nc_prep *p, nc_trees *t, const char *kind) {
    old_nodes o;
    NC_TRY(old_nodes_of(p, &o));
    const nc_attr *modes = nc_node_attr(p->node, "nodes_modes");
    numbers values = floats_of(p->node, "nodes_values", "nodes_values_as_tensor");
    NC_TRY(enough(p, "nodes_values", &values, o.n));
    if (modes == NULL || modes->n != o.n)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "nodes_modes does not have %lld words", (long long)o.n);
    nck_tree_node *nodes = nc_arena_array(&p->w->scratch, (size_t)o.n, sizeof *nodes);
    int64_t *roots = nc_arena_array(p->arena, (size_t)o.n, sizeof *roots);
    NC_NEED(p->w, nodes);
    NC_NEED(p->w, roots);
    for (int64_t i = 0; i < o.n; i++) {
        nodes[i] = (nck_tree_node){.at = number_at(&values, i), .nan_is_yes = o.nan_is_yes != NULL && o.nan_is_yes[i]};
        NC_TRY(mode_of(p, &modes->strings[i], &nodes[i].mode));
        if (nodes[i].mode != NCK_BRANCH_LEAF) {
            nodes[i].feature = o.features[i];
            NC_TRY(old_children(p, &o, i, &nodes[i]));
        }
        if (i == 0 || o.trees[i] != o.trees[i - 1]) roots[t->forest.n_roots++] = i;
    }
    t->forest.nodes = nodes;
    t->forest.roots = roots;
    NC_TRY(check_features(p, t, o.n));
    NC_TRY(check_paths(p, nodes, o.n, roots, t->forest.n_roots));
    int64_t n_votes = 0;
    NC_TRY(old_votes(p, t, &o, nodes, kind, &n_votes));
    return lay_out(p, t, o.n, n_votes);
}

/* ---- TreeEnsemble ---- */

/* Sets lie one behind the other, each ended by NaN, in the order of the nodes that use them. */
static nc_code take_set(nc_prep *p, const numbers *sets, int64_t *from, nck_tree_node *n) {
    n->set = *from;
    while (*from < sets->n && number_at(sets, *from) == number_at(sets, *from)) n->size++, (*from)++;
    if (*from == sets->n && n->size == 0) NC_FAIL(p->w, NC_E_BAD_GRAPH, "membership_values has too few sets");
    (*from)++;
    return NC_OK;
}

static nc_code new_child(nc_prep *p, int64_t id, bool leaf, int64_t n_nodes, int64_t n_leaves, int64_t *out) {
    if (id < 0 || id >= (leaf ? n_leaves : n_nodes))
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "a node has %s %lld of %lld as a child", leaf ? "leaf" : "node", (long long)id,
                (long long)(leaf ? n_leaves : n_nodes));
    *out = leaf ? n_nodes + id : id;
    return NC_OK;
}

static nc_code new_leaves(nc_prep *p, nc_trees *t, nck_tree_node *leaves, int64_t n) {
    const int64_t *targets;
    NC_TRY(ints_of(p, "leaf_targetids", n, &targets, NULL));
    numbers weights = floats_of(p->node, "leaf_weights", NULL);
    nck_vote *votes = nc_arena_array(p->arena, (size_t)n + 1, sizeof *votes);
    NC_NEED(p->w, votes);
    for (int64_t i = 0; i < n; i++) {
        if (targets[i] < 0 || targets[i] >= t->forest.n_targets)
            NC_FAIL(p->w, NC_E_BAD_GRAPH, "a leaf is for target %lld of %lld", (long long)targets[i],
                    (long long)t->forest.n_targets);
        votes[i] = (nck_vote){targets[i], number_at(&weights, i)};
        leaves[i] = (nck_tree_node){.mode = NCK_BRANCH_LEAF, .feature = i, .yes = 1};
    }
    t->forest.votes = votes;
    return NC_OK;
}

typedef struct new_nodes {
    const int64_t *features, *yes, *no, *yes_leaf, *no_leaf, *nan_is_yes, *roots;
    int64_t n, n_leaves, n_roots;
    numbers modes, splits, sets;
} new_nodes;

static nc_code new_nodes_of(nc_prep *p, new_nodes *o) {
    int64_t n_nan;
    NC_TRY(ints_of(p, "nodes_featureids", -1, &o->features, &o->n));
    NC_TRY(ints_of(p, "nodes_truenodeids", o->n, &o->yes, NULL));
    NC_TRY(ints_of(p, "nodes_falsenodeids", o->n, &o->no, NULL));
    NC_TRY(ints_of(p, "nodes_trueleafs", o->n, &o->yes_leaf, NULL));
    NC_TRY(ints_of(p, "nodes_falseleafs", o->n, &o->no_leaf, NULL));
    NC_TRY(ints_of(p, "tree_roots", -1, &o->roots, &o->n_roots));
    NC_TRY(ints_of(p, "nodes_missing_value_tracks_true", -1, &o->nan_is_yes, &n_nan));
    if (n_nan != o->n) o->nan_is_yes = NULL;
    o->modes = floats_of(p->node, "nodes_modes", NULL);
    o->splits = floats_of(p->node, "nodes_splits", NULL);
    o->sets = floats_of(p->node, "membership_values", NULL);
    NC_TRY(enough(p, "nodes_modes", &o->modes, o->n));
    NC_TRY(enough(p, "nodes_splits", &o->splits, o->n));
    o->n_leaves = floats_of(p->node, "leaf_weights", NULL).n;
    if (o->modes.type != NC_UINT8)
        NC_FAIL(p->w, NC_E_TYPE, "nodes_modes is %s, expected uint8", nc_dtype_name(o->modes.type));
    return NC_OK;
}

static nc_code new_node(nc_prep *p, const new_nodes *o, int64_t i, int64_t *set, nck_tree_node *out) {
    double mode = number_at(&o->modes, i);
    if (mode > NCK_BRANCH_MEMBER) NC_FAIL(p->w, NC_E_BAD_GRAPH, "a node has the mode %d", (int)mode);
    *out = (nck_tree_node){.at = number_at(&o->splits, i),
                           .feature = o->features[i],
                           .mode = (nck_branch)(int)mode,
                           .nan_is_yes = o->nan_is_yes != NULL && o->nan_is_yes[i] != 0};
    NC_TRY(new_child(p, o->yes[i], o->yes_leaf[i] != 0, o->n, o->n_leaves, &out->yes));
    NC_TRY(new_child(p, o->no[i], o->no_leaf[i] != 0, o->n, o->n_leaves, &out->no));
    return out->mode == NCK_BRANCH_MEMBER ? take_set(p, &o->sets, set, out) : NC_OK;
}

static nc_code new_forest(nc_prep *p, nc_trees *t) {
    new_nodes o;
    NC_TRY(new_nodes_of(p, &o));
    int64_t all = o.n + o.n_leaves, set = 0;
    nck_tree_node *nodes = nc_arena_array(&p->w->scratch, (size_t)all + 1, sizeof *nodes);
    int64_t *roots = nc_arena_array(p->arena, (size_t)o.n_roots + 1, sizeof *roots);
    double *members = nc_arena_array(p->arena, (size_t)o.sets.n + 1, sizeof *members);
    NC_NEED(p->w, nodes);
    NC_NEED(p->w, roots);
    NC_NEED(p->w, members);
    for (int64_t i = 0; i < o.sets.n; i++) members[i] = number_at(&o.sets, i);
    for (int64_t i = 0; i < o.n; i++) NC_TRY(new_node(p, &o, i, &set, &nodes[i]));
    for (int64_t i = 0; i < o.n_roots; i++) NC_TRY(new_child(p, o.roots[i], false, o.n, 0, &roots[i]));
    t->forest.nodes = nodes;
    t->forest.roots = roots;
    t->forest.members = members;
    t->forest.n_roots = o.n_roots;
    NC_TRY(new_leaves(p, t, nodes + o.n, o.n_leaves));
    NC_TRY(check_features(p, t, o.n));
    NC_TRY(check_paths(p, nodes, all, roots, o.n_roots));
    return lay_out(p, t, all, o.n_leaves);
}

/* ---- all ---- */

static nc_code base_of(nc_prep *p, nc_trees *t) {
    numbers base = floats_of(p->node, "base_values", "base_values_as_tensor");
    double *l = nc_arena_array(p->arena, (size_t)base.n + 1, sizeof *l);
    NC_NEED(p->w, l);
    for (int64_t i = 0; i < base.n; i++) l[i] = number_at(&base, i);
    t->base = l;
    t->n_base = base.n;
    return NC_OK;
}

static nc_code gather_of(nc_prep *p, nck_gather *out) {
    static const char *const words[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    const char *word = nc_attr_str(p->node, "aggregate_function");
    for (int k = 0; k < 4; k++)
        if (strcmp(word, words[k]) == 0) {
            *out = (nck_gather)k;
            return NC_OK;
        }
    NC_FAIL(p->w, NC_E_BAD_GRAPH, "aggregate_function is '%s', expected SUM, AVERAGE, MIN or MAX", word);
}

nc_code nc_trees_prepare(nc_prep *p) {
    nc_trees *t = nc_arena_alloc(p->arena, sizeof *t);
    NC_NEED(p->w, t);
    *t = (nc_trees){.forest = {.gather = NCK_GATHER_SUM, .n_targets = 1}};
    p->state = t;
    if (nc_attr_has(p->node, "n_targets")) t->forest.n_targets = nc_attr_int(p->node, "n_targets");
    if (p->node->version->since >= 5) {
        int64_t gather = nc_attr_int(p->node, "aggregate_function"), post = nc_attr_int(p->node, "post_transform");
        if (gather < 0 || gather > 3 || post < 0 || post > 4)
            NC_FAIL(p->w, NC_E_BAD_GRAPH, "aggregate_function is %lld, post_transform %lld", (long long)gather,
                    (long long)post);
        t->forest.gather = (nck_gather)gather;
        t->post = (nck_post)post;
        return new_forest(p, t);
    }
    NC_TRY(nc_ml_post(p, &t->post));
    NC_TRY(base_of(p, t));
    const nc_attr *labels = nc_node_attr(p->node, "classlabels_int64s");
    if (labels == NULL) {
        NC_TRY(gather_of(p, &t->forest.gather));
        return old_forest(p, t, "target_");
    }
    t->labels = labels->ints;
    t->forest.n_targets = t->n_labels = labels->n;
    return old_forest(p, t, "class_");
}
