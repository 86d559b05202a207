/* train/standard.c: a graph in the words of ONNX: ops of Nacre's own, which gradients make, are taken apart into
 * what their cards say they are made of, and all nodes are of one opset, since others do not read functions of another.
 * Not a pass: it makes a graph slower here, so that others can run it. */
#include "autodiff/autodiff.h"
#include "infer/infer.h"
#include "ops/standard.h"
#include "train/train.h"

#include <limits.h>
#include <string.h>

static nc_code take_apart(nc_work *w, nc_node *n) {
    nc_builder b = {
        .w = w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node, .grad = nc_autodiff_emit};
    nc_value **out = nc_arena_array(&w->scratch, (size_t)n->n_out + 1, sizeof *out);
    nc_standard form = nc_standard_of(n->card);
    NC_NEED(w, out);
    if (!form) form = n->card->decompose;
    if (!form)
        NC_FAIL(w, NC_E_UNSUPPORTED, "an op of Nacre's own that ONNX's ops cannot say: the model runs here alone");
    NC_TRY(form(&b, n, out));
    NC_TRY(b.code);
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        if (!out[i]) NC_FAIL(w, NC_E_FAIL, "its decomposition gives no output %d", i);
        nc_edit_replace(n->out[i], out[i]);
    }
    nc_edit_remove(n);
    return NC_OK;
}

/* From the end, so that what a backward pass reads is known to be read no more when the forward pass is reached. The
 * pieces stand where the node stood, and are looked at too. Ops of tapes become sequences when all are known. */
static nc_code over_graph(nc_work *w, nc_graph *g) {
    for (nc_node *n = g->last, *before; n; n = before) {
        nc_node *behind = n->next;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(over_graph(w, n->subs[i].graph));
        before = n->prev;
        if (!nc_build_is_own(n) || nc_train_is_of_tapes(n)) continue;
        w->at_node = n->name, w->at_op = n->card->name;
        NC_TRY(take_apart(w, n));
        w->at_node = w->at_op = NULL;
        before = behind ? behind->prev : g->last;
    }
    return NC_OK;
}

/* ---- one opset ---- */

extern const nc_card nc_card_softmax, nc_card_log_softmax, nc_card_hardmax, nc_card_resize;

/* What means something else before a version, in the same words. */
static bool means_the_same(const nc_node *n, const nc_op_version *to) {
    static const struct {
        const nc_card *card;
        int since;
    } changed[] = {{&nc_card_softmax, 13}, {&nc_card_log_softmax, 13}, {&nc_card_hardmax, 13}, {&nc_card_resize, 11}};
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        if (n->card == changed[i].card && n->version->since < changed[i].since && to->since >= changed[i].since)
            return false;
    return true;
}

/* Before version 13 all dims from the axis on are one row: so they are written, for versions that have one axis. */
static nc_code write_rows(nc_work *w, nc_node *n) {
    bool rows = n->card == &nc_card_softmax || n->card == &nc_card_log_softmax || n->card == &nc_card_hardmax;
    if (!rows || n->version->since >= 13) return NC_OK;
    nc_builder b = {.w = w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node};
    const nc_attr from = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")};
    const nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *flat = nc_build_attr1(&b, "", "Flatten", n->in, 1, &from, 1);
    nc_value *y = nc_build_card1(&b, n->card, &flat, 1, &last, 1);
    y = nc_build_reshape_like(&b, y, n->in[0]);
    NC_TRY(b.code);
    y->type = n->out[0]->type;
    nc_edit_replace(n->out[0], y);
    nc_edit_remove(n);
    return NC_OK;
}

static nc_code write_all_rows(nc_work *w, nc_graph *g) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(write_all_rows(w, n->subs[i].graph));
        NC_TRY(write_rows(w, n));
    }
    return NC_OK;
}

/* with_subs: of nodes that have graphs. */
static int64_t newest(const nc_graph *g, bool with_subs) {
    int64_t most = 0;
    for (const nc_node *n = g->first; n; n = n->next) {
        bool counts = nc_build_is_onnx(n) && (!with_subs || n->n_subs > 0);
        if (counts && n->version->since > most) most = n->version->since;
        for (int i = 0; i < n->n_subs; i++) {
            int64_t inside = newest(n->subs[i].graph, with_subs);
            if (inside > most) most = inside;
        }
    }
    return most;
}

static const nc_attr_spec *spec_of(const nc_op_version *v, const char *name) {
    for (const nc_attr_spec *a = v->attr; a && a->name; a++)
        if (strcmp(a->name, name) == 0) return a;
    return NULL;
}

/* How many there may be; a place by name, or -1. */
static int places(const nc_param *p) {
    int n = 0;
    for (; p && p[n].name; n++)
        if (p[n].flags & NC_P_VARIADIC) return INT_MAX;
    return n;
}
static int place_of(const nc_op_version *v, const char *name) {
    for (int i = 0; v->in && v->in[i].name; i++)
        if (strcmp(v->in[i].name, name) == 0) return i;
    return -1;
}

/* Where the newer version takes as an input what was an attribute: a list of whole numbers (axes), or a number of the
 * type of input 0 (min, ratio; Pad calls its value otherwise). */
static int new_place(const nc_op_version *to, const nc_attr *a) {
    bool is = a->kind == NC_A_INTS || a->kind == NC_A_FLOAT;
    if (!is || spec_of(to, a->name)) return -1;
    int at = place_of(to, a->name);
    return at < 0 && strcmp(a->name, "value") == 0 ? place_of(to, "constant_value") : at;
}

static bool is_moved(const nc_node *n, const nc_op_version *to, const nc_attr *a) {
    return new_place(to, a) >= n->n_in;
}

static bool same_default(const nc_attr_spec *a, const nc_attr_spec *b) {
    if (a->kind != b->kind || a->flags != b->flags) return false;
    if (!(a->flags & NC_ATTR_HAS_DEFAULT)) return true;
    if (a->kind == NC_A_FLOAT) return a->f == b->f;
    return a->kind == NC_A_STRING ? strcmp(a->s, b->s) == 0 : a->i == b->i;
}

/* Newer versions are told how many parts of equal size there are; older ones count their outputs. */
static const char parts[] = "num_outputs";

static bool counts_parts(const nc_node *n, const nc_op_version *to) {
    bool sized = nc_attr_has(n, "split") || (n->n_in > 1 && n->in[1]);
    return spec_of(to, parts) && !spec_of(n->version, parts) && !sized;
}

/* What the node leaves unsaid means the same: no attribute got another default, or one that old nodes would have to
 * say. */
static bool same_unsaid(const nc_node *n, const nc_op_version *to) {
    for (const nc_attr_spec *b = to->attr; b && b->name; b++) {
        const nc_attr_spec *a = spec_of(n->version, b->name);
        if (nc_node_attr(n, b->name) || strcmp(b->name, parts) == 0) continue;
        if (a ? !same_default(a, b) : !(b->flags & NC_ATTR_HAS_DEFAULT) && b->kind == NC_A_INT) return false;
    }
    for (const nc_attr_spec *a = n->version->attr; a && a->name; a++)
        if (!nc_node_attr(n, a->name) && a->flags & NC_ATTR_HAS_DEFAULT && !spec_of(to, a->name)) return false;
    return true;
}

static bool can_be(const nc_node *n, const nc_op_version *to) {
    if (!to || to->removed || to->foreign || n->n_in > places(to->in) || n->n_out > places(to->out)) return false;
    if (!means_the_same(n, to)) return false;
    for (int i = 0; i < n->n_attrs; i++) {
        const nc_attr_spec *b = spec_of(to, n->attrs[i].name);
        if (b ? b->kind != n->attrs[i].kind : !is_moved(n, to, &n->attrs[i])) return false;
    }
    return same_unsaid(n, to);
}

static nc_code add_moved(nc_work *w, nc_node *n, const nc_attr *a) {
    const nc_type *t = n->in[0]->type;
    nc_value *v = a->kind == NC_A_INTS ? nc_edit_const_i64(n->graph, NULL, 1, a->n, a->ints)
                                       : nc_edit_const_scalar(n->graph, NULL, t ? t->elem : NC_FLOAT, (double)a->f);
    int at = new_place(n->version, a);
    NC_NEED(w, v);
    while (n->n_in <= at)
        if (nc_edit_add_in(n, NULL) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    nc_edit_set_in(n, at, v);
    return NC_OK;
}

/* n anew in the other version: its attributes that became inputs are constants. */
static nc_code made_newer(nc_work *w, nc_node *n, const nc_op_version *to) {
    const char **names = nc_arena_array(&w->scratch, (size_t)n->n_out + 1, sizeof *names);
    NC_NEED(w, names);
    for (int i = 0; i < n->n_out; i++) names[i] = n->out[i] ? n->out[i]->name : "";
    nc_node *made = nc_edit_node(n->graph, n, n->card, to, n->name, n->in, n->n_in, names, n->n_out);
    NC_NEED(w, made);
    made->stage = n->stage, made->random_id = n->random_id, made->recompute = n->recompute;
    for (int i = 0; i < n->n_attrs; i++) {
        const nc_attr *a = &n->attrs[i];
        if (!spec_of(to, a->name))
            NC_TRY(add_moved(w, made, a));
        else if (nc_edit_set_attr(made, a) != NC_OK)
            NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        made->out[i]->type = n->out[i]->type;
        nc_edit_replace(n->out[i], made->out[i]);
    }
    nc_edit_remove(n);
    return NC_OK;
}

/* Nodes that mean the same in the opset are of it; the others stay, and are saved as functions of their own opset. */
static nc_code raise_nodes(nc_work *w, nc_graph *g, int64_t opset) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(raise_nodes(w, n->subs[i].graph, opset));
        const nc_op_version *to = nc_build_is_onnx(n) ? nc_card_version(n->card, opset) : n->version;
        if (to == n->version || !can_be(n, to)) continue;
        bool moves = false;
        for (int i = 0; i < n->n_attrs; i++) moves |= !spec_of(to, n->attrs[i].name);
        if (counts_parts(n, to)) {
            const nc_attr count = {.name = parts, .kind = NC_A_INT, .i = n->n_out};
            if (nc_edit_set_attr(n, &count) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
        }
        if (!moves)
            n->version = to;
        else if (n->n_subs == 0)
            NC_TRY(made_newer(w, n, to));
    }
    return NC_OK;
}

static nc_code raise_to(nc_work *w, nc_model *m, int64_t wants) {
    if (wants <= nc_model_opset(m, "")) return NC_OK;
    NC_TRY(write_all_rows(w, m->main));
    NC_TRY(raise_nodes(w, m->main, wants));
    for (int i = 0; i < m->n_opsets; i++)
        if (!*m->opsets[i].domain || strcmp(m->opsets[i].domain, "ai.onnx") == 0) m->opsets[i].version = wants;
    return NC_OK;
}

static void drop_consts(nc_graph *g) {
    for (nc_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_subs; i++) drop_consts(n->subs[i].graph);
    nc_edit_drop_consts(g);
}

nc_code nc_train_standard(nc_work *w, nc_model *m) {
    enum { SEQUENCES_IN_LOOPS = 13 };
    bool tapes;
    NC_TRY(over_graph(w, m->main));
    NC_TRY(nc_train_standard_tapes(w, m->main, &tapes));
    drop_consts(m->main);
    int64_t wants = newest(m->main, false);
    return raise_to(w, m, tapes && wants < SEQUENCES_IN_LOOPS ? SEQUENCES_IN_LOOPS : wants);
}

nc_code nc_train_raise_control(nc_work *w, nc_model *m) { return raise_to(w, m, newest(m->main, true)); }
