/* ir/text_print.c: the graph as text; the grammar stands in text_parse.c.
 *
 * A value prints under its name while no other value of its graph or of an enclosing one has taken that, else as
 * name.id: so ^name always means one value. Captures have no names of their own: they print as ^ and the outer
 * value. */
#include "ir/card.h"
#include "ir/text_core.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct printer {
    nc_text *out;
    nc_arena scratch;
    const char **names; /* by value id; NULL array: every value under its own name, subgraphs without bodies */
    bool typed;
} printer;

static void print_graph(printer *p, const nc_graph *g, int indent);

/* ---- names ---- */

typedef struct scope {
    nc_map taken;
    const struct scope *up;
} scope;

static bool is_taken(const scope *s, const char *name) {
    for (; s; s = s->up)
        if (nc_map_get(&s->taken, name)) return true;
    return false;
}

static bool name_value(printer *p, scope *s, const nc_value *v) {
    const char *name = *v->name ? v->name : "v";
    if (is_taken(s, name)) name = nc_arena_printf(&p->scratch, "%s.%d", name, v->id);
    while (name && is_taken(s, name)) name = nc_arena_printf(&p->scratch, "%s_", name);
    p->names[v->id] = name;
    return name && nc_map_put(&s->taken, name, (void *)v);
}

static bool name_values(printer *p, scope *s, nc_value *const *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i] && !name_value(p, s, v[i])) return false;
    return true;
}

static bool name_graph(printer *p, const nc_graph *g, const scope *up) {
    scope s = {.up = up};
    nc_map_init(&s.taken, &p->scratch);
    if (!name_values(p, &s, g->inputs.v, g->inputs.n) || !name_values(p, &s, g->consts.v, g->consts.n)) return false;
    for (int i = 0; i < g->vars.n; i++)
        if (!name_value(p, &s, g->vars.v[i]->first)) return false;
    for (const nc_node *n = g->first; n; n = n->next)
        if (!name_values(p, &s, n->out, n->n_out)) return false;
    for (const nc_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_subs; i++)
            if (!name_graph(p, n->subs[i].graph, &s)) return false;
    return true;
}

static const nc_value *captured(const nc_value *inner) {
    const nc_graph *g = inner->graph;
    const nc_node *n = g->owner;
    for (int i = 0; n && i < n->n_subs; i++)
        for (int k = 0; n->subs[i].graph == g && k < n->subs[i].n_captures; k++)
            if (g->captures.v[k] == inner) return n->in[n->subs[i].first_capture + k];
    return NULL;
}

static void put_value(const printer *p, const nc_value *v) {
    const nc_value *outer = v;
    while (outer && outer->origin == NC_FROM_CAPTURE) outer = captured(outer);
    if (outer != v) nc_text_add(p->out, "^");
    if (!outer) outer = v;
    const char *name = p->names ? p->names[outer->id] : outer->name;
    nc_text_put_name(p->out, name ? name : outer->name);
}

static void put_typed(const printer *p, const nc_value *v) {
    if (v->type) {
        nc_type_print(p->out, v->type);
        nc_text_add(p->out, " ");
    }
    put_value(p, v);
}

static void put_indent(const printer *p, int indent) { nc_text_addf(p->out, "%*s", indent, ""); }

/* ---- nodes ---- */

static void put_literal(nc_text *out, const nc_literal *l) {
    nc_text_addf(out, "%s[", nc_dtype_name(l->dtype));
    for (int i = 0; i < l->rank; i++) nc_text_addf(out, i ? ",%" PRId64 : "%" PRId64, l->dims[i]);
    nc_text_add(out, "] ");
}

/* With a point or an exponent, so that it reads back as a float whatever the card says. */
static void put_float_attr(nc_text *out, float v) {
    char buf[40];
    nc_text_of_double(buf, sizeof buf, 9, (double)v);
    if (isnan(v))
        nc_text_add(out, "nan");
    else
        nc_text_addf(out, strpbrk(buf, ".en") ? "%s" : "%s.0", buf);
}

static void put_list(nc_text *out, const nc_attr *a) {
    nc_text_add(out, "[");
    for (int i = 0; i < a->n; i++) {
        if (i) nc_text_add(out, ", ");
        if (a->kind == NC_A_INTS)
            nc_text_addf(out, "%" PRId64, a->ints[i]);
        else if (a->kind == NC_A_FLOATS)
            put_float_attr(out, a->floats[i]);
        else
            nc_text_put_string(out, a->strings[i].p, a->strings[i].n);
    }
    nc_text_add(out, "]");
}

static void put_attr(printer *p, const nc_node *n, const nc_attr *a, int indent) {
    nc_text *out = p->out;
    nc_text_put_name(out, a->name);
    nc_text_add(out, " = ");
    switch (a->kind) {
    case NC_A_NONE: nc_text_add(out, "?"); break;
    case NC_A_INT: nc_text_addf(out, "%" PRId64, a->i); break;
    case NC_A_FLOAT: put_float_attr(out, a->f); break;
    case NC_A_STRING: nc_text_put_string(out, a->s.p, a->s.n); break;
    case NC_A_INTS:
    case NC_A_FLOATS:
    case NC_A_STRINGS: put_list(out, a); break;
    case NC_A_TENSOR:
        put_literal(out, a->tensor);
        nc_text_put_data(out, a->tensor);
        break;
    case NC_A_TYPE: nc_type_print(out, a->type); break;
    case NC_A_OTHER: nc_text_addf(out, "{ ... %zu bytes }", a->s.n); break;
    case NC_A_REF:
        nc_text_add(out, "@");
        nc_text_put_name(out, a->ref);
        break;
    case NC_A_GRAPH:
        nc_text_add(out, p->names ? "{ " : "{...}");
        if (!p->names) break;
        print_graph(p, n->subs[a->sub].graph, indent);
        nc_text_add(out, " }");
        break;
    }
}

static void put_op(printer *p, const nc_node *n, int indent) {
    char op[256];
    bool domain = n->card->domain && *n->card->domain;
    snprintf(op, sizeof op, "%s%s%s", domain ? n->card->domain : "", domain ? "." : "", n->card->name);
    nc_text_put_name(p->out, op);
    for (int i = 0; i < n->n_attrs; i++) {
        nc_text_add(p->out, i ? ", " : "<");
        put_attr(p, n, &n->attrs[i], indent);
    }
    nc_text_add(p->out, n->n_attrs ? ">(" : "(");
    for (int i = 0; i < n->n_in; i++) {
        if (i) nc_text_add(p->out, ", ");
        if (n->in[i]) put_value(p, n->in[i]);
    }
    nc_text_add(p->out, ")");
}

static void put_marks(nc_text *out, const nc_node *n) {
    if (n->stage) nc_text_addf(out, " @stage=%d", (int)n->stage);
    if (n->recompute) nc_text_add(out, " @recompute");
    if (n->random_id) nc_text_addf(out, " @random=%" PRId64, n->random_id);
    if (n->place) nc_text_addf(out, " @place=%d", n->place);
    char made_up[256];
    snprintf(made_up, sizeof made_up, "%s_%d", n->card->name, n->id);
    if (strcmp(made_up, n->name) == 0 || !*n->name) return;
    nc_text_add(out, " ");
    nc_text_put_string(out, n->name, strlen(n->name));
}

static void print_node(printer *p, const nc_node *n, int indent) {
    for (int i = 0; i < n->n_out; i++) {
        if (i) nc_text_add(p->out, ", ");
        if (n->out[i] && p->typed)
            put_typed(p, n->out[i]);
        else if (n->out[i])
            put_value(p, n->out[i]);
    }
    nc_text_add(p->out, n->n_out ? " = " : "= ");
    put_op(p, n, indent);
    put_marks(p->out, n);
}

/* ---- graphs ---- */

static void put_variable(const printer *p, const nc_variable *var) {
    nc_text *out = p->out;
    nc_text_add(out, "var ");
    put_typed(p, var->first);
    if (var->initial) {
        nc_text_add(out, " = ");
        put_literal(out, var->initial);
        nc_text_put_data(out, var->initial);
    }
    if (var->grow_axis >= 0) nc_text_addf(out, " grow %d", var->grow_axis);
    if (var->internal) nc_text_add(out, " internal");
    if (var->last != var->first) {
        nc_text_add(out, " -> ");
        put_value(p, var->last);
    }
}

static void put_declarations(const printer *p, const nc_graph *g, int indent) {
    for (int i = 0; i < g->consts.n + g->vars.n; i++) {
        nc_text_add(p->out, i ? ",\n" : "\n");
        put_indent(p, indent);
        nc_text_add(p->out, i ? " " : "<");
        if (i >= g->consts.n) {
            put_variable(p, g->vars.v[i - g->consts.n]);
            continue;
        }
        const nc_value *v = g->consts.v[i];
        nc_text_add(p->out, "const ");
        put_literal(p->out, v->lit);
        put_value(p, v);
        nc_text_add(p->out, " = ");
        nc_text_put_data(p->out, v->lit);
    }
    if (g->consts.n + g->vars.n) nc_text_add(p->out, ">");
}

static void put_outputs(const printer *p, const nc_graph *g) {
    for (int i = 0; i < g->outputs.n; i++) {
        const nc_value *v = g->outputs.v[i];
        if (i) nc_text_add(p->out, ", ");
        bool own = v->origin != NC_FROM_CAPTURE && strcmp(p->names[v->id], g->output_names.v[i]) == 0;
        if (v->type && v->origin != NC_FROM_CAPTURE) {
            nc_type_print(p->out, v->type);
            nc_text_add(p->out, " ");
        }
        nc_text_put_name(p->out, g->output_names.v[i]);
        if (own) continue;
        nc_text_add(p->out, " = ");
        put_value(p, v);
    }
}

static void print_graph(printer *p, const nc_graph *g, int indent) {
    if (*g->name) {
        nc_text_put_name(p->out, g->name);
        nc_text_add(p->out, " ");
    }
    nc_text_add(p->out, "(");
    for (int i = 0; i < g->inputs.n; i++) {
        if (i) nc_text_add(p->out, ", ");
        put_typed(p, g->inputs.v[i]);
        const nc_literal *initial = g->inputs.v[i]->initial;
        if (!initial) continue;
        nc_text_add(p->out, " = ");
        put_literal(p->out, initial);
        nc_text_put_data(p->out, initial);
    }
    nc_text_add(p->out, ") => (");
    put_outputs(p, g);
    nc_text_add(p->out, ")");
    put_declarations(p, g, indent);
    nc_text_add(p->out, "\n");
    put_indent(p, indent);
    nc_text_add(p->out, "{\n");
    for (const nc_node *n = g->first; n; n = n->next) {
        put_indent(p, indent + 2);
        print_node(p, n, indent + 2);
        nc_text_add(p->out, "\n");
    }
    put_indent(p, indent);
    nc_text_add(p->out, "}");
}

static void print_model(nc_text *out, const nc_model *m, bool typed) {
    printer p = {.out = out, .typed = typed};
    nc_arena_init(&p.scratch);
    p.names = nc_arena_array(&p.scratch, (size_t)m->next_id + 1, sizeof *p.names);
    if (p.names && name_graph(&p, m->main, NULL)) {
        for (int i = 0; i < m->n_opsets; i++) {
            nc_text_add(out, i ? ", " : "<opset: ");
            nc_text_put_string(out, m->opsets[i].domain, strlen(m->opsets[i].domain));
            nc_text_addf(out, " %" PRId64, m->opsets[i].version);
        }
        if (m->n_opsets) nc_text_add(out, ">\n");
        print_graph(&p, m->main, 0);
        nc_text_add(out, "\n");
    } else {
        out->failed = true;
    }
    nc_arena_release(&p.scratch);
}

void nc_graph_print(nc_text *out, const nc_model *m) { print_model(out, m, false); }

void nc_graph_print_typed(nc_text *out, const nc_model *m) { print_model(out, m, true); }

void nc_node_print(nc_text *out, const nc_node *n) {
    printer p = {.out = out};
    print_node(&p, n, 0);
}
