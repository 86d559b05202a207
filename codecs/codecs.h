/* codecs/codecs.h: the decoders of libnacre_codecs.so, one file each, over a library of others. Sizes come out of
 * hostile bytes: the sink refuses what is too large before memory is taken for pixels. */
#ifndef NACRE_CODECS_H
#define NACRE_CODECS_H

#include "base/codecs.h"

#include <string.h>

int decode_jpeg(const uint8_t *bytes, size_t n, nc_image_sink *sink);
int decode_png(const uint8_t *bytes, size_t n, nc_image_sink *sink);
int decode_webp(const uint8_t *bytes, size_t n, nc_image_sink *sink);
int decode_tiff(const uint8_t *bytes, size_t n, nc_image_sink *sink);
int decode_jpeg2000(const uint8_t *bytes, size_t n, nc_image_sink *sink);

int fail(nc_image_sink *s, const char *what); /* 1; nothing is said where the sink refused and has its own words */

#endif
