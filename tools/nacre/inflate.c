/* tools/nacre/inflate.c: raw DEFLATE (RFC 1951), for members of .npz archives. Canonical Huffman codes are decoded bit
 * by bit from counts per length: small and fast enough for inputs. Any bytes are safe: reads and writes are checked. */
#include "cli.h"

#include <string.h>

enum { MAX_BITS = 15, MAX_LITERALS = 286, MAX_DISTANCES = 30 };

typedef struct stream {
    const unsigned char *in;
    size_t n_in, at;
    unsigned char *out;
    size_t n_out, made;
    unsigned bits;
    int n_bits;
    bool bad;
} stream;

typedef struct code {
    unsigned short count[MAX_BITS + 1]; /* codes of each length */
    unsigned short symbol[MAX_LITERALS + 2];
} code;

static unsigned take(stream *s, int n) {
    while (s->n_bits < n) {
        if (s->at == s->n_in) {
            s->bad = true;
            return 0;
        }
        s->bits |= (unsigned)s->in[s->at++] << s->n_bits;
        s->n_bits += 8;
    }
    unsigned v = s->bits & ((1u << n) - 1);
    s->bits >>= n, s->n_bits -= n;
    return v;
}

/* False: more codes of some length than there is room for. */
static bool build(code *c, const unsigned char *length, int n) {
    int offset[MAX_BITS + 2] = {0}, left = 1;
    memset(c, 0, sizeof *c);
    for (int i = 0; i < n; i++) c->count[length[i]]++;
    for (int len = 1; len <= MAX_BITS; len++) {
        left = left * 2 - c->count[len];
        if (left < 0) return false;
        offset[len + 1] = offset[len] + c->count[len];
    }
    for (int i = 0; i < n; i++)
        if (length[i]) c->symbol[offset[length[i]]++] = (unsigned short)i;
    return true;
}

static int decode(stream *s, const code *c) {
    int v = 0, first = 0, index = 0;
    for (int len = 1; len <= MAX_BITS && !s->bad; len++) {
        v |= (int)take(s, 1);
        int n = c->count[len];
        if (v - n < first) return c->symbol[index + v - first];
        index += n, first = (first + n) * 2, v *= 2;
    }
    s->bad = true;
    return 0;
}

static void copy_back(stream *s, size_t distance, size_t n) {
    if (distance > s->made || n > s->n_out - s->made) {
        s->bad = true;
        return;
    }
    for (; n; n--, s->made++) s->out[s->made] = s->out[s->made - distance]; /* may overlap itself on purpose */
}

static void coded_block(stream *s, const code *literals, const code *distances) {
    static const unsigned short base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                            31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const unsigned char extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                            2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    while (!s->bad) {
        int v = decode(s, literals);
        if (s->bad || v == 256) return;
        if (v < 256) {
            if (s->made == s->n_out)
                s->bad = true;
            else
                s->out[s->made++] = (unsigned char)v;
            continue;
        }
        v -= 257;
        if (v >= 29) {
            s->bad = true;
            return;
        }
        size_t n = base[v] + take(s, extra[v]);
        int d = decode(s, distances);
        if (s->bad || d >= MAX_DISTANCES) {
            s->bad = true;
            return;
        }
        /* Distances: 1 2 3 4, then two per power of two. */
        int more = d < 2 ? 0 : d / 2 - 1;
        size_t distance = d < 2 ? (size_t)d + 1 : ((size_t)(2 + d % 2) << more) + 1 + take(s, more);
        if (!s->bad) copy_back(s, distance, n);
    }
}

static void stored_block(stream *s) {
    s->bits = 0, s->n_bits = 0;
    size_t n = take(s, 8);
    n |= (size_t)take(s, 8) << 8;
    size_t check = take(s, 8);
    check |= (size_t)take(s, 8) << 8;
    if (s->bad || n != (check ^ 0xffff) || n > s->n_in - s->at || n > s->n_out - s->made) {
        s->bad = true;
        return;
    }
    memcpy(s->out + s->made, s->in + s->at, n);
    s->at += n, s->made += n;
}

static void fixed_block(stream *s) {
    unsigned char length[288];
    code literals, distances;
    for (int i = 0; i < 288; i++) length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    bool ok = build(&literals, length, 288);
    memset(length, 5, 30);
    if (ok && build(&distances, length, 30))
        coded_block(s, &literals, &distances);
    else
        s->bad = true;
}

/* The lengths of both codes are themselves coded, with runs. */
static bool read_lengths(stream *s, const code *lengths, unsigned char *length, int n) {
    for (int i = 0; i < n && !s->bad;) {
        int v = decode(s, lengths), repeat;
        unsigned char value = 0;
        if (v < 16) {
            length[i++] = (unsigned char)v;
            continue;
        }
        if (v == 16) {
            if (i == 0) return false;
            value = length[i - 1];
            repeat = 3 + (int)take(s, 2);
        } else {
            repeat = v == 17 ? 3 + (int)take(s, 3) : 11 + (int)take(s, 7);
        }
        if (i + repeat > n) return false;
        while (repeat--) length[i++] = value;
    }
    return !s->bad;
}

static void dynamic_block(stream *s) {
    static const unsigned char order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    unsigned char length[MAX_LITERALS + 32 + 2] = {0};
    int n_literals = (int)take(s, 5) + 257, n_distances = (int)take(s, 5) + 1, n = (int)take(s, 4) + 4;
    code literals, distances;
    for (int i = 0; i < n; i++) length[order[i]] = (unsigned char)take(s, 3);
    if (s->bad || n_literals > MAX_LITERALS || n_distances > MAX_DISTANCES || !build(&literals, length, 19)) {
        s->bad = true;
        return;
    }
    memset(length, 0, sizeof length);
    if (!read_lengths(s, &literals, length, n_literals + n_distances) || !length[256] ||
        !build(&literals, length, n_literals) || !build(&distances, length + n_literals, n_distances))
        s->bad = true;
    else
        coded_block(s, &literals, &distances);
}

bool inflate_bytes(const unsigned char *in, size_t n_in, unsigned char *out, size_t n_out) {
    stream s = {.in = in, .n_in = n_in, .out = out, .n_out = n_out};
    bool last = false;
    while (!last && !s.bad) {
        last = take(&s, 1);
        switch (take(&s, 2)) {
        case 0: stored_block(&s); break;
        case 1: fixed_block(&s); break;
        case 2: dynamic_block(&s); break;
        default: s.bad = true;
        }
    }
    return !s.bad && s.made == n_out;
}
