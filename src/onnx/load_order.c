/* onnx/load_order.c: nodes that a file lists before what they use. ONNX wants them in order, and nearly all files have
 * them so; tools that edit graphs leave others behind. The loader asks before each node whether all names are known;
 * at the first that is not, the nodes from there on are sorted by what they use, keeping the file's order where it can
 * be kept. A graph inside a node uses what it does not define itself; an attribute that names values (nc_card's
 * names_values) uses them. A cycle is left as it stands: the loader then names what is not defined. */
#include "base/mem.h"
#include "onnx/limits.h"
#include "onnx/loader.h"

#include <string.h>

/* ---- the names that a node uses ---- */

/* The names of one graph inside the node that is being looked at: used there, they are no use of what is outside. */
typedef struct shade {
    const struct shade *up;
    nc_map names;
} shade;

/* Sees every name that the node uses from outside itself, those of graphs inside it included; stops when `see` answers
 * true. */
typedef struct walk {
    nc_arena arena;
    const nc_registry *registry;
    bool (*see)(void *ctx, nc_bytes name);
    void *ctx;
    bool failed; /* out of memory */
} walk;

static bool any_name(walk *w, nc_bytes node, int depth, const shade *up);

static bool sees(walk *w, nc_bytes name, const shade *s) {
    if (!name.n) return false;
    for (; s; s = s->up)
        if (nc_map_get_bytes(&s->names, name.p, name.n)) return false;
    return w->see(w->ctx, name);
}

/* The field `number` of a message, its last one. */
static nc_bytes bytes_of(nc_bytes message, uint32_t number) {
    nc_wire r;
    nc_field f;
    nc_bytes found = {0};
    nc_wire_init(&r, message);
    while (nc_wire_next(&r, &f))
        if (f.number == number && f.wire == NC_WIRE_BYTES) found = f.b;
    return found;
}

static void add_name(walk *w, shade *s, nc_bytes name) {
    if (name.n && !nc_map_put_bytes(&s->names, name.p, name.n, s)) w->failed = true;
}

/* What the graph defines: inputs, initializers, the outputs of its nodes. */
static void fill_shade(walk *w, shade *s, nc_bytes graph) {
    nc_wire r, in_node;
    nc_field f, o;
    nc_wire_init(&r, graph);
    while (nc_wire_next(&r, &f) && !w->failed) {
        if (f.wire != NC_WIRE_BYTES) continue;
        if (f.number == GraphProto_input) add_name(w, s, bytes_of(f.b, ValueInfoProto_name));
        if (f.number == GraphProto_initializer) add_name(w, s, bytes_of(f.b, TensorProto_name));
        if (f.number == GraphProto_sparse_initializer)
            add_name(w, s, bytes_of(bytes_of(f.b, SparseTensorProto_values), TensorProto_name));
        if (f.number != GraphProto_node) continue;
        nc_wire_init(&in_node, f.b);
        while (nc_wire_next(&in_node, &o))
            if (o.number == NodeProto_output && o.wire == NC_WIRE_BYTES) add_name(w, s, o.b);
    }
}

static bool any_in_graph(walk *w, nc_bytes graph, int depth, const shade *up) {
    shade s = {.up = up};
    nc_wire r;
    nc_field f;
    nc_map_init(&s.names, &w->arena);
    fill_shade(w, &s, graph);
    nc_wire_init(&r, graph);
    while (nc_wire_next(&r, &f) && !w->failed) {
        if (f.wire != NC_WIRE_BYTES) continue;
        if (f.number == GraphProto_node && any_name(w, f.b, depth + 1, &s)) return true;
        /* what a branch gives may be a value of the graph around it */
        if (f.number == GraphProto_output && sees(w, bytes_of(f.b, ValueInfoProto_name), &s)) return true;
    }
    return false;
}

static bool copy_text(nc_bytes b, char *to, size_t bytes) {
    if (b.n >= bytes) return false;
    if (b.n) memcpy(to, b.p, b.n);
    to[b.n] = '\0';
    return true;
}

/* Does the attribute of the node name values? */
static bool names_values(const walk *w, nc_bytes node, nc_bytes attribute) {
    char op[64], domain[64], name[64];
    const nc_card *card = NULL;
    if (!copy_text(bytes_of(node, NodeProto_op_type), op, sizeof op) ||
        !copy_text(bytes_of(node, NodeProto_domain), domain, sizeof domain) ||
        !copy_text(bytes_of(attribute, AttributeProto_name), name, sizeof name))
        return false;
    for (const nc_registry *r = w->registry; r && !card; r = r->base) card = r->find(r, domain, op);
    for (const char *const *at = card ? card->names_values : NULL; at && *at; at++)
        if (strcmp(*at, name) == 0) return true;
    return false;
}

/* Whether its texts name values is asked once, at the first: a forest has a text for each of a million nodes. */
static bool any_in_attribute(walk *w, nc_bytes node, nc_bytes attribute, int depth, const shade *up) {
    enum { NOT_ASKED, NO, YES } names = NOT_ASKED;
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, attribute);
    while (nc_wire_next(&r, &f)) {
        if (f.wire != NC_WIRE_BYTES) continue;
        bool graph = f.number == AttributeProto_g || f.number == AttributeProto_graphs;
        bool text = f.number == AttributeProto_s || f.number == AttributeProto_strings;
        if (graph && any_in_graph(w, f.b, depth, up)) return true;
        if (text && names == NOT_ASKED) names = names_values(w, node, attribute) ? YES : NO;
        if (text && names == YES && sees(w, f.b, up)) return true;
    }
    return false;
}

static bool any_name(walk *w, nc_bytes node, int depth, const shade *up) {
    nc_wire r;
    nc_field f;
    if (depth > NC_ONNX_MAX_DEPTH) return false;
    nc_wire_init(&r, node);
    while (nc_wire_next(&r, &f)) {
        if (f.wire != NC_WIRE_BYTES) continue;
        if (f.number == NodeProto_input && sees(w, f.b, up)) return true;
        if (f.number == NodeProto_attribute && any_in_attribute(w, node, f.b, depth, up)) return true;
    }
    return false;
}

static bool is_unknown(void *scope, nc_bytes name) {
    for (const nc_scope *s = scope; s; s = s->up) {
        if (nc_map_get_bytes(&s->names, name.p, name.n)) return false;
        if (nc_scope_hides(s, name)) break;
    }
    return true;
}

nc_code nc_load_node_waits(nc_loader *l, const nc_scope *s, nc_bytes node, bool *out) {
    walk k = {.registry = l->m->registry, .see = is_unknown, .ctx = (void *)(uintptr_t)s};
    *out = any_name(&k, node, 0, NULL);
    nc_arena_release(&k.arena);
    return k.failed ? nc_fail(l->w, NC_E_MEMORY, "out of memory") : NC_OK;
}

/* ---- the rest, sorted ---- */

typedef struct sorter {
    nc_arena arena;
    const nc_registry *registry;
    nc_bytes *nodes;
    int n;
    nc_map makers; /* name -> which node, from 1 */
    enum { UNSEEN, OPEN, DONE } * state;
    NC_VEC(int) stack;
    bool failed;
} sorter;

static bool note_makers(sorter *s) {
    for (int i = 0; i < s->n; i++) {
        nc_wire r;
        nc_field f;
        nc_wire_init(&r, s->nodes[i]);
        while (nc_wire_next(&r, &f))
            if (f.number == NodeProto_output && f.wire == NC_WIRE_BYTES && f.b.n &&
                !nc_map_get_bytes(&s->makers, f.b.p, f.b.n) &&
                !nc_map_put_bytes(&s->makers, f.b.p, f.b.n, (void *)(intptr_t)(i + 1)))
                return false;
    }
    return true;
}

static bool push_maker(void *ctx, nc_bytes name) {
    sorter *s = ctx;
    int i = (int)(intptr_t)nc_map_get_bytes(&s->makers, name.p, name.n) - 1;
    if (i >= 0 && s->state[i] == UNSEEN) s->failed |= !NC_PUSH(&s->arena, s->stack, i);
    return s->failed;
}

static void push_makers(sorter *s, int i) {
    walk w = {.registry = s->registry, .see = push_maker, .ctx = s};
    any_name(&w, s->nodes[i], 0, NULL);
    s->failed |= w.failed;
    nc_arena_release(&w.arena);
}

static void turn_round(int *v, int n) {
    for (int i = 0; i < n / 2; i++) {
        int t = v[i];
        v[i] = v[n - 1 - i], v[n - 1 - i] = t;
    }
}

/* Depth first, in the file's order, without recursion: a chain may be as long as the file. */
static void sort(sorter *s, nc_bytes *out) {
    int n_out = 0;
    for (int i = 0; i < s->n && !s->failed; i++) {
        s->failed |= !NC_PUSH(&s->arena, s->stack, i);
        while (s->stack.n && !s->failed) {
            int top = s->stack.v[s->stack.n - 1], before = s->stack.n;
            if (s->state[top] == UNSEEN) {
                s->state[top] = OPEN;
                push_makers(s, top);
                turn_round(s->stack.v + before, s->stack.n - before);
                continue;
            }
            if (s->state[top] == OPEN) out[n_out++] = s->nodes[top];
            s->state[top] = DONE;
            s->stack.n--;
        }
    }
}

nc_code nc_load_sort(nc_loader *l, nc_bytes *nodes, int n) {
    sorter s = {.registry = l->m->registry, .nodes = nodes, .n = n};
    nc_map_init(&s.makers, &s.arena);
    s.state = nc_arena_array(&s.arena, (size_t)n + 1, sizeof *s.state);
    nc_bytes *out = nc_arena_array(&s.arena, (size_t)n + 1, sizeof *out);
    s.failed = !s.state || !out || !note_makers(&s);
    if (!s.failed) sort(&s, out);
    if (!s.failed) memcpy(nodes, out, (size_t)n * sizeof *out);
    nc_arena_release(&s.arena);
    return s.failed ? nc_fail(l->w, NC_E_MEMORY, "out of memory") : NC_OK;
}
