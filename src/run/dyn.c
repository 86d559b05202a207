/* run/dyn.c: the world of a dynamic kernel: objects in and out, new tensors, subprograms. Runs on the host; when it
 * starts, all its operands are ready, and when a subprogram ends, all its work is done. */
#include "run/frame.h"

#include "base/mem.h"
#include "infer/check.h"

#include <string.h>

typedef struct dyn {
    nc_dyn d; /* first: kernels hold a pointer to it */
    nc_frame *f;
    int i;
} dyn;

static nc_object *new_tensor(nc_frame *f, int place, nc_dtype type, int rank, const int64_t *dims) {
    size_t bytes;
    if (type == NC_STRING) return nc_object_host_tensor(type, rank, dims);
    if (!nc_tensor_bytes(type, dims, rank, &bytes)) {
        nc_fail(&f->work, NC_E_LIMIT, "a result is too large to address");
        return NULL;
    }
    nc_buffer *b = nc_device_buffer(nc_frame_device(f, place), f->session->budget, bytes ? bytes : 1, &f->work.diag);
    return b ? nc_object_tensor(b, type, rank, dims) : NULL;
}

static nc_code copy_bytes(nc_frame *f, int place, void *dst, const void *src, size_t bytes) {
    nc_device *d = nc_frame_device(f, place);
    nc_stream *s = f->streams[nc_program_stream(f->program, NC_STREAM_COMPUTE, place)];
    if (!bytes) return NC_OK;
    NC_TRY(d->table->copy(d, s, dst, !place, src, !place, bytes, &f->work.diag));
    return d->table->stream_sync(d, s, &f->work.diag);
}

static nc_object *copy_tensor(nc_frame *f, int place, const nc_tensor *t) {
    if (t->dtype == NC_STRING) return nc_object_strings(t->rank, t->dims, t->data);
    nc_object *o = new_tensor(f, place, t->dtype, t->rank, t->dims);
    size_t bytes;
    if (o && nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes) &&
        copy_bytes(f, place, o->t.data, t->data, bytes) == NC_OK)
        return o;
    nc_object_unref(o);
    return NULL;
}

static nc_object *dyn_object(nc_dyn *d, int i) {
    dyn *y = (dyn *)d;
    const nc_instr *x = &y->f->program->instrs[y->i];
    if (x->in[i] < 0) return NULL;
    if (d->in[i]) return nc_object_ref(d->in[i]);
    nc_object *o = y->f->slots[x->in[i]].obj;
    return o ? nc_object_ref(o) : copy_tensor(y->f, y->f->program->slots[x->in[i]].place, d->call->in[i]);
}

static nc_code dyn_alloc(nc_dyn *d, int i, nc_dtype type, int rank, const int64_t *dims, nc_tensor *t) {
    dyn *y = (dyn *)d;
    const nc_instr *x = &y->f->program->instrs[y->i];
    int place = x->out[i] >= 0 ? y->f->program->slots[x->out[i]].place : 0;
    if (rank < 0 || rank > NC_MAX_RANK)
        NC_FAIL(&y->f->work, NC_E_LIMIT, "a result of rank %d; at most %d", rank, NC_MAX_RANK);
    nc_object *o = new_tensor(y->f, place, type, rank, dims);
    NC_NEED(&y->f->work, o);
    nc_object_unref(d->out[i]);
    d->out[i] = o;
    nc_tensor_copy(t, &o->t);
    return NC_OK;
}

static bool same_shape(const nc_object *a, const nc_object *b) {
    return a->kind == NC_OBJ_TENSOR && b->kind == NC_OBJ_TENSOR && a->t.dtype == b->t.dtype && a->t.rank == b->t.rank &&
           memcmp(a->t.dims, b->t.dims, (size_t)a->t.rank * sizeof *a->t.dims) == 0;
}

static nc_object *stack_strings(nc_object **items, int64_t n, const int64_t *dims) {
    size_t each = (size_t)nc_tensor_numel(&items[0]->t);
    int rank = items[0]->t.rank + 1;
    int64_t numel;
    nc_str *all = nc_numel(dims, rank, &numel) ? nc_alloc_zero((size_t)numel + 1, sizeof *all) : NULL;
    for (int64_t k = 0; all && each && k < n; k++) memcpy(all + (size_t)k * each, items[k]->t.data, each * sizeof *all);
    nc_object *o = all ? nc_object_strings(rank, dims, all) : NULL;
    nc_free(all);
    return o;
}

static nc_object *dyn_stack(nc_dyn *d, int i_out, nc_object **items, int64_t n) {
    dyn *y = (dyn *)d;
    nc_frame *f = y->f;
    int slot = f->program->instrs[y->i].out[i_out], place = slot >= 0 ? f->program->slots[slot].place : 0;
    int64_t dims[NC_MAX_RANK] = {n};
    if (items[0]->t.rank >= NC_MAX_RANK) {
        nc_fail(&f->work, NC_E_LIMIT, "scan output %d has %d dims, at most %d are supported", i_out,
                items[0]->t.rank + 1, NC_MAX_RANK);
        return NULL;
    }
    for (int64_t k = 0; k < n; k++) {
        if (same_shape(items[k], items[0])) continue;
        nc_fail(&f->work, NC_E_SHAPE, "results to be stacked differ in shape at step %lld", (long long)k);
        return NULL;
    }
    memcpy(dims + 1, items[0]->t.dims, (size_t)items[0]->t.rank * sizeof *dims);
    if (items[0]->t.dtype == NC_STRING) return stack_strings(items, n, dims);
    size_t bytes = 0;
    if (!nc_tensor_bytes(items[0]->t.dtype, items[0]->t.dims, items[0]->t.rank, &bytes) ||
        (size_t)nc_tensor_numel(&items[0]->t) * nc_dtype_bits(items[0]->t.dtype) != 8 * bytes) {
        nc_fail(&f->work, NC_E_UNSUPPORTED, "a scan output of %s must fill whole bytes",
                nc_dtype_name(items[0]->t.dtype));
        return NULL;
    }
    nc_object *o = new_tensor(f, place, items[0]->t.dtype, items[0]->t.rank + 1, dims);
    for (int64_t k = 0; o && k < n; k++) {
        if (copy_bytes(f, place, (char *)o->t.data + (size_t)k * bytes, items[k]->t.data, bytes) == NC_OK) continue;
        nc_object_unref(o);
        o = NULL;
    }
    return o;
}

static bool dyn_cancelled(nc_dyn *d) {
    const atomic_int *c = ((dyn *)d)->f->cancel;
    return c && atomic_load_explicit(c, memory_order_relaxed);
}

/* ---- subprograms ---- */

/* Operands as the child's last inputs. */
static nc_code bind_operands(const dyn *y, const nc_instr *x, int first, int n, nc_frame *child) {
    int n_formal = child->program->n_inputs - n;
    for (int k = 0; k < n; k++) {
        int operand = first + k;
        nc_object *o = y->d.in[operand] ? y->d.in[operand] : y->f->slots[x->in[operand]].obj;
        bool tensor = !o || o->kind == NC_OBJ_TENSOR;
        NC_TRY(nc_frame_bind_input(child, n_formal + k, tensor ? y->d.call->in[operand] : NULL,
                                   o ? nc_object_ref(o) : NULL));
    }
    return NC_OK;
}

static nc_code run_child(const dyn *y, nc_frame *child, const nc_instr *x, int i_sub, nc_object **in, int n_in) {
    const nc_frame *f = y->f;
    memcpy(child->sym, f->sym, (size_t)f->program->n_syms * sizeof *f->sym);
    memcpy(child->known, f->known, (size_t)f->program->n_syms * sizeof *f->known);
    child->cancel = f->cancel;
    for (int i = 0; i < n_in; i++) {
        nc_object *o = in[i];
        in[i] = NULL;
        NC_TRY(nc_frame_bind_input(child, i, o && o->kind == NC_OBJ_TENSOR ? &o->t : NULL, o));
    }
    const nc_sub *sub = &x->node->subs[i_sub];
    if (x->subs)
        NC_TRY(bind_operands(y, x, sub->first_capture, sub->n_captures, child));
    else
        NC_TRY(bind_operands(y, x, 0, x->n_in, child));
    return nc_frame_run(child, child->program->n_instrs, false);
}

static nc_code dyn_run_sub(nc_dyn *d, int i_sub, nc_object **in, int n_in, nc_object **out, int n_out) {
    dyn *y = (dyn *)d;
    nc_frame *f = y->f, *child = NULL;
    const nc_instr *x = &f->program->instrs[y->i];
    nc_variant *variant = NULL;
    nc_prepared *prepared = x->subs ? f->prepared->subs[y->i][i_sub] : NULL;
    nc_code code = prepared ? NC_OK : nc_deferred_get(f, y->i, y->d.call->in, &variant, &prepared);
    if (code == NC_OK) code = nc_frame_acquire(&f->work, f->session, prepared, f, &child);
    if (code == NC_OK) {
        code = run_child(y, child, x, i_sub, in, n_in);
        if (code != NC_OK && !f->work.diag.code) f->work.diag = child->work.diag;
        for (int k = 0; code == NC_OK && k < n_out; k++) {
            nc_object *o = nc_frame_output(child, k);
            out[k] = o ? nc_object_ref(o) : NULL;
            if (!o) code = nc_fail(&f->work, NC_E_FAIL, "output %d of subgraph %d was not made", k, i_sub);
        }
        nc_frame_release(child);
    }
    nc_deferred_release(f->session, variant);
    for (int i = 0; i < n_in; i++) nc_object_unref(in[i]);
    for (int k = 0; code != NC_OK && k < n_out; k++) {
        nc_object_unref(out[k]);
        out[k] = NULL;
    }
    return code;
}

/* ---- the call ---- */

static void give_objects(nc_frame *f, const nc_instr *x, nc_object **in) {
    for (int j = 0; j < x->n_in; j++) {
        nc_live *l = x->in[j] >= 0 ? &f->slots[x->in[j]] : NULL;
        if (!l || !l->obj || (l->obj->kind == NC_OBJ_TENSOR && l->obj->t.dtype != NC_STRING)) continue;
        in[j] = l->obj;
        if (x->moved[j]) l->obj = NULL;
    }
}

/* A dynamic kernel makes its results itself: into memory that the caller has bound to an output they are copied. */
static nc_code fill_bound(nc_frame *f, const nc_slot *s, const nc_object *bound, const nc_object *made) {
    size_t bytes;
    if (made->kind != NC_OBJ_TENSOR || made->t.dtype == NC_STRING)
        NC_FAIL(&f->work, NC_E_UNSUPPORTED, "output '%s': only tensors of numbers can be written into bound memory",
                s->value->name);
    if (!same_shape(bound, made) || !nc_is_dense(&bound->t) ||
        !nc_tensor_bytes(made->t.dtype, made->t.dims, made->t.rank, &bytes))
        NC_FAIL(&f->work, NC_E_SHAPE, "the buffer bound to output '%s' has another type or shape", s->value->name);
    return copy_bytes(f, s->place, bound->t.data, made->t.data, bytes);
}

static nc_code keep_results(nc_frame *f, const nc_instr *x, nc_object **out) {
    for (int k = 0; k < x->n_out; k++) {
        if (x->out[k] < 0) continue;
        const nc_slot *s = &f->program->slots[x->out[k]];
        nc_live *l = &f->slots[x->out[k]];
        if (!out[k]) NC_FAIL(&f->work, NC_E_FAIL, "output %d ('%s') was not made", k, s->value->name);
        if (l->there && l->obj) {
            NC_TRY(fill_bound(f, s, l->obj, out[k]));
        } else {
            nc_object_unref(l->obj);
            l->obj = out[k], out[k] = NULL;
        }
        if (l->obj->kind != NC_OBJ_TENSOR) continue;
        nc_tensor_copy(&l->t, &l->obj->t);
        if (s->dtype && l->t.dtype != s->dtype)
            NC_FAIL(&f->work, NC_E_TYPE, "output '%s': expected %s, got %s", s->value->name, nc_dtype_name(s->dtype),
                    nc_dtype_name(l->t.dtype));
        if (s->rank >= 0 && l->t.rank != s->rank)
            NC_FAIL(&f->work, NC_E_SHAPE, "output '%s': expected rank %d, got %d", s->value->name, s->rank, l->t.rank);
        NC_TRY(nc_bind_dims(f, x->out[k], l->t.dims));
    }
    return NC_OK;
}

/* What is known of the results before the kernel runs: type, rank and dims, -1 where only the kernel can tell. */
static void expected_dims(const nc_frame *f, const nc_instr *x, nc_tensor *out) {
    for (int k = 0; k < x->n_out; k++) {
        const nc_slot *s = x->out[k] >= 0 ? &f->program->slots[x->out[k]] : NULL;
        nc_tensor_set(&out[k], NULL, s ? s->dtype : NC_UNDEFINED, s ? s->rank : -1);
        for (int d = 0; d < out[k].rank; d++)
            if (!nc_dim_eval(f->program->dims[s->dims[d]], f->sym, f->known, &out[k].dims[d])) out[k].dims[d] = -1;
    }
}

static nc_code check_operands(nc_frame *f, const nc_instr *x, const nc_call *c) {
    for (int j = 0; j < x->n_in && j < x->node->n_in; j++) {
        const nc_object *o = x->in[j] >= 0 ? f->slots[x->in[j]].obj : NULL;
        if (x->in[j] < 0 || (o && o->kind != NC_OBJ_TENSOR)) continue;
        NC_TRY(nc_infer_check_one(&f->work, x->node, j, c->in[j]->rank, c->in[j]->dims));
    }
    return NC_OK;
}

/* The arrays are the frame's: one of its dynamic instructions runs at a time, and subprograms have frames of their own.
 */
nc_code nc_exec_dynamic(nc_frame *f, int i) {
    const nc_instr *x = &f->program->instrs[i];
    nc_object **objects = f->objects, **made = objects + x->n_in;
    nc_call c = f->calls[i];
    NC_TRY(check_operands(f, x, &c));
    c.out = f->results_ptr;
    memset((void *)objects, 0, (size_t)(x->n_in + x->n_out) * sizeof *objects);
    expected_dims(f, x, f->results);
    give_objects(f, x, objects);
    dyn y = {.d = {.call = &c,
                   .in = objects,
                   .moved = x->moved,
                   .out = made,
                   .n_operands = x->n_in,
                   .object = dyn_object,
                   .alloc = dyn_alloc,
                   .run_sub = dyn_run_sub,
                   .stack = dyn_stack,
                   .cancelled = dyn_cancelled},
             .f = f,
             .i = i};
    nc_code code = x->binding->dynamic(&y.d);
    if (code == NC_OK) code = keep_results(f, x, made);
    for (int j = 0; j < x->n_in; j++)
        if (x->moved[j]) nc_object_unref(objects[j]);
    for (int k = 0; k < x->n_out; k++) nc_object_unref(made[k]);
    return code;
}
