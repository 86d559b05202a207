/* ops/string/tokenizer_cpu.c: the host kernel of Tokenizer. Three ways to cut a text, as ONNX Runtime does it: one
 * empty separator gives its characters; separators are expressions, and each cuts what those before it left; else an
 * expression says what tokens are. Of several matches at one place the longest counts, a match of nothing takes the
 * character behind it along, and what is shorter than mincharnum characters is dropped. */
#include "ops/string/string_cpu.h"

#include "ops/string/regex_program.h"

#include <limits.h>
#include <string.h>

typedef struct tokenizer {
    const nc_regex **separators; /* n_separators; 0: tokens are what `tokens` matches; NULL too: characters */
    int n_separators;
    const nc_regex *tokens;
    bool mark;
    nc_str pad;
    int64_t fewest; /* characters of a token */
    size_t scratch; /* ints that matching needs */
} tokenizer;

static nc_code compile(nc_prep *p, tokenizer *s, nc_str text, const nc_regex **out) {
    NC_TRY(nc_regex_compile(p->w, p->arena, text.p, text.n, out));
    size_t n = nc_regex_scratch(*out);
    if (n > s->scratch) s->scratch = n;
    return NC_OK;
}

nc_code nc_tokenizer_prepare(nc_prep *p) {
    tokenizer *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *by = nc_node_attr(p->node, "separators"), *expression = nc_node_attr(p->node, "tokenexp");
    *s = (tokenizer){.mark = nc_attr_int(p->node, "mark") != 0,
                     .pad = nc_node_attr(p->node, "pad_value")->s,
                     .fewest = nc_attr_int(p->node, "mincharnum")};
    p->state = s;
    int n = by != NULL ? by->n : 0;
    if (n == 1 && by->strings[0].n == 0) {
        if (s->fewest > 1)
            NC_FAIL(p->w, NC_E_BAD_GRAPH, "mincharnum is %lld, expected 1 where tokens are characters",
                    (long long)s->fewest);
        return NC_OK;
    }
    if (n == 0) return compile(p, s, expression->s, &s->tokens);
    s->separators = nc_arena_array(p->arena, (size_t)n, sizeof(nc_regex *));
    NC_NEED(p->w, s->separators);
    for (s->n_separators = 0; s->n_separators < n; s->n_separators++)
        NC_TRY(compile(p, s, by->strings[s->n_separators], &s->separators[s->n_separators]));
    return NC_OK;
}

/* ---- one text ---- */

typedef struct span {
    const char *p;
    size_t n;
} span;

/* Tokens of all texts in row order lie in `tokens`; `parts` are those of the text at hand, `cut` is what a separator
 * makes of them. */
typedef struct job {
    const tokenizer *s;
    nc_arena arena;
    NC_VEC(span) tokens;
    NC_VEC(span) parts;
    NC_VEC(span) cut;
    int *scratch;
} job;

/* How many characters; -1: it is no UTF-8. */
static int64_t characters(const char *p, size_t n) {
    const char *end = p + n;
    int64_t count = 0;
    for (const char *q = p; q < end; count++) {
        const char *was = q;
        if (nc_utf8_next(&q, end) == 0xfffd && q == was + 1) return -1;
    }
    return count;
}

static bool long_enough(const job *j, const char *p, size_t n) { return n > 0 && characters(p, n) >= j->s->fewest; }

/* The byte behind the character at `at`. */
static size_t behind(span text, size_t at) {
    const char *q = text.p + at;
    if (at < text.n) (void)nc_utf8_next(&q, text.p + text.n);
    return at < text.n ? (size_t)(q - text.p) : text.n + 1;
}

static bool cut_by(job *j, const nc_regex *r, span text) {
    size_t from = 0, at, length;
    while (from <= text.n && nc_regex_find(r, text.p, text.n, from, j->scratch, &at, &length)) {
        if (long_enough(j, text.p + from, at - from) && !NC_PUSH(&j->arena, j->cut, ((span){text.p + from, at - from})))
            return false;
        from = length > 0 ? at + length : behind(text, at);
    }
    return from >= text.n || !long_enough(j, text.p + from, text.n - from) ||
           NC_PUSH(&j->arena, j->cut, ((span){text.p + from, text.n - from}));
}

static bool cut_at_separators(job *j, span text) {
    j->parts.n = 0;
    if (!NC_PUSH(&j->arena, j->parts, text)) return false;
    for (int k = 0; k < j->s->n_separators; k++) {
        j->cut.n = 0;
        for (int i = 0; i < j->parts.n; i++)
            if (!cut_by(j, j->s->separators[k], j->parts.v[i])) return false;
        j->parts.n = 0;
        for (int i = 0; i < j->cut.n; i++)
            if (!NC_PUSH(&j->arena, j->parts, j->cut.v[i])) return false;
    }
    for (int i = 0; i < j->parts.n; i++)
        if (!NC_PUSH(&j->arena, j->tokens, j->parts.v[i])) return false;
    return true;
}

static bool find_tokens(job *j, span text) {
    size_t from = 0, at, length;
    while (from <= text.n && nc_regex_find(j->s->tokens, text.p, text.n, from, j->scratch, &at, &length)) {
        if (long_enough(j, text.p + at, length) && !NC_PUSH(&j->arena, j->tokens, ((span){text.p + at, length})))
            return false;
        from = length > 0 ? at + length : behind(text, at);
    }
    return true;
}

static bool take_characters(job *j, span text) {
    for (size_t at = 0; at < text.n;) {
        size_t next = behind(text, at);
        if (!NC_PUSH(&j->arena, j->tokens, ((span){text.p + at, next - at}))) return false;
        at = next;
    }
    return true;
}

static nc_code cut_text(nc_dyn *d, job *j, const nc_str *x) {
    span text = {x->p != NULL ? x->p : "", x->n};
    if (text.n >= INT_MAX)
        return nc_diag_set(d->call->diag, NC_E_LIMIT, d->call->node, d->call->op, "a text has %zu bytes", text.n);
    if (characters(text.p, text.n) < 0)
        return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "a text is not valid UTF-8");
    bool ok = j->s->n_separators > 0 ? cut_at_separators(j, text)
              : j->s->tokens != NULL ? find_tokens(j, text)
                                     : take_characters(j, text);
    return ok ? NC_OK : nc_strings_no_memory(d);
}

/* ---- all texts ---- */

static bool put_row(const job *j, nc_object *z, int64_t at, int64_t width, const span *tokens, int64_t n) {
    int64_t k = at;
    bool ok = !j->s->mark || nc_strings_put(z, k++, "\x02", 1);
    for (int64_t i = 0; i < n && ok; i++) ok = nc_strings_put(z, k++, tokens[i].p, tokens[i].n);
    ok = ok && (!j->s->mark || nc_strings_put(z, k++, "\x03", 1));
    while (ok && k < at + width) ok = nc_strings_put(z, k++, j->s->pad.p, j->s->pad.n);
    return ok;
}

static nc_code tokenize(nc_dyn *d, job *j, const nc_tensor *x) {
    int64_t n = nc_tensor_numel(x), most = 0, dims[3] = {x->dims[0], x->rank > 1 ? x->dims[1] : 0, 0};
    int64_t *ends = nc_arena_array(&j->arena, (size_t)n + 1, sizeof *ends);
    j->scratch = nc_arena_array(&j->arena, j->s->scratch + 1, sizeof *j->scratch);
    if (ends == NULL || j->scratch == NULL) return nc_strings_no_memory(d);
    for (int64_t i = 0; i < n; i++) {
        NC_TRY(cut_text(d, j, (const nc_str *)x->data + i));
        ends[i + 1] = j->tokens.n;
        if (ends[i + 1] - ends[i] > most) most = ends[i + 1] - ends[i];
    }
    dims[x->rank] = most > 0 ? most + (j->s->mark ? 2 : 0) : 0; /* no tokens at all: not even marks */
    nc_object *z = d->out[0] = nc_object_host_tensor(NC_STRING, x->rank + 1, dims);
    if (z == NULL) return nc_strings_no_memory(d);
    for (int64_t i = 0; i < n && most > 0; i++)
        if (!put_row(j, z, i * dims[x->rank], dims[x->rank], j->tokens.v + ends[i], ends[i + 1] - ends[i]))
            return nc_strings_no_memory(d);
    return NC_OK;
}

nc_code nc_tokenizer(nc_dyn *d) {
    const nc_tensor *x = nc_strings_of(d, 0);
    job j = {.s = d->call->state};
    if (x->rank != 1 && x->rank != 2)
        return nc_diag_set(d->call->diag, NC_E_SHAPE, d->call->node, d->call->op,
                           "the input has %d dims, expected [C] or [N, C]", x->rank);
    nc_arena_init(&j.arena);
    nc_code code = tokenize(d, &j, x);
    nc_arena_release(&j.arena);
    return code;
}
