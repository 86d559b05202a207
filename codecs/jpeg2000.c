/* codecs/jpeg2000.c: JPEG 2000, files and bare streams, by OpenJPEG, from memory. Gray, or three components of one
 * size; more bits than 8 are cut off. */
#ifdef HAVE_JPEG2000
#include "codecs.h"

#include <openjpeg.h>

typedef struct memory {
    const uint8_t *p;
    size_t n, at;
} memory;

static OPJ_SIZE_T take(void *to, OPJ_SIZE_T n, void *h) {
    memory *m = h;
    size_t left = m->n - m->at, k = n < left ? n : left;
    if (k == 0) return (OPJ_SIZE_T)-1;
    memcpy(to, m->p + m->at, k);
    m->at += k;
    return k;
}

static OPJ_OFF_T skip(OPJ_OFF_T n, void *h) {
    memory *m = h;
    if (n < 0 || (uint64_t)n > m->n - m->at) return -1;
    m->at += (size_t)n;
    return n;
}

static OPJ_BOOL seek(OPJ_OFF_T to, void *h) {
    memory *m = h;
    if (to < 0 || (uint64_t)to > m->n) return OPJ_FALSE;
    m->at = (size_t)to;
    return OPJ_TRUE;
}

static uint8_t value_of(const opj_image_comp_t *c, size_t i) {
    int64_t v = (int64_t)c->data[i] + (c->sgnd ? (int64_t)1 << (c->prec - 1) : 0);
    v = c->prec > 8 ? v >> (c->prec - 8) : v;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static int check(const opj_image_t *image, nc_image_sink *sink) {
    if (image->numcomps != 1 && image->numcomps < 3) return fail(sink, "the image has two components, expected 1 or 3");
    if (image->color_space == OPJ_CLRSPC_SYCC || image->color_space == OPJ_CLRSPC_EYCC ||
        image->color_space == OPJ_CLRSPC_CMYK)
        return fail(sink, "the image's colors are not red, green and blue");
    for (OPJ_UINT32 k = 0; k < image->numcomps && k < 3; k++) {
        const opj_image_comp_t *c = &image->comps[k];
        if (c->w != image->comps[0].w || c->h != image->comps[0].h || c->prec < 1 || c->prec > 16)
            return fail(sink, "the components differ in size, or have more than 16 bits");
    }
    return 0;
}

static int read_pixels(opj_codec_t *codec, opj_stream_t *stream, opj_image_t *image, nc_image_sink *sink) {
    if (check(image, sink) != 0) return 1;
    uint32_t width = image->comps[0].w, height = image->comps[0].h;
    uint8_t *to = sink->room(sink, height, width);
    if (to == NULL) return 1;
    if (!opj_decode(codec, stream, image) || !opj_end_decompress(codec, stream) || image->comps[0].data == NULL)
        return fail(sink, "the JPEG 2000 data is damaged");
    if (image->comps[0].w != width || image->comps[0].h != height) return fail(sink, "the image's size changed");
    size_t n = (size_t)width * height;
    for (int k = 0; k < 3; k++) {
        const opj_image_comp_t *c = &image->comps[image->numcomps < 3 ? 0 : k];
        if (c->data == NULL) return fail(sink, "a component is missing");
        for (size_t i = 0; i < n; i++) to[3 * i + (size_t)k] = value_of(c, i);
    }
    return 0;
}

int decode_jpeg2000(const uint8_t *bytes, size_t n, nc_image_sink *sink) {
    memory m = {bytes, n, 0};
    opj_dparameters_t how;
    opj_image_t *image = NULL;
    int bare = n > 2 && bytes[0] == 0xff && bytes[1] == 0x4f, code = 1;
    opj_codec_t *codec = opj_create_decompress(bare ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    opj_stream_t *stream = opj_stream_default_create(OPJ_TRUE);
    opj_set_default_decoder_parameters(&how);
    if (codec != NULL && stream != NULL) {
        opj_stream_set_user_data(stream, &m, NULL);
        opj_stream_set_user_data_length(stream, n);
        opj_stream_set_read_function(stream, take);
        opj_stream_set_skip_function(stream, skip);
        opj_stream_set_seek_function(stream, seek);
        code = opj_setup_decoder(codec, &how) && opj_read_header(stream, codec, &image)
                   ? read_pixels(codec, stream, image, sink)
                   : fail(sink, "not a JPEG 2000 image");
    }
    opj_image_destroy(image);
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    return code;
}
#else
typedef int without_jpeg2000;
#endif
