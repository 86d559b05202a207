/* transform/infer/gemms.c: products of matrices take in what stands around them: MatMul and Gemm an Add as their C,
 * MatMul a Transpose of a matrix as transA or transB (Gemm has that in common/transposes.c). Matrices only: MatMul of
 * more dims has no such op. */
#include "transform/pattern.h"
#include "transform/transform.h"

#include <string.h>

enum { C_OPTIONAL = 11 };

static bool is_matrix(const nc_value *v) { return nc_rewrite_tensor(v) && v->type->rank == 2; }

/* C may be widened to the product's dims but must not widen them. */
static bool is_addend(const nc_value *c, const nc_value *product, const nc_value *sum) {
    return nc_rewrite_tensor(c) && c->type->rank <= 2 && nc_rewrite_same_type(product, sum) &&
           c->type->elem == product->type->elem;
}

static nc_code with_addend(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_value *p = nc_match_value(m, "p");
    (void)w;
    *fits = is_matrix(made->in[0]) && is_matrix(made->in[1]) && is_addend(made->in[2], p, m->root->out[0]);
    if (!nc_rewrite_is(p->def, "Gemm")) return NC_OK;
    for (int i = 0; i < p->def->n_attrs && made->n_attrs < NC_PATTERN_ATTRS; i++)
        if (strcmp(p->def->attrs[i].name, "beta") != 0) made->attrs[made->n_attrs++] = p->def->attrs[i];
    return NC_OK;
}

static bool turns_matrix(const nc_value *t) {
    int n = 0;
    const int64_t *perm = t != NULL ? nc_attr_ints(t->def, "perm", &n) : NULL;
    return t == NULL || perm == NULL || (n == 2 && perm[0] == 1);
}

static nc_code transposed(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_value *ta = nc_match_value(m, "ta"), *tb = nc_match_value(m, "tb");
    (void)w;
    *fits = is_matrix(made->in[0]) && is_matrix(made->in[1]) && turns_matrix(ta) && turns_matrix(tb) &&
            nc_model_opset(m->root->graph->model, "") >= C_OPTIONAL;
    if (ta != NULL) made->attrs[made->n_attrs++] = (nc_attr){.name = "transA", .kind = NC_A_INT, .i = 1};
    if (tb != NULL) made->attrs[made->n_attrs++] = (nc_attr){.name = "transB", .kind = NC_A_INT, .i = 1};
    return NC_OK;
}

static const nc_pattern rows[] = {
    {.text = "Add(p=MatMul(a, b), c)", .op = "Gemm", .inputs = "a b c", .where = with_addend},
    {.text = "Add(p=Gemm(a, b), c)", .op = "Gemm", .inputs = "a b c", .where = with_addend},
    {.text = "MatMul(ta=Transpose(a), tb=Transpose(b))", .op = "Gemm", .inputs = "a b", .where = transposed},
    {.text = "MatMul(ta=Transpose(a), b)", .op = "Gemm", .inputs = "a b", .where = transposed},
    {.text = "MatMul(a, tb=Transpose(b))", .op = "Gemm", .inputs = "a b", .where = transposed},
};

nc_code nc_pass_gemms(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_pattern_apply(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}
