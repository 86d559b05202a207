/* transform/rules.c: the reader of rules.h, and what a rule makes of a match. What is found is checked here and kept as
 * text, for the matcher of pattern.c; what is made is kept in parts. */
#include "transform/rules.h"

#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

/* An attribute that is made: written out, or the constant of that name. */
typedef struct made_attr {
    nc_attr attr; /* numbers are INT or FLOAT as they are written, until the card says which */
    const char *from;
} made_attr;

typedef struct nc_rule {
    const char *name, *domain, *op;
    made_attr attrs[NC_PATTERN_ATTRS];
    int n_attrs;
    const char *in[NC_PATTERN_INPUTS]; /* NULL: left out */
    int n_in;
} nc_rule;

/* ---- reading ---- */

typedef struct reader {
    nc_work *w;
    nc_arena *arena;
    const char *text, *s;
    const char *names[NC_PATTERN_NAMES]; /* that the rule binds */
    int n_names, n_nodes;
} reader;

static nc_code rule_fail(reader *r, const char *fmt, ...) NC_PRINTF(2, 3);
static nc_code rule_fail(reader *r, const char *fmt, ...) {
    char what[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    int line, column;
    nc_text_where(r->text, r->s, &line, &column);
    return nc_fail(r->w, NC_E_ARGUMENT, "patterns: line %d, column %d: %s", line, column, what);
}

static char peek(reader *r) {
    for (;;) {
        r->s += strspn(r->s, " \t\r\n");
        if (r->s[0] != '/' || r->s[1] != '/') return *r->s;
        r->s += strcspn(r->s, "\n");
    }
}

static bool eat(reader *r, const char *what) {
    size_t n = strlen(what);
    peek(r);
    if (strncmp(r->s, what, n) != 0) return false;
    r->s += n;
    return true;
}

static nc_code expect(reader *r, const char *what) {
    if (eat(r, what)) return NC_OK;
    return *r->s ? rule_fail(r, "expected '%s', got '%.12s'", what, r->s)
                 : rule_fail(r, "expected '%s' before the end", what);
}

/* Letters, digits and _; with dots where an op may have a domain. */
static nc_code read_word(reader *r, bool dots, const char *what, const char **out) {
    peek(r);
    size_t n = 0;
    if (isalpha((unsigned char)r->s[0]) || r->s[0] == '_')
        while (isalnum((unsigned char)r->s[n]) || r->s[n] == '_' || (dots && r->s[n] == '.' && r->s[n + 1] != '.')) n++;
    if (n == 0 || n > 100) return rule_fail(r, "expected %s, got '%.12s'", what, r->s);
    NC_NEED(r->w, *out = nc_arena_strn(r->arena, r->s, n));
    r->s += n;
    return NC_OK;
}

static bool is_bound(const reader *r, const char *name) {
    for (int i = 0; i < r->n_names; i++)
        if (strcmp(r->names[i], name) == 0) return true;
    return false;
}

static nc_code bind_name(reader *r, const char *name) {
    if (is_bound(r, name)) return NC_OK;
    if (r->n_names == NC_PATTERN_NAMES) return rule_fail(r, "more than %d names in a rule", NC_PATTERN_NAMES);
    r->names[r->n_names++] = name;
    return NC_OK;
}

static bool at_number(reader *r) {
    char c = peek(r);
    return isdigit((unsigned char)c) || c == '-';
}

/* Digits, a point, an exponent, as pattern.c reads them: strtod would follow the process's locale. */
static nc_code skip_number(reader *r, bool *whole) {
    const char *s = r->s + (*r->s == '-'), *digits = s;
    *whole = true;
    s += strspn(s, "0123456789");
    if (s == digits) return rule_fail(r, "expected a number, got '%.12s'", r->s);
    if (s[0] == '.' && s[1] != '.') *whole = false, s += 1 + strspn(s + 1, "0123456789");
    if (*s == 'e' || *s == 'E') {
        *whole = false;
        s += 1 + (s[1] == '-' || s[1] == '+');
        if (!isdigit((unsigned char)*s)) return rule_fail(r, "the exponent of a number has no digits");
        s += strspn(s, "0123456789");
    }
    r->s = s;
    return NC_OK;
}

static nc_code read_number(reader *r, nc_attr *a) {
    const char *at = r->s;
    bool whole;
    NC_TRY(skip_number(r, &whole));
    double v = nc_pattern_number(at);
    if (whole && fabs(v) >= 0x1p53) return rule_fail(r, "a whole number of at most 53 bits is expected");
    a->kind = whole ? NC_A_INT : NC_A_FLOAT;
    if (whole)
        a->i = (int64_t)v;
    else
        a->f = (float)v;
    return NC_OK;
}

static nc_code read_text(reader *r, nc_attr *a) {
    size_t n = strcspn(++r->s, "\"\n");
    if (r->s[n] != '"') return rule_fail(r, "a text without its end");
    a->kind = NC_A_STRING;
    NC_NEED(r->w, a->s.p = nc_arena_strn(r->arena, r->s, n));
    a->s.n = n;
    r->s += n + 1;
    return NC_OK;
}

static nc_code read_ints(reader *r, nc_attr *a) {
    int64_t v[NC_MAX_RANK];
    nc_attr one;
    a->kind = NC_A_INTS, a->n = 0;
    do {
        if (!at_number(r)) return rule_fail(r, "expected a whole number, got '%.12s'", r->s);
        if (a->n == NC_MAX_RANK) return rule_fail(r, "more than %d numbers", (int)NC_MAX_RANK);
        NC_TRY(read_number(r, &one));
        if (one.kind != NC_A_INT) return rule_fail(r, "expected whole numbers in a list");
        v[a->n++] = one.i;
    } while (eat(r, ","));
    NC_TRY(expect(r, "]"));
    int64_t *kept = nc_arena_array(r->arena, (size_t)a->n, sizeof *kept);
    NC_NEED(r->w, kept);
    memcpy(kept, v, (size_t)a->n * sizeof *kept);
    a->ints = kept;
    return NC_OK;
}

static nc_code read_attr_value(reader *r, nc_attr *a) {
    if (peek(r) == '"') return read_text(r, a);
    if (eat(r, "[")) return read_ints(r, a);
    if (at_number(r)) return read_number(r, a);
    return rule_fail(r, "expected a number, a text or a list of whole numbers, got '%.12s'", r->s);
}

/* < name = value, ... >, behind the opening bracket; each goes to `add`, where it is not NULL. */
static nc_code read_attrs(reader *r, nc_rule *into) {
    do {
        made_attr a = {.from = NULL};
        NC_TRY(read_word(r, false, "an attribute", &a.attr.name));
        NC_TRY(expect(r, "="));
        if (into != NULL && eat(r, "$")) {
            NC_TRY(read_word(r, false, "the name of a constant", &a.from));
            if (!is_bound(r, a.from)) return rule_fail(r, "'%s' is not found by this rule", a.from);
        } else {
            NC_TRY(read_attr_value(r, &a.attr));
        }
        if (into != NULL && into->n_attrs == NC_PATTERN_ATTRS)
            return rule_fail(r, "more than %d attributes", NC_PATTERN_ATTRS);
        if (into != NULL) into->attrs[into->n_attrs++] = a;
    } while (eat(r, ","));
    return expect(r, ">");
}

/* ---- what is found ---- */

static nc_code read_found(reader *r, int depth);

static nc_code read_args(reader *r, int depth) {
    int n = 0;
    do {
        if (eat(r, "..")) break;
        if (n++ == NC_PATTERN_INPUTS) return rule_fail(r, "more than %d inputs", NC_PATTERN_INPUTS);
        NC_TRY(read_found(r, depth));
    } while (eat(r, ","));
    return expect(r, ")");
}

static nc_code read_op(reader *r, int depth) {
    if (++r->n_nodes > NC_PATTERN_NODES) return rule_fail(r, "more than %d nodes in a rule", NC_PATTERN_NODES);
    if (eat(r, "<")) NC_TRY(read_attrs(r, NULL));
    NC_TRY(expect(r, "("));
    return read_args(r, depth);
}

/* The largest choice counts: one of them is taken. */
static nc_code read_choice(reader *r, int depth) {
    int before = r->n_nodes, most = before;
    do {
        r->n_nodes = before;
        NC_TRY(read_found(r, depth));
        if (r->n_nodes > most) most = r->n_nodes;
    } while (eat(r, "|"));
    r->n_nodes = most;
    return expect(r, "]");
}

static nc_code read_found(reader *r, int depth) {
    const char *name;
    bool whole;
    if (depth == 0) return rule_fail(r, "more than %d levels", MAX_DEPTH);
    if (eat(r, "[")) return read_choice(r, depth - 1);
    if (at_number(r)) return skip_number(r, &whole);
    bool constant = eat(r, "#") || eat(r, "$");
    NC_TRY(read_word(r, !constant, constant ? "the name of a constant" : "a name or an op", &name));
    char next = peek(r);
    if (!constant && (next == '(' || next == '<')) return read_op(r, depth - 1);
    if (strchr(name, '.') != NULL) return rule_fail(r, "expected '(' behind the op '%s'", name);
    NC_TRY(bind_name(r, name));
    if (constant || next != '=' || r->s[1] == '>') return NC_OK;
    r->s++;
    return read_found(r, depth - 1);
}

/* The part from..to without comments and line ends, which the matcher does not know. */
static const char *one_line(reader *r, const char *from, const char *to) {
    char *out = nc_arena_alloc(r->arena, (size_t)(to - from) + 1), *at = out;
    if (out == NULL) return NULL;
    for (const char *s = from; s < to; s++) {
        if (s[0] == '/' && s[1] == '/')
            while (s + 1 < to && s[1] != '\n') s++;
        else
            *at++ = *s == '\n' || *s == '\t' || *s == '\r' ? ' ' : *s;
    }
    *at = 0;
    return out;
}

/* ---- what is made ---- */

static nc_code read_inputs(reader *r, nc_rule *rule) {
    if (eat(r, ")")) return rule_fail(r, "what is made needs an input");
    do {
        const char *name = NULL;
        if (rule->n_in == NC_PATTERN_INPUTS) return rule_fail(r, "more than %d inputs", NC_PATTERN_INPUTS);
        if (peek(r) != ',' && *r->s != ')') {
            NC_TRY(read_word(r, false, "a name", &name));
            if (!is_bound(r, name)) return rule_fail(r, "'%s' is not found by this rule", name);
        }
        rule->in[rule->n_in++] = name;
    } while (eat(r, ","));
    if (rule->in[0] == NULL) return rule_fail(r, "what is made needs its first input");
    return expect(r, ")");
}

static nc_code read_made(reader *r, nc_rule *rule) {
    const char *full;
    NC_TRY(read_word(r, true, "an op", &full));
    const char *dot = strrchr(full, '.');
    rule->op = dot != NULL ? dot + 1 : full;
    rule->domain = "";
    if (dot != NULL) NC_NEED(r->w, rule->domain = nc_arena_strn(r->arena, full, (size_t)(dot - full)));
    if (eat(r, "<")) NC_TRY(read_attrs(r, rule));
    NC_TRY(expect(r, "("));
    return read_inputs(r, rule);
}

static nc_code make_match(nc_work *w, const nc_match *m, nc_made *made, bool *fits);

static nc_code read_rule(reader *r, nc_pattern *row) {
    nc_rule *rule = nc_arena_alloc(r->arena, sizeof *rule);
    NC_NEED(r->w, rule);
    *rule = (nc_rule){.name = NULL};
    r->n_names = r->n_nodes = 0;
    NC_TRY(read_word(r, false, "the name of a rule", &rule->name));
    NC_TRY(expect(r, ":"));
    peek(r);
    const char *from = r->s;
    NC_TRY(read_found(r, MAX_DEPTH));
    const char *to = r->s;
    if (r->n_nodes == 0) {
        r->s = from;
        return rule_fail(r, "what is found has no op");
    }
    NC_TRY(expect(r, "=>"));
    NC_TRY(read_made(r, rule));
    *row = (nc_pattern){.op = rule->op, .inputs = "", .where = make_match, .own = rule};
    NC_NEED(r->w, row->text = one_line(r, from, to));
    return NC_OK;
}

nc_code nc_rules_parse(nc_work *w, nc_arena *arena, const char *text, nc_rules *out) {
    reader r = {.w = w, .arena = arena, .text = text, .s = text};
    int room = 1;
    for (const char *s = text; *s; s++) room += *s == ':';
    nc_pattern *rows = nc_arena_array(arena, (size_t)room, sizeof *rows);
    NC_NEED(w, rows);
    int n = 0;
    while (peek(&r)) NC_TRY(read_rule(&r, &rows[n++]));
    *out = (nc_rules){rows, n};
    return NC_OK;
}

/* ---- at work ---- */

static const nc_attr_spec *spec_of(const nc_op_version *v, const char *name) {
    for (const nc_attr_spec *s = v->attr; s != NULL && s->name != NULL; s++)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

static nc_code check_rule(nc_work *w, const nc_model *m, const nc_rule *rule) {
    const nc_card *card = NULL;
    for (const nc_registry *r = m->registry; card == NULL && r != NULL; r = r->base)
        card = r->find(r, rule->domain, rule->op);
    if (card == NULL)
        NC_FAIL(w, NC_E_ARGUMENT, "patterns: rule '%s' makes %s%s%s, which is not an op", rule->name, rule->domain,
                rule->domain[0] ? "." : "", rule->op);
    for (int i = 0; i < rule->n_attrs; i++) {
        bool has = false;
        for (const nc_op_version *v = card->versions; !has && v->since; v++)
            has = spec_of(v, rule->attrs[i].attr.name) != NULL;
        if (!has)
            NC_FAIL(w, NC_E_ARGUMENT, "patterns: rule '%s': %s has no attribute '%s'", rule->name, rule->op,
                    rule->attrs[i].attr.name);
    }
    return NC_OK;
}

nc_code nc_rules_check(nc_work *w, const nc_model *m, const nc_rules *r) {
    for (int i = 0; i < r->n; i++) NC_TRY(check_rule(w, m, r->rows[i].own));
    return NC_OK;
}

static double number_in(const nc_attr *a) { return a->kind == NC_A_INT ? (double)a->i : (double)a->f; }

/* The attribute as the card wants it; false: the constant is no number, or another kind is wanted. */
static bool make_attr(const made_attr *from, const nc_value *constant, const nc_attr_spec *spec, nc_attr *to) {
    double v = 0;
    *to = from->attr;
    if (spec == NULL) return false;
    if (from->from == NULL && to->kind != NC_A_INT && to->kind != NC_A_FLOAT) return to->kind == spec->kind;
    if (from->from == NULL)
        v = number_in(to);
    else if (constant->lit == NULL || constant->lit->n != 1 || !nc_rewrite_number(constant->lit, 0, &v))
        return false;
    *to = (nc_attr){.name = from->attr.name, .kind = spec->kind};
    if (spec->kind == NC_A_FLOAT) to->f = (float)v;
    if (spec->kind == NC_A_INT) to->i = fabs(v) < 0x1p53 ? (int64_t)v : 0;
    return spec->kind == NC_A_FLOAT || (spec->kind == NC_A_INT && (double)to->i == v);
}

static nc_code make_match(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_rule *rule = m->row->own;
    const nc_op_version *version;
    (void)w;
    made->domain = rule->domain, made->op = rule->op;
    for (int i = 0; i < rule->n_in; i++) {
        made->in[i] = rule->in[i] != NULL ? nc_match_value(m, rule->in[i]) : NULL;
        if (made->in[i] != NULL) made->n_in = i + 1;
    }
    *fits =
        made->in[0] != NULL && made->in[0]->type != NULL &&
        nc_rewrite_card_in(m->root->graph->model, rule->domain, rule->op, made->in[0]->type->elem, &version) != NULL;
    for (int i = 0; *fits && i < rule->n_attrs; i++) {
        const made_attr *a = &rule->attrs[i];
        const nc_value *constant = a->from != NULL ? nc_match_value(m, a->from) : NULL;
        if (a->from != NULL && constant == NULL) continue;
        *fits = make_attr(a, constant, spec_of(version, a->attr.name), &made->attrs[made->n_attrs++]);
    }
    if (*fits) m->root->graph->model->stale_sizes = true;
    return NC_OK;
}
