/* base/codecs.h: libraries of image formats, in a shared object of their own that is loaded when an image is first
 * decoded: libnacre_codecs.so, beside this library, or the file that NACRE_CODECS names. codecs/ implements it with
 * libjpeg-turbo, libpng, libwebp, libtiff and OpenJPEG, those that were there when it was built. */
#ifndef NC_BASE_CODECS_H
#define NC_BASE_CODECS_H

#include <stddef.h>
#include <stdint.h>

typedef enum nc_image_format {
    NC_IMAGE_JPEG,
    NC_IMAGE_PNG,
    NC_IMAGE_WEBP,
    NC_IMAGE_TIFF,
    NC_IMAGE_JPEG2000,
    NC_N_IMAGE_FORMATS
} nc_image_format;

/* A decoder asks for its pixels, height * width * 3 bytes, red first, once it knows the size; NULL: not given, stop. */
typedef struct nc_image_sink {
    uint8_t *(*room)(struct nc_image_sink *s, uint64_t height, uint64_t width);
    char why[160]; /* filled by the decoder where it fails */
    int no_memory; /* 1: it failed for want of memory, not because of the bytes */
} nc_image_sink;

/* 0: done; else why says what is wrong. */
typedef int (*nc_image_decoder)(const uint8_t *bytes, size_t n, nc_image_sink *sink);

#define NC_CODECS_VERSION 2
typedef struct nc_codecs {
    int version;
    nc_image_decoder decode[NC_N_IMAGE_FORMATS]; /* NULL: not built in */
} nc_codecs;
#define NC_CODECS_TABLE "nacre_codecs_table" /* the name of the shared object's nc_codecs */

/* The decoder of a format; NULL: *why says what is missing, in memory that stays. */
nc_image_decoder nc_codec_find(nc_image_format f, const char **why);

#endif
