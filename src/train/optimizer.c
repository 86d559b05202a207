/* train/optimizer.c: the optimizer of a training session: its step, rate and schedule, all of which the checkpoint
 * keeps. */
#include "train/training.h"

#include <math.h>

static nc_code need(nc_work *w, const nc_training *t) {
    if (!t->optimizer) NC_FAIL(w, NC_E_STATE, "the training session has no optimizer: give it an optimizer model");
    return NC_OK;
}

/* ---- the loss scale ---- */

enum { SCALE_MOST = 1 << 30 }; /* with losses below 1e29 the product stays finite in f32 */

/* After an update: gradients that were no numbers halve it, and are forgotten. */
static void adapt_scale(nc_training *t, bool done) {
    nc_checkpoint *c = t->checkpoint;
    if (!done) {
        c->scale_updates = 0;
        if (t->grow_every > 0 && c->loss_scale > 1) c->loss_scale /= 2;
        nc_training_reset(t);
    } else if (t->grow_every > 0 && ++c->scale_updates >= t->grow_every) {
        c->scale_updates = 0;
        if (c->loss_scale < SCALE_MOST) c->loss_scale *= 2;
    }
}

float nc_training_loss_scale(const nc_training *t) { return t->i_scale >= 0 ? t->checkpoint->loss_scale : 0; }

nc_code nc_training_set_loss_scale(nc_work *w, nc_training *t, float scale, int64_t grow_every) {
    if (t->i_scale < 0)
        NC_FAIL(w, NC_E_STATE, "the training model has no loss scale: make its artifacts with compute f16");
    if (!(scale > 0 && scale <= SCALE_MOST) || grow_every < 0)
        NC_FAIL(w, NC_E_ARGUMENT,
                "a loss scale of %g that grows every %lld updates: expected 0 < scale <= %d, and 0 or more",
                (double)scale, (long long)grow_every, SCALE_MOST);
    t->checkpoint->loss_scale = scale, t->checkpoint->scale_updates = 0, t->grow_every = grow_every;
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
    const nc_optimizer *by = t->optimizer;
    if (by->i_rate >= 0) feeds[n++] = (nc_feed){by->i_rate, t->rate};
    if (by->i_step >= 0) feeds[n++] = (nc_feed){by->i_step, t->step};
    NC_TRY(nc_training_run(w, t, by->program.session, feeds, n, &t->done, 1));
    *done = *(const bool *)t->done->t.data;
    o->step += *done;
    if (t->i_scale >= 0) adapt_scale(t, *done);
    return NC_OK;
}

nc_code nc_training_rate(nc_work *w, const nc_training *t, float *out) {
    NC_TRY(need(w, t));
    *out = t->checkpoint->optimizer.rate;
    return NC_OK;
}

static nc_code need_finite(nc_work *w, float rate) {
    if (!isfinite(rate)) NC_FAIL(w, NC_E_ARGUMENT, "a learning rate of %g: expected a finite number", (double)rate);
    return NC_OK;
}

nc_code nc_training_set_rate(nc_work *w, nc_training *t, float rate) {
    NC_TRY(need(w, t));
    NC_TRY(need_finite(w, rate));
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
    NC_TRY(need_finite(w, initial));
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
