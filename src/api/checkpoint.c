/* api/checkpoint.c: checkpoints over train/checkpoint.h: the same pointer under two names. */
#include "api/api.h"
#include "nacre/nacre_train.h"

#include "train/checkpoint.h"

#include <string.h>

static nc_checkpoint *inside(const nacre_checkpoint *c) { return (nc_checkpoint *)(uintptr_t)c; }

static nacre_code hand_out(nc_work *w, nc_code code, nc_checkpoint *const *c, nacre_checkpoint **out,
                           nacre_error *err) {
    if (code == NC_OK) *out = (nacre_checkpoint *)*c;
    return nc_api_end(w, code, err);
}

nacre_code nacre_checkpoint_create(nacre_checkpoint **out, nacre_error *err) {
    nc_work w;
    nc_checkpoint *c = NULL;
    nc_work_init(&w);
    return hand_out(&w, nc_checkpoint_create(&w, &c), &c, out, err);
}

nacre_code nacre_checkpoint_load(const char *path, nacre_checkpoint **out, nacre_error *err) {
    nc_work w;
    nc_checkpoint *c = NULL;
    nc_work_init(&w);
    return hand_out(&w, nc_checkpoint_load(&w, path, &c), &c, out, err);
}

nacre_code nacre_checkpoint_load_bytes(const void *bytes, size_t n, nacre_checkpoint **out, nacre_error *err) {
    nc_work w;
    nc_checkpoint *c = NULL;
    nc_work_init(&w);
    return hand_out(&w, nc_checkpoint_load_bytes(&w, bytes, n, &c), &c, out, err);
}

nacre_code nacre_checkpoint_save(const nacre_checkpoint *c, const char *path, const char *format, int with_optimizer,
                                 nacre_error *err) {
    nc_work w;
    bool ort = strcmp(format, "ort") == 0;
    if (!ort && strcmp(format, "safetensors") != 0)
        return nc_api_fail(err, NC_E_ARGUMENT, "checkpoint: expected the format 'safetensors' or 'ort', got '%.40s'",
                           format);
    nc_work_init(&w);
    return nc_api_end(&w,
                      nc_checkpoint_save(&w, inside(c), path, ort ? NC_CHECKPOINT_ORT : NC_CHECKPOINT_SAFETENSORS,
                                         with_optimizer != 0),
                      err);
}

void nacre_checkpoint_release(nacre_checkpoint *c) { nc_checkpoint_release(inside(c)); }

nacre_code nacre_checkpoint_add(nacre_checkpoint *c, const char *name, nacre_type type, nacre_value *value,
                                int trainable, nacre_error *err) {
    nc_work w;
    nc_checkpoint *own = inside(c);
    if (own->params.n && own->nominal != (value == NULL))
        return nc_api_fail(err, NC_E_ARGUMENT, "checkpoint: parameter '%.100s' %s, others %s", name,
                           value ? "has contents" : "has none", value ? "have none" : "have contents");
    nc_work_init(&w);
    nc_code code =
        nc_checkpoint_add(&w, own, name, (nc_dtype)type, nc_object_ref(nc_api_object(value)), trainable != 0);
    if (code == NC_OK) own->nominal = value == NULL;
    return nc_api_end(&w, code, err);
}

size_t nacre_checkpoint_n(const nacre_checkpoint *c) { return (size_t)inside(c)->params.n; }

const char *nacre_checkpoint_name(const nacre_checkpoint *c, size_t i, nacre_type *type, int *trainable) {
    if (i >= nacre_checkpoint_n(c)) return NULL;
    const nc_parameter *p = &inside(c)->params.v[i];
    if (type) *type = (nacre_type)p->dtype;
    if (trainable) *trainable = p->trainable;
    return p->name;
}

nacre_value *nacre_checkpoint_value(const nacre_checkpoint *c, size_t i) {
    return i < nacre_checkpoint_n(c) ? nc_api_value(nc_object_ref(inside(c)->params.v[i].value)) : NULL;
}

int nacre_checkpoint_is_nominal(const nacre_checkpoint *c) { return inside(c)->nominal; }
