/* ops/vision/image_raw.c: BMP and PNM, whose pixels lie behind a header as they are. The header is hostile: every
 * place is checked against the bytes there are. */
#include "ops/vision/image.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int image_wrong(nc_image_sink *s, const char *what) {
    snprintf(s->why, sizeof s->why, "%s", what);
    return 1;
}

/* ---- BMP ---- */

static uint32_t le(const uint8_t *p, int bytes) {
    uint32_t u = 0;
    for (int i = 0; i < bytes; i++) u |= (uint32_t)p[i] << 8 * i;
    return u;
}

typedef struct bitmap {
    const uint8_t *p, *palette;
    size_t n, pixels, row; /* where the pixels begin; bytes of a row with its padding */
    uint64_t width, height;
    uint32_t bits, colors;
    bool top_down;
} bitmap;

static int read_header(bitmap *b, nc_image_sink *sink) {
    if (b->n < 54 || le(b->p + 14, 4) < 40)
        return image_wrong(sink, "the header is too short, or older than Windows 3");
    int32_t height = (int32_t)le(b->p + 22, 4), width = (int32_t)le(b->p + 18, 4);
    uint32_t how = le(b->p + 30, 4), header = le(b->p + 14, 4);
    b->bits = le(b->p + 28, 2);
    if (how != 0 || (b->bits != 8 && b->bits != 24 && b->bits != 32))
        return image_wrong(sink, "pixels are packed, or have other than 8, 24 or 32 bits");
    if (width <= 0 || height == INT32_MIN) return image_wrong(sink, "the size is not positive");
    b->top_down = height < 0;
    b->width = (uint64_t)width;
    b->height = (uint64_t)(height < 0 ? -(int64_t)height : height);
    b->pixels = le(b->p + 10, 4);
    b->row = (size_t)((b->width * b->bits + 31) / 32 * 4);
    b->colors = b->bits == 8 ? le(b->p + 46, 4) : 0;
    if (b->bits == 8 && b->colors == 0) b->colors = 256;
    if (b->colors > 256 || header > b->n - 14 || (size_t)b->colors * 4 > b->n - 14 - header)
        return image_wrong(sink, "the palette lies outside the file");
    b->palette = b->p + 14 + header;
    if (b->pixels > b->n || b->height > (b->n - b->pixels) / b->row)
        return image_wrong(sink, "there are fewer bytes than pixels");
    return 0;
}

int nc_image_bmp(const uint8_t *bytes, size_t n, nc_image_sink *sink) {
    bitmap b = {.p = bytes, .n = n};
    if (read_header(&b, sink) != 0) return 1;
    uint8_t *to = sink->room(sink, b.height, b.width);
    if (to == NULL) return 1;
    for (uint64_t y = 0; y < b.height; y++) {
        const uint8_t *row = bytes + b.pixels + (b.top_down ? y : b.height - 1 - y) * b.row;
        for (uint64_t x = 0; x < b.width; x++, to += 3) {
            const uint8_t *p = row + x * (b.bits / 8);
            if (b.bits == 8 && *p >= b.colors) return image_wrong(sink, "a pixel is none of the palette's colors");
            if (b.bits == 8) p = b.palette + 4 * *p;
            to[0] = p[2], to[1] = p[1], to[2] = p[0];
        }
    }
    return 0;
}

/* ---- PNM ---- */

typedef struct text {
    const uint8_t *p, *end;
} text;

/* The next decimal number, behind blanks and comments; -1: there is none. */
static int64_t next_number(text *t) {
    bool comment = false;
    for (; t->p < t->end && (comment || *t->p == '#' || (*t->p <= ' ' && *t->p)); t->p++)
        comment = *t->p == '#' || (comment && *t->p != '\n');
    int64_t v = -1;
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9' && v < INT32_MAX; t->p++)
        v = (v < 0 ? 0 : v) * 10 + (*t->p - '0');
    return v;
}

/* One sample of 0 to `most`, as a byte; -1: the file ends. */
static int sample(text *t, bool plain, int64_t most) {
    int bytes = most > 255 ? 2 : 1;
    int64_t v = -1;
    if (plain) {
        v = next_number(t);
    } else if (t->end - t->p >= bytes) {
        v = bytes == 2 ? (t->p[0] << 8 | t->p[1]) : t->p[0];
        t->p += bytes;
    }
    if (v < 0) return -1;
    return most == 255 ? (int)(v > 255 ? 255 : v) : (int)((v > most ? most : v) * 255 / most);
}

int nc_image_pnm(const uint8_t *bytes, size_t n, nc_image_sink *sink) {
    text t = {bytes + 2, bytes + n};
    bool plain = bytes[1] < '4', color = bytes[1] == '3' || bytes[1] == '6';
    int64_t width = next_number(&t), height = next_number(&t), most = next_number(&t);
    if (width < 1 || height < 1 || most < 1 || most > 65535) return image_wrong(sink, "the header is damaged");
    if (!plain && t.p < t.end) t.p++;               /* one blank stands before the samples */
    size_t least = (size_t)width * (color ? 3 : 1); /* every sample takes a byte at least */
    if ((size_t)height > (size_t)(t.end - t.p) / least) return image_wrong(sink, "there are fewer bytes than pixels");
    uint8_t *to = sink->room(sink, (uint64_t)height, (uint64_t)width);
    if (to == NULL) return 1;
    for (int64_t i = 0; i < width * height; i++, to += 3)
        for (int k = 0; k < 3; k++) {
            int v = color || k == 0 ? sample(&t, plain, most) : to[0];
            if (v < 0) return image_wrong(sink, "there are fewer samples than pixels");
            to[k] = (uint8_t)v;
        }
    return 0;
}
