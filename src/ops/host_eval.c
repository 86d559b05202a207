/* ops/host_eval.c: see host_eval.h. Static kernels run serially; a view is copied to memory of its own. */
#include "ops/host_eval.h"

#include "base/intmath.h"
#include "kernels/cpu/move/move.h"
#include "ops/binding.h"

#include <string.h>

static void *aligned(nc_arena *a, size_t bytes) {
    void *p = nc_arena_alloc(a, bytes + 64);
    return p ? nc_align64_pointer(p) : NULL;
}

static bool give_memory(nc_arena *a, const nc_node *n, nc_tensor *out) {
    for (int i = 0; i < n->n_out; i++) {
        size_t bytes;
        if (n->out[i] == NULL) continue;
        nc_dense_strides(out[i].dims, out[i].rank, out[i].strides);
        if (!nc_tensor_bytes(out[i].dtype, out[i].dims, out[i].rank, &bytes)) return false;
        if ((out[i].data = aligned(a, bytes)) == NULL) return false;
    }
    return true;
}

/* Elements of less than a byte can be copied as a whole, not one by one. */
static bool copy_view(const nc_tensor *seen, const nc_tensor *to) {
    size_t bytes;
    if (!nc_dtype_is_packed(to->dtype)) {
        nck_copy(to->rank, to->dims, nc_dtype_bytes(to->dtype), seen->data, seen->strides, to->data, to->strides, NULL);
        return true;
    }
    if (!nc_is_dense(seen) || !nc_tensor_bytes(to->dtype, to->dims, to->rank, &bytes)) return false;
    if (bytes) memcpy(to->data, seen->data, bytes);
    return true;
}

static nc_code run_view(nc_work *w, nc_arena *a, const nc_binding *b, nc_call *c, const nc_node *n, nc_tensor *out) {
    nc_tensor *seen = nc_arena_copy(&w->scratch, out, (size_t)n->n_out * sizeof *out);
    NC_NEED(w, seen);
    c->out = seen;
    NC_TRY(b->view(c));
    if (!give_memory(a, n, out)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != NULL && !copy_view(&seen[i], &out[i])) return NC_E_UNSUPPORTED;
    return NC_OK;
}

static nc_code run(nc_work *w, nc_arena *a, const nc_binding *b, nc_call *c, const nc_node *n, nc_tensor *out) {
    if (b->kind == NC_K_VIEW) return run_view(w, a, b, c, n, out);
    if (!give_memory(a, n, out)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    if (b->workspace) c->bytes_workspace = b->workspace(c->state, c->in, c->n_in, c->out, c->n_out);
    NC_NEED(w, c->workspace = aligned(&w->scratch, c->bytes_workspace));
    return b->run(c);
}

nc_code nc_host_eval(nc_work *w, nc_arena *arena, const nc_node *n, nc_tensor *in, nc_tensor *out, bool *done) {
    char why[128];
    *done = false;
    const nc_binding *b = nc_binding_find(n, "cpu", why, sizeof why);
    if (b == NULL || (b->kind != NC_K_STATIC && b->kind != NC_K_VIEW)) return NC_OK;
    nc_diag quiet = {.code = NC_OK};
    nc_prep prep = {.w = w, .arena = &w->scratch, .node = n, .device = nc_device_cpu(), .no_packs = true};
    if (b->prepare) NC_TRY(b->prepare(&prep));
    nc_call c = {.state = prep.state, .in = in, .out = out, .n_in = n->n_in, .n_out = n->n_out, .device = prep.device};
    c.diag = &quiet, c.node = n->name, c.op = n->card->name;
    nc_code code = run(w, arena, b, &c, n, out);
    if (code == NC_E_MEMORY) return code;
    *done = code == NC_OK;
    return NC_OK;
}
