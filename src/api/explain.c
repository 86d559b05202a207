/* api/explain.c: how one node is done: its kernel, those refused and why, packed constants, copies and fusions around
 * it. Reads the program; nothing here decides anything. */
#include "api/api.h"

#include "ir/card.h"
#include "ir/text.h"
#include "ops/lane.h"
#include "ops/notes.h"

#include <stdio.h>
#include <string.h>

static bool makes(const nc_node *n, const char *name) {
    if (strcmp(n->name, name) == 0) return true;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && strcmp(n->out[i]->name, name) == 0) return true;
    return false;
}

static bool is_copy(const nc_node *n) { return n->card->traits & NC_COPIES; }

typedef struct found {
    const nc_program *p; /* whose instruction it is */
    const nc_instr *x;
    const nc_node *inner; /* the node asked for, where x is a fused region that holds it */
} found;

/* Copies take the name of what they copy, so the node itself is looked for first. */
static bool find_instr(const nc_program *p, const char *name, bool copies, found *f) {
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        if (makes(x->node, name) && (copies || !is_copy(x->node))) {
            *f = (found){p, x, NULL};
            return true;
        }
        for (int k = 0; x->subs && k < x->node->n_subs; k++)
            if (find_instr(x->subs[k], name, copies, f)) return true;
    }
    return false;
}

static bool find_region(const nc_program *p, const char *name, found *f) {
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        for (int k = 0; k < x->node->n_subs; k++) {
            if (x->subs && find_region(x->subs[k], name, f)) return true;
            for (const nc_node *n = x->node->subs[k].graph->first; n && !x->subs; n = n->next)
                if (makes(n, name)) {
                    *f = (found){p, x, n};
                    return true;
                }
        }
    }
    return false;
}

static void tell_refused(nc_text *t, const nc_node *n, const char *kernels) {
    char why[512];
    bool fits = nc_binding_find(n, kernels, why, sizeof why) != NULL;
    nc_text_addf(t, "  %s kernels: %s%s%s\n", kernels, fits ? "one fits" : "none fits", why[0] ? "; refused: " : "",
                 why);
}

static void tell_kernel(nc_text *t, const nc_program *p, const nc_instr *x) {
    static const char *const kinds[] = {"static", "bounded: true sizes are found while it runs",
                                        "dynamic: makes its outputs while it runs", "view: no work, no copy"};
    const nc_device *d = p->places[x->place];
    if (x->binding == &nc_transfer_binding) {
        nc_text_addf(t, "  kernel: a copy by the device, %s\n", x->place ? "host to device" : "device to host");
        return;
    }
    nc_text_addf(t, "  kernel: %s%s%s on %s (%s), stream %s\n", x->binding->domain ? x->binding->domain : "",
                 x->binding->domain ? "." : "", x->binding->op ? x->binding->op : "element by element", d->table->name,
                 kinds[x->binding->kind], nc_stream_name_of(p->streams, p->n_streams, x->stream).text);
    const nc_choice *c = nc_choice_of(x->node);
    for (int i = 0; i < c->n_variants; i++) nc_text_addf(t, "  variant: when %s\n", c->variants[i].binding->when);
    if (x->binding->tell) {
        char way[256];
        x->binding->tell(x->state, way, sizeof way);
        nc_text_addf(t, "  way: %s\n", way);
    }
    tell_refused(t, x->node, d->table->kernels);
    if (!x->place && p->device != nc_device_cpu() && strcmp(p->device->table->kernels, "cpu") != 0)
        tell_refused(t, x->node, p->device->table->kernels);
    for (int k = 0; k < x->n_packs; k++) {
        const nc_prog_pack *q = &p->packs[x->first_pack + k];
        nc_text_addf(t, "  packed: input %d '%s' as %s, %zu bytes\n", q->pack.input, q->value->name, q->pack.form,
                     q->pack.bytes);
    }
    for (int k = 0; k < x->n_out; k++)
        if (x->out[k] >= 0 && p->slots[x->out[k]].storage == NC_S_ALIAS)
            nc_text_addf(t, "  in place: output %d is written over '%s'\n", k,
                         p->slots[p->slots[x->out[k]].of].value ? p->slots[p->slots[x->out[k]].of].value->name : "?");
    if (x->writes_state) nc_text_add(t, "  updates a variable\n");
}

static void tell_copies(nc_text *t, const nc_node *n) {
    for (int i = 0; i < n->n_operands; i++) {
        const nc_node *c = n->in[i] ? n->in[i]->def : NULL;
        if (!c || !is_copy(c)) continue;
        bool across = c->in[0]->place != c->out[0]->place;
        nc_text_addf(t, "  copy before: input %d '%s', %s\n", i, c->in[0]->name,
                     !across            ? "to make it dense"
                     : c->out[0]->place ? "host to device"
                                        : "device to host");
    }
    for (int i = 0; i < n->n_out; i++) {
        for (int u = 0; n->out[i] && u < n->out[i]->uses.n; u++) {
            const nc_node *c = n->out[i]->uses.v[u].node;
            if (!is_copy(c)) continue;
            bool across = c->in[0]->place != c->out[0]->place;
            nc_text_addf(t, "  copy after: output %d '%s', %s\n", i, n->out[i]->name,
                         across                 ? (c->out[0]->place ? "host to device" : "device to host")
                         : c->out[0]->n_outputs ? "for the caller"
                                                : "to make it dense");
        }
    }
}

/* Does the node work on channels in blocks, and why not where its input comes out of them? */
static void tell_layout(nc_text *t, const nc_program *p, const nc_node *n) {
    const nc_type *y = n->n_out > 0 && n->out[0] ? n->out[0]->type : NULL;
    bool ends = false;
    if (y && y->layout.block) nc_text_addf(t, "  layout: channels in blocks of %d\n", y->layout.block);
    for (int i = 0; i < n->n_in; i++) ends |= n->in[i] && n->in[i]->def && (n->in[i]->def->card->traits & NC_UNBLOCKS);
    if (!ends) return;
    bool (*blocks)(const nc_node *, nc_blocking *) = n->card->blocks ? n->card->blocks
                                                     : n->card->lane ? nc_lane_blocks
                                                                     : NULL;
    nc_blocking k = nc_channel_blocking(p->places[n->place]->table->kernels);
    bool can = blocks && blocks(n, &k);
    nc_text_addf(t, "  layout: blocks of channels end here: %s\n",
                 can      ? "it would cost more than it saves"
                 : blocks ? k.why
                          : "the op does not work on them");
}

static void tell_values(nc_text *t, const char *what, nc_value *const *v, int n) {
    for (int i = 0; i < n; i++) {
        if (!v[i]) continue;
        nc_text_addf(t, "  %s %d: '%s' ", what, i, v[i]->name);
        nc_type_print(t, v[i]->type);
        nc_text_add(t, "\n");
    }
}

static void tell(nc_text *t, const found *f) {
    const nc_node *n = f->x->node;
    if (f->inner)
        nc_text_addf(t, "%s '%s' is %s:\n", f->inner->card->name, f->inner->name,
                     nc_is_deferred(n) ? "planned while the model runs, when the ranks that it needs are known, in"
                                       : "fused into");
    nc_text label = {0};
    nc_profile_label(&label, n);
    nc_text_addf(t, "%s '%s' since version %d, instruction %d, segment %d\n", label.s ? label.s : "?", n->name,
                 n->version->since, (int)(f->x - f->p->instrs), f->x->seg);
    nc_text_release(&label);
    tell_values(t, "in", n->in, n->n_in);
    tell_values(t, "out", n->out, n->n_out);
    const char *note = nc_op_note(n);
    if (note) nc_text_addf(t, "  meaning: %s\n", note);
    tell_kernel(t, f->p, f->x);
    tell_copies(t, n);
    tell_layout(t, f->p, n);
}

/* The line of a dump on the node or value of that name: `y = Op(x) "name"`. */
static bool dump_line(const char *dump, const char *name, nc_text *out) {
    char quoted[256];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    size_t n = strlen(name);
    for (const char *line = dump; line && *line;) {
        const char *end = strchr(line, '\n'), *start = line;
        size_t len = end ? (size_t)(end - line) : strlen(line);
        while (*start == ' ') start++;
        const char *eq = memchr(start, '=', len - (size_t)(start - line));
        const char *hit = eq ? strstr(line, quoted) : NULL;
        const char *value = eq ? strstr(start, name) : NULL;
        bool named = hit && hit < line + len;
        bool made = value && value < eq && (value[n] == ' ' || value[n] == ',') && (value == start || value[-1] == ' ');
        if (named || made) {
            nc_text_add_n(out, start, len - (size_t)(start - line));
            return true;
        }
        line = end ? end + 1 : NULL;
    }
    return false;
}

static bool tell_gone(nc_text *t, nc_session *s, const char *name) {
    static const char *const before[] = {"graph", "inferred", "transformed", "differentiated", "lowered"};
    for (int k = NC_DUMP_LOWERED; k >= NC_DUMP_GRAPH; k--) {
        nc_text line = {0};
        bool there = s->dumps[k].s && dump_line(s->dumps[k].s, name, &line);
        if (there)
            nc_text_addf(t, "'%s' does not run: it is gone after the stage '%s', where it was\n  %s\n", name, before[k],
                         line.s ? line.s : "");
        nc_text_release(&line);
        if (there) return true;
    }
    return false;
}

nacre_code nacre_session_explain(nacre_session *s, const char *node, char **text, nacre_error *err) {
    const nc_program *p = s->s->program;
    found f = {0}, whole = {0};
    nc_text t = {0};
    bool there = find_instr(p, node, false, &f);
    if (!there || (f.x->node->n_subs && !f.x->subs)) { /* a chain takes the name of its last value */
        if (find_region(p, node, &whole)) there = true, f = whole;
    }
    if (!there) there = find_instr(p, node, true, &f);
    if (there) {
        tell(&t, &f);
    } else if (!tell_gone(&t, s->s, node)) {
        nc_text_release(&t);
        return nc_api_fail(err, NC_E_ARGUMENT, "the model has no node or value '%s'%s", node,
                           s->s->dumps[NC_DUMP_GRAPH].s ? "" : " that still runs (dumps=on also finds what is gone)");
    }
    return nc_api_text(&t, text, err);
}
