/* base/crc.h: CRC-32C (Castagnoli), as iSCSI and ext4 have it: whether bytes are those that were written.
 * crc32c(0, "123456789", 9) is 0xE3069283. Give the last result to go on with more bytes. */
#ifndef NC_BASE_CRC_H
#define NC_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t nc_crc32c(uint32_t before, const void *p, size_t bytes);

#endif
