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

size_t nc_regex_scratch(const nc_regex *r) { return 5 * (size_t)r->code.n + 4; }

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
    int *seen; /* by instruction: the step in which it was entered last */
} states;

/* Enters instruction `pc` and all it leads to without reading; `stack` holds twice as many ints as the program. */
static void enter(const nc_regex *r, states *s, int *stack, int pc, int step, int32_t before, int32_t after) {
    int depth = 0;
    stack[depth++] = pc;
    while (depth > 0) {
        pc = stack[--depth];
        if (s->seen[pc] == step) continue;
        s->seen[pc] = step;
        const nc_regex_instr *x = &r->code.v[pc];
        if (x->kind == NC_RE_SET || x->kind == NC_RE_MATCH) {
            s->list[s->n++] = pc;
        } else if (x->kind == NC_RE_ASSERT) {
            if (holds(x->a, before, after)) stack[depth++] = pc + 1;
        } else {
            if (x->kind == NC_RE_SPLIT && s->seen[x->b] != step) stack[depth++] = x->b;
            if (s->seen[x->a] != step) stack[depth++] = x->a;
        }
    }
}

bool nc_regex_match(const nc_regex *r, const char *text, size_t bytes, int *scratch) {
    int n = r->code.n, step = 1;
    states now = {.list = scratch, .seen = scratch + 2 * n}, next = {.list = scratch + n, .seen = scratch + 2 * n};
    int *stack = scratch + 3 * n;
    const char *p = text, *end = text + bytes, *q = p;
    memset(now.seen, 0, (size_t)n * sizeof *now.seen);
    int32_t c = p < end ? nc_utf8_next(&q, end) : -1;
    enter(r, &now, stack, 0, step, -1, c);
    while (c >= 0) {
        p = q;
        int32_t after = p < end ? nc_utf8_next(&q, end) : -1;
        step++;
        next.n = 0;
        for (int i = 0; i < now.n; i++) {
            const nc_regex_instr *x = &r->code.v[now.list[i]];
            if (x->kind == NC_RE_SET && in_set(x->set, c)) enter(r, &next, stack, now.list[i] + 1, step, c, after);
        }
        states t = now;
        now = next, next = t;
        c = after;
        if (now.n == 0) return false;
    }
    for (int i = 0; i < now.n; i++)
        if (r->code.v[now.list[i]].kind == NC_RE_MATCH) return true;
    return false;
}
