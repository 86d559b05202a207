/* train/standard_tapes.c: the tapes of gradients through control flow as sequences, which ONNX can say. A tape becomes
 * one sequence for each place of its records and type found there: a push inserts at the ends, a pop takes the last
 * elements, a tape that a Loop carries or an If gives is that many values there. Tapes that are used together (carried,
 * captured, pushed on) have the same places; the first of a tape's sequences keeps the tape's own place in the node.
 * A tape on a tape would be a sequence of sequences: refused. */
#include "base/map.h"
#include "infer/infer.h"
#include "ops/build.h"
#include "train/train.h"

#include <string.h>

extern const nc_card nc_card_tape_empty, nc_card_tape_push, nc_card_tape_pop, nc_card_tape_length, nc_card_loop,
    nc_card_if;

/* Where in a record, and of which type. */
typedef struct place {
    int i;
    nc_dtype elem;
} place;

/* A tape; those of one group hang below one of them (up NULL), which has the places. */
typedef struct tape {
    nc_value *v;
    struct tape *up;
    NC_VEC(place) places;
    nc_value **seq; /* per place, once it is there */
} tape;

typedef struct turner {
    nc_work *w;
    nc_map tapes; /* nc_value * -> tape */
} turner;

static bool is_tape(const nc_value *v) { return v != NULL && v->type != NULL && v->type->kind == NC_T_TAPE; }

/* ---- groups and places ---- */

static tape *tape_of(turner *t, nc_value *v) {
    tape *found = nc_map_get_bytes(&t->tapes, &v, sizeof v);
    if (found != NULL) return found;
    nc_value **key = nc_arena_copy(&t->w->scratch, &v, sizeof v);
    found = nc_arena_alloc(&t->w->scratch, sizeof *found);
    if (key == NULL || found == NULL) return NULL;
    *found = (tape){.v = v};
    return nc_map_put_bytes(&t->tapes, key, sizeof *key, found) ? found : NULL;
}

static tape *head_of(tape *a) {
    while (a->up != NULL) a = a->up;
    return a;
}

static nc_code add_place(turner *t, tape *head, place p) {
    for (int i = 0; i < head->places.n; i++)
        if (head->places.v[i].i == p.i && head->places.v[i].elem == p.elem) return NC_OK;
    if (!NC_PUSH(&t->w->scratch, head->places, p)) NC_FAIL(t->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* a and b are used together. */
static nc_code join(turner *t, nc_value *a, nc_value *b) {
    if (!is_tape(a) || !is_tape(b)) return NC_OK;
    tape *x = tape_of(t, a), *y = tape_of(t, b);
    NC_NEED(t->w, x);
    NC_NEED(t->w, y);
    x = head_of(x), y = head_of(y);
    if (x == y) return NC_OK;
    for (int i = 0; i < y->places.n; i++) NC_TRY(add_place(t, x, y->places.v[i]));
    y->up = x;
    return NC_OK;
}

static nc_code add_record(turner *t, nc_value *v, nc_value *const *values, int n) {
    tape *a = tape_of(t, v);
    NC_NEED(t->w, a);
    for (int i = 0; i < n; i++) {
        const nc_type *type = values[i] != NULL ? values[i]->type : NULL;
        if (values[i] == NULL) continue;
        if (type == NULL || type->kind != NC_T_TENSOR)
            NC_FAIL(t->w, NC_E_UNSUPPORTED,
                    "a gradient of control flow keeps '%s', which is no tensor, for a backward pass: ONNX's ops cannot "
                    "say that, the model runs here alone",
                    values[i]->name);
        NC_TRY(add_place(t, head_of(a), (place){i, type->elem}));
    }
    return NC_OK;
}

static nc_code join_flow(turner *t, nc_node *n) {
    for (int s = 0; s < n->n_subs; s++) {
        const nc_sub *sub = &n->subs[s];
        for (int k = 0; k < sub->n_captures; k++)
            NC_TRY(join(t, n->in[sub->first_capture + k], sub->graph->captures.v[k]));
        int lead = n->card == &nc_card_loop;
        for (int i = 0; i < n->n_out && i + lead < sub->graph->outputs.n; i++)
            NC_TRY(join(t, n->out[i], sub->graph->outputs.v[i + lead]));
        for (int i = 2; lead && i < n->n_in; i++) {
            NC_TRY(join(t, n->in[i], sub->graph->inputs.v[i]));
            NC_TRY(join(t, n->in[i], n->out[i - 2]));
        }
    }
    return NC_OK;
}

static nc_code survey(turner *t, nc_graph *g) {
    for (nc_node *n = g->first; n != NULL; n = n->next) {
        bool pushes = n->card == &nc_card_tape_push, pops = n->card == &nc_card_tape_pop;
        if (pushes || pops) NC_TRY(join(t, n->in[0], n->out[0]));
        if (pushes) NC_TRY(add_record(t, n->out[0], n->in + 1, n->n_in - 1));
        if (pops) NC_TRY(add_record(t, n->in[0], n->out + 1, n->n_out - 1));
        if (n->n_subs > 0) NC_TRY(join_flow(t, n));
        for (int s = 0; s < n->n_subs; s++) NC_TRY(survey(t, n->subs[s].graph));
    }
    return NC_OK;
}

/* ---- sequences in their place ---- */

/* Also one that is a sequence by now. */
static bool was_tape(const turner *t, const nc_value *v) {
    return v != NULL && nc_map_get_bytes(&t->tapes, &v, sizeof v) != NULL;
}

static nc_builder builder_at(turner *t, nc_node *n) {
    return (nc_builder){.w = t->w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node};
}

static const nc_type *type_of(const nc_value *v, place p) {
    nc_arena *a = &v->graph->model->arena;
    const nc_type *of = nc_type_tensor(a, p.elem, -1, NULL);
    return of != NULL ? nc_type_holding(a, NC_T_SEQUENCE, of) : NULL;
}

/* The places of v's group; a group whose records are empty has one, to count them by. */
static nc_code places_of(turner *t, nc_value *v, tape **own, tape **head) {
    *own = tape_of(t, v);
    NC_NEED(t->w, *own);
    *head = head_of(*own);
    if ((*head)->places.n == 0) NC_TRY(add_place(t, *head, (place){-1, NC_INT64}));
    if ((*own)->seq != NULL) return NC_OK;
    (*own)->seq = nc_arena_array(&t->w->scratch, (size_t)(*head)->places.n, sizeof(nc_value *));
    NC_NEED(t->w, (*own)->seq);
    return NC_OK;
}

/* Sequence k of v, which may be captured. */
static nc_code sequence(turner *t, nc_value *v, int k, nc_value **out) {
    tape *own, *head;
    NC_TRY(places_of(t, v, &own, &head));
    if (own->seq[k] == NULL && v->origin == NC_FROM_CAPTURE) {
        const nc_node *owner = v->graph->owner;
        for (int s = 0; s < owner->n_subs; s++)
            for (int c = 0; owner->subs[s].graph == v->graph && c < owner->subs[s].n_captures; c++) {
                nc_value *outer;
                if (v->graph->captures.v[c] != v) continue;
                NC_TRY(sequence(t, owner->in[owner->subs[s].first_capture + c], k, &outer));
                NC_NEED(t->w, own->seq[k] = nc_edit_reach(v->graph, outer));
                own->seq[k]->type = outer->type; /* of the first this is v itself */
                break;
            }
    }
    if (own->seq[k] == NULL) NC_FAIL(t->w, NC_E_FAIL, "a tape '%s' that nobody made", v->name);
    *out = own->seq[k];
    return NC_OK;
}

static nc_code make_empty(turner *t, nc_node *n) {
    nc_builder b = builder_at(t, n);
    tape *own, *head;
    NC_TRY(places_of(t, n->out[0], &own, &head));
    for (int k = 0; k < head->places.n; k++) {
        const nc_attr type = {.name = "dtype", .kind = NC_A_INT, .i = (int64_t)head->places.v[k].elem};
        own->seq[k] = nc_build_attr1(&b, "", "SequenceEmpty", NULL, 0, &type, 1);
    }
    return b.code;
}

static nc_code push(turner *t, nc_node *n) {
    nc_builder b = builder_at(t, n);
    tape *own, *head;
    NC_TRY(places_of(t, n->out[0], &own, &head));
    for (int k = 0; k < head->places.n; k++) {
        place p = head->places.v[k];
        nc_value *from, *v = p.i >= 0 && p.i + 1 < n->n_in ? n->in[p.i + 1] : NULL;
        NC_TRY(sequence(t, n->in[0], k, &from));
        if (p.i < 0) v = nc_build_int(&b, 0);
        own->seq[k] = v != NULL && v->type->elem == p.elem ? nc_build1(&b, "SequenceInsert", 2, from, v) : from;
    }
    return b.code;
}

static nc_code pop(turner *t, nc_node *n) {
    nc_builder b = builder_at(t, n);
    tape *own, *head;
    NC_TRY(places_of(t, n->out[0], &own, &head));
    nc_value *last = nc_build_int(&b, -1);
    for (int k = 0; k < head->places.n; k++) {
        place p = head->places.v[k];
        nc_value *from, *v = p.i >= 0 && p.i + 1 < n->n_out ? n->out[p.i + 1] : NULL;
        NC_TRY(sequence(t, n->in[0], k, &from));
        bool here = p.i < 0 || (v != NULL && v->type->elem == p.elem);
        own->seq[k] = here ? nc_build1(&b, "SequenceErase", 2, from, last) : from;
        if (v == NULL || !here) continue;
        nc_value *at = nc_build1(&b, "SequenceAt", 2, from, last);
        NC_TRY(b.code);
        at->type = v->type;
        nc_edit_replace(v, at);
    }
    return b.code;
}

static nc_code length(turner *t, nc_node *n) {
    nc_builder b = builder_at(t, n);
    nc_value *from;
    NC_TRY(sequence(t, n->in[0], 0, &from));
    nc_value *count = nc_build1(&b, "SequenceLength", 1, from);
    NC_TRY(b.code);
    nc_edit_replace(n->out[0], count);
    return NC_OK;
}

/* v, a tape that an input or output of a node is, as its first sequence. */
static nc_code retype(turner *t, nc_value *v, tape **own, tape **head) {
    NC_TRY(places_of(t, v, own, head));
    const nc_type *type = type_of(v, (*head)->places.v[0]);
    NC_NEED(t->w, type);
    (*own)->seq[0] = v;
    v->type = type;
    return NC_OK;
}

static nc_code turn(turner *t, nc_graph *g);

/* Carried value i of a Loop: its operand and what its body starts with, before the body; the rest behind it. */
static nc_code carry_in(turner *t, nc_node *n, nc_graph *body, int i) {
    tape *own, *head;
    nc_value *v = body->inputs.v[2 + i], *outer = n->in[2 + i], *from;
    NC_TRY(sequence(t, outer, 0, &from));
    nc_edit_set_in(n, 2 + i, from);
    NC_TRY(retype(t, v, &own, &head));
    for (int k = 1; k < head->places.n; k++) {
        NC_TRY(sequence(t, outer, k, &from));
        if (nc_edit_add_in(n, from) != NC_OK) NC_FAIL(t->w, NC_E_MEMORY, "out of memory");
        NC_NEED(t->w, own->seq[k] = nc_edit_input(body, "kept", type_of(v, head->places.v[k])));
    }
    return NC_OK;
}

/* at: where further carried values go. */
static nc_code give_out(turner *t, nc_node *n, int i, int lead, int *at) {
    tape *own, *head;
    nc_value *from;
    NC_TRY(retype(t, n->out[i], &own, &head));
    for (int k = 0; k < head->places.n; k++) {
        if (k > 0) {
            NC_NEED(t->w, own->seq[k] = nc_edit_insert_out(n, *at, NULL));
            own->seq[k]->type = type_of(n->out[i], head->places.v[k]);
            NC_NEED(t->w, own->seq[k]->type);
        }
        for (int s = 0; s < n->n_subs; s++) {
            nc_graph *sub = n->subs[s].graph;
            nc_value *v = sub->outputs.v[i + lead];
            NC_TRY(sequence(t, v, k, &from));
            if (k > 0 && nc_edit_insert_output(sub, *at + lead, from, NULL) != NC_OK)
                NC_FAIL(t->w, NC_E_MEMORY, "out of memory");
        }
        if (k > 0) ++*at;
    }
    for (int s = 0; s < n->n_subs; s++) {
        NC_TRY(sequence(t, n->subs[s].graph->outputs.v[i + lead], 0, &from));
        nc_edit_set_output(n->subs[s].graph, i + lead, from);
    }
    return NC_OK;
}

static nc_code control(turner *t, nc_node *n) {
    int lead = n->card == &nc_card_loop, n_carried = lead ? n->n_in - 2 : n->n_out, n_out = n->n_out;
    int at = n_carried;
    for (int i = 0; lead && i < n_carried; i++)
        if (was_tape(t, n->in[2 + i])) NC_TRY(carry_in(t, n, n->subs[0].graph, i));
    for (int s = 0; s < n->n_subs; s++) NC_TRY(turn(t, n->subs[s].graph));
    for (int i = 0; i < n_carried && i < n_out; i++)
        if (was_tape(t, n->out[i])) NC_TRY(give_out(t, n, i, lead, &at));
    return NC_OK;
}

static nc_code turn_node(turner *t, nc_node *n) {
    if (n->card == &nc_card_tape_empty) return make_empty(t, n);
    if (n->card == &nc_card_tape_push) return push(t, n);
    if (n->card == &nc_card_tape_pop) return pop(t, n);
    if (n->card == &nc_card_tape_length) return length(t, n);
    return n->n_subs > 0 ? control(t, n) : NC_OK;
}

bool nc_train_is_of_tapes(const nc_node *n) {
    return n->card == &nc_card_tape_empty || n->card == &nc_card_tape_push || n->card == &nc_card_tape_pop ||
           n->card == &nc_card_tape_length;
}

static nc_code turn(turner *t, nc_graph *g) {
    for (nc_node *n = g->first; n != NULL; n = n->next) NC_TRY(turn_node(t, n));
    return NC_OK;
}

/* Tapes go last, from the end: what used them was turned before. */
static void drop(nc_graph *g) {
    for (nc_node *n = g->last, *before; n != NULL; n = before) {
        before = n->prev;
        for (int s = 0; s < n->n_subs; s++) {
            drop(n->subs[s].graph);
            for (int k = n->subs[s].n_captures - 1; k >= 0; k--)
                if (is_tape(n->subs[s].graph->captures.v[k])) nc_edit_remove_capture(n, s, k);
        }
        if (nc_train_is_of_tapes(n)) nc_edit_remove(n);
    }
}

static bool has_tapes(const nc_graph *g) {
    for (const nc_node *n = g->first; n != NULL; n = n->next) {
        if (nc_train_is_of_tapes(n)) return true;
        for (int s = 0; s < n->n_subs; s++)
            if (has_tapes(n->subs[s].graph)) return true;
    }
    return false;
}

nc_code nc_train_standard_tapes(nc_work *w, nc_graph *g, bool *any) {
    turner t = {.w = w};
    *any = has_tapes(g);
    if (!*any) return NC_OK;
    nc_map_init(&t.tapes, &w->scratch);
    NC_TRY(survey(&t, g));
    NC_TRY(turn(&t, g));
    drop(g);
    return NC_OK;
}
