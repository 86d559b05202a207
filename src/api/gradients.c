/* api/gradients.c: models with gradients: nacre_model_gradients over train/. */
#include "api/api.h"
#include "nacre/nacre_train.h"

#include "train/gradient_rule.h"
#include "train/train.h"

nacre_code nacre_model_gradients(nacre_model *m, const nacre_gradients *callers, nacre_error *err) {
    nacre_gradients what;
    nacre_code read = nc_api_read_struct(err, "nacre_gradients", callers, &what, sizeof what);
    if (read != NACRE_OK) return read;
    if (what.n_ys < 1) return nc_api_fail(err, NC_E_ARGUMENT, "no y to differentiate was given");
    if (what.n_xs < 1) return nc_api_fail(err, NC_E_ARGUMENT, "no x to differentiate by was given");
    nc_train_ask ask = {.ys = what.ys,
                        .xs = what.xs,
                        .stop = what.stop,
                        .n_y = (int)what.n_ys,
                        .n_x = (int)what.n_xs,
                        .n_stop = (int)what.n_stop,
                        .cotangents = what.cotangents != 0,
                        .standard = what.standard != 0};
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_train_model_gradients(&w, m->model, &ask), err);
}

nacre_code nacre_env_register_gradient(nacre_env *env, const nacre_gradient_rule *callers, nacre_error *err) {
    nacre_gradient_rule what;
    nacre_code read = nc_api_read_struct(err, "nacre_gradient_rule", callers, &what, sizeof what);
    if (read != NACRE_OK) return read;
    nc_rule_params p = {what.domain, what.op, what.model, what.n_model, what.stops};
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_train_add_rule(&w, env->env, &p), err);
}
