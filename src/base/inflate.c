/* base/inflate.c: see inflate.h. A code is read bit by bit: the codes of one length follow each other, so a number
 * relative to the first of them says whether the code has that length. */
#include "base/inflate.h"

#include <string.h>

enum { MAX_BITS = 15, N_LITERALS = 288, N_DISTANCES = 30, N_LENGTHS = 29, END = 256, HEADER = 10, TRAILER = 8 };

typedef struct inflater {
    const uint8_t *in, *end;
    unsigned hold; /* bits that were read and not taken, the lowest first */
    int n_held;
    char *out;
    size_t n, room;
    bool failed;
} inflater;

typedef struct prefix_code {
    uint16_t count[MAX_BITS + 1]; /* codes of each length */
    uint16_t symbol[N_LITERALS];  /* in the order of their codes */
} prefix_code;

static unsigned take(inflater *s, int bits) {
    while (s->n_held < bits) {
        if (s->in == s->end) {
            s->failed = true;
            return 0;
        }
        s->hold |= (unsigned)*s->in++ << s->n_held;
        s->n_held += 8;
    }
    unsigned got = s->hold & ((1u << bits) - 1);
    s->hold >>= bits, s->n_held -= bits;
    return got;
}

static void make_code(prefix_code *c, const uint8_t *lengths, int n) {
    uint16_t next[MAX_BITS + 2] = {0};
    memset(c, 0, sizeof *c);
    for (int i = 0; i < n; i++)
        if (lengths[i] != 0) c->count[lengths[i]]++;
    for (int b = 1; b <= MAX_BITS; b++) next[b + 1] = (uint16_t)(next[b] + c->count[b]);
    for (int i = 0; i < n; i++)
        if (lengths[i] != 0) c->symbol[next[lengths[i]]++] = (uint16_t)i;
}

static int take_symbol(inflater *s, const prefix_code *c) {
    int relative = 0, before = 0;
    for (int b = 1; b <= MAX_BITS && !s->failed; b++) {
        relative = relative << 1 | (int)take(s, 1);
        if (relative < c->count[b]) return c->symbol[before + relative];
        relative -= c->count[b], before += c->count[b];
    }
    s->failed = true;
    return END;
}

static void put(inflater *s, char byte) {
    if (s->n < s->room)
        s->out[s->n++] = byte;
    else
        s->failed = true;
}

/* Symbol i of a length or a distance stands for a first number and some more bits. */
static int length_of(inflater *s, int i) {
    if (i == N_LENGTHS - 1) return 258;
    int more = i < 8 ? 0 : i / 4 - 1;
    return (i < 8 ? i + 3 : ((4 + i % 4) << more) + 3) + (int)take(s, more);
}
static size_t distance_of(inflater *s, int i) {
    int more = i < 4 ? 0 : i / 2 - 1;
    return (i < 4 ? (size_t)i + 1 : ((size_t)(2 + i % 2) << more) + 1) + take(s, more);
}

static void repeat(inflater *s, int length, size_t distance) {
    if (distance > s->n) s->failed = true;
    for (int i = 0; i < length && !s->failed; i++) put(s, s->out[s->n - distance]);
}

static void read_block(inflater *s, const prefix_code *literals, const prefix_code *distances) {
    for (int got; !s->failed && (got = take_symbol(s, literals)) != END;) {
        if (got < END) {
            put(s, (char)got);
            continue;
        }
        int length = got - END - 1 < N_LENGTHS ? length_of(s, got - END - 1) : 0, i = take_symbol(s, distances);
        if (length == 0 || i >= N_DISTANCES)
            s->failed = true;
        else
            repeat(s, length, distance_of(s, i));
    }
}

static void read_stored(inflater *s) {
    s->hold = 0, s->n_held = 0;
    unsigned n = take(s, 16), inverse = take(s, 16);
    if (n != (~inverse & 0xffff)) s->failed = true;
    for (unsigned i = 0; i < n && !s->failed; i++) put(s, (char)take(s, 8));
}

static void read_fixed(inflater *s) {
    uint8_t lengths[N_LITERALS];
    prefix_code literals, distances;
    for (int i = 0; i < N_LITERALS; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    make_code(&literals, lengths, N_LITERALS);
    memset(lengths, 5, N_DISTANCES);
    make_code(&distances, lengths, N_DISTANCES);
    read_block(s, &literals, &distances);
}

/* The lengths of the codes of literals and distances, which are packed themselves. */
static void read_lengths(inflater *s, const prefix_code *c, uint8_t *lengths, int n) {
    for (int i = 0; i < n && !s->failed;) {
        int got = take_symbol(s, c), times = 1;
        if (got == 16) times = 3 + (int)take(s, 2);
        if (got == 17) times = 3 + (int)take(s, 3);
        if (got == 18) times = 11 + (int)take(s, 7);
        if ((got == 16 && i == 0) || got > 18 || times > n - i) s->failed = true;
        uint8_t length = (uint8_t)(got < 16 ? got : got == 16 && i > 0 ? lengths[i - 1] : 0);
        for (int k = 0; k < times && !s->failed; k++) lengths[i++] = length;
    }
}

static void read_dynamic(inflater *s) {
    static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[N_LITERALS + 32] = {0};
    prefix_code literals, distances;
    int n_literals = (int)take(s, 5) + 257, n_distances = (int)take(s, 5) + 1, n = (int)take(s, 4) + 4;
    for (int i = 0; i < n; i++) lengths[order[i]] = (uint8_t)take(s, 3);
    make_code(&literals, lengths, (int)sizeof order);
    memset(lengths, 0, sizeof order);
    if (n_literals > N_LITERALS) s->failed = true;
    if (!s->failed) read_lengths(s, &literals, lengths, n_literals + n_distances);
    if (s->failed) return;
    make_code(&literals, lengths, n_literals);
    make_code(&distances, lengths + n_literals, n_distances);
    read_block(s, &literals, &distances);
}

/* Behind the fixed part of a header: more of it as its flags say. NULL: it does not end. */
static const uint8_t *skip_header(const uint8_t *in, const uint8_t *end) {
    enum { CHECKED = 2, EXTRA = 4, NAME = 8, COMMENT = 16 };
    int flags = in[3];
    const uint8_t *at = in + HEADER;
    if (flags & EXTRA) {
        if (end - at < 2 || end - at - 2 < (at[0] | at[1] << 8)) return NULL;
        at += 2 + (at[0] | at[1] << 8);
    }
    for (int text = NAME; text <= COMMENT; text *= 2) {
        if (!(flags & text)) continue;
        const uint8_t *nul = memchr(at, 0, (size_t)(end - at));
        if (nul == NULL) return NULL;
        at = nul + 1;
    }
    if (flags & CHECKED) at += 2;
    return at <= end ? at : NULL;
}

bool nc_gunzip(const uint8_t *in, size_t n, char *out, size_t room, size_t *made) {
    if (n < HEADER + TRAILER || in[0] != 0x1f || in[1] != 0x8b || in[2] != 8) return false;
    inflater s = {.end = in + n - TRAILER, .out = out, .room = room};
    s.in = skip_header(in, s.end);
    s.failed = s.in == NULL;
    for (bool last = false; !last && !s.failed;) {
        last = take(&s, 1);
        unsigned kind = take(&s, 2);
        if (s.failed || kind == 3)
            s.failed = true;
        else
            (kind == 0 ? read_stored : kind == 1 ? read_fixed : read_dynamic)(&s);
    }
    *made = s.n;
    return !s.failed;
}
