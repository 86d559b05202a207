/* ir/card.c: reading a card: the version for an opset, attributes through defaults, and whether a node is what its
 * card's version allows. Names no operator. Runs at load, before inference; inference itself asks the card's
 * hooks. */
#include "ir/card.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const nc_op_version *nc_card_version(const nc_card *card, int64_t opset) {
    for (const nc_op_version *v = card->versions; v && v->since; v++)
        if (v->since <= opset) return v->removed ? NULL : v;
    return NULL;
}

/* ---- attributes ---- */

static const nc_attr_spec *find_spec(const nc_op_version *v, const char *name) {
    for (const nc_attr_spec *s = v->attr; s && s->name; s++)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

static const nc_attr_spec *find_default(const nc_node *n, const char *name) {
    const nc_attr_spec *s = find_spec(n->version, name);
    return s && (s->flags & NC_ATTR_HAS_DEFAULT) ? s : NULL;
}

int64_t nc_attr_int(const nc_node *n, const char *name) {
    const nc_attr *a = nc_node_attr(n, name);
    if (a) return a->kind == NC_A_INT ? a->i : 0;
    const nc_attr_spec *s = find_default(n, name);
    return s && s->kind == NC_A_INT ? s->i : 0;
}

double nc_attr_float(const nc_node *n, const char *name) {
    const nc_attr *a = nc_node_attr(n, name);
    if (a) return a->kind == NC_A_FLOAT ? (double)a->f : 0;
    const nc_attr_spec *s = find_default(n, name);
    return s && s->kind == NC_A_FLOAT ? (double)s->f : 0;
}

const char *nc_attr_str(const nc_node *n, const char *name) {
    const nc_attr *a = nc_node_attr(n, name);
    if (a) return a->kind == NC_A_STRING ? a->s.p : NULL;
    const nc_attr_spec *s = find_default(n, name);
    return s && s->kind == NC_A_STRING ? s->s : NULL;
}

const int64_t *nc_attr_ints(const nc_node *n, const char *name, int *n_out) {
    const nc_attr *a = nc_node_attr(n, name);
    bool there = a && a->kind == NC_A_INTS;
    *n_out = there ? a->n : 0;
    return there ? a->ints : NULL;
}

bool nc_attr_has(const nc_node *n, const char *name) { return nc_node_attr(n, name) != NULL; }

const nc_str *nc_attr_strings(const nc_attr *a, int *n) {
    bool one = a && a->kind == NC_A_STRING, many = a && a->kind == NC_A_STRINGS;
    *n = one ? 1 : many ? a->n : 0;
    return one ? &a->s : many ? a->strings : NULL;
}

int nc_attr_n_strings(const nc_node *n, const char *name) {
    int count;
    nc_attr_strings(nc_node_attr(n, name), &count);
    return count;
}

bool nc_value_is_setting(const nc_value *v) {
    for (int k = 0; k < v->uses.n; k++) {
        int i = v->uses.v[k].i;
        const nc_node *n = v->uses.v[k].node;
        if (i >= n->n_in || i >= 32 || !(n->card->settings_in >> i & 1)) return false;
    }
    return v->uses.n > 0;
}

int nc_node_n_named(const nc_node *n) {
    int count = 0;
    for (const char *const *name = n->card->names_values; name && *name; name++) count += nc_attr_n_strings(n, *name);
    return count < n->n_in ? count : n->n_in;
}

/* ---- checks ---- */

static const char *kind_name(nc_attr_kind k) {
    static const char *const names[] = {
        [NC_A_NONE] = "nothing",    [NC_A_INT] = "an int",
        [NC_A_FLOAT] = "a float",   [NC_A_STRING] = "a string",
        [NC_A_INTS] = "ints",       [NC_A_FLOATS] = "floats",
        [NC_A_STRINGS] = "strings", [NC_A_TENSOR] = "a tensor",
        [NC_A_TYPE] = "a type",     [NC_A_GRAPH] = "a graph",
        [NC_A_REF] = "a reference", [NC_A_OTHER] = "a value of a kind that no operator takes"};
    return names[k];
}

static nc_code check_attrs(nc_work *w, const nc_node *n) {
    for (int i = 0; i < n->n_attrs; i++) {
        const nc_attr *a = &n->attrs[i];
        const nc_attr_spec *s = find_spec(n->version, a->name);
        if (!s && find_spec(n->version, "*")) continue; /* a custom op reads what it likes */
        if (!s)                                         /* onnxruntime's words: programs look for them */
            NC_FAIL(w, NC_E_BAD_GRAPH, "Unrecognized attribute: %s for operator %s in version %d", a->name,
                    n->card->name, n->version->since);
        if (a->kind != s->kind && a->kind != NC_A_REF)
            NC_FAIL(w, NC_E_BAD_GRAPH, "attribute '%s' must be %s, got %s", a->name, kind_name(s->kind),
                    kind_name(a->kind));
    }
    for (const nc_attr_spec *s = n->version->attr; s && s->name; s++)
        if ((s->flags & NC_ATTR_REQUIRED) && !nc_node_attr(n, s->name))
            NC_FAIL(w, NC_E_BAD_GRAPH, "attribute '%s' is missing", s->name);
    return NC_OK;
}

/* The parameter that argument i stands for; NULL: there are not so many. A variadic one is the last of its list. */
static const nc_param *param_at(const nc_param *list, int i) {
    for (int k = 0; list && list[k].name; k++)
        if (k == i || (list[k].flags & NC_P_VARIADIC)) return &list[k];
    return NULL;
}

static int count_params(const nc_param *list) {
    int n = 0;
    while (list && list[n].name) n++;
    return n;
}

static nc_code check_inputs(nc_work *w, const nc_node *n) {
    const nc_param *list = n->version->in;
    int n_params = count_params(list);
    if (n->n_in && !param_at(list, n->n_in - 1))
        NC_FAIL(w, NC_E_BAD_GRAPH, "takes at most %d inputs, got %d", n_params, n->n_in);
    int n_check = n->n_in > n_params ? n->n_in : n_params;
    for (int i = 0; i < n_check; i++) {
        const nc_param *p = param_at(list, i);
        if (!(p->flags & NC_P_OPTIONAL) && (i >= n->n_in || !n->in[i]))
            NC_FAIL(w, NC_E_BAD_GRAPH, "input %d ('%s') is missing", i, p->name);
    }
    return NC_OK;
}

/* Outputs that nobody wants may be absent, but the list may not be shorter than the required ones. */
static nc_code check_outputs(nc_work *w, const nc_node *n) {
    const nc_param *list = n->version->out;
    if (n->n_out && !param_at(list, n->n_out - 1))
        NC_FAIL(w, NC_E_BAD_GRAPH, "gives at most %d outputs, got %d", count_params(list), n->n_out);
    for (int i = 0; list && list[i].name; i++)
        if (!(list[i].flags & NC_P_OPTIONAL) && i >= n->n_out)
            NC_FAIL(w, NC_E_BAD_GRAPH, "output %d ('%s') is missing", i, list[i].name);
    return NC_OK;
}

/* For tests alone: where NACRE_TEST_DOUBLES is set, what takes floats of any size takes doubles too, so that gradients
 * of all ops can be compared with differences. */
static bool doubles_for_floats(void) {
    static atomic_int known; /* 0: not asked yet */
    int is = atomic_load_explicit(&known, memory_order_relaxed);
    if (!is) {
        is = getenv("NACRE_TEST_DOUBLES") ? 2 : 1;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is == 2;
}

bool nc_types_take(nc_types types, nc_types t) {
    const nc_types narrow = NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16);
    return (types & t) || (t == NC_BIT(NC_DOUBLE) && (types & narrow) && doubles_for_floats());
}

static nc_types type_bits(const nc_type *t) {
    switch (t->kind) {
    case NC_T_TENSOR:
    case NC_T_SPARSE: return t->elem ? NC_BIT(t->elem) : NC_TYPES_ANYTHING;
    case NC_T_SEQUENCE: return NC_TYPES_SEQUENCE;
    case NC_T_OPTIONAL: return NC_TYPES_OPTIONAL;
    case NC_T_MAP: return NC_TYPES_MAP;
    case NC_T_TAPE: return NC_TYPES_TAPE;
    }
    return 0;
}

static nc_code fail_type(nc_work *w, const char *what, int i, const nc_param *p, const nc_type *t) {
    nc_text text = {0};
    nc_type_print(&text, t);
    nc_code code = nc_fail(w, NC_E_TYPE, "%s %d ('%s') may not be %s", what, i, p->name, text.s ? text.s : "this type");
    nc_text_release(&text);
    return code;
}

static nc_code check_types(nc_work *w, const nc_node *n, const char *what, const nc_param *list, nc_value *const *v,
                           int count) {
    for (int i = 0; i < count; i++) {
        const nc_param *p = param_at(list, i);
        const nc_type *t = p && v[i] ? v[i]->type : NULL;
        if (!t) continue;
        if (p->types) {
            if (!nc_types_take(p->types, type_bits(t))) return fail_type(w, what, i, p, t);
            continue;
        }
        const nc_value *as = p->same >= 0 && p->same < n->n_in ? n->in[(int)p->same] : NULL;
        if (as && as->type && !(type_bits(t) & type_bits(as->type))) return fail_type(w, what, i, p, t);
    }
    return NC_OK;
}

static nc_code check_all(nc_work *w, const nc_node *n) {
    if (!n->version) NC_FAIL(w, NC_E_UNSUPPORTED, "is not in the imported opset");
    NC_TRY(check_inputs(w, n));
    NC_TRY(check_outputs(w, n));
    return check_attrs(w, n);
}

static nc_code check_all_types(nc_work *w, const nc_node *n) {
    NC_TRY(check_types(w, n, "input", n->version->in, n->in, n->n_in));
    return check_types(w, n, "output", n->version->out, n->out, n->n_out);
}

static nc_code at_node(nc_work *w, const nc_node *n, nc_code (*check)(nc_work *, const nc_node *)) {
    const char *node = w->at_node, *op = w->at_op;
    w->at_node = n->name;
    w->at_op = n->card->name;
    nc_code code = check(w, n);
    w->at_node = node;
    w->at_op = op;
    return code;
}

nc_code nc_node_check(nc_work *w, const nc_node *n) { return at_node(w, n, check_all); }

nc_code nc_node_check_types(nc_work *w, const nc_node *n) { return at_node(w, n, check_all_types); }
