/* train/artifacts_optim.c: an optimizer's model: one node over sequences of parameters, gradients and moments. */
#include "infer/infer.h"
#include "ir/card.h"
#include "ops/build.h"
#include "train/artifacts.h"

#define MS "com.microsoft"

typedef struct ends {
    nc_value *rate, *step, *params, *grads, *moments[NC_MOMENTS];
} ends;

static nc_code add_inputs(nc_work *w, nc_model *m, nc_dtype elem, int n_moments, ends *e) {
    static const char *const names[NC_MOMENTS] = {"first_order_moments", "second_order_moments"};
    const nc_dim *one = nc_dim_const(m->dims, 1);
    const nc_type *rate = one ? nc_type_tensor(&m->arena, NC_FLOAT, 1, &one) : NULL;
    const nc_type *step = one ? nc_type_tensor(&m->arena, NC_INT64, 1, &one) : NULL;
    const nc_type *any = nc_type_tensor(&m->arena, elem, -1, NULL);
    const nc_type *sequence = any ? nc_type_holding(&m->arena, NC_T_SEQUENCE, any) : NULL;
    if (!rate || !step || !sequence) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_NEED(w, e->rate = nc_edit_input(m->main, "learning_rate", rate));
    NC_NEED(w, e->step = nc_edit_input(m->main, "step", step));
    NC_NEED(w, e->params = nc_edit_input(m->main, "params", sequence));
    NC_NEED(w, e->grads = nc_edit_input(m->main, "gradients", sequence));
    for (int k = 0; k < n_moments; k++) NC_NEED(w, e->moments[k] = nc_edit_input(m->main, names[k], sequence));
    return NC_OK;
}

static nc_attr number(const char *name, float f) { return (nc_attr){.name = name, .kind = NC_A_FLOAT, .f = f}; }
static nc_attr integer(const char *name, int64_t i) { return (nc_attr){.name = name, .kind = NC_A_INT, .i = i}; }

static nc_value *adamw(nc_builder *b, const ends *e, nc_value *grads, const nc_artifacts_optim *o) {
    nc_value *in[] = {e->rate, e->step, e->params, grads, e->moments[0], e->moments[1]};
    const nc_attr attrs[] = {number("alpha", o->beta1),     number("beta", o->beta2),
                             number("epsilon", o->epsilon), number("weight_decay", o->weight_decay),
                             integer("adam_mode", o->hf),   integer("correct_bias", !o->no_bias_correction)};
    return nc_build_attr1(b, MS, "AdamWOptimizer", in, 6, attrs, 6);
}

/* onnxruntime's operator where it can say it, so that it reads the model; else Nacre's. */
static nc_value *sgd(nc_builder *b, const ends *e, nc_value *grads, const nc_artifacts_optim *o) {
    nc_value *in[] = {e->rate, e->step, e->params, grads, e->moments[0]};
    const nc_attr attrs[] = {number("momentum", o->momentum), number("dampening", o->dampening),
                             integer("nesterov", o->nesterov), number("weight_decay", o->weight_decay)};
    if (o->momentum != 0 || o->nesterov || o->weight_decay != 0)
        return nc_build_attr1(b, "nacre", "MomentumOptimizer", in, 5, attrs, 4);
    return nc_build_attr1(b, MS, "SGDOptimizerV2", (nc_value *[]){e->rate, e->params, grads}, 3, NULL, 0);
}

static nc_code fill(nc_work *w, nc_model *m, nc_dtype elem, const nc_artifacts_optim *o) {
    bool is_adamw = o->kind == NC_OPTIM_ADAMW;
    ends e;
    NC_TRY(add_inputs(w, m, elem, is_adamw ? 2 : 1, &e));
    nc_builder b = {.w = w, .graph = m->main, .infer = nc_infer_node};
    const nc_attr max_norm = number("max_norm", o->max_norm);
    nc_value *grads = e.grads;
    if (o->max_norm > 0) grads = nc_build_attr1(&b, MS, "InplaceClipGradNorm", &e.grads, 1, &max_norm, 1);
    nc_value *updated = is_adamw ? adamw(&b, &e, grads, o) : sgd(&b, &e, grads, o);
    NC_TRY(b.code);
    return nc_edit_output(m->main, updated, "updated_flag");
}

nc_code nc_artifacts_optimizer(nc_work *w, const nc_registry *r, const nc_opset *opsets, int n_opsets, nc_dtype elem,
                               const nc_artifacts_optim *o, nc_model **out) {
    nc_model *m = nc_model_create(r);
    NC_NEED(w, m);
    m->ir_version = 10;
    m->producer_name = "nacre";
    m->opsets = nc_arena_copy(&m->arena, opsets, (size_t)n_opsets * sizeof *opsets);
    m->n_opsets = n_opsets;
    nc_code code = m->opsets ? fill(w, m, elem, o) : nc_fail(w, NC_E_MEMORY, "out of memory");
    if (code != NC_OK) {
        nc_model_destroy(m);
        return code;
    }
    *out = m;
    return NC_OK;
}
