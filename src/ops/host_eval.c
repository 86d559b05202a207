/* ops/host_eval.c: see host_eval.h. Static kernels run serially; a view that is not dense is copied to memory of its
 * own. */
#include "ops/host_eval.h"

#include "kernels/cpu/move/move.h"
#include "ops/binding.h"

#include <string.h>

typedef struct evaluation {
    nc_work *w;
    const nc_node *n;
    const nc_binding *b;
    nc_call call;
    nc_tensor *in, *out;
    uint32_t unaligned_in; /* the kernel reads these byte by byte */
    nc_buffer *held_in, **held;
    nc_buffer *copied[NC_HOST_EVAL_MAX]; /* inputs that were not aligned */
} evaluation;

static bool give_memory(const evaluation *e, int i) {
    nc_tensor *t = &e->out[i];
    size_t bytes;
    nc_dense_strides(t->dims, t->rank, t->strides);
    if (!nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes)) return false;
    e->held[i] = nc_buffer_host(bytes ? bytes : 1);
    if (e->held[i] == NULL) return false;
    t->data = e->held[i]->ptr;
    return true;
}

/* Constants may lie anywhere in their file; kernels get copies where they must. */
static bool align(evaluation *e, int i) {
    nc_tensor *t = &e->in[i];
    size_t bytes;
    if (t->data == NULL || nc_dtype_is_aligned(t->dtype, t->data) || (e->unaligned_in >> i & 1)) return true;
    if (!nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes)) return false;
    e->copied[i] = nc_buffer_host(bytes + 1);
    if (e->copied[i] == NULL) return false;
    t->data = memcpy(e->copied[i]->ptr, t->data, bytes);
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

static nc_code run_view(evaluation *e) {
    nc_tensor *seen = nc_arena_copy(&e->w->scratch, e->out, (size_t)e->n->n_out * sizeof *seen);
    NC_NEED(e->w, seen);
    nc_tensor_pointers(e->call.out, seen, e->n->n_out);
    NC_TRY(e->b->view(&e->call));
    for (int i = 0; i < e->n->n_out; i++) {
        if (e->n->out[i] == NULL) continue;
        if (e->held_in != NULL && nc_is_dense(&seen[i])) {
            e->out[i] = seen[i];
            e->held[i] = nc_buffer_ref(e->held_in);
            continue;
        }
        if (!nc_dtype_is_aligned(e->in[0].dtype, e->in[0].data)) {
            if (!align(e, 0)) NC_FAIL(e->w, NC_E_MEMORY, "out of memory");
            NC_TRY(e->b->view(&e->call));
        }
        if (!give_memory(e, i)) NC_FAIL(e->w, NC_E_MEMORY, "out of memory");
        if (!copy_view(&seen[i], &e->out[i])) return NC_E_UNSUPPORTED;
    }
    return NC_OK;
}

static nc_code host_eval_run(evaluation *e) {
    nc_call *c = &e->call;
    if (e->b->kind == NC_K_VIEW) return run_view(e);
    for (int i = 0; i < e->n->n_in; i++)
        if (!align(e, i)) NC_FAIL(e->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < e->n->n_out; i++)
        if (e->n->out[i] != NULL && !give_memory(e, i)) NC_FAIL(e->w, NC_E_MEMORY, "out of memory");
    if (e->b->workspace) c->bytes_workspace = e->b->workspace(c->state, e->in, c->n_in, e->out, c->n_out);
    nc_buffer *room = nc_buffer_host(c->bytes_workspace + 1);
    NC_NEED(e->w, room);
    c->workspace = room->ptr;
    nc_code code = e->b->run(c);
    nc_buffer_unref(room);
    return code;
}

nc_code nc_host_eval(nc_work *w, const nc_node *n, nc_tensor *in, nc_buffer *held_in, nc_tensor *out, nc_buffer **held,
                     bool *done) {
    char why[128];
    *done = false;
    const nc_binding *b = nc_binding_find(n, "cpu", why, sizeof why);
    if (n->n_in > NC_HOST_EVAL_MAX || b == NULL || (b->kind != NC_K_STATIC && b->kind != NC_K_VIEW)) return NC_OK;
    nc_diag quiet = {.code = NC_OK};
    nc_prep prep = {.w = w, .arena = &w->scratch, .node = n, .device = nc_device_cpu(), .no_packs = true};
    NC_TRY(nc_binding_prepare(b, &prep));
    nc_tensor **p = nc_arena_array(&w->scratch, (size_t)(n->n_in + n->n_out) + 1, sizeof *p);
    NC_NEED(w, p);
    evaluation e = {.w = w, .n = n, .b = b, .in = in, .out = out, .held_in = held_in, .held = held};
    e.unaligned_in = prep.unaligned_in;
    e.call = (nc_call){.state = prep.state,
                       .in = nc_tensor_pointers(p, in, n->n_in),
                       .out = nc_tensor_pointers(p + n->n_in, out, n->n_out),
                       .n_in = n->n_in,
                       .n_out = n->n_out,
                       .device = prep.device,
                       .diag = &quiet,
                       .node = n->name,
                       .op = n->card->name};
    nc_code code = host_eval_run(&e);
    for (int i = 0; i < n->n_in; i++) nc_buffer_unref(e.copied[i]);
    if (code == NC_E_MEMORY) return code;
    *done = code == NC_OK;
    return NC_OK;
}
