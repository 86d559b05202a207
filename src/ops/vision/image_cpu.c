/* ops/vision/image_cpu.c: ImageDecoder on the host: which format the bytes are of, who decodes it, and the pixel
 * format. The sizes that a file claims are checked before memory is taken: a few bytes may claim billions of
 * pixels. */
#include "base/codecs.h"
#include "ops/vision/image.h"
#include "ops/vision/vision.h"

#include <stdio.h>
#include <string.h>

#define MAX_PIXELS ((uint64_t)1 << 27)

typedef enum pixel_format { RGB, BGR, GRAY } pixel_format;

typedef struct decoding {
    nc_image_sink sink; /* first: room gets it back */
    nc_dyn *d;
    pixel_format format;
    nc_object *image;
} decoding;

nc_code nc_image_prepare(nc_prep *p) {
    const char *name = nc_attr_str(p->node, "pixel_format");
    pixel_format *f = nc_arena_alloc(p->arena, sizeof *f);
    NC_NEED(p->w, f);
    *f = strcmp(name, "BGR") == 0 ? BGR : strcmp(name, "Grayscale") == 0 ? GRAY : RGB;
    p->state = f;
    return NC_OK;
}

static uint8_t *room(nc_image_sink *sink, uint64_t height, uint64_t width) {
    decoding *s = (decoding *)sink;
    if (height == 0 || width == 0 || height > MAX_PIXELS / width || s->image != NULL) {
        snprintf(sink->why, sizeof sink->why,
                 "the image claims %llu rows of %llu pixels, at least 1 and at most %llu are decoded",
                 (unsigned long long)height, (unsigned long long)width, (unsigned long long)MAX_PIXELS);
        return NULL;
    }
    s->image = nc_object_host_tensor(NC_UINT8, 3, (int64_t[]){(int64_t)height, (int64_t)width, 3});
    sink->no_memory = s->image == NULL;
    if (s->image == NULL) snprintf(sink->why, sizeof sink->why, "out of memory");
    return s->image != NULL ? s->image->t.data : NULL;
}

/* ---- what the bytes are ---- */

static bool begins(const uint8_t *p, size_t n, const char *magic, size_t bytes) {
    return n >= bytes && memcmp(p, magic, bytes) == 0;
}

/* *format: of the library that decodes it; -1: decoded here by what is returned; NULL with -1: no image that is
 * known. */
static nc_image_decoder recognize(const uint8_t *p, size_t n, int *format, const char **name) {
    static const struct {
        const char *magic, *name;
        size_t bytes, at;
        int format;
        nc_image_decoder own;
    } known[] = {{"\xff\xd8\xff", "JPEG", 3, 0, NC_IMAGE_JPEG, NULL},
                 {"\x89PNG\r\n\x1a\n", "PNG", 8, 0, NC_IMAGE_PNG, NULL},
                 {"WEBP", "WebP", 4, 8, NC_IMAGE_WEBP, NULL},
                 {"II*\0", "TIFF", 4, 0, NC_IMAGE_TIFF, NULL},
                 {"MM\0*", "TIFF", 4, 0, NC_IMAGE_TIFF, NULL},
                 {"\0\0\0\x0cjP  ", "JPEG 2000", 8, 0, NC_IMAGE_JPEG2000, NULL},
                 {"\xff\x4f\xff\x51", "JPEG 2000", 4, 0, NC_IMAGE_JPEG2000, NULL},
                 {"BM", "BMP", 2, 0, -1, nc_image_bmp},
                 {"P2", "PNM", 2, 0, -1, nc_image_pnm},
                 {"P3", "PNM", 2, 0, -1, nc_image_pnm},
                 {"P5", "PNM", 2, 0, -1, nc_image_pnm},
                 {"P6", "PNM", 2, 0, -1, nc_image_pnm}};
    *format = -1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (n < known[i].at || !begins(p + known[i].at, n - known[i].at, known[i].magic, known[i].bytes)) continue;
        *format = known[i].format;
        *name = known[i].name;
        return known[i].own;
    }
    return NULL;
}

/* ---- pixel formats ---- */

/* Luma as the broadcast standard BT.601 weighs it, in 16 bits of fraction, rounded. */
static uint8_t luma(const uint8_t *p) {
    return (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 0x8000u) >> 16);
}

static void to_bgr(uint8_t *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint8_t red = p[3 * i];
        p[3 * i] = p[3 * i + 2];
        p[3 * i + 2] = red;
    }
}

static nc_code finish(decoding *s) {
    const nc_tensor *x = &s->image->t;
    int64_t n = x->dims[0] * x->dims[1];
    if (s->format == BGR) to_bgr(x->data, n);
    s->d->out[0] = s->image;
    if (s->format != GRAY) return NC_OK;
    nc_object *gray = nc_object_host_tensor(NC_UINT8, 3, (int64_t[]){x->dims[0], x->dims[1], 1});
    s->d->out[0] = gray;
    for (int64_t i = 0; gray != NULL && i < n; i++)
        ((uint8_t *)gray->t.data)[i] = luma((const uint8_t *)x->data + 3 * i);
    nc_object_unref(s->image);
    if (gray != NULL) return NC_OK;
    return nc_diag_set(s->d->call->diag, NC_E_MEMORY, s->d->call->node, s->d->call->op, "out of memory");
}

nc_code nc_image_decode(nc_dyn *d) {
    const nc_call *c = d->call;
    const nc_tensor *x = d->in[0] != NULL ? &d->in[0]->t : c->in[0];
    size_t n = (size_t)nc_tensor_numel(x);
    const uint8_t *bytes = x->data;
    const char *name = NULL, *why = NULL;
    int format;
    nc_image_decoder decode = recognize(bytes, n, &format, &name);
    if (decode == NULL && format < 0)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op,
                           "the %zu bytes begin as no image of BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP", n);
    if (format >= 0) decode = nc_codec_find((nc_image_format)format, &why);
    if (decode == NULL) return nc_diag_set(c->diag, NC_E_UNSUPPORTED, c->node, c->op, "the image is %s: %s", name, why);
    decoding s = {.sink.room = room, .d = d, .format = *(const pixel_format *)c->state};
    if (decode(bytes, n, &s.sink) == 0 && s.image != NULL) return finish(&s);
    nc_object_unref(s.image);
    return nc_diag_set(c->diag, s.sink.no_memory ? NC_E_MEMORY : NC_E_DATA, c->node, c->op, "%s: %s", name, s.sink.why);
}
