/* run/profile.c: keeps the events of a profiled session and tells them as a trace or a table. exec.c makes the
 * events. */
#include "run/profile.h"

#include "base/mem.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_EVENTS = 1 << 21 };

static uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

nc_profile *nc_profile_create(void) {
    nc_profile *p = nc_alloc_zero(1, sizeof *p);
    if (!p) return NULL;
    nc_lock_init(&p->lock, NC_LOCK_LEAF, NULL, NULL);
    p->origin = clock_ns();
    return p;
}

void nc_profile_destroy(nc_profile *p) {
    if (!p) return;
    nc_lock_release(&p->lock);
    nc_free(p->v);
    nc_free(p);
}

void nc_profile_reset(nc_profile *p) {
    nc_lock_take(&p->lock);
    p->n = 0, p->n_lost = 0;
    nc_lock_give(&p->lock);
}

uint64_t nc_profile_now(const nc_profile *p) { return clock_ns() - p->origin; }

static bool make_room(nc_profile *p) {
    if (p->n < p->cap) return true;
    size_t cap = p->cap ? p->cap * 2 : 256;
    nc_profile_event *v = cap <= MAX_EVENTS ? nc_realloc(p->v, cap * sizeof *v) : NULL;
    if (!v) return false;
    p->v = v, p->cap = cap;
    return true;
}

void nc_profile_add(nc_profile *p, const nc_profile_event *e) {
    nc_lock_take(&p->lock);
    if (make_room(p))
        p->v[p->n++] = *e;
    else
        p->n_lost++;
    nc_lock_give(&p->lock);
}

/* ---- telling ---- */

void nc_profile_label(nc_text *out, const nc_node *n) {
    if (n->card->domain) nc_text_addf(out, "%s.", n->card->domain);
    nc_text_add(out, n->card->name);
    if (!n->n_subs || (n->card->traits & NC_CONTROL) || nc_is_deferred(n)) return;
    nc_text_add(out, "(");
    for (const nc_node *k = n->subs[0].graph->first; k; k = k->next)
        nc_text_addf(out, "%s%s", k->card->name, k->next ? " " : "");
    const nc_attr *then = nc_node_attr(n, "then");
    if (then) nc_text_addf(out, " %.*s", (int)then->s.n, then->s.p);
    nc_text_add(out, ")");
}

static void add_quoted(nc_text *out, const char *s) {
    nc_text_add(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            nc_text_addf(out, "\\%c", c);
        else if (c < 0x20)
            nc_text_addf(out, "\\u%04x", c);
        else
            nc_text_add_n(out, s, 1);
    }
    nc_text_add(out, "\"");
}

static void add_event(const nc_profile *p, nc_text *out, const nc_profile_event *e) {
    nc_text label = {0};
    nc_profile_label(&label, e->instr->node);
    nc_text_add(out, ",\n{\"ph\":\"X\",\"pid\":1,\"cat\":\"instruction\",\"name\":");
    add_quoted(out, label.s ? label.s : "?");
    nc_text_addf(out,
                 ",\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"node\":", e->frame * p->n_streams + e->instr->stream,
                 (double)e->start / 1e3, (double)e->ns / 1e3);
    add_quoted(out, e->instr->node->name);
    nc_text_addf(out, ",\"bytes\":%llu}}", (unsigned long long)e->bytes);
    nc_text_release(&label);
}

static void add_threads(const nc_profile *p, nc_text *out) {
    int frames = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].frame >= frames) frames = p->v[i].frame + 1;
    for (int f = 0; f < frames; f++)
        for (int s = 0; s < p->n_streams; s++)
            nc_text_addf(
                out,
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s, frame %d\"}}",
                f * p->n_streams + s, nc_stream_name_of(p->streams, p->n_streams, s).text, f);
}

void nc_profile_trace(nc_profile *p, nc_text *out) {
    nc_lock_take(&p->lock);
    nc_text_addf(
        out,
        "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"lost_events\":%llu,\"origin_ns\":%llu},\"traceEvents\":[\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"nacre\"}}",
        (unsigned long long)p->n_lost, (unsigned long long)p->origin);
    add_threads(p, out);
    for (size_t i = 0; i < p->n; i++) add_event(p, out, &p->v[i]);
    nc_text_add(out, "\n]}\n");
    nc_lock_give(&p->lock);
}

static int longer_first(const void *a, const void *b) {
    const nc_profile_op *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
    return strcmp(x->op, y->op);
}

typedef struct op_table {
    nc_profile_op *v;
    size_t n, cap;
} op_table;

static nc_profile_op *row_of(op_table *t, const char *label) {
    char op[sizeof t->v->op];
    snprintf(op, sizeof op, "%s", label);
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->v[i].op, op) == 0) return &t->v[i];
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 32;
        nc_profile_op *v = nc_realloc(t->v, cap * sizeof *v);
        if (!v) return NULL;
        t->v = v, t->cap = cap;
    }
    nc_profile_op *row = &t->v[t->n++];
    *row = (nc_profile_op){.calls = 0};
    memcpy(row->op, op, sizeof op);
    return row;
}

static nc_code collect(const nc_profile *p, op_table *t) {
    for (size_t i = 0; i < p->n; i++) {
        nc_text label = {0};
        nc_profile_label(&label, p->v[i].instr->node);
        nc_profile_op *row = label.failed ? NULL : row_of(t, label.s);
        nc_text_release(&label);
        if (!row) return NC_E_MEMORY;
        row->calls++, row->ns += p->v[i].ns_self, row->bytes += p->v[i].bytes;
    }
    return NC_OK;
}

nc_code nc_profile_ops(nc_profile *p, nc_profile_op **rows, size_t *n) {
    op_table t = {0};
    nc_lock_take(&p->lock);
    nc_code code = collect(p, &t);
    nc_lock_give(&p->lock);
    if (code != NC_OK) {
        nc_free(t.v);
        return code;
    }
    if (t.n) qsort(t.v, t.n, sizeof *t.v, longer_first);
    *rows = t.v, *n = t.n;
    return NC_OK;
}
