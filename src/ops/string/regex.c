/* ops/string/regex.c: runs a regular expression: all states that the text read so far can be in, side by side (a
 * Thompson simulation), so the time is the text's length times the program's. The program comes from regex_parse.c. */
#include "ops/string/regex_program.h"

#include <string.h>

int32_t nc_utf8_next(const char **p, const char *end) {
    const unsigned char *s = (const unsigned char *)*p;
    int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (s[0] >= 0x80 && s[0] < 0xc2) n = 0;
    int32_t c = n == 1 ? s[0] : n == 2 ? s[0] & 0x1f : n == 3 ? s[0] & 0x0f : s[0] & 0x07;
    bool good = n > 0 && end - *p >= n;
    for (int i = 1; good && i < n; i++) {
        good = (s[i] & 0xc0) == 0x80;
        c = c << 6 | (s[i] & 0x3f);
    }
    *p += good ? n : 1;
    return good ? c : 0xfffd;
}

size_t nc_regex_scratch(const nc_regex *r) { return 7 * (size_t)r->code.n + 4; }

static bool is_word(int32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* before, after: the neighbouring code points, -1 at the ends. */
static bool holds(int what, int32_t before, int32_t after) {
    switch (what) {
    case NC_RE_BEGIN: return before < 0;
    case NC_RE_END: return after < 0;
    case NC_RE_WORD_EDGE: return is_word(before) != is_word(after);
    default: return is_word(before) == is_word(after);
    }
}

static bool in_set(const nc_regex_set *s, int32_t c) {
    bool in = false;
    for (int i = 0; i < s->ranges.n && !in; i++) in = c >= s->ranges.v[i].lo && c <= s->ranges.v[i].hi;
    return in != s->negated;
}

typedef struct states {
    int *list, n;
    int *from; /* per entry of the list: where its match began */
    int *seen; /* by instruction: the step in which it was entered last */
} states;

/* Where the text stands: the step, and the neighbouring code points, -1 at the ends. */
typedef struct place {
    int step;
    int32_t before, after;
} place;

/* Enters instruction `pc` and all it leads to without reading; `stack` holds twice as many ints as the program. */
static void enter(const nc_regex *r, states *s, int *stack, int pc, int from, place at) {
    int depth = 0;
    stack[depth++] = pc;
    while (depth > 0) {
        pc = stack[--depth];
        if (s->seen[pc] == at.step) continue;
        s->seen[pc] = at.step;
        const nc_regex_instr *x = &r->code.v[pc];
        if (x->kind == NC_RE_SET || x->kind == NC_RE_MATCH) {
            s->from[s->n] = from;
            s->list[s->n++] = pc;
        } else if (x->kind == NC_RE_ASSERT) {
            if (holds(x->a, at.before, at.after)) stack[depth++] = pc + 1;
        } else {
            if (x->kind == NC_RE_SPLIT && s->seen[x->b] != at.step) stack[depth++] = x->b;
            if (s->seen[x->a] != at.step) stack[depth++] = x->a;
        }
    }
}

/* Two lists of states and the stack, in scratch. */
static int *begin(const nc_regex *r, int *scratch, states *now, states *next) {
    int n = r->code.n;
    *now = (states){.list = scratch, .from = scratch + n, .seen = scratch + 4 * n};
    *next = (states){.list = scratch + 2 * n, .from = scratch + 3 * n, .seen = scratch + 4 * n};
    memset(now->seen, 0, (size_t)n * sizeof *now->seen);
    return scratch + 5 * n;
}

/* All states that reading c leads to become `now`. */
static void advance(const nc_regex *r, states *now, states *next, int *stack, int32_t c, place at) {
    next->n = 0;
    for (int i = 0; i < now->n; i++) {
        const nc_regex_instr *x = &r->code.v[now->list[i]];
        if (x->kind == NC_RE_SET && in_set(x->set, c)) enter(r, next, stack, now->list[i] + 1, now->from[i], at);
    }
    states t = *now;
    *now = *next, *next = t;
}

bool nc_regex_match(const nc_regex *r, const char *text, size_t bytes, int *scratch) {
    states now, next;
    int *stack = begin(r, scratch, &now, &next), step = 1;
    const char *end = text + bytes, *q = text;
    int32_t c = q < end ? nc_utf8_next(&q, end) : -1;
    enter(r, &now, stack, 0, 0, (place){step, -1, c});
    while (c >= 0 && now.n > 0) {
        int32_t after = q < end ? nc_utf8_next(&q, end) : -1;
        advance(r, &now, &next, stack, c, (place){++step, c, after});
        c = after;
    }
    for (int i = 0; i < now.n; i++)
        if (r->code.v[now.list[i]].kind == NC_RE_MATCH) return true;
    return false;
}

/* States stand in the order of where their matches began, since later ones are entered behind earlier ones: of several
 * ways to one state the earliest is kept. Once a match is found, what began behind it goes. */
bool nc_regex_find(const nc_regex *r, const char *text, size_t bytes, size_t from, int *scratch, size_t *at,
                   size_t *length) {
    states now, next;
    int *stack = begin(r, scratch, &now, &next), step = 1, best = -1;
    const char *p = text + from, *end = text + bytes, *q = p;
    int32_t before = from > 0 ? (unsigned char)p[-1] : -1; /* of others than letters only that they are none */
    int32_t c = p < end ? nc_utf8_next(&q, end) : -1;
    for (;;) {
        if (best < 0) enter(r, &now, stack, 0, (int)(p - text), (place){step, before, c});
        int kept = 0;
        for (int i = 0; i < now.n; i++) {
            if (best >= 0 && now.from[i] > best) break;
            if (r->code.v[now.list[i]].kind == NC_RE_MATCH) {
                best = now.from[i];
                *at = (size_t)best, *length = (size_t)(p - text) - *at;
            }
            kept = i + 1;
        }
        now.n = kept;
        if (c < 0 || (best >= 0 && now.n == 0)) return best >= 0;
        p = q;
        int32_t after = p < end ? nc_utf8_next(&q, end) : -1;
        advance(r, &now, &next, stack, c, (place){++step, c, after});
        before = c, c = after;
    }
}
