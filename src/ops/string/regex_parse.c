/* ops/string/regex_parse.c: from the pattern's text to a program, in two steps: a tree by recursive descent, then
 * instructions; a counted repetition writes its body as often as it counts, so sizes are bounded. */
#include "ops/string/regex_program.h"

#include <string.h>

enum { MAX_CODE = 50000, MAX_REPEAT = 1000, MAX_DEPTH = 200 };

typedef enum tree_kind { T_NOTHING, T_SET_OF, T_CAT, T_ALT, T_REPEAT, T_ASSERT } tree_kind;

typedef struct tree {
    tree_kind kind;
    const struct tree *a, *b;
    int min, max; /* REPEAT; max -1: no end. ASSERT: min is the nc_regex_assert */
    const nc_regex_set *set;
} tree;

typedef struct parser {
    nc_work *w;
    nc_arena *arena;
    const char *p, *end;
    bool fold, dot_all;
    int depth;
    nc_code code; /* sticky */
} parser;

static const tree *fail(parser *k, const char *what) {
    if (k->code == NC_OK) k->code = nc_fail(k->w, NC_E_BAD_GRAPH, "the pattern has %s", what);
    return NULL;
}

static void no_memory(parser *k) {
    if (k->code == NC_OK) k->code = nc_fail(k->w, NC_E_MEMORY, "out of memory");
}

static const tree *make(parser *k, tree t) {
    const tree *out = k->code == NC_OK ? nc_arena_copy(k->arena, &t, sizeof t) : NULL;
    if (out == NULL) no_memory(k);
    return out;
}

static nc_regex_set *new_set(parser *k) {
    nc_regex_set *s = nc_arena_alloc(k->arena, sizeof *s);
    if (s == NULL)
        no_memory(k);
    else
        memset(s, 0, sizeof *s);
    return s;
}

static void add_range(parser *k, nc_regex_set *s, int32_t lo, int32_t hi) {
    nc_regex_range r = {lo, hi};
    if (s != NULL && !NC_PUSH(k->arena, s->ranges, r)) no_memory(k);
    for (int32_t c = lo; k->fold && s != NULL && c <= hi && c < 128; c++) {
        bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
        nc_regex_range other = {c ^ 0x20, c ^ 0x20};
        if ((lower || upper) && !NC_PUSH(k->arena, s->ranges, other)) no_memory(k);
    }
}

/* ---- sets ---- */

static void add_not(parser *k, nc_regex_set *s, const nc_regex_range *in, int n) {
    int32_t from = 0;
    for (int i = 0; i < n; i++) {
        if (in[i].lo > from) add_range(k, s, from, in[i].lo - 1);
        from = in[i].hi + 1;
    }
    add_range(k, s, from, 0x10ffff);
}

/* \d \w \s and their opposites; false: another letter. Ranges stand in order. */
static bool add_class(parser *k, nc_regex_set *s, char letter) {
    static const nc_regex_range digit[] = {{'0', '9'}}, space[] = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}},
                                word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    char low = (char)(letter | 0x20);
    const nc_regex_range *r = low == 'd' ? digit : low == 's' ? space : low == 'w' ? word : NULL;
    int n = low == 'd' ? 1 : low == 's' ? 3 : 4;
    if (r == NULL) return false;
    if (letter != low) {
        add_not(k, s, r, n);
        return true;
    }
    for (int i = 0; i < n; i++) add_range(k, s, r[i].lo, r[i].hi);
    return true;
}

static bool add_named(parser *k, nc_regex_set *s) {
    static const struct {
        const char *name;
        const char *pairs; /* lo hi lo hi ... */
    } named[] = {{"[:alpha:]", "azAZ"},    {"[:digit:]", "09"},     {"[:alnum:]", "azAZ09"},  {"[:lower:]", "az"},
                 {"[:upper:]", "AZ"},      {"[:space:]", "\t\r  "}, {"[:xdigit:]", "09afAF"}, {"[:punct:]", "!/:@[`{~"},
                 {"[:word:]", "azAZ09__"}, {"[:blank:]", "\t\t  "}};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        size_t n = strlen(named[i].name);
        if ((size_t)(k->end - k->p) < n || memcmp(k->p, named[i].name, n) != 0) continue;
        for (const char *q = named[i].pairs; *q != '\0'; q += 2) add_range(k, s, q[0], q[1]);
        k->p += n;
        return true;
    }
    return false;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

static int32_t hex(parser *k) {
    bool braced = k->p < k->end && *k->p == '{';
    int32_t c = 0;
    int n = 0;
    if (braced) k->p++;
    for (; k->p < k->end && digit_of(*k->p) >= 0 && n < (braced ? 6 : 2); n++) c = c * 16 + digit_of(*k->p++);
    if (n == 0 || (braced && (k->p == k->end || *k->p++ != '}')) || c > 0x10ffff) fail(k, "a bad \\x");
    return c;
}

/* The code point that an escape stands for; p is behind the backslash. */
static int32_t escaped(parser *k) {
    static const char from[] = "ntrfva", to[] = "\n\t\r\f\v\a";
    if (k->p == k->end) {
        fail(k, "a backslash at its end");
        return 0;
    }
    char c = *k->p;
    const char *at = strchr(from, c);
    if (c != '\0' && at != NULL) return k->p++, to[at - from];
    if (c == 'x') return k->p++, hex(k);
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        fail(k, "an escape that is not known");
    return nc_utf8_next(&k->p, k->end);
}

/* One member of a bracket: false when it was a class and so cannot start a range. */
static bool member(parser *k, nc_regex_set *s, int32_t *c) {
    if (*k->p == '[' && k->p + 1 < k->end && k->p[1] == ':') {
        if (!add_named(k, s)) fail(k, "a [:class:] that is not known");
        return false;
    }
    if (*k->p != '\\') return *c = nc_utf8_next(&k->p, k->end), true;
    k->p++;
    if (k->p < k->end && add_class(k, s, *k->p)) return k->p++, false;
    return *c = escaped(k), true;
}

/* p is behind the bracket. */
static const tree *bracket(parser *k) {
    nc_regex_set *s = new_set(k);
    bool first = true;
    if (s == NULL) return NULL;
    if (k->p < k->end && *k->p == '^') s->negated = true, k->p++;
    for (; k->code == NC_OK && k->p < k->end && (*k->p != ']' || first); first = false) {
        int32_t lo, hi;
        if (!member(k, s, &lo)) continue;
        hi = lo;
        if (k->end - k->p > 1 && k->p[0] == '-' && k->p[1] != ']') {
            k->p++;
            if (!member(k, s, &hi) || hi < lo) return fail(k, "a bad range");
        }
        add_range(k, s, lo, hi);
    }
    if (k->code == NC_OK && k->p == k->end) return fail(k, "a [ without its ]");
    k->p++;
    return make(k, (tree){.kind = T_SET_OF, .set = s});
}

static const tree *one_of(parser *k, int32_t lo, int32_t hi) {
    nc_regex_set *s = new_set(k);
    add_range(k, s, lo, hi);
    return make(k, (tree){.kind = T_SET_OF, .set = s});
}

static const tree *dot(parser *k) {
    nc_regex_set *s = new_set(k);
    if (s != NULL) s->negated = true;
    if (!k->dot_all) add_range(k, s, '\n', '\n');
    return make(k, (tree){.kind = T_SET_OF, .set = s});
}

/* ---- the tree ---- */

static const tree *alternatives(parser *k);

static const tree *after_backslash(parser *k) {
    static const char letters[] = "bBAz";
    static const int kinds[] = {NC_RE_WORD_EDGE, NC_RE_NO_WORD_EDGE, NC_RE_BEGIN, NC_RE_END};
    const char *at = k->p < k->end && *k->p != '\0' ? strchr(letters, *k->p) : NULL;
    if (at != NULL) return k->p++, make(k, (tree){.kind = T_ASSERT, .min = kinds[at - letters]});
    nc_regex_set *s = new_set(k);
    if (s == NULL) return NULL;
    if (k->p < k->end && add_class(k, s, *k->p)) return k->p++, make(k, (tree){.kind = T_SET_OF, .set = s});
    int32_t c = escaped(k);
    return one_of(k, c, c);
}

/* p is behind the parenthesis. (?i) alone holds to the end of the enclosing group. */
static const tree *group(parser *k) {
    bool fold = k->fold, dot_all = k->dot_all;
    if (k->end - k->p > 1 && k->p[0] == '?') {
        for (k->p++; k->p < k->end && *k->p != ':' && *k->p != ')'; k->p++) {
            if (*k->p == 'i')
                k->fold = true;
            else if (*k->p == 's')
                k->dot_all = true;
            else
                return fail(k, "a group's flag that is not known");
        }
        if (k->p < k->end && *k->p++ == ')') return make(k, (tree){.kind = T_NOTHING});
    }
    const tree *t = alternatives(k);
    if (k->code == NC_OK && (k->p == k->end || *k->p++ != ')')) return fail(k, "a ( without its )");
    k->fold = fold, k->dot_all = dot_all;
    return t;
}

static const tree *atom(parser *k) {
    switch (*k->p) {
    case '(': return k->p++, group(k);
    case '[': return k->p++, bracket(k);
    case '.': return k->p++, dot(k);
    case '^': return k->p++, make(k, (tree){.kind = T_ASSERT, .min = NC_RE_BEGIN});
    case '$': return k->p++, make(k, (tree){.kind = T_ASSERT, .min = NC_RE_END});
    case '\\': return k->p++, after_backslash(k);
    case '*':
    case '+':
    case '?': return fail(k, "a repetition of nothing");
    default: {
        int32_t c = nc_utf8_next(&k->p, k->end);
        return one_of(k, c, c);
    }
    }
}

/* {m}, {m,} or {m,n} at p; false: the brace is a letter like any other. */
static bool regex_parse_counts(parser *k, int *min, int *max) {
    const char *p = k->p + 1;
    int n[2] = {0, -1}, i = 0, digits = 0;
    for (; p < k->end && *p != '}'; p++) {
        if (*p == ',' && i == 0 && digits > 0) {
            i = 1;
        } else if (*p >= '0' && *p <= '9') {
            if (n[i] < 0) n[i] = 0;
            n[i] = n[i] > MAX_REPEAT ? n[i] : n[i] * 10 + (*p - '0');
            digits++;
        } else {
            return false;
        }
    }
    if (p == k->end || digits == 0) return false;
    *min = n[0], *max = i == 0 ? n[0] : n[1];
    k->p = p + 1;
    if (*min > MAX_REPEAT || *max > MAX_REPEAT || (*max >= 0 && *max < *min)) fail(k, "a bad repetition count");
    return true;
}

static const tree *repeated(parser *k) {
    const tree *t = atom(k);
    while (k->code == NC_OK && k->p < k->end) {
        int min = *k->p == '+', max = *k->p == '?' ? 1 : -1;
        if (*k->p == '{') {
            if (!regex_parse_counts(k, &min, &max)) break;
        } else if (*k->p == '*' || *k->p == '+' || *k->p == '?') {
            k->p++;
        } else {
            break;
        }
        if (k->p < k->end && *k->p == '?') k->p++; /* lazy: the same texts match */
        t = make(k, (tree){.kind = T_REPEAT, .a = t, .min = min, .max = max});
    }
    return t;
}

static const tree *sequence(parser *k) {
    const tree *t = NULL;
    while (k->code == NC_OK && k->p < k->end && *k->p != '|' && *k->p != ')') {
        const tree *next = repeated(k);
        t = t != NULL ? make(k, (tree){.kind = T_CAT, .a = t, .b = next}) : next;
    }
    return t != NULL ? t : make(k, (tree){.kind = T_NOTHING});
}

static const tree *alternatives(parser *k) {
    if (++k->depth > MAX_DEPTH) return fail(k, "groups nested too deep");
    const tree *t = sequence(k);
    while (k->code == NC_OK && k->p < k->end && *k->p == '|') {
        k->p++;
        t = make(k, (tree){.kind = T_ALT, .a = t, .b = sequence(k)});
    }
    k->depth--;
    return t;
}

/* ---- instructions ---- */

static int emit(parser *k, nc_regex *r, nc_regex_instr x) {
    if (k->code == NC_OK && r->code.n >= MAX_CODE) k->code = nc_fail(k->w, NC_E_LIMIT, "the pattern is too large");
    if (k->code == NC_OK && !NC_PUSH(k->arena, r->code, x)) no_memory(k);
    return k->code == NC_OK ? r->code.n - 1 : 0;
}

static void compile(parser *k, nc_regex *r, const tree *t);

static void compile_repeat(parser *k, nc_regex *r, const tree *t) {
    for (int i = 0; i < t->min && k->code == NC_OK; i++) compile(k, r, t->a);
    if (t->max < 0) {
        int split = emit(k, r, (nc_regex_instr){.kind = NC_RE_SPLIT});
        compile(k, r, t->a);
        emit(k, r, (nc_regex_instr){.kind = NC_RE_JUMP, .a = split});
        if (k->code == NC_OK) r->code.v[split].a = split + 1, r->code.v[split].b = r->code.n;
        return;
    }
    for (int i = t->min; i < t->max && k->code == NC_OK; i++) {
        int split = emit(k, r, (nc_regex_instr){.kind = NC_RE_SPLIT});
        compile(k, r, t->a);
        if (k->code == NC_OK) r->code.v[split].a = split + 1, r->code.v[split].b = r->code.n;
    }
}

static void compile(parser *k, nc_regex *r, const tree *t) {
    if (k->code != NC_OK) return;
    switch (t->kind) {
    case T_NOTHING: return;
    case T_SET_OF: emit(k, r, (nc_regex_instr){.kind = NC_RE_SET, .set = t->set}); return;
    case T_ASSERT: emit(k, r, (nc_regex_instr){.kind = NC_RE_ASSERT, .a = t->min}); return;
    case T_CAT: compile(k, r, t->a), compile(k, r, t->b); return;
    case T_REPEAT: compile_repeat(k, r, t); return;
    case T_ALT: {
        int split = emit(k, r, (nc_regex_instr){.kind = NC_RE_SPLIT});
        compile(k, r, t->a);
        int jump = emit(k, r, (nc_regex_instr){.kind = NC_RE_JUMP});
        if (k->code == NC_OK) r->code.v[split].a = split + 1, r->code.v[split].b = r->code.n;
        compile(k, r, t->b);
        if (k->code == NC_OK) r->code.v[jump].a = r->code.n;
        return;
    }
    }
}

nc_code nc_regex_compile(nc_work *w, nc_arena *arena, const char *pattern, size_t bytes, const nc_regex **out) {
    parser k = {.w = w, .arena = arena, .p = pattern, .end = pattern + bytes};
    nc_regex *r = nc_arena_alloc(arena, sizeof *r);
    NC_NEED(w, r);
    memset(r, 0, sizeof *r);
    const tree *t = alternatives(&k);
    if (k.code == NC_OK && k.p < k.end) fail(&k, "a ) without its (");
    compile(&k, r, t);
    emit(&k, r, (nc_regex_instr){.kind = NC_RE_MATCH});
    NC_TRY(k.code);
    *out = r;
    return NC_OK;
}
