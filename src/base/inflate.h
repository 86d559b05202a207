/* base/inflate.h: unpacks what gzip packed (RFC 1951 and 1952): texts that the library carries. */
#ifndef NC_BASE_INFLATE_H
#define NC_BASE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Unpacks n bytes of one gzip member to out, which has room for `room`; *made: how many there are. false: the bytes are
 * no such member, they end early, or the room is too small. The checksum is not looked at. */
bool nc_gunzip(const uint8_t *in, size_t n, char *out, size_t room, size_t *made);

#endif
