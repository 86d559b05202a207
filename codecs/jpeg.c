/* codecs/jpeg.c: JPEG by libjpeg-turbo. Its errors leave by a jump; warnings (a file cut short) are errors too. */
#ifdef HAVE_JPEG
#include "codecs.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

typedef struct out {
    struct jpeg_error_mgr errors;
    jmp_buf back;
    nc_image_sink *sink;
} out;

static void leave(j_common_ptr c) {
    out *o = (out *)c->err;
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    fail(o->sink, text);
    longjmp(o->back, 1);
}

static void warn(j_common_ptr c, int level) {
    if (level < 0) leave(c);
}

static void read_rows(struct jpeg_decompress_struct *d, uint8_t *to) {
    while (d->output_scanline < d->output_height) {
        JSAMPROW row = to + (size_t)d->output_scanline * d->output_width * 3;
        jpeg_read_scanlines(d, &row, 1);
    }
    jpeg_finish_decompress(d);
}

int decode_jpeg(const uint8_t *bytes, size_t n, nc_image_sink *sink) {
    struct jpeg_decompress_struct d = {0};
    out o = {.sink = sink};
    volatile int code = 1;
    d.err = jpeg_std_error(&o.errors);
    o.errors.error_exit = leave;
    o.errors.emit_message = warn;
    if (setjmp(o.back) == 0) {
        jpeg_create_decompress(&d);
        jpeg_mem_src(&d, bytes, (unsigned long)n);
        jpeg_read_header(&d, TRUE);
        if (d.jpeg_color_space == JCS_CMYK || d.jpeg_color_space == JCS_YCCK) {
            fail(sink, "the image is of four inks (CMYK), expected gray or color");
        } else {
            uint8_t *to = sink->room(sink, d.image_height, d.image_width); /* before libjpeg takes memory of its own */
            if (to != NULL) {
                d.out_color_space = JCS_RGB;
                jpeg_start_decompress(&d);
                read_rows(&d, to);
                code = 0;
            }
        }
    }
    jpeg_destroy_decompress(&d);
    return code;
}
#else
typedef int without_jpeg;
#endif
