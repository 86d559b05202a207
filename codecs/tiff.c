/* codecs/tiff.c: the first image of a TIFF file by libtiff, from memory. */
#ifdef HAVE_TIFF
#include "codecs.h"

#include <stdlib.h>

#include <tiffio.h>

typedef struct memory {
    const uint8_t *p;
    toff_t n, at;
} memory;

static tmsize_t take(thandle_t h, void *to, tmsize_t n) {
    memory *m = h;
    toff_t left = m->at < m->n ? m->n - m->at : 0;
    toff_t k = n < 0 ? 0 : (toff_t)n < left ? (toff_t)n : left;
    if (k) memcpy(to, m->p + m->at, (size_t)k);
    m->at += k;
    return (tmsize_t)k;
}

static tmsize_t put(thandle_t h, void *from, tmsize_t n) {
    (void)h, (void)from, (void)n;
    return -1;
}

static toff_t seek(thandle_t h, toff_t by, int from) {
    memory *m = h;
    m->at = from == SEEK_SET ? by : from == SEEK_CUR ? m->at + by : m->n + by;
    return m->at;
}

static int leave_open(thandle_t h) {
    (void)h;
    return 0;
}

static toff_t size_of(thandle_t h) { return ((memory *)h)->n; }

static int read_pixels(TIFF *t, nc_image_sink *sink, uint32_t width, uint32_t height) {
    uint8_t *to = sink->room(sink, height, width);
    if (to == NULL) return 1;
    size_t n = (size_t)width * height;
    uint32_t *words = malloc(n * 4 + 4);
    sink->no_memory = words == NULL;
    if (words == NULL) return fail(sink, "out of memory");
    int ok = TIFFReadRGBAImageOriented(t, width, height, words, ORIENTATION_TOPLEFT, 1);
    for (size_t i = 0; ok && i < n; i++) {
        to[3 * i] = (uint8_t)TIFFGetR(words[i]);
        to[3 * i + 1] = (uint8_t)TIFFGetG(words[i]);
        to[3 * i + 2] = (uint8_t)TIFFGetB(words[i]);
    }
    free(words);
    return ok ? 0 : fail(sink, "the TIFF data is damaged or of a kind that libtiff cannot show in color");
}

int decode_tiff(const uint8_t *bytes, size_t n, nc_image_sink *sink) {
    memory m = {bytes, n, 0};
    uint32_t width = 0, height = 0;
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
    TIFF *t = TIFFClientOpen("image", "rm", &m, take, put, seek, leave_open, size_of, NULL, NULL);
    if (t == NULL) return fail(sink, "not a TIFF image");
    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &height);
    int code = read_pixels(t, sink, width, height);
    TIFFClose(t);
    return code;
}
#else
typedef int without_tiff;
#endif
