/* tests/tools/print_cards.c: prints every card of ops.list as one JSON object per line: what its versions take and
 * give, its gradient, and the element types that the CPU's rows serve. Read by tests/py/test_schemas.py, which compares
 * it with the package onnx, and by tools/docs/operators.py. */
#include "ops/lane.h"

#include <stdio.h>
#include <string.h>

#define OP(x) extern const nc_card nc_card_##x;
#include "ops/ops.list"
#undef OP
#define FAMILY(x) extern const nc_binding nc_##x##_cpu[];
#include "ops/families.list"
#undef FAMILY

static const nc_card *const cards[] = {
#define OP(x) &nc_card_##x,
#include "ops/ops.list"
#undef OP
};
static const nc_binding *const tables[] = {
#define FAMILY(x) nc_##x##_cpu,
#include "ops/families.list"
#undef FAMILY
};

static void string(const char *s) {
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') putchar('\\');
        putchar(*s);
    }
    putchar('"');
}

static void member(const char *name, const char *value) {
    printf("\"%s\": ", name);
    string(value);
    fputs(", ", stdout);
}

/* Names of element types, and of the other kinds of value. */
static void types(nc_types set) {
    const char *comma = "";
    putchar('[');
    for (int t = 1; t < NC_N_DTYPES; t++) {
        if (!(set & NC_BIT(t))) continue;
        printf("%s\"%s\"", comma, nc_dtype_name((nc_dtype)t));
        comma = ", ";
    }
    static const char *const kinds[] = {"sequence", "optional", "map", "tape"};
    for (int k = 0; k < 4; k++) {
        if (!(set & NC_TYPES_SEQUENCE << k)) continue;
        printf("%s\"%s\"", comma, kinds[k]);
        comma = ", ";
    }
    putchar(']');
}

static void params(const char *name, const nc_param *p) {
    printf("\"%s\": [", name);
    for (int i = 0; p[i].name != NULL; i++) {
        fputs(i > 0 ? ", {" : "{", stdout);
        member("name", p[i].name);
        printf("\"optional\": %d, \"variadic\": %d, \"mixed\": %d, ", (p[i].flags & NC_P_OPTIONAL) != 0,
               (p[i].flags & NC_P_VARIADIC) != 0, (p[i].flags & NC_P_HETEROGENEOUS) != 0);
        if (p[i].types == 0) {
            printf("\"same\": %d}", p[i].same);
        } else {
            fputs("\"types\": ", stdout);
            types(p[i].types);
            putchar('}');
        }
    }
    fputs("], ", stdout);
}

static void attribute(const nc_attr_spec *a) {
    static const char *const kinds[] = {
        [NC_A_INT] = "INT",       [NC_A_FLOAT] = "FLOAT",     [NC_A_STRING] = "STRING", [NC_A_INTS] = "INTS",
        [NC_A_FLOATS] = "FLOATS", [NC_A_STRINGS] = "STRINGS", [NC_A_TENSOR] = "TENSOR", [NC_A_TYPE] = "TYPE_PROTO",
        [NC_A_GRAPH] = "GRAPH",   [NC_A_OTHER] = "OTHER"};
    putchar('{');
    member("name", a->name);
    member("kind", kinds[a->kind]);
    if (a->flags & NC_ATTR_HAS_DEFAULT) {
        fputs("\"default\": ", stdout);
        if (a->kind == NC_A_INT) printf("%lld, ", (long long)a->i);
        if (a->kind == NC_A_FLOAT) printf("%.9g, ", (double)a->f);
        if (a->kind == NC_A_STRING) {
            string(a->s);
            fputs(", ", stdout);
        }
    }
    printf("\"required\": %d}", (a->flags & NC_ATTR_REQUIRED) != 0);
}

static void version(const nc_op_version *v) {
    printf("{\"since\": %d, \"removed\": %d, \"foreign\": %d", v->since, v->removed, v->foreign);
    if (v->in != NULL && v->out != NULL) {
        fputs(", ", stdout);
        params("in", v->in);
        params("out", v->out);
        fputs("\"attr\": [", stdout);
        for (int i = 0; v->attr != NULL && v->attr[i].name != NULL; i++) {
            if (i > 0) fputs(", ", stdout);
            attribute(&v->attr[i]);
        }
        putchar(']');
    }
    putchar('}');
}

/* What the walk of autodiff/ would do at the card. */
static const char *gradient(const nc_card *c) {
    if (c->no_grad != NULL) return "none";
    if (c->zero_grad) return "zero";
    if (c->grad != NULL || c->grad_form != NULL) return "own";
    if (c->decompose != NULL) return "by decomposition";
    return c->lane > 0 && (nck_lane_get(c->lane - 1)->diff || c->lane - 1 == NCK_LANE_where) ? "lane" : "none";
}

/* Types that rows of the CPU name, "any" of them, or none. */
static void cpu(const nc_card *c) {
    nc_types set = 0;
    bool rows = false, any = false;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const nc_binding *b = tables[i]; b->op != NULL; b++) {
            if (strcmp(b->op, c->name) != 0 || strcmp(b->domain ? b->domain : "", c->domain ? c->domain : "") != 0)
                continue;
            rows = true;
            any |= b->types == 0;
            set |= b->types;
        }
    }
    const char *made = c->random_form != NULL ? "drawn" : c->decompose != NULL ? "decomposed" : "none";
    member("cpu", any ? "any" : rows ? "rows" : c->lane > 0 ? "lane" : made);
    member("lane", c->lane > 0 ? (char[]){nck_lane_get(c->lane - 1)->kinds, '\0'} : "");
    fputs("\"cpu_types\": ", stdout);
    types(set);
}

int main(void) {
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        const nc_card *c = cards[i];
        putchar('{');
        member("name", c->name);
        member("domain", c->domain ? c->domain : "");
        member("doc", c->doc);
        member("gradient", gradient(c));
        member("no_gradient", c->no_grad != NULL ? c->no_grad : "");
        cpu(c);
        fputs(", \"versions\": [", stdout);
        for (const nc_op_version *v = c->versions; v->since != 0; v++) {
            if (v != c->versions) fputs(", ", stdout);
            version(v);
        }
        puts("]}");
    }
    return 0;
}
