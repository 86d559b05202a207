/* codecs/webp.c: WebP by libwebp. */
#ifdef HAVE_WEBP
#include "codecs.h"

#include <webp/decode.h>

int decode_webp(const uint8_t *bytes, size_t n, nc_image_sink *sink) {
    int width, height;
    if (!WebPGetInfo(bytes, n, &width, &height)) return fail(sink, "not a WebP image");
    uint8_t *to = sink->room(sink, (uint64_t)height, (uint64_t)width);
    if (to == NULL) return 1;
    size_t row = (size_t)width * 3;
    return WebPDecodeRGBInto(bytes, n, to, row * (size_t)height, (int)row) ? 0 : fail(sink, "the WebP data is damaged");
}
#else
typedef int without_webp;
#endif
