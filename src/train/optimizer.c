/* train/optimizer.c: the optimizer of a training session: its step, rate and schedule, all of which the checkpoint
 * keeps. */
#include "train/training.h"

static nc_code need(nc_work *w, const nc_training *t) {
    if (!t->optimizer.session)
        NC_FAIL(w, NC_E_STATE, "the training session has no optimizer: give it an optimizer model");
    return NC_OK;
}

nc_code nc_training_update(nc_work *w, nc_training *t, bool *done) {
    NC_TRY(need(w, t));
    NC_TRY(nc_training_need_values(w, t));
    nc_optimizer_state *o = &t->checkpoint->optimizer;
    *(float *)t->rate->t.data = o->rate;
    *(int64_t *)t->step->t.data = o->step + 1;
    nc_feed feeds[2];
    int n = 0;
    if (t->i_rate >= 0) feeds[n++] = (nc_feed){t->i_rate, t->rate};
    if (t->i_step >= 0) feeds[n++] = (nc_feed){t->i_step, t->step};
    NC_TRY(nc_training_run(w, t, t->optimizer.session, feeds, n, &t->done, 1));
    *done = *(const bool *)t->done->t.data;
    o->step += *done;
    return NC_OK;
}

nc_code nc_training_rate(nc_work *w, const nc_training *t, float *out) {
    NC_TRY(need(w, t));
    *out = t->checkpoint->optimizer.rate;
    return NC_OK;
}

nc_code nc_training_set_rate(nc_work *w, nc_training *t, float rate) {
    NC_TRY(need(w, t));
    t->checkpoint->optimizer.rate = rate;
    return NC_OK;
}

/* ---- the linear schedule ---- */

static double factor(const nc_optimizer_state *o) {
    double step = (double)o->step, warmup = (double)o->warmup, total = (double)o->total;
    if (o->step < o->warmup) return step / (warmup > 1 ? warmup : 1);
    double left = (total - step) / (total - warmup > 1 ? total - warmup : 1);
    return left > 0 ? left : 0;
}

nc_code nc_training_set_schedule(nc_work *w, nc_training *t, int64_t warmup, int64_t total, float initial) {
    NC_TRY(need(w, t));
    if (warmup < 0 || total <= 0)
        NC_FAIL(w, NC_E_ARGUMENT, "a schedule of %lld steps with %lld to warm up: expected more than 0 and at least 0",
                (long long)total, (long long)warmup);
    nc_optimizer_state *o = &t->checkpoint->optimizer;
    o->warmup = warmup, o->total = total, o->initial_rate = initial;
    return nc_training_schedule(w, t);
}

nc_code nc_training_schedule(nc_work *w, nc_training *t) {
    NC_TRY(need(w, t));
    nc_optimizer_state *o = &t->checkpoint->optimizer;
    if (o->total <= 0) NC_FAIL(w, NC_E_STATE, "the training session has no schedule of its rate");
    o->rate = (float)((double)o->initial_rate * factor(o));
    return NC_OK;
}
