/* transform/pattern.c: the matcher of pattern.h. The text is read along the graph, there is no compiled form but for
 * the op it ends in, which refuses most nodes. Two orders are tried where an op commutes, so a pattern costs at most
 * 2^depth steps, and depths are small. */
#include "transform/pattern.h"

#include "base/log.h"
#include "base/steps.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static bool match_value(nc_match *m, const char *s, nc_value *v);

static const char *blank(const char *s) {
    while (*s == ' ') s++;
    return s;
}

static size_t word(const char *s) {
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
    return n;
}

/* The same with the points of a domain. */
static size_t op_word(const char *s) {
    size_t n = word(s);
    while (n > 0 && s[n] == '.' && word(s + n + 1) > 0) n += 1 + word(s + n + 1);
    return n;
}

/* Behind the argument or choice that begins at s: its comma, bar or closing bracket. */
static const char *scan(const char *s) {
    for (int depth = 0;; s++) switch (*s) {
        case '\0': return s;
        case '"':
            for (s++; *s != '"'; s++)
                if (*s == '\0') return s;
            break;
        case ',':
        case '|':
            if (depth == 0) return s;
            break;
        case '(':
        case '[':
        case '<': depth++; break;
        case ')':
        case ']':
            if (depth == 0) return s;
            depth--;
            break;
        case '>': depth--; break;
        default: break;
        }
}

/* Where arguments end that were passed before: most nodes pass the same ones of the same rows. */
enum { N_ENDS = 1024 };
struct nc_pattern_ends {
    struct {
        const char *from, *to;
    } at[N_ENDS];
};

static const char *behind(const nc_match *m, const char *s) {
    if (m->ends == NULL) return scan(s);
    size_t i = ((uintptr_t)s ^ (uintptr_t)s >> 10) % N_ENDS;
    if (m->ends->at[i].from != s) {
        m->ends->at[i].from = s;
        m->ends->at[i].to = scan(s);
    }
    return m->ends->at[i].to;
}

static bool bind(nc_match *m, const char *name, size_t n, nc_value *v) {
    for (int i = 0; i < m->n_bound; i++)
        if (m->bound[i].n == n && memcmp(m->bound[i].name, name, n) == 0) return m->bound[i].v == v;
    if (m->n_bound == NC_PATTERN_NAMES) return false;
    m->bound[m->n_bound].name = name;
    m->bound[m->n_bound].n = n;
    m->bound[m->n_bound++].v = v;
    return true;
}

/* Digits with a point and an exponent, whatever the process's locale writes there. */
double nc_pattern_number(const char *s) {
    double v = 0, sign = *s == '-' ? -1 : 1;
    int places = 0, exponent = 0;
    bool behind_point = false;
    for (s += *s == '-'; isdigit((unsigned char)*s) || *s == '.'; s++) {
        if (*s == '.') {
            behind_point = true;
            continue;
        }
        v = v * 10 + (*s - '0');
        places += behind_point;
    }
    if (*s == 'e' || *s == 'E') {
        bool down = *++s == '-';
        for (s += *s == '-' || *s == '+'; isdigit((unsigned char)*s) && exponent < 1000; s++)
            exponent = exponent * 10 + (*s - '0');
        if (down) exponent = -exponent;
    }
    exponent -= places;
    return sign * (exponent < 0 ? v / pow(10, -exponent) : v * pow(10, exponent));
}

/* As near as the type can come to a number that was written with eight digits. */
static bool is_near(const nc_literal *l, double want) {
    double v, part = l->dtype == NC_FLOAT16 ? 1e-3 : l->dtype == NC_BFLOAT16 ? 8e-3 : 1e-6;
    for (int64_t i = 0; i < l->n; i++)
        if (!nc_rewrite_number(l, i, &v) || !(fabs(v - want) <= part * fabs(want))) return false;
    return l->n > 0;
}

/* Has n so many inputs? Those left out at the end (Clip's bounds, as PyTorch's exporter writes them) do not count. */
static bool has_inputs(const nc_node *n, int count) {
    for (int i = count; i < n->n_in; i++)
        if (n->in[i] != NULL) return false;
    return n->n_in >= count;
}

/* The arguments of n one by one, exchanged if `swap`, which takes two of them. What stands behind an argument that does
 * not fit is never read: most fail at the first. */
static bool match_in_order(nc_match *m, const char *args, const nc_node *n, bool swap) {
    int count = 0;
    for (const char *s = blank(args);; s = blank(s + 1)) {
        if (s[0] == '.' && s[1] == '.') return !swap || count == 2;
        if (count == n->n_in) return false;
        nc_value *v = n->in[swap && count < 2 ? 1 - count : count];
        if (v == NULL || !match_value(m, s, v)) return false;
        count++;
        s = behind(m, s);
        if (*s != ',') return has_inputs(n, count) && (!swap || count == 2);
    }
}

static bool match_inputs(nc_match *m, const char *args, const nc_node *n) {
    bool either = n->n_in >= 2 && (n->card->traits & NC_COMMUTES);
    for (int swap = 0; swap <= either; swap++) {
        nc_match before = *m;
        if (match_in_order(m, args, n, swap)) return true;
        *m = before;
    }
    return false;
}

static bool number_is(const nc_node *n, const char *name, double want) {
    const nc_attr *a = nc_node_attr(n, name);
    nc_attr_kind kind = a != NULL ? a->kind : NC_A_OTHER;
    for (const nc_attr_spec *d = n->version->attr; a == NULL && d != NULL && d->name != NULL; d++)
        if (strcmp(d->name, name) == 0 && (d->flags & NC_ATTR_HAS_DEFAULT)) kind = d->kind;
    if (kind == NC_A_INT) return (double)nc_attr_int(n, name) == want;
    return kind == NC_A_FLOAT && fabs(nc_attr_float(n, name) - want) <= 1e-6 * fabs(want);
}

static bool ints_are(const nc_node *n, const char *name, const char *s) {
    int count = 0, i = 0;
    const int64_t *v = nc_attr_ints(n, name, &count);
    for (s = blank(s); *s != ']'; s = blank(*s == ',' ? s + 1 : s), i++) {
        if (i >= count || (double)v[i] != nc_pattern_number(s)) return false;
        s = blank(s + strspn(s, "-0123456789"));
    }
    return i == count;
}

static bool text_is(const nc_node *n, const char *name, const char *s) {
    const char *v = nc_attr_str(n, name);
    size_t len = strcspn(s, "\"");
    return v != NULL && strlen(v) == len && memcmp(v, s, len) == 0;
}

/* s: behind the opening bracket of attributes. */
static bool match_attrs(const nc_node *n, const char *s) {
    char name[104];
    for (s = blank(s);; s = blank(s + 1)) {
        size_t len = word(s);
        if (len == 0 || len >= sizeof name) return false;
        memcpy(name, s, len);
        name[len] = 0;
        s = blank(blank(s + len) + 1);
        bool same = *s == '"'   ? text_is(n, name, s + 1)
                    : *s == '[' ? ints_are(n, name, s + 1)
                                : number_is(n, name, nc_pattern_number(s));
        if (!same) return false;
        if (*s == '"') s += 1 + strcspn(s + 1, "\"");
        s += strcspn(s, *s == '[' ? "]" : ",>");
        s += strcspn(s, ",>");
        if (*s != ',') return true;
    }
}

/* An op as a text names it: of no domain, `domain` is empty. */
typedef struct op_name {
    const char *domain, *name;
    size_t n_domain, n;
} op_name;

static op_name read_op(const char *s, size_t n) {
    size_t from = n;
    while (from > 0 && s[from - 1] != '.') from--;
    return (op_name){.domain = s, .name = s + from, .n_domain = from > 0 ? from - 1 : 0, .n = n - from};
}

/* Most names differ in their first letter. */
static bool is_op(const nc_node *n, const op_name *op) {
    const char *domain = n->card->domain != NULL ? n->card->domain : "";
    return n->card->name[0] == op->name[0] && strncmp(n->card->name, op->name, op->n) == 0 &&
           n->card->name[op->n] == '\0' && strncmp(domain, op->domain, op->n_domain) == 0 &&
           domain[op->n_domain] == '\0';
}

/* The op in which a match of the text ends, so that other nodes need not be looked at; false: one of several. */
static bool root_op(const char *s, op_name *out) {
    size_t n = op_word(s);
    const char *next = blank(s + n);
    if (*next == '=' && n > 0) return root_op(blank(next + 1), out);
    *out = read_op(s, n);
    return n > 0 && (*next == '(' || *next == '<');
}

static bool match_op(nc_match *m, const char *op, size_t n_op, nc_value *v) {
    const nc_node *n = v->origin == NC_FROM_NODE && v->i_def == 0 ? v->def : NULL;
    const char *args = blank(op + n_op);
    op_name name = read_op(op, n_op);
    if (n == NULL || !is_op(n, &name) || (*args == '<' && !match_attrs(n, args + 1))) return false;
    if (*args == '<') args = blank(args + strcspn(args, ">") + 1);
    if (!(m->draws ? nc_rewrite_free_draw(n) : nc_rewrite_free(n)) || n->stage != m->root->stage) return false;
    for (int i = 0; i < m->n_nodes; i++)
        if (m->nodes[i] == n) return match_inputs(m, args + 1, n);
    if (m->n_nodes == NC_PATTERN_NODES) return false;
    m->nodes[m->n_nodes++] = n;
    return match_inputs(m, args + 1, n);
}

/* s: behind the opening bracket. What one choice has bound goes before the next is tried. */
static bool match_choice(nc_match *m, const char *s, nc_value *v) {
    for (nc_match before = *m;; *m = before) {
        s = blank(s);
        if (match_value(m, s, v)) return true;
        s = behind(m, s);
        if (*s++ != '|') break;
    }
    return false;
}

static bool match_value(nc_match *m, const char *s, nc_value *v) {
    nc_steps_add(1);
    if (*s == '[') return match_choice(m, s + 1, v);
    if (isdigit((unsigned char)*s) || *s == '-') return nc_rewrite_fixed(v) && is_near(v->lit, nc_pattern_number(s));
    if (*s == '$' && !(nc_rewrite_fixed(v) && v->lit->n == 1)) return false;
    if (*s == '$') return bind(m, s + 1, word(s + 1), v);
    if (*s == '#') return nc_rewrite_fixed(v) && bind(m, s + 1, word(s + 1), v);
    size_t n = op_word(s);
    const char *next = blank(s + n);
    if (*next == '(' || *next == '<') return match_op(m, s, n, v);
    if (*next != '=') return bind(m, s, n, v);
    return match_value(m, blank(next + 1), v) && bind(m, s, n, v);
}

static bool is_inside(const nc_match *m, const nc_node *n) {
    for (int i = 0; i < m->n_nodes; i++)
        if (m->nodes[i] == n) return true;
    return false;
}

static bool is_whole(const nc_match *m) {
    for (int i = 0; i < m->n_nodes; i++) {
        const nc_value *v = m->nodes[i]->out[0];
        if (m->nodes[i] == m->root) continue;
        if (v->n_outputs > 0 || v->uses.n > NC_PATTERN_NODES) return false;
        for (int k = 0; k < v->uses.n; k++)
            if (!is_inside(m, v->uses.v[k].node)) return false;
    }
    return true;
}

static bool match(const char *text, nc_node *n, struct nc_pattern_ends *ends, bool draws, nc_match *out) {
    out->root = n, out->row = NULL, out->ends = ends, out->draws = draws;
    out->n_bound = out->n_nodes = 0; /* the rest is read as far as these say */
    return n->n_out > 0 && n->out[0] != NULL && match_value(out, text, n->out[0]) && is_whole(out);
}

bool nc_pattern_match(const char *text, nc_node *n, nc_match *out) { return match(text, n, NULL, false, out); }

nc_value *nc_match_value(const nc_match *m, const char *name) {
    for (int i = 0; i < m->n_bound; i++)
        if (m->bound[i].n == strlen(name) && memcmp(m->bound[i].name, name, m->bound[i].n) == 0) return m->bound[i].v;
    return NULL;
}

static void read_inputs(const nc_pattern *p, const nc_match *m, nc_made *made) {
    char name[16];
    for (const char *s = p->inputs; *s && made->n_in < NC_PATTERN_INPUTS; s = blank(s)) {
        size_t n = word(s);
        if (n == 0 || n >= sizeof name) return;
        memcpy(name, s, n);
        name[n] = 0;
        made->in[made->n_in++] = nc_match_value(m, name);
        s += n;
    }
}

static nc_code refuse(const nc_node *n, const nc_pattern *p, const char *why) {
    nc_log(NC_LOG_VERBOSE, "transform: %s '%s' is no %s: %s", n->card->name, n->name, p->op, why);
    return NC_OK;
}

static nc_code replace(nc_work *w, const nc_match *m, bool newer, bool *done) {
    const nc_pattern *p = m->row;
    nc_made made = {.domain = "", .op = p->op};
    nc_node *n = m->root, *by;
    read_inputs(p, m, &made);
    bool fits = p->where != NULL || nc_rewrite_same_type(n->out[0], made.in[0]);
    if (p->where != NULL) NC_TRY(p->where(w, m, &made, &fits));
    if (!fits) return refuse(n, p, "types, dims or attributes differ");
    NC_TRY((newer ? nc_rewrite_newer : nc_rewrite_in)(w, n, made.domain, made.op, made.in, made.n_in, made.attrs,
                                                      made.n_attrs, &by));
    if (by == NULL) return refuse(n, p, "the model's opset has no such op for this type");
    *done = true;
    by->random_id = made.random_id;
    /* Readers stand behind what they read: from the root backwards. */
    if (made.inner != NULL) m = made.inner;
    for (int i = 1; i < m->n_nodes; i++) nc_rewrite_drop(m->nodes[i]->out[0]);
    return NC_OK;
}

static nc_code apply_row(nc_work *w, nc_node *n, const nc_pattern *p, struct nc_pattern_ends *ends, bool newer,
                         bool *done) {
    nc_match m;
    if (!match(p->text, n, ends, p->draws, &m)) return NC_OK;
    m.row = p;
    return replace(w, &m, newer, done);
}

static nc_code apply(nc_work *w, nc_graph *g, const nc_pattern *rows, int n_rows, bool newer, int *n_changes) {
    struct nc_pattern_ends *ends = nc_arena_alloc(&w->scratch, sizeof *ends);
    op_name *roots = nc_arena_array(&w->scratch, (size_t)n_rows, sizeof *roots);
    NC_NEED(w, ends);
    NC_NEED(w, roots);
    for (int r = 0; r < n_rows; r++)
        if (!root_op(rows[r].text, &roots[r])) roots[r].name = NULL;
    for (nc_node *n = g->last, *prev; n != NULL; n = prev) {
        bool done = false;
        const nc_node *after = n->next;
        for (int r = 0; r < n_rows && !done; r++)
            if (roots[r].name == NULL || is_op(n, &roots[r])) NC_TRY(apply_row(w, n, &rows[r], ends, newer, &done));
        *n_changes += done;
        /* Nodes before n may be gone: what stands in its place leads on. */
        prev = (after != NULL ? after->prev : g->last)->prev;
    }
    return NC_OK;
}

nc_code nc_pattern_apply(nc_work *w, nc_graph *g, const nc_pattern *rows, int n_rows, int *n_changes) {
    return apply(w, g, rows, n_rows, false, n_changes);
}

nc_code nc_pattern_apply_newer(nc_work *w, nc_graph *g, const nc_pattern *rows, int n_rows, int *n_changes) {
    return apply(w, g, rows, n_rows, true, n_changes);
}
