/* plan/build.c: lowered graph -> program, by the steps of plan/build.h. Subgraphs become programs of their own. */
#include "plan/build.h"

#include "base/mem.h"
#include "plan/check_program.h"

#include <string.h>

/* How many streams may compute at the session's device. A subprogram runs on what its parent lends: one. */
static int n_computing(const nc_build_ctx *c) { return c->p->inner || c->o->n_streams < 1 ? 1 : c->o->n_streams; }

/* The host, and the session's device with a stream that computes, one that copies, and further ones that compute. One
 * stream at the host is the host's own; several stand behind it. */
static nc_code list_places(nc_build_ctx *c) {
    nc_program *p = c->p;
    bool host_only = p->device->table->host_memory;
    int n = n_computing(c);
    p->overlaps = host_only && n > 1;
    p->n_places = host_only ? 1 : 2;
    p->n_streams = !host_only ? 2 + n : n > 1 ? 1 + n : 1;
    NC_NEED(c->w, p->places = nc_arena_array(&p->arena, (size_t)p->n_places, sizeof *p->places));
    NC_NEED(c->w, p->streams = nc_arena_array(&p->arena, (size_t)p->n_streams, sizeof *p->streams));
    p->places[0] = nc_device_cpu();
    if (!host_only) p->places[1] = p->device;
    for (int s = 0; s < p->n_streams; s++) p->streams[s] = (nc_prog_stream){NC_STREAM_COMPUTE, p->n_places - 1};
    p->streams[0] = (nc_prog_stream){NC_STREAM_HOST, 0};
    if (!host_only) p->streams[2].kind = NC_STREAM_COPY;
    return NC_OK;
}

int nc_program_stream(const nc_program *p, nc_stream_kind kind, int place) {
    for (int s = 0; s < p->n_streams; s++)
        if (p->streams[s].kind == kind && p->streams[s].place == place) return s;
    return 0;
}

static nc_code build(nc_build_ctx *c) {
    nc_program *p = c->p;
    int n_ids = c->g->model->next_id;
    if (c->outer) {
        c->slot_of = c->outer->slot_of, c->output_of = c->outer->output_of;
    } else {
        NC_NEED(c->w, c->slot_of = nc_arena_array(&c->w->scratch, (size_t)n_ids, sizeof *c->slot_of));
        NC_NEED(c->w, c->output_of = nc_arena_array(&c->w->scratch, (size_t)n_ids, sizeof *c->output_of));
        memset(c->slot_of, -1, (size_t)n_ids * sizeof *c->slot_of);
    }
    for (int i = c->g->outputs.n - 1; i >= 0; i--) c->output_of[c->g->outputs.v[i]->id] = i;
    nc_map_init(&c->dim_index, &c->w->scratch);
    p->n_syms = nc_dims_n_syms(c->g->model->dims);
    NC_TRY(list_places(c));
    NC_TRY(nc_build_slots(c));
    NC_TRY(nc_build_segments(c));
    NC_TRY(nc_build_assign(c));
    NC_TRY(nc_build_lives(c));
    NC_TRY(nc_build_streams(c));
    NC_TRY(nc_build_steady(c));
    return NC_CHECKS_PROGRAMS ? nc_program_check(c->w, p) : NC_OK;
}

nc_code nc_build_program(nc_work *w, const nc_graph *g, const nc_plan_options *o, const nc_build_ctx *outer,
                         nc_program **out) {
    nc_program *p = nc_alloc_zero(1, sizeof *p);
    NC_NEED(w, p);
    p->graph = g, p->model = g->model, p->device = o->device;
    p->inner = o->inner || g->owner;
    nc_build_ctx c = {.w = w, .o = o, .p = p, .g = g, .outer = outer};
    nc_code code = build(&c);
    if (code != NC_OK) {
        nc_program_destroy(p);
        return code;
    }
    *out = p;
    return NC_OK;
}

nc_code nc_plan_build(nc_work *w, nc_model *m, const nc_plan_options *o, nc_program **out) {
    nc_code code = nc_build_program(w, m->main, o, NULL, out);
    w->at_node = w->at_op = NULL;
    return code;
}

void nc_program_destroy(nc_program *p) {
    if (!p) return;
    for (int i = 0; i < p->n_instrs; i++)
        for (int s = 0; p->instrs[i].subs && s < p->instrs[i].node->n_subs; s++)
            nc_program_destroy(p->instrs[i].subs[s]);
    nc_arena_release(&p->arena);
    nc_free(p);
}
