/* infer/check.c: do the operands have types that the op takes, and does what was inferred agree with what the model
 * declared? Messages name the parameter, what is expected and what came. Used by infer.c for every node. */
#include "infer/check.h"

#include "ir/assume.h"

#include <stdio.h>

static nc_types bits_of(const nc_type *t) {
    switch (t->kind) {
    case NC_T_TENSOR:
    case NC_T_SPARSE: return NC_BIT(t->elem);
    case NC_T_SEQUENCE: return NC_TYPES_SEQUENCE;
    case NC_T_OPTIONAL: return NC_TYPES_OPTIONAL;
    case NC_T_MAP: return NC_TYPES_MAP;
    case NC_T_TAPE: return NC_TYPES_TAPE;
    }
    return 0;
}

static void print_types(nc_text *out, nc_types types) {
    static const char *const kinds[] = {"sequence", "optional", "map", "tape"};
    const char *sep = "";
    for (int t = 1; t < NC_N_DTYPES; t++)
        if (types & NC_BIT(t)) {
            nc_text_addf(out, "%s%s", sep, nc_dtype_name((nc_dtype)t));
            sep = " or ";
        }
    for (int k = 0; k < 4; k++)
        if (types & (NC_TYPES_SEQUENCE << k)) {
            nc_text_addf(out, "%s%s", sep, kinds[k]);
            sep = " or ";
        }
}

static nc_code refuse(nc_work *w, int i, const char *param, nc_types expected, const nc_type *got) {
    nc_text want = {0}, have = {0};
    char type[60] = ""; /* onnxruntime's words: programs look for them */
    if (got->kind == NC_T_TENSOR)
        snprintf(type, sizeof type, "Type Error: Type 'tensor(%s)': ", nc_dtype_name(got->elem));
    print_types(&want, expected);
    nc_type_print(&have, got);
    nc_code code = nc_fail(w, NC_E_TYPE, "%sinput %d (%s) is %s, expected %s", type, i, param, have.s ? have.s : "?",
                           want.s ? want.s : "another type");
    nc_text_release(&want);
    nc_text_release(&have);
    return code;
}

/* The parameter of operand i; NULL: there are not so many. A variadic one is the last. */
static const nc_param *param_at(const nc_param *p, int i) {
    for (int k = 0; p[k].name != NULL; k++)
        if (k == i || (p[k].flags & NC_P_VARIADIC)) return &p[k];
    return NULL;
}

nc_code nc_infer_check_one(nc_work *w, const nc_node *n, int i, int rank, const int64_t *dims) {
    const nc_param *p = param_at(n->version->in, i);
    if (p == NULL || !(p->flags & NC_P_ONE)) return NC_OK;
    for (int k = 0; k < rank; k++)
        if (dims[k] >= 0 && dims[k] != 1)
            NC_FAIL(w, NC_E_SHAPE, "input %d (%s): dim %d is %lld, expected one element", i, p->name, k,
                    (long long)dims[k]);
    return NC_OK;
}

static nc_code check_one(nc_work *w, const nc_node *n, int i, const nc_type *t) {
    int64_t dims[NC_MAX_RANK];
    if (t->kind != NC_T_TENSOR || t->rank < 0) return NC_OK;
    for (int k = 0; k < t->rank; k++)
        if (!nc_dim_is_const(t->dims[k], &dims[k])) dims[k] = -1;
    return nc_infer_check_one(w, n, i, t->rank, dims);
}

nc_code nc_infer_check(nc_work *w, const nc_node *n, const nc_infer_val *in) {
    const nc_param *p = n->version->in;
    int i_param = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (p[i_param].name == NULL) NC_FAIL(w, NC_E_BAD_GRAPH, "has %d inputs, takes at most %d", n->n_in, i);
        const nc_param *q = &p[i_param];
        bool variadic = (q->flags & NC_P_VARIADIC) != 0;
        if (!variadic) i_param++;
        const nc_type *t = in[i].type;
        if (t == NULL) continue;
        int same = q->types == 0 ? q->same : variadic && !(q->flags & NC_P_HETEROGENEOUS) ? i_param : i;
        const nc_type *first = same != i && same >= 0 && same < n->n_in ? in[same].type : NULL;
        if (q->types != 0 && !nc_types_take(q->types, bits_of(t))) return refuse(w, i, q->name, q->types, t);
        if (first != NULL && bits_of(first) != bits_of(t)) return refuse(w, i, q->name, bits_of(first), t);
        if (q->flags & NC_P_ONE) NC_TRY(check_one(w, n, i, t));
    }
    return NC_OK;
}

static nc_code contradiction(nc_work *w, const char *name, const nc_type *declared, const nc_type *inferred) {
    nc_text d = {0}, i = {0};
    nc_type_print(&d, declared);
    nc_type_print(&i, inferred);
    nc_code code =
        nc_fail(w, NC_E_TYPE, "the model declares '%s' as %s, but it is %s", name, d.s ? d.s : "?", i.s ? i.s : "?");
    nc_text_release(&d);
    nc_text_release(&i);
    return code;
}

/* Exporters write shapes that they only guess: a wrong one is no reason not to run the model. */
static nc_code take_inferred(nc_work *w, nc_model *m, const char *name, const nc_type *declared,
                             const nc_type *inferred) {
    nc_text d = {0}, i = {0};
    nc_type_print(&d, declared);
    nc_type_print(&i, inferred);
    nc_code code = nc_assume(w, m, NC_ASSUME_SHAPE, "the model declares '%.100s' as %.120s, but it is %.120s", name,
                             d.s ? d.s : "?", i.s ? i.s : "?");
    nc_text_release(&d);
    nc_text_release(&i);
    return code;
}

static bool agree(const nc_type *declared, const nc_type *inferred) {
    if (declared->rank != inferred->rank) return false;
    for (int k = 0; k < inferred->rank; k++) {
        int64_t a, b;
        bool fixed = nc_dim_is_const(declared->dims[k], &a), found = nc_dim_is_const(inferred->dims[k], &b);
        if (fixed && found && a != b) return false;
    }
    return true;
}

nc_code nc_infer_merge(nc_work *w, nc_model *m, const char *name, const nc_type *declared, const nc_type *inferred,
                       const nc_type **out) {
    if (declared == NULL || inferred == NULL) {
        *out = declared != NULL ? declared : inferred;
        return NC_OK;
    }
    if (declared->kind != inferred->kind) return contradiction(w, name, declared, inferred);
    *out = inferred;
    if (declared->kind != NC_T_TENSOR) {
        if (inferred->of == NULL && declared->of != NULL) *out = declared;
        return NC_OK;
    }
    if (declared->elem != inferred->elem && declared->elem != NC_UNDEFINED)
        return contradiction(w, name, declared, inferred);
    if (declared->rank < 0) return NC_OK;
    if (inferred->rank < 0) {
        *out = nc_type_tensor(&m->arena, inferred->elem, declared->rank, declared->dims);
        NC_NEED(w, *out);
        return NC_OK;
    }
    return agree(declared, inferred) ? NC_OK : take_inferred(w, m, name, declared, inferred);
}
