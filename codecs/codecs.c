/* codecs/codecs.c: the table of libnacre_codecs.so (base/codecs.h): the formats whose libraries were there when it
 * was built. */
#include "codecs.h"

__attribute__((visibility("default"))) extern const nc_codecs nacre_codecs_table;
const nc_codecs nacre_codecs_table = {NC_CODECS_VERSION,
                                      {
#ifdef HAVE_JPEG
                                          [NC_IMAGE_JPEG] = decode_jpeg,
#endif
#ifdef HAVE_PNG
                                          [NC_IMAGE_PNG] = decode_png,
#endif
#ifdef HAVE_WEBP
                                          [NC_IMAGE_WEBP] = decode_webp,
#endif
#ifdef HAVE_TIFF
                                          [NC_IMAGE_TIFF] = decode_tiff,
#endif
#ifdef HAVE_JPEG2000
                                          [NC_IMAGE_JPEG2000] = decode_jpeg2000,
#endif
                                      }};

int fail(nc_image_sink *s, const char *what) {
    size_t n = strlen(what) < sizeof s->why - 1 ? strlen(what) : sizeof s->why - 1;
    memcpy(s->why, what, n);
    s->why[n] = '\0';
    return 1;
}
