/* ir/text_parse.c: text to graph: declarations, graphs and nodes; words are in text_lex.c, types and data in
 * text_type.c, attributes in text_attr.c. Space and # comments stand anywhere; what follows a node's ')' must
 * stand on its line.
 *
 *   model := ['<' 'opset' ':' STRING INT (',' STRING INT)* '>'] graph
 *   graph := [NAME] '(' [in (',' in)*] ')' '=>' '(' [out (',' out)*] ')' ['<' decl (',' decl)* '>'] '{' node* '}'
 *   in    := [type] NAME        out := [type] NAME ['=' ref]        ref := NAME | '^' NAME   (^: of an outer graph)
 *   decl  := 'const' type NAME '=' data
 *          | 'var' type NAME ['=' [type] data] ['grow' INT] ['internal'] ['->' NAME]     NAME: the newest version
 *   node  := [[type] NAME (',' [[type] NAME])*] '=' OP [attrs] '(' [ref] (',' [ref])* ')' [attrs] mark* [STRING] [';']
 *   attrs := '<' NAME '=' value (',' NAME '=' value)* '>'
 *   value := INT | FLOAT | STRING | list | type | type data | '@' NAME | '{' graph '}'      list := '[' values ']'
 *   mark  := '@stage=' INT | '@recompute' | '@random=' INT | '@place=' INT
 *   type  := ELEM '[' [dim (',' dim)* | '...'] ']' ['{' 'axis=' INT ',c=' INT ',C=' dim '}'] | 'tape'
 *          | 'seq(' type ')' | 'optional(' type ')' | 'map(' ELEM ',' type ')' | 'sparse(' type ')'
 *   dim   := see dim_text.c, or '?' for a fresh symbol
 *   data  := '{' elements in row-major order '}'
 *   NAME, OP: identifiers (with dots) or strings; an op's domain ends at its last dot */
#include "ir/text_parse.h"

#include <string.h>

static nc_value *look_up(const nc_text_scope *s, const char *name) { return nc_map_get(&s->names, name); }

static nc_code define(nc_reader *r, nc_text_scope *s, nc_value *v) {
    NC_NEED(r->w, v);
    if (look_up(s, v->name)) return nc_read_fail(r, "'%s' is defined twice", v->name);
    if (!nc_map_put(&s->names, v->name, v)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code read_ref(nc_reader *r, nc_text_scope *s, nc_value **out) {
    const char *name;
    bool outside = nc_read_eat(r, '^');
    NC_TRY(nc_read_name(r, &name));
    nc_value *v = outside ? NULL : look_up(s, name);
    for (const nc_text_scope *up = s->up; outside && !v && up; up = up->up) v = look_up(up, name);
    if (!v) return nc_read_fail(r, outside ? "no outer graph has a value '%s'" : "no value '%s' is known here", name);
    *out = nc_edit_reach(s->g, v);
    NC_NEED(r->w, *out);
    return NC_OK;
}

/* ---- nodes ---- */

static nc_code find_card(nc_reader *r, const char *op, const nc_card **card, const nc_op_version **version) {
    const char *dot = strrchr(op, '.');
    const char *domain = dot ? nc_arena_strn(&r->w->scratch, op, (size_t)(dot - op)) : "";
    NC_NEED(r->w, domain);
    *card = NULL;
    for (const nc_registry *g = r->m->registry; g && !*card; g = g->base)
        *card = g->find(g, domain, dot ? dot + 1 : op);
    if (!*card) return nc_read_fail(r, "unknown operator '%s'", op);
    int64_t opset = nc_model_opset(r->m, domain);
    *version = nc_card_version(*card, opset ? opset : INT64_MAX);
    if (!*version) return nc_read_fail(r, "'%s' is not in opset %lld", op, (long long)opset);
    return NC_OK;
}

typedef NC_VEC(const char *) name_list;
typedef NC_VEC(const nc_type *) type_list;

static nc_code read_out_names(nc_reader *r, name_list *names, type_list *types) {
    if (nc_read_peek(r) == '=') return NC_OK;
    do {
        const char *name = "";
        const nc_type *type = NULL;
        char c = nc_read_peek(r);
        if (c != ',' && c != '=') {
            if (nc_read_at_type(r)) NC_TRY(nc_read_type(r, &type));
            NC_TRY(nc_read_name(r, &name));
        }
        if (!NC_PUSH(&r->w->scratch, *names, name) || !NC_PUSH(&r->w->scratch, *types, type))
            NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    } while (nc_read_eat(r, ','));
    return NC_OK;
}

static nc_code read_inputs(nc_reader *r, nc_text_scope *s, nc_node *n) {
    NC_TRY(nc_read_expect(r, '('));
    if (nc_read_eat(r, ')')) return NC_OK;
    do {
        nc_value *v = NULL;
        char c = nc_read_peek(r);
        if (c != ',' && c != ')') NC_TRY(read_ref(r, s, &v));
        if (nc_edit_add_in(n, v) != NC_OK) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    } while (nc_read_eat(r, ','));
    return nc_read_expect(r, ')');
}

static nc_code read_mark(nc_reader *r, nc_node *n) {
    int64_t v;
    if (nc_read_word(r, "recompute")) {
        n->recompute = true;
        return NC_OK;
    }
    bool stage = nc_read_word(r, "stage"), random = !stage && nc_read_word(r, "random");
    if (!stage && !random && !nc_read_word(r, "place")) return nc_read_fail(r, "unknown mark");
    NC_TRY(nc_read_expect(r, '='));
    NC_TRY(nc_read_int(r, &v));
    if (v < 0 || v == INT64_MAX || (!random && v > (stage ? NC_STAGE_UPDATE : 1)))
        return nc_read_fail(r, "mark out of range");
    if (stage)
        n->stage = (nc_stage)v;
    else if (!random)
        n->place = (int)v;
    else
        n->random_id = v;
    if (random && v >= r->m->next_random_id) r->m->next_random_id = v + 1;
    return NC_OK;
}

static nc_code read_marks(nc_reader *r, nc_node *n) {
    while (nc_read_same_line(r) && nc_read_peek(r) == '@') {
        r->s++;
        NC_TRY(read_mark(r, n));
    }
    if (nc_read_same_line(r) && nc_read_peek(r) == '"') NC_TRY(nc_read_name(r, &n->name));
    nc_read_eat(r, ';');
    return NC_OK;
}

static nc_code read_node(nc_reader *r, nc_text_scope *s) {
    name_list names = {0};
    type_list types = {0};
    const char *op;
    const nc_card *card = NULL;
    const nc_op_version *version = NULL;
    NC_TRY(read_out_names(r, &names, &types));
    NC_TRY(nc_read_expect(r, '='));
    NC_TRY(nc_read_name(r, &op));
    NC_TRY(find_card(r, op, &card, &version));
    nc_node *n = nc_edit_node(s->g, NULL, card, version, NULL, NULL, 0, names.v, names.n);
    NC_NEED(r->w, n);
    if (nc_read_peek(r) == '<') NC_TRY(nc_read_attrs(r, s, n));
    NC_TRY(read_inputs(r, s, n));
    if (nc_read_same_line(r) && nc_read_peek(r) == '<') NC_TRY(nc_read_attrs(r, s, n));
    NC_TRY(read_marks(r, n));
    NC_TRY(nc_node_check(r->w, n));
    if ((card->traits & NC_RANDOM) && !n->random_id) n->random_id = r->m->next_random_id++;
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        n->out[i]->type = types.v[i];
        NC_TRY(define(r, s, n->out[i]));
    }
    return NC_OK;
}

/* ---- declarations ---- */

static nc_code read_const(nc_reader *r, nc_text_scope *s) {
    const nc_type *type;
    const char *name;
    const nc_literal *lit;
    NC_TRY(nc_read_type(r, &type));
    NC_TRY(nc_read_name(r, &name));
    NC_TRY(nc_read_expect(r, '='));
    NC_TRY(nc_read_data(r, type, &lit));
    return define(r, s, nc_edit_const(s->g, name, lit));
}

static nc_code read_variable(nc_reader *r, nc_text_scope *s) {
    const nc_type *type, *lit_type;
    const char *name;
    const nc_literal *lit = NULL;
    if (s->g->parent) return nc_read_fail(r, "only the main graph has variables");
    NC_TRY(nc_read_type(r, &type));
    NC_TRY(nc_read_name(r, &name));
    lit_type = type;
    if (nc_read_eat(r, '=')) {
        if (nc_read_peek(r) != '{') NC_TRY(nc_read_type(r, &lit_type));
        NC_TRY(nc_read_data(r, lit_type, &lit));
    }
    nc_value *v = nc_edit_variable(s->g, name, type, lit);
    NC_TRY(define(r, s, v));
    int64_t axis;
    if (nc_read_word(r, "grow")) {
        NC_TRY(nc_read_int(r, &axis));
        if (axis < 0 || axis >= (type->rank < 0 ? NC_MAX_RANK : type->rank))
            return nc_read_fail(r, "no such axis to grow");
        v->var->grow_axis = (int)axis;
    }
    v->var->internal = nc_read_word(r, "internal");
    nc_text_version last = {.var = v->var};
    if (!nc_read_eat(r, '-')) return NC_OK;
    NC_TRY(nc_read_expect(r, '>'));
    last.at = r->s;
    NC_TRY(nc_read_name(r, &last.name));
    if (!NC_PUSH(&r->w->scratch, s->versions, last)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code read_declarations(nc_reader *r, nc_text_scope *s) {
    if (!nc_read_eat(r, '<')) return NC_OK;
    do {
        if (nc_read_word(r, "const"))
            NC_TRY(read_const(r, s));
        else if (nc_read_word(r, "var"))
            NC_TRY(read_variable(r, s));
        else
            return nc_read_fail(r, "expected const or var");
    } while (nc_read_eat(r, ','));
    return nc_read_expect(r, '>');
}

/* The version that v was made from in place; NULL: v's node makes it anew. */
static nc_value *older_version(const nc_value *v) {
    const nc_card *card = v->def ? v->def->card : NULL;
    if (!card || v->i_def >= v->def->n_in) return NULL;
    bool updates = (card->traits & NC_IN_PLACE) && v->i_def < card->n_updates;
    bool grows = (card->traits & NC_GROWS) && v->i_def == 0;
    return updates || grows ? v->def->in[v->i_def] : NULL;
}

static nc_code set_versions(nc_reader *r, nc_text_scope *s) {
    for (int i = 0; i < s->versions.n; i++) {
        nc_text_version *x = &s->versions.v[i];
        nc_value *last = look_up(s, x->name);
        r->s = x->at;
        if (!last) return nc_read_fail(r, "no value '%s' to be the newest version of '%s'", x->name, x->var->name);
        for (nc_value *v = last; v && v != x->var->first; v = older_version(v)) {
            if (v->origin != NC_FROM_NODE || v->var)
                return nc_read_fail(r, "'%s' cannot be a version of '%s'", v->name, x->var->name);
            nc_edit_set_version(x->var, v);
        }
        nc_edit_set_version(x->var, last);
    }
    return NC_OK;
}

/* ---- graphs ---- */

/* `float[n] x = float[2] {1, 2}`: an input that need not be given. */
static nc_code read_initial(nc_reader *r, nc_value *v) {
    const nc_type *type = v->type;
    const nc_literal *lit;
    if (v->graph->parent) return nc_read_fail(r, "only inputs of the main graph may have an initial value");
    if (nc_read_peek(r) != '{' || !type) NC_TRY(nc_read_type(r, &type));
    NC_TRY(nc_read_data(r, type, &lit));
    if (v->type && v->type->elem != lit->dtype) return nc_read_fail(r, "'%s' has another type", v->name);
    if (nc_edit_set_initial(v, lit) != NC_OK) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code read_graph_inputs(nc_reader *r, nc_text_scope *s) {
    NC_TRY(nc_read_expect(r, '('));
    if (nc_read_eat(r, ')')) return NC_OK;
    do {
        const nc_type *type = NULL;
        const char *name;
        if (nc_read_at_type(r)) NC_TRY(nc_read_type(r, &type));
        NC_TRY(nc_read_name(r, &name));
        nc_value *v = nc_edit_input(s->g, name, type);
        NC_TRY(define(r, s, v));
        if (nc_read_eat(r, '=')) NC_TRY(read_initial(r, v));
    } while (nc_read_eat(r, ','));
    return nc_read_expect(r, ')');
}

typedef struct output {
    const nc_type *type;
    const char *name;
    const char *at; /* where the value's reference stands */
} output;
typedef NC_VEC(output) output_list;

/* The values of outputs are known only behind the body: their places are kept. */
static nc_code read_outputs(nc_reader *r, output_list *list) {
    NC_TRY(nc_read_expect(r, '('));
    if (nc_read_eat(r, ')')) return NC_OK;
    do {
        output o = {0};
        const char *value;
        if (nc_read_at_type(r)) NC_TRY(nc_read_type(r, &o.type));
        nc_read_peek(r);
        o.at = r->s;
        nc_read_eat(r, '^');
        NC_TRY(nc_read_name(r, &o.name));
        if (nc_read_eat(r, '=')) {
            o.at = r->s;
            nc_read_eat(r, '^');
            NC_TRY(nc_read_name(r, &value));
        }
        if (!NC_PUSH(&r->w->scratch, *list, o)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    } while (nc_read_eat(r, ','));
    return nc_read_expect(r, ')');
}

static nc_code set_outputs(nc_reader *r, nc_text_scope *s, const output_list *list) {
    for (int i = 0; i < list->n; i++) {
        nc_value *v;
        r->s = list->v[i].at;
        NC_TRY(read_ref(r, s, &v));
        if (!v->type) v->type = list->v[i].type;
        if (list->v[i].type && !nc_type_equal(v->type, list->v[i].type))
            return nc_read_fail(r, "'%s' has another type", v->name);
        if (nc_edit_output(s->g, v, list->v[i].name) != NC_OK) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

nc_code nc_read_graph(nc_reader *r, nc_graph *g, const nc_text_scope *up) {
    nc_text_scope s = {.g = g, .up = up};
    output_list outputs = {0};
    nc_map_init(&s.names, &r->w->scratch);
    if (r->depth >= 64) return nc_read_fail(r, "nested too deeply");
    r->depth++;
    if (nc_read_peek(r) != '(') NC_TRY(nc_read_name(r, &g->name));
    NC_TRY(read_graph_inputs(r, &s));
    NC_TRY(nc_read_expect(r, '='));
    NC_TRY(nc_read_expect(r, '>'));
    NC_TRY(read_outputs(r, &outputs));
    NC_TRY(read_declarations(r, &s));
    NC_TRY(nc_read_expect(r, '{'));
    while (!nc_read_eat(r, '}')) NC_TRY(read_node(r, &s));
    const char *end = r->s;
    NC_TRY(set_outputs(r, &s, &outputs));
    NC_TRY(set_versions(r, &s));
    r->s = end;
    r->depth--;
    return NC_OK;
}

/* ---- the model ---- */

static nc_code read_header(nc_reader *r) {
    NC_VEC(nc_opset) opsets = {0};
    if (!nc_read_eat(r, '<')) return NC_OK;
    if (!nc_read_word(r, "opset")) return nc_read_fail(r, "expected opset");
    NC_TRY(nc_read_expect(r, ':'));
    do {
        nc_str domain;
        nc_opset o;
        NC_TRY(nc_read_string(r, &domain));
        NC_TRY(nc_read_int(r, &o.version));
        o.domain = domain.p;
        if (!NC_PUSH(&r->m->arena, opsets, o)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    } while (nc_read_eat(r, ','));
    r->m->opsets = opsets.v;
    r->m->n_opsets = opsets.n;
    return nc_read_expect(r, '>');
}

static nc_code read_model(nc_reader *r) {
    NC_TRY(read_header(r));
    NC_TRY(nc_read_graph(r, r->m->main, NULL));
    if (nc_read_peek(r)) return nc_read_fail(r, "more text behind the graph");
    return NC_OK;
}

nc_code nc_graph_parse(nc_work *w, const char *text, const nc_registry *borrows, nc_model **out) {
    nc_reader r = {.w = w, .m = nc_model_create(borrows), .text = text, .s = text};
    NC_NEED(w, r.m);
    nc_code code = read_model(&r);
    if (code == NC_OK)
        *out = r.m;
    else
        nc_model_destroy(r.m);
    return code;
}
