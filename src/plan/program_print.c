/* plan/program_print.c: the program as text: every segment, instruction, copy, wait and alias. Deterministic; tests
 * read it. */
#include "plan/plan.h"

#include <stdio.h>

nc_stream_name nc_stream_name_of(const nc_prog_stream *streams, int n, int stream) {
    static const char *const kinds[] = {"host", "compute", "copy"};
    nc_stream_name name;
    int same = 0, before = 0;
    for (int s = 0; s < n; s++)
        if (streams[s].kind == streams[stream].kind) same++, before += s < stream;
    if (same > 1)
        snprintf(name.text, sizeof name.text, "%s%d", kinds[streams[stream].kind], before);
    else
        snprintf(name.text, sizeof name.text, "%s", kinds[streams[stream].kind]);
    return name;
}

static void print_slot(nc_text *out, const nc_program *p, int i) {
    if (i < 0) {
        nc_text_add(out, "-");
        return;
    }
    const nc_slot *s = &p->slots[i];
    nc_text_addf(out, "%%%d:%s", i, s->value ? s->value->name : "workspace");
}

static void print_result(nc_text *out, const nc_program *p, int i) {
    static const char *storage[] = {"none", "arena", "const", "input", "output", "state", "view", "alias", "object"};
    print_slot(out, p, i);
    if (i < 0) return;
    const nc_slot *s = &p->slots[i];
    nc_text_addf(out, "(%s", storage[s->storage]);
    if (s->of >= 0) nc_text_addf(out, " of %%%d", s->of);
    nc_text_addf(out, "%s)", s->dense ? "" : ", strided");
}

static void print_instr(nc_text *out, const nc_program *p, int i) {
    const nc_instr *x = &p->instrs[i];
    nc_text_addf(out, "  %4d ", i);
    if (x->binding->kind == NC_K_VIEW)
        nc_text_add(out, "view     ");
    else
        nc_text_addf(out, "%-8s ", nc_stream_name_of(p->streams, p->n_streams, x->stream).text);
    for (int k = 0; k < x->n_wait; k++)
        nc_text_addf(out, "%s e%d  ", k < x->n_host_wait ? "host waits" : "wait", x->wait[k]);
    for (int k = 0; k < x->n_out; k++) {
        if (k) nc_text_add(out, ", ");
        print_result(out, p, x->out[k]);
    }
    nc_text_addf(out, " = %s%s%s(", x->node->card->domain ? x->node->card->domain : "",
                 x->node->card->domain ? "." : "", x->node->card->name);
    for (int k = 0; k < x->n_in; k++) {
        if (k) nc_text_add(out, ", ");
        print_slot(out, p, x->in[k]);
        if (x->moved[k]) nc_text_add(out, "!");
    }
    nc_text_add(out, ")");
    if (x->binding == &nc_transfer_binding) nc_text_add(out, x->place ? "  host to device" : "  device to host");
    if (x->writes_state) nc_text_add(out, "  updates state");
    if (x->record >= 0) nc_text_addf(out, "  record e%d", x->record);
    nc_text_add(out, "\n");
    for (int s = 0; x->subs && s < x->node->n_subs; s++) {
        nc_text_addf(out, "    %s of %s:\n", x->node->subs[s].attr, x->node->name);
        nc_program_print(out, x->subs[s]);
    }
}

static void print_dims(nc_text *out, const nc_program *p, const nc_segment *g) {
    for (int s = 0; s < g->n_syms; s++)
        nc_text_addf(out, "%s%s", s ? ", " : "  sizes from ", nc_dims_sym_name(p->model->dims, g->syms[s]));
    if (g->n_syms) nc_text_add(out, "\n");
}

void nc_program_print(nc_text *out, const nc_program *p) {
    for (int s = 0; s < p->n_segs; s++) {
        const nc_segment *g = &p->segs[s];
        for (int c = 0; c < p->n_cuts; c++)
            if (p->cuts[c].instr == g->first && (s == 0 || p->segs[s - 1].first != g->first))
                nc_text_addf(out, "cut \"%s\"\n", p->cuts[c].name);
        nc_text_addf(out, "segment %d%s%s%s\n", s, g->capturable ? ": capturable" : ": not capturable (",
                     g->capturable ? "" : g->why_not, g->capturable ? "" : ")");
        print_dims(out, p, g);
        for (int k = 0; k < g->n_sizing; k++) nc_text_addf(out, "  size of %d from host arguments\n", g->sizing[k]);
        for (int i = g->first; i < g->end; i++) print_instr(out, p, i);
    }
}
