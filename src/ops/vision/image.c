/* ops/vision/image.c: the card of ImageDecoder. Its kernel is in image_cpu.c: the formats of base/codecs.h by
 * libraries of others, BMP and PNM by hand. */
#include "ops/card.h"

#include <string.h>

static nc_code decoder_infer(nc_infer *c) {
    const char *format = nc_attr_str(c->node, "pixel_format");
    bool gray = strcmp(format, "Grayscale") == 0;
    if (!gray && strcmp(format, "RGB") != 0 && strcmp(format, "BGR") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "pixel_format is '%.60s', expected RGB, BGR or Grayscale", format);
    const nc_type *x = nc_in(c, 0);
    if (x != NULL && x->rank >= 0 && x->rank != 1)
        NC_FAIL(c->w, NC_E_SHAPE, "encoded_stream has %d dims, expected 1", x->rank);
    NC_TRY(nc_out_unknown(c, 0, NC_UINT8, 3));
    if (c->out[0].type == NULL || c->out[0].type->rank != 3) return NC_OK;
    const nc_dim *dims[3] = {c->out[0].type->dims[0], c->out[0].type->dims[1], nc_dim_const(c->dims, gray ? 1 : 3)};
    return nc_out(c, 0, NC_UINT8, 3, dims);
}

static const nc_op_version versions[] = {{.since = 20,
                                          IN({"encoded_stream", NC_BIT(NC_UINT8)}),
                                          OUT({"image", NC_BIT(NC_UINT8)}),
                                          ATTR(A_STR("pixel_format", "RGB"))},
                                         {0}};

const nc_card nc_card_image_decoder = {.name = "ImageDecoder",
                                       .doc = "The pixels of an encoded image.",
                                       .versions = versions,
                                       .traits = NC_HOST_OBJECTS,
                                       .infer = decoder_infer,
                                       .zero_grad = true};
