/* base/near.h: which known names look like one that is not there, for messages. Offer all that there are, then print.
 */
#ifndef NC_BASE_NEAR_H
#define NC_BASE_NEAR_H

enum { NC_NEAR_MAX = 3 };

/* Zeros but for `wanted`; names are borrowed until the text is made. */
typedef struct nc_near {
    const char *wanted;
    const char *names[NC_NEAR_MAX]; /* the nearest first */
    int distances[NC_NEAR_MAX], n;
} nc_near;

void nc_near_offer(nc_near *k, const char *name);
/* "; nearest: 'a', 'b'", or nothing where no name is near. Valid while k is. */
const char *nc_near_text(const nc_near *k, char text[200]);

#endif
