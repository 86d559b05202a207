/* ops/scatter/scatter_grad.c: the gradient of ScatterElements and ScatterND, see scatter.h. For every reduction an
 * element of the result depends on data at its place and on all updates that went there:
 *   none      the update, or data where none came
 *   add       their sum
 *   mul       their product; the others' product comes from that of all factors that are not 0, and how many are
 *   min, max  the chosen one; those that are equal to it share the gradient evenly, as in PyTorch
 * Second derivatives of mul leave out what two zeros at one place would give. */
#include "ops/scatter/scatter.h"

#include "ops/build.h"

#include <string.h>

typedef struct scattered {
    nc_grad *g;
    nc_builder *b;
    const nc_scatter_pair *pair;
    nc_value *dy;
} scattered;

static nc_value *gather(const scattered *s, nc_value *x) {
    nc_value *in[2] = {x, nc_grad_x(s->g, 1)};
    return nc_build_attr1(s->b, "", s->pair->gather, in, 2, s->pair->attrs, s->pair->n_attrs);
}

static nc_value *scatter(const scattered *s, nc_value *x, nc_value *updates, const char *how) {
    nc_value *in[3] = {x, nc_grad_x(s->g, 1), updates};
    nc_attr attrs[2] = {{.name = "reduction", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)how, strlen(how)}}};
    for (int i = 0; i < s->pair->n_attrs; i++) attrs[1 + i] = s->pair->attrs[i];
    return nc_build_attr1(s->b, "", s->pair->scatter, in, 3, attrs, 1 + s->pair->n_attrs);
}

static nc_value *number(const scattered *s, double v) {
    return s->dy != NULL && s->dy->type != NULL ? nc_build_scalar(s->b, s->dy->type->elem, v) : NULL;
}

/* 1 where a equals c, else 0. */
static nc_value *equal(const scattered *s, nc_value *a, nc_value *c) {
    nc_value *same = nc_build1(s->b, "Equal", 2, a, c);
    return s->dy->type != NULL ? nc_build_cast(s->b, same, s->dy->type->elem) : NULL;
}

static void by_place(const scattered *s, bool adds) {
    nc_grad *g = s->g;
    if (g->wants[0] && adds) nc_grad_set(g, 0, s->dy);
    if (g->wants[0] && !adds)
        nc_grad_set(g, 0, scatter(s, s->dy, nc_build_zeros_like(s->b, nc_grad_like(g, 2)), "none"));
    if (g->wants[2]) nc_grad_set(g, 2, gather(s, s->dy));
}

static void by_choice(const scattered *s) {
    nc_grad *g = s->g;
    nc_value *y = nc_grad_y(g, 0), *is_x = equal(s, nc_grad_x(g, 0), y);
    nc_value *is_u = equal(s, nc_grad_x(g, 2), gather(s, y));
    nc_value *share = nc_build1(s->b, "Div", 2, s->dy, scatter(s, is_x, is_u, "add"));
    if (g->wants[0]) nc_grad_set(g, 0, nc_build1(s->b, "Mul", 2, share, is_x));
    if (g->wants[2]) nc_grad_set(g, 2, nc_build1(s->b, "Mul", 2, gather(s, share), is_u));
}

static void by_product(const scattered *s) {
    nc_grad *g = s->g;
    nc_value *u = nc_grad_x(g, 2), *one = number(s, 1), *zero = number(s, 0);
    if (g->wants[0]) {
        nc_value *ones = nc_build_expand_like(s->b, one, nc_grad_like(g, 0));
        nc_grad_set(g, 0, nc_build1(s->b, "Mul", 2, s->dy, scatter(s, ones, u, "mul")));
    }
    if (!g->wants[2]) return;
    nc_value *is_zero = equal(s, u, zero);
    nc_value *factor = nc_build1(s->b, "Where", 3, nc_build1(s->b, "Equal", 2, u, zero), one, u);
    nc_value *zeros = scatter(s, nc_build_zeros_like(s->b, nc_grad_like(g, 0)), is_zero, "add");
    nc_value *product = gather(s, nc_build1(s->b, "Mul", 2, s->dy, scatter(s, nc_grad_x(g, 0), factor, "mul")));
    nc_value *alone = nc_build1(s->b, "Equal", 2, gather(s, zeros), is_zero);
    nc_value *others = nc_build1(s->b, "Where", 3, alone, product, zero);
    nc_grad_set(g, 2, nc_build1(s->b, "Div", 2, others, factor));
}

nc_code nc_scatter_grad(nc_grad *g, const nc_scatter_pair *pair) {
    const char *how = nc_attr_has(g->node, "reduction") ? nc_attr_str(g->node, "reduction") : "none";
    scattered s = {.g = g, .b = g->b, .pair = pair, .dy = nc_grad_dy(g, 0)};
    if (s.dy == NULL) return NC_OK;
    if (strcmp(how, "none") == 0 || strcmp(how, "add") == 0)
        by_place(&s, how[0] == 'a');
    else if (strcmp(how, "mul") == 0)
        by_product(&s);
    else
        by_choice(&s);
    return nc_grad_end(g);
}
