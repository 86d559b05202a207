/* codecs/png.c: PNG by libpng's simple interface: palettes, gray and 16 bits become 8-bit color, transparency lies
 * on black. */
#ifdef HAVE_PNG
#include "codecs.h"

#include <png.h>

int decode_png(const uint8_t *bytes, size_t n, nc_image_sink *sink) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    png_color black = {0, 0, 0};
    if (!png_image_begin_read_from_memory(&image, bytes, n)) return fail(sink, image.message);
    image.format = PNG_FORMAT_RGB;
    uint8_t *to = sink->room(sink, image.height, image.width);
    int done = to != NULL && png_image_finish_read(&image, &black, to, 0, NULL);
    if (to != NULL && !done) fail(sink, image.message);
    png_image_free(&image);
    return !done;
}
#else
typedef int without_png;
#endif
