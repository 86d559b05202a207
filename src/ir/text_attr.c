/* ir/text_attr.c: attributes of a node in the text form; the grammar stands in text_parse.c. A number without
 * point is an int unless the card says that the attribute is a float. */
#include "ir/text_parse.h"

#include <string.h>

static nc_attr_kind expected_kind(const nc_node *n, const char *name) {
    for (const nc_attr_spec *s = n->version->attr; s && s->name; s++)
        if (strcmp(s->name, name) == 0) return s->kind;
    return NC_A_NONE;
}

static nc_code read_number(nc_reader *r, nc_attr *a, nc_attr_kind expected) {
    double d;
    bool is_float = nc_read_number_is_float(r) || expected == NC_A_FLOAT;
    a->kind = is_float ? NC_A_FLOAT : NC_A_INT;
    if (!is_float) return nc_read_int(r, &a->i);
    NC_TRY(nc_read_float(r, &d));
    a->f = (float)d;
    return NC_OK;
}

static nc_code read_strings(nc_reader *r, nc_attr *a) {
    NC_VEC(nc_str) list = {0};
    do {
        nc_str s;
        NC_TRY(nc_read_string(r, &s));
        if (!NC_PUSH(&r->w->scratch, list, s)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    } while (nc_read_eat(r, ','));
    a->kind = NC_A_STRINGS;
    a->strings = list.v;
    a->n = list.n;
    return nc_read_expect(r, ']');
}

/* Floats as soon as one of the numbers is one. */
static nc_code read_numbers(nc_reader *r, nc_attr *a, nc_attr_kind expected) {
    NC_VEC(int64_t) ints = {0};
    NC_VEC(float) floats = {0};
    bool is_float = expected == NC_A_FLOATS;
    do {
        nc_attr x;
        NC_TRY(read_number(r, &x, NC_A_NONE));
        is_float |= x.kind == NC_A_FLOAT;
        int64_t i = x.kind == NC_A_INT ? x.i : 0;
        float f = x.kind == NC_A_INT ? (float)x.i : x.f;
        if (!NC_PUSH(&r->w->scratch, ints, i) || !NC_PUSH(&r->w->scratch, floats, f))
            NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    } while (nc_read_eat(r, ','));
    a->n = ints.n;
    a->kind = is_float ? NC_A_FLOATS : NC_A_INTS;
    if (is_float)
        a->floats = floats.v;
    else
        a->ints = ints.v;
    return nc_read_expect(r, ']');
}

static nc_code read_list(nc_reader *r, nc_attr *a, nc_attr_kind expected) {
    NC_TRY(nc_read_expect(r, '['));
    if (nc_read_peek(r) == '"') return read_strings(r, a);
    if (!nc_read_eat(r, ']')) return read_numbers(r, a, expected);
    a->kind = expected == NC_A_FLOATS || expected == NC_A_STRINGS ? expected : NC_A_INTS;
    return NC_OK;
}

static nc_code read_typed(nc_reader *r, nc_attr *a) {
    const nc_type *type;
    NC_TRY(nc_read_type(r, &type));
    a->kind = NC_A_TENSOR;
    if (nc_read_peek(r) == '{') return nc_read_data(r, type, &a->tensor);
    a->kind = NC_A_TYPE;
    a->type = type;
    return NC_OK;
}

static nc_code read_value(nc_reader *r, nc_attr *a, nc_attr_kind expected) {
    char c = nc_read_peek(r);
    if (c == '[') return read_list(r, a, expected);
    if (c == '"') {
        a->kind = NC_A_STRING;
        return nc_read_string(r, &a->s);
    }
    if (nc_read_eat(r, '@')) {
        a->kind = NC_A_REF;
        return nc_read_name(r, &a->ref);
    }
    if (nc_read_at_type(r)) return read_typed(r, a);
    return read_number(r, a, expected);
}

static nc_code read_subgraph(nc_reader *r, const nc_text_scope *s, nc_node *n, const char *attr) {
    NC_TRY(nc_read_expect(r, '{'));
    nc_graph *g = nc_edit_subgraph(n, attr);
    NC_NEED(r->w, g);
    NC_TRY(nc_read_graph(r, g, s));
    return nc_read_expect(r, '}');
}

nc_code nc_read_attrs(nc_reader *r, const nc_text_scope *s, nc_node *n) {
    NC_TRY(nc_read_expect(r, '<'));
    do {
        nc_attr a = {0};
        NC_TRY(nc_read_name(r, &a.name));
        if (nc_node_attr(n, a.name)) return nc_read_fail(r, "attribute '%s' is given twice", a.name);
        NC_TRY(nc_read_expect(r, '='));
        if (nc_read_peek(r) == '{') {
            NC_TRY(read_subgraph(r, s, n, a.name));
            continue;
        }
        NC_TRY(read_value(r, &a, expected_kind(n, a.name)));
        if (nc_edit_set_attr(n, &a) != NC_OK) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    } while (nc_read_eat(r, ','));
    return nc_read_expect(r, '>');
}
