/* api/session.c: sessions: creation, signature, dumps, figures. */
#include "api/api.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

nacre_code nacre_session_create(nacre_env *env, nacre_model *takes_model, const nacre_options *o, nacre_session **out,
                                nacre_error *err) {
    nc_work w;
    nc_session_options so;
    nc_work_init(&w);
    nc_api_options(o, &so);
    nacre_session *p = nc_alloc_zero(1, sizeof *p);
    nc_code code =
        p ? nc_session_create(&w, env->env, takes_model->model, &so, &p->s) : nc_fail(&w, NC_E_MEMORY, "out of memory");
    if (!p) nc_model_destroy(takes_model->model);
    if (code == NC_OK) {
        p->model_env = takes_model->env;
        *out = p;
    } else {
        nc_env_unref(takes_model->env);
        nc_free(p);
    }
    nc_free(takes_model);
    return nc_api_end(&w, code, err);
}

void nacre_session_release(nacre_session *s) {
    if (!s) return;
    nc_session_destroy(s->s);
    nc_env_unref(s->model_env);
    nc_free(s);
}

size_t nacre_session_n_inputs(const nacre_session *s) { return (size_t)s->s->program->n_inputs; }
size_t nacre_session_n_outputs(const nacre_session *s) { return (size_t)s->s->program->n_outputs; }

const char *nacre_session_input_name(const nacre_session *s, size_t i) {
    const nc_program *p = s->s->program;
    return i < (size_t)p->n_inputs ? p->slots[p->inputs[i]].value->name : NULL;
}

int nacre_session_input_optional(const nacre_session *s, size_t i) {
    return i < (size_t)s->s->program->n_inputs && s->s->initials[i] != NULL;
}

const char *nacre_session_output_name(const nacre_session *s, size_t i) {
    const nc_program *p = s->s->program;
    return i < (size_t)p->n_outputs ? p->graph->output_names.v[i] : NULL;
}

/* Callers bring room for so many dims. */
enum { ROOM = 16 };

static nacre_type slot_type(const nc_program *p, int slot, int *rank, int64_t *dims) {
    const nc_slot *s = &p->slots[slot];
    *rank = s->rank <= ROOM ? s->rank : -1;
    for (int d = 0; d < *rank; d++)
        if (!nc_dim_is_const(p->dims[s->dims[d]], &dims[d])) dims[d] = -1;
    return (nacre_type)s->dtype;
}

nacre_type nacre_session_input_type(const nacre_session *s, size_t i, int *rank, int64_t *dims) {
    return slot_type(s->s->program, s->s->program->inputs[i], rank, dims);
}

nacre_type nacre_session_output_type(const nacre_session *s, size_t i, int *rank, int64_t *dims) {
    return slot_type(s->s->program, s->s->program->outputs[i], rank, dims);
}

/* Sparse tensors have no public kind: runs take and give their dense form. */
static nacre_kind slot_kind(const nc_program *p, int slot) {
    const nc_value *v = p->slots[slot].value;
    switch (v && v->type ? v->type->kind : NC_T_TENSOR) {
    case NC_T_SEQUENCE: return NACRE_KIND_SEQUENCE;
    case NC_T_OPTIONAL: return NACRE_KIND_OPTIONAL;
    case NC_T_MAP: return NACRE_KIND_MAP;
    case NC_T_TAPE: return NACRE_KIND_TAPE;
    case NC_T_TENSOR:
    case NC_T_SPARSE: break;
    }
    return NACRE_KIND_TENSOR;
}

nacre_kind nacre_session_input_kind(const nacre_session *s, size_t i) {
    return slot_kind(s->s->program, s->s->program->inputs[i]);
}

nacre_kind nacre_session_output_kind(const nacre_session *s, size_t i) {
    return slot_kind(s->s->program, s->s->program->outputs[i]);
}

void nacre_session_input_dim_names(const nacre_session *s, size_t i, char names[16][64]) {
    const nc_program *p = s->s->program;
    const nc_slot *slot = &p->slots[p->inputs[i]];
    for (int d = 0; d < slot->rank && d < ROOM; d++) {
        nc_text t = {0};
        nc_dim_print(&t, p->dims[slot->dims[d]]);
        snprintf(names[d], 64, "%s", t.s ? t.s : "?");
        nc_text_release(&t);
    }
}

static void print_instances(nc_session *s, nc_text *out) {
    nc_lock_take(&s->lock);
    for (const nc_cached *c = s->newest; c; c = c->older)
        if (c->instance) nc_instance_print(out, c->of->program, c->seg, c->instance);
    nc_lock_give(&s->lock);
}

nacre_code nacre_session_dump(nacre_session *s, const char *stage, char **text, nacre_error *err) {
    static const char *const names[NC_N_DUMPS] = {"graph",   "inferred", "transformed", "differentiated",
                                                  "lowered", "program",  "instance"};
    int i = 0;
    while (i < NC_N_DUMPS && strcmp(names[i], stage) != 0) i++;
    if (i == NC_N_DUMPS)
        return nc_api_fail(
            err, NC_E_ARGUMENT,
            "no stage '%s'; there are graph, inferred, transformed, differentiated, lowered, program, instance", stage);
    nc_text out = {0};
    if (i == NC_DUMP_INSTANCE)
        print_instances(s->s, &out);
    else if (s->s->dumps[i].s)
        nc_text_add(&out, s->s->dumps[i].s);
    if (!out.s && !out.failed) nc_text_add(&out, "");
    if (out.failed || !out.s) {
        nc_text_release(&out);
        return nc_api_error(err, NC_E_MEMORY, NULL);
    }
    *text = out.s;
    return NACRE_OK;
}

void nacre_session_stats(nacre_session *p, nacre_stats *out) {
    nc_session *s = p->s;
    nc_lock_take(&s->lock);
    *out = (nacre_stats){.plans = s->stats.plans,
                         .instances = s->stats.instances,
                         .runs = s->stats.runs,
                         .frames = s->stats.frames,
                         .captures = s->stats.captures,
                         .replays = s->stats.replays,
                         .bytes_frames = s->stats.bytes_frames,
                         .bytes_frames_peak = s->stats.bytes_frames_peak};
    nc_lock_give(&s->lock);
    out->bytes_session = s->budget->live;
    out->bytes_session_peak = s->budget->peak;
    out->device_allocations = s->device->n_allocs;
    out->device_bytes = s->device->bytes_live;
    out->device_bytes_peak = s->device->bytes_peak;
    nc_lock_take(&s->env->lock);
    out->packed = s->env->n_packed;
    nc_lock_give(&s->env->lock);
}
