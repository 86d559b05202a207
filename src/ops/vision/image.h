/* ops/vision/image.h: image formats that need no library: raw pixels behind a header. */
#ifndef NC_OPS_VISION_IMAGE_H
#define NC_OPS_VISION_IMAGE_H

#include "base/codecs.h"

int nc_image_bmp(const uint8_t *bytes, size_t n, nc_image_sink *sink); /* 8 bits with a palette, 24 and 32 bits */
int nc_image_pnm(const uint8_t *bytes, size_t n, nc_image_sink *sink); /* P2, P3, P5, P6 */

#endif
