/* plan/check_program.c: the promises of plan/check_program.h, each found out anew.
 *
 * What is done when: the host issues instructions in order and does its own at once; a device does those of one stream
 * in order; an event makes whoever waits for it know what its recorder had done and knew; whatever the host has waited
 * for, every later instruction knows; where host streams overlap, the executor's own rule (all_done_before). From this
 * `before[i]` follows: per stream, the newest instruction that is surely
 * done when instruction i starts.
 *
 * What a memory holds: every root has versions. A result that is laid over an operand, or a new value of a variable,
 * makes the next one; a slot names the version that it was made with, and a view that of the slot below. A read is
 * right if the slot's version is still the newest, and its writer surely done; a write is right if all readers and the
 * writer of the version before are surely done. */
#include "plan/check_program.h"

#include "plan/plan.h"

#include <string.h>

/* Where a slot of the instance's segment lies. */
static void block_at(const nc_program *p, const nc_instance *x, int slot, size_t *offset, size_t *bytes) {
    *offset = x->offset[p->slots[slot].block], *bytes = x->bytes[p->slots[slot].block];
}

typedef struct memory {
    int version, writer; /* writer: instruction, -1: before the program */
    int first;           /* instruction that touches it first; -1: none */
    int *last;           /* per stream: the last instruction that touches its bytes; -1: none */
} memory;

typedef struct checker {
    nc_work *w;
    const nc_program *p;
    int *before;     /* (instructions, streams) */
    int *host;       /* (instructions, streams): what the host knows when it issues one */
    memory *mem;     /* per root */
    int *version_of; /* per slot */
    int at;          /* the instruction at hand */
} checker;

#define BROKEN(c, ...) return broken((c), nc_fail((c)->w, NC_E_FAIL, __VA_ARGS__))

static nc_code broken(const checker *c, nc_code code) {
    const nc_node *n = c->p->instrs[c->at].node;
    c->w->at_node = n->name, c->w->at_op = n->card->name;
    return code;
}

static const char *name_of(const nc_program *p, int slot) {
    return p->slots[slot].value ? p->slots[slot].value->name : "workspace";
}

/* ---- what is done when ---- */

static int *row(const checker *c, int *of, int i) { return of + (size_t)i * (size_t)c->p->n_streams; }

static void join(const checker *c, int *into, const int *from) {
    for (int s = 0; s < c->p->n_streams; s++)
        if (from[s] > into[s]) into[s] = from[s];
}

static int recorder_of(const nc_program *p, int event, int before) {
    for (int i = before - 1; i >= 0; i--)
        if (p->instrs[i].record == event) return i;
    return -1;
}

/* Where a segment ends, the host waits for the streams that found its sizes; after control flow it waits for all. */
static void host_waits(const checker *c, int i, int *knows) {
    const nc_program *p = c->p;
    const nc_segment *g = &p->segs[p->instrs[i].seg];
    for (int j = g->first; i + 1 == g->end && j <= i; j++)
        if (p->instrs[j].sizes >= 0) join(c, knows, row(c, knows, p->instrs[j].stream));
    for (int s = 1; p->instrs[i].subs && s < p->n_streams; s++) join(c, knows, row(c, knows, s));
}

/* In a program that overlaps, runs of instructions that stand beside each other start when all before them is done, and
 * end when all of them are; the others run one by one. */
static bool all_done_before(const nc_program *p, int i) {
    const nc_instr *x = &p->instrs[i];
    return i == p->segs[x->seg].first || !x->beside || !p->instrs[i - 1].beside;
}

static nc_code find_before(checker *c) {
    const nc_program *p = c->p;
    size_t n = (size_t)p->n_streams;
    int *knows = nc_arena_array(&c->w->scratch, n * n, sizeof *knows); /* row s: what the newest of stream s knows */
    NC_NEED(c->w, knows);
    NC_NEED(c->w, c->before = nc_arena_array(&c->w->scratch, (size_t)p->n_instrs * n + 1, sizeof *c->before));
    NC_NEED(c->w, c->host = nc_arena_array(&c->w->scratch, (size_t)p->n_instrs * n + 1, sizeof *c->host));
    memset(knows, -1, n * n * sizeof *knows);
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        int *own = row(c, c->before, i), *stream = row(c, knows, x->stream);
        c->at = i;
        if (p->overlaps && all_done_before(p, i))
            for (size_t k = 0; k < n * n; k++) knows[k] = i - 1;
        memcpy(own, stream, n * sizeof *own);
        if (!p->overlaps) join(c, own, knows); /* row 0 is the host's */
        for (int k = 0; k < x->n_wait; k++) {
            int y = recorder_of(p, x->wait[k], i);
            if (y < 0) BROKEN(c, "waits for event %d, which nothing before it records", x->wait[k]);
            join(c, own, row(c, c->before, y));
            if (y > own[p->instrs[y].stream]) own[p->instrs[y].stream] = y;
            if (k < x->n_host_wait) join(c, knows, own);
        }
        memcpy(row(c, c->host, i), knows, n * sizeof *own);
        memcpy(stream, own, n * sizeof *own);
        stream[x->stream] = i;
        host_waits(c, i, knows);
    }
    return NC_OK;
}

/* Is instruction y surely done when i starts? */
static bool is_done(const checker *c, int y, int i) {
    const nc_program *p = c->p;
    if (y < 0) return true;
    int stream = p->instrs[y].stream;
    return y < i && (stream == p->instrs[i].stream || row(c, c->before, i)[stream] >= y);
}

/* A device's kernel is given the contents of operands on the host when it is issued. */
static bool is_read_too_early(const checker *c, const memory *m, int slot) {
    const nc_program *p = c->p;
    const nc_instr *x = &p->instrs[c->at];
    if (p->overlaps || !x->stream || !x->binding->run || p->slots[slot].place || m->writer < 0) return false;
    int stream = p->instrs[m->writer].stream;
    return stream && row(c, c->host, c->at)[stream] < m->writer;
}

/* ---- what a memory holds ---- */

static bool reads_bytes(const nc_instr *x, int j) {
    return x->in[j] >= 0 && !(j < 32 && (x->dims_only >> j & 1)) && !(x->binding->kind == NC_K_VIEW && j == 0);
}

static memory *memory_of(const checker *c, int slot) { return &c->mem[c->p->slots[slot].root]; }

static void touch(const checker *c, int slot) {
    memory *m = memory_of(c, slot);
    if (m->first < 0) m->first = c->at;
    m->last[c->p->instrs[c->at].stream] = c->at;
}

/* The planner reuses memory by the lives it noted: they must hold every touch. */
static nc_code check_life(const checker *c, int slot) {
    const nc_slot *root = &c->p->slots[c->p->slots[slot].root];
    if (root->storage != NC_S_ARENA) return NC_OK;
    if (c->at < root->first || c->at > root->last)
        BROKEN(c, "'%s' is used here, but its memory lives in instructions %d..%d", name_of(c->p, slot), root->first,
               root->last);
    if (root->last_on[c->p->instrs[c->at].stream] < c->at)
        BROKEN(c, "'%s' is used here, but its stream is done with it at %d", name_of(c->p, slot),
               root->last_on[c->p->instrs[c->at].stream]);
    return NC_OK;
}

static nc_code check_read(const checker *c, int slot) {
    const memory *m = memory_of(c, slot);
    if (c->version_of[slot] != m->version)
        BROKEN(c, "reads '%s', which instruction %d has overwritten", name_of(c->p, slot), m->writer);
    if (!is_done(c, m->writer, c->at))
        BROKEN(c, "reads '%s' and does not wait for instruction %d, which writes it", name_of(c->p, slot), m->writer);
    if (is_read_too_early(c, m, slot))
        BROKEN(c, "is issued before the host has waited for '%s' of instruction %d", name_of(c->p, slot), m->writer);
    return check_life(c, slot);
}

static nc_code check_write(const checker *c, int slot) {
    memory *m = memory_of(c, slot);
    for (int s = 0; s < c->p->n_streams; s++)
        if (m->last[s] != c->at && !is_done(c, m->last[s], c->at))
            BROKEN(c, "writes '%s' and does not wait for instruction %d, which uses that memory", name_of(c->p, slot),
                   m->last[s]);
    c->version_of[slot] = ++m->version;
    m->writer = c->at;
    return check_life(c, slot);
}

/* ---- results over operands ---- */

static bool same_bytes(const nc_slot *a, const nc_slot *b) {
    if (a->rank != b->rank || a->rank < 0 || a->place != b->place || !a->dense || !b->dense) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d]) return false;
    return nc_dtype_bits(a->dtype) == nc_dtype_bits(b->dtype);
}

static nc_code check_alias(const checker *c, int o) {
    const nc_program *p = c->p;
    const nc_instr *x = &p->instrs[c->at];
    const nc_slot *out = &p->slots[x->out[o]];
    const char *name = name_of(p, x->out[o]);
    bool found = false;
    for (int j = 0; j < x->n_in; j++) {
        if (x->in[j] < 0 || p->slots[x->in[j]].root != out->root) continue;
        if (nc_slot_beneath(p, x->in[j]) != out->of)
            BROKEN(c, "'%s' lies over memory that operand %d reads otherwise", name, j);
        if (!same_bytes(out, &p->slots[x->in[j]]))
            BROKEN(c, "'%s' lies over '%s' of other bytes", name, name_of(p, out->of));
        if (!nc_may_lie_over(nc_choice_of(x->node), o, j))
            BROKEN(c, "'%s' lies over operand %d, which the kernel does not allow", name, j);
        found = true;
    }
    if (!found) BROKEN(c, "'%s' lies over '%s', which is no operand here", name, name_of(p, out->of));
    for (int k = 0; k < x->n_out; k++)
        if (k != o && x->out[k] >= 0 && p->slots[x->out[k]].root == out->root)
            BROKEN(c, "'%s' and result %d lie over the same memory", name, k);
    return NC_OK;
}

/* A view names the version of what it stands on, and stands where that stands. */
static nc_code check_view(const checker *c, int slot) {
    const nc_slot *s = &c->p->slots[slot], *of = &c->p->slots[s->of];
    if (s->root != of->root || s->place != of->place)
        BROKEN(c, "the view '%s' has another memory or place than '%s'", name_of(c->p, slot), name_of(c->p, s->of));
    c->version_of[slot] = c->version_of[s->of];
    return NC_OK;
}

static nc_code check_result(const checker *c, int o) {
    const nc_instr *x = &c->p->instrs[c->at];
    int slot = x->out[o];
    nc_storage storage = c->p->slots[slot].storage;
    if (storage == NC_S_VIEW) return check_view(c, slot);
    if (storage == NC_S_OBJECT || storage == NC_S_NONE) return NC_OK;
    if (storage == NC_S_ALIAS) NC_TRY(check_alias(c, o));
    return check_write(c, slot);
}

static nc_code check_instr(const checker *c) {
    const nc_instr *x = &c->p->instrs[c->at];
    for (int j = 0; j < x->n_in; j++)
        if (reads_bytes(x, j)) NC_TRY(check_read(c, x->in[j]));
    for (int j = 0; j < x->n_in; j++)
        if (reads_bytes(x, j)) touch(c, x->in[j]);
    for (int o = 0; o < x->n_out; o++)
        if (x->out[o] >= 0) NC_TRY(check_result(c, o));
    for (int o = 0; o < x->n_out; o++)
        if (x->out[o] >= 0 && x->binding->kind != NC_K_VIEW) touch(c, x->out[o]);
    const int own[] = {x->workspace, x->sizes};
    for (int k = 0; k < 2; k++) {
        if (own[k] < 0) continue;
        NC_TRY(check_write(c, own[k]));
        touch(c, own[k]);
    }
    return NC_OK;
}

static nc_code init(checker *c) {
    const nc_program *p = c->p;
    size_t slots = (size_t)p->n_slots + 1, n = (size_t)p->n_streams;
    int *last = nc_arena_array(&c->w->scratch, slots * n, sizeof *last);
    NC_NEED(c->w, last);
    NC_NEED(c->w, c->mem = nc_arena_array(&c->w->scratch, slots, sizeof *c->mem));
    NC_NEED(c->w, c->version_of = nc_arena_array(&c->w->scratch, slots, sizeof *c->version_of));
    memset(last, -1, slots * n * sizeof *last);
    for (int i = 0; i < p->n_slots; i++) c->mem[i] = (memory){.writer = -1, .first = -1, .last = last + (size_t)i * n};
    return find_before(c);
}

static nc_code check_all(checker *c) {
    NC_TRY(init(c));
    for (c->at = 0; c->at < c->p->n_instrs; c->at++) NC_TRY(check_instr(c));
    for (int i = 0; i < c->p->n_outputs && c->p->n_instrs; i++) {
        int slot = c->p->outputs[i];
        c->at = c->p->n_instrs - 1;
        if (slot >= 0 && c->version_of[slot] != memory_of(c, slot)->version)
            BROKEN(c, "the output '%s' was overwritten by instruction %d", name_of(c->p, slot),
                   memory_of(c, slot)->writer);
    }
    return NC_OK;
}

nc_code nc_program_check(nc_work *w, const nc_program *p) {
    checker c = {.w = w, .p = p};
    return check_all(&c);
}

/* ---- instances ---- */

/* All that touches a is done when the first toucher of b starts. Sizes are read by the host when the segment ends. */
static bool dies_before(const checker *c, int a, int b) {
    const memory *m = &c->mem[a], *next = &c->mem[b];
    if (next->first < 0 || m->first < 0) return true;
    for (int s = 0; s < c->p->n_streams; s++)
        if (!is_done(c, m->last[s], next->first)) return false;
    return true;
}

static bool holds_sizes(const nc_program *p, int slot, int seg) {
    for (int i = p->segs[seg].first; i < p->segs[seg].end; i++)
        if (p->instrs[i].sizes == slot) return true;
    return false;
}

static nc_code check_pair(checker *c, const nc_instance *x, int seg, int a, int b) {
    const nc_slot *s = &c->p->slots[a], *t = &c->p->slots[b];
    size_t at, bytes, other_at, other_bytes;
    block_at(c->p, x, a, &at, &bytes);
    block_at(c->p, x, b, &other_at, &other_bytes);
    if (s->place != t->place || at + bytes <= other_at || other_at + other_bytes <= at) return NC_OK;
    bool a_first = dies_before(c, a, b) && !holds_sizes(c->p, a, seg);
    bool b_first = dies_before(c, b, a) && !holds_sizes(c->p, b, seg);
    c->at = c->mem[a].first > c->mem[b].first ? c->mem[a].first : c->mem[b].first;
    if (!a_first && !b_first)
        BROKEN(c, "'%s' and '%s' share bytes while both are needed", name_of(c->p, a), name_of(c->p, b));
    return NC_OK;
}

static bool is_block(const nc_program *p, int slot, int seg) {
    return p->slots[slot].storage == NC_S_ARENA && p->slots[slot].seg == seg;
}

nc_code nc_instance_check(nc_work *w, const nc_program *p, int i_seg, const nc_instance *x) {
    checker c = {.w = w, .p = p};
    NC_TRY(check_all(&c));
    for (int a = 0; a < p->n_slots; a++) {
        size_t offset, bytes;
        if (!is_block(p, a, i_seg) || c.mem[a].first < 0) continue;
        block_at(p, x, a, &offset, &bytes);
        c.at = c.mem[a].first;
        if (offset % 64 || offset + bytes > x->total[p->slots[a].place])
            return broken(&c, nc_fail(w, NC_E_FAIL, "'%s' lies outside of its block", name_of(p, a)));
        for (int b = a + 1; b < p->n_slots; b++)
            if (is_block(p, b, i_seg) && c.mem[b].first >= 0) NC_TRY(check_pair(&c, x, i_seg, a, b));
    }
    return NC_OK;
}
