/* ops/grad_parts.c: gradients through what an op is made of. For ops whose kernels keep nothing for a backward pass,
 * and for gradients of gradient ops, of any order: the parts are emitted into the gradient's graph and differentiated
 * there. Operands pass through an Identity each, so that nothing in front of them is reached. */
#include "ops/build.h"

#include <string.h>

enum { MOST = 24 };

/* Values that gradients are asked for, and where they go. */
typedef struct asked {
    nc_value *v[MOST];
    int operand[MOST];
    int n;
} asked;

static nc_value *operand(nc_grad *g, int i, asked *xs) {
    nc_value *x = nc_grad_x(g, i);
    if (x == NULL || !g->wants[i]) return x;
    x = nc_build1(g->b, "Identity", 1, x);
    xs->v[xs->n] = x;
    xs->operand[xs->n++] = i;
    return x;
}

static nc_code differentiate(nc_grad *g, nc_value *const *ys, nc_value *const *dys, int n_y, nc_value *const *xs,
                             int n_x, nc_value **dxs) {
    nc_value *y[MOST], *dy[MOST];
    int n = 0;
    for (int i = 0; i < n_y; i++)
        if (ys[i] != NULL && dys[i] != NULL) y[n] = ys[i], dy[n++] = dys[i];
    NC_TRY(g->b->code);
    if (g->b->grad == NULL) NC_FAIL(g->b->w, NC_E_UNSUPPORTED, "gradients by parts are not to be had here");
    return g->b->grad(g->b, y, dy, n, xs, n_x, dxs);
}

static nc_code hand_out(nc_grad *g, const asked *xs, nc_value *const *dxs) {
    for (int i = 0; i < xs->n; i++) {
        nc_value *dx = dxs[i] != NULL ? dxs[i] : nc_build_zeros_like(g->b, xs->v[i]);
        nc_grad_set(g, xs->operand[i], dx);
    }
    return nc_grad_end(g);
}

nc_code nc_grad_by_parts(nc_grad *g, nc_parts parts) {
    const nc_node *n = g->node;
    nc_value *in[MOST] = {NULL}, *out[MOST] = {NULL}, *dxs[MOST] = {NULL};
    asked xs = {.n = 0};
    if (n->n_in > MOST || n->n_out > MOST) NC_FAIL(g->b->w, NC_E_LIMIT, "more than %d operands", MOST);
    for (int i = 0; i < n->n_in; i++) in[i] = operand(g, i, &xs);
    NC_TRY(g->b->code);
    NC_TRY(parts(g->b, n, in, out));
    NC_TRY(differentiate(g, out, g->dy, n->n_out, xs.v, xs.n, dxs));
    return hand_out(g, &xs, dxs);
}

nc_code nc_grad_twice_by_parts(nc_grad *g, int n_in, int n_dy, nc_parts parts) {
    const nc_node *n = g->node;
    nc_value *in[MOST] = {NULL}, *out[MOST] = {NULL}, *first[MOST] = {NULL}, *dx[MOST] = {NULL}, *dxs[MOST] = {NULL};
    asked xs = {.n = 0}, inner = {.n = 0};
    if (n_in + n_dy > MOST) NC_FAIL(g->b->w, NC_E_LIMIT, "more than %d operands", MOST);
    for (int i = 0; i < n_in + n_dy; i++) {
        in[i] = i < n->n_in ? operand(g, i, &xs) : NULL;
        if (i >= n_in || in[i] == NULL || nc_grad_dy(g, i) == NULL) continue;
        /* A gradient of it arrives, whether or not one of its own is asked for. */
        if (!g->wants[i]) in[i] = nc_build1(g->b, "Identity", 1, in[i]);
        inner.v[inner.n] = in[i];
        inner.operand[inner.n++] = i;
    }
    NC_TRY(g->b->code);
    NC_TRY(parts(g->b, n, in, out));
    NC_TRY(differentiate(g, out, in + n_in, n_dy, inner.v, inner.n, first));
    for (int i = 0; i < inner.n; i++) dx[i] = first[i] != NULL ? g->dy[inner.operand[i]] : NULL;
    NC_TRY(differentiate(g, first, dx, inner.n, xs.v, xs.n, dxs));
    return hand_out(g, &xs, dxs);
}

nc_code nc_grad_op_by_parts(nc_builder *b, const nc_node *n, int n_in, int n_dy, nc_parts parts, nc_value **out) {
    nc_value *in[MOST] = {NULL}, *ys[MOST] = {NULL}, *dys[MOST] = {NULL}, *xs[MOST], *dxs[MOST] = {NULL};
    int n_y = 0, n_x = 0;
    if (n_in + n_dy > MOST) NC_FAIL(b->w, NC_E_LIMIT, "more than %d operands", MOST);
    if (b->grad == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are gradients, which nobody takes here");
    for (int i = 0; i < n_in && i < n->n_in; i++) {
        in[i] = n->in[i];
        if (i < n->n_out && n->out[i] != NULL) xs[n_x++] = in[i] = nc_build1(b, "Identity", 1, in[i]);
    }
    NC_TRY(b->code);
    NC_TRY(parts(b, n, in, ys));
    for (int i = 0; i < n_dy; i++)
        if (n->in[n_in + i] != NULL) ys[n_y] = ys[i], dys[n_y++] = n->in[n_in + i];
    NC_TRY(b->grad(b, ys, dys, n_y, xs, n_x, dxs));
    for (int i = 0, k = 0; i < n->n_out; i++) {
        if (n->out[i] == NULL) continue;
        out[i] = dxs[k] != NULL ? dxs[k] : nc_build_zeros_like(b, xs[k]);
        k++;
    }
    return b->code;
}

nc_code nc_grad_pieces(nc_builder *b, const nc_node *n, nc_value **out) {
    bool wanted[MOST];
    if (n->card->grad_form == NULL) return n->card->decompose(b, n, out);
    if (n->n_out >= MOST) NC_FAIL(b->w, NC_E_LIMIT, "more than %d outputs", MOST);
    int n_out = 0;
    while (n->version->out[n_out].name != NULL) n_out++;
    for (int i = 0; i < n_out; i++) wanted[i] = i < n->n_out && n->out[i] != NULL;
    wanted[n_out] = true;
    nc_node *form =
        nc_build_wanted(b, "nacre", n->card->grad_form, n->in, n->n_in, wanted, n_out + 1, n->attrs, n->n_attrs);
    for (int i = 0; form != NULL && i < n->n_out; i++) out[i] = form->out[i];
    return b->code;
}
