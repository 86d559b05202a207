/* onnx/load_order.c: nodes that a file lists before what they use. ONNX wants them in order, and nearly all files have
 * them so; tools that edit graphs leave others behind. The loader asks before each node whether all names are known;
 * at the first that is not, the nodes from there on are sorted by what they use, keeping the file's order where it can
 * be kept. A cycle is left as it stands: the loader then names what is not defined. */
#include "base/mem.h"
#include "onnx/limits.h"
#include "onnx/loader.h"

#include <string.h>

static bool is_known(const nc_scope *s, nc_bytes name) {
    for (; s; s = s->up)
        if (nc_map_get_bytes(&s->names, name.p, name.n)) return true;
    return false;
}

/* Calls see for every name that the node uses, graphs inside it included; stops when that answers true. */
typedef bool (*seer)(void *ctx, nc_bytes name);
static bool any_name(nc_bytes node, int depth, seer see, void *ctx);

static nc_bytes name_of(nc_bytes value_info) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, value_info);
    while (nc_wire_next(&r, &f))
        if (f.number == ValueInfoProto_name && f.wire == NC_WIRE_BYTES) return f.b;
    return (nc_bytes){0};
}

static bool any_in_graph(nc_bytes graph, int depth, seer see, void *ctx) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, graph);
    while (nc_wire_next(&r, &f)) {
        if (f.wire != NC_WIRE_BYTES) continue;
        if (f.number == GraphProto_node && any_name(f.b, depth + 1, see, ctx)) return true;
        /* what a branch gives may be a value of the graph around it */
        if (f.number == GraphProto_output && see(ctx, name_of(f.b))) return true;
    }
    return false;
}

static bool any_in_attribute(nc_bytes attribute, int depth, seer see, void *ctx) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, attribute);
    while (nc_wire_next(&r, &f))
        if (f.wire == NC_WIRE_BYTES && (f.number == AttributeProto_g || f.number == AttributeProto_graphs) &&
            any_in_graph(f.b, depth, see, ctx))
            return true;
    return false;
}

static bool any_name(nc_bytes node, int depth, seer see, void *ctx) {
    nc_wire r;
    nc_field f;
    if (depth > NC_ONNX_MAX_DEPTH) return false;
    nc_wire_init(&r, node);
    while (nc_wire_next(&r, &f)) {
        if (f.wire != NC_WIRE_BYTES) continue;
        if (f.number == NodeProto_input && see(ctx, f.b)) return true;
        if (f.number == NodeProto_attribute && any_in_attribute(f.b, depth, see, ctx)) return true;
    }
    return false;
}

static bool is_unknown(void *scope, nc_bytes name) { return name.n && !is_known(scope, name); }

bool nc_load_node_waits(const nc_scope *s, nc_bytes node) {
    return any_name(node, 0, is_unknown, (void *)(uintptr_t)s);
}

/* ---- the rest, sorted ---- */

typedef struct sorter {
    nc_arena arena;
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
    int i = name.n ? (int)(intptr_t)nc_map_get_bytes(&s->makers, name.p, name.n) - 1 : -1;
    if (i >= 0 && s->state[i] == UNSEEN) s->failed |= !NC_PUSH(&s->arena, s->stack, i);
    return s->failed;
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
                any_name(s->nodes[top], 0, push_maker, s);
                turn_round(s->stack.v + before, s->stack.n - before);
                continue;
            }
            if (s->state[top] == OPEN) out[n_out++] = s->nodes[top];
            s->state[top] = DONE;
            s->stack.n--;
        }
    }
}

nc_code nc_load_sort(nc_work *w, nc_bytes *nodes, int n) {
    sorter s = {.nodes = nodes, .n = n};
    nc_map_init(&s.makers, &s.arena);
    s.state = nc_arena_array(&s.arena, (size_t)n + 1, sizeof *s.state);
    nc_bytes *out = nc_arena_array(&s.arena, (size_t)n + 1, sizeof *out);
    s.failed = !s.state || !out || !note_makers(&s);
    if (!s.failed) sort(&s, out);
    if (!s.failed) memcpy(nodes, out, (size_t)n * sizeof *out);
    nc_arena_release(&s.arena);
    return s.failed ? nc_fail(w, NC_E_MEMORY, "out of memory") : NC_OK;
}
