/* tests/fuzz/fuzz_checkpoint_one.h: what fuzzing does with one checkpoint: shared by the fuzz target and the replay
 * test. */
#ifndef NC_TESTS_FUZZ_CHECKPOINT_ONE_H
#define NC_TESTS_FUZZ_CHECKPOINT_ONE_H

#include "base/text.h"
#include "train/checkpoint_formats.h"

static nc_code fuzz_checkpoint_add(nc_work *w, void *to, const void *p, size_t bytes) {
    nc_text *t = to;
    nc_text_add_n(t, p, bytes);
    return t->failed ? nc_fail(w, NC_E_MEMORY, "out of memory") : NC_OK;
}

/* Saves and loads again; NULL or what went wrong. What a format cannot hold it refuses. */
__attribute__((unused)) static const char *fuzz_checkpoint_again(const nc_checkpoint *c, bool ort) {
    nc_work w;
    nc_text bytes = {0};
    nc_checkpoint *again = NULL;
    const char *wrong = NULL;
    nc_work_init(&w);
    nc_checkpoint_sink sink = {fuzz_checkpoint_add, &bytes};
    nc_code code =
        ort ? nc_checkpoint_write_ort(&w, c, true, sink, NULL) : nc_checkpoint_write_safetensors(&w, c, true, sink);
    if (code != NC_OK) {
        if (w.diag.code == NC_OK) wrong = "it was not saved, without a message";
    } else if (nc_checkpoint_load_bytes(&w, bytes.s, bytes.n, &again) != NC_OK) {
        wrong = "what was saved does not load";
    } else if (again->params.n != c->params.n || again->properties.n != c->properties.n ||
               again->optimizer.step != (c->optimizer.present ? c->optimizer.step : 0)) {
        wrong = "what was saved loads as something else";
    }
    nc_checkpoint_release(again);
    nc_text_release(&bytes);
    nc_work_release(&w);
    return wrong;
}

/* NULL, or what went wrong: any bytes load or fail with a message, and what loads can be saved and loaded again. */
__attribute__((unused)) static const char *fuzz_checkpoint_one(const uint8_t *data, size_t size) {
    nc_work w;
    nc_checkpoint *c = NULL;
    const char *wrong = NULL;
    nc_work_init(&w);
    if (nc_checkpoint_load_bytes(&w, data, size, &c) != NC_OK) {
        if (w.diag.code == NC_OK) wrong = "it failed without a message";
    } else {
        wrong = fuzz_checkpoint_again(c, false);
        if (!wrong) wrong = fuzz_checkpoint_again(c, true);
    }
    nc_checkpoint_release(c);
    nc_work_release(&w);
    return wrong;
}

#endif
