/* kernels/cpu/quant/nbits_panels.h: what the files of nbits.h share: panels of weights, and products by tiles. */
#ifndef NCK_NBITS_PANELS_H
#define NCK_NBITS_PANELS_H

#include "kernels/cpu/quant/nbits.h"
#include "kernels/cpu/quant/nbits_kernel.h"

enum { NCK_NBITS_THREADS = 16 }; /* most at a time */

/* What is found once for all panels: blocks of a row, bytes of a panel. */
typedef struct nck_nbits_each {
    int64_t lanes, blocks;
    size_t codes, scales, zeros;
} nck_nbits_each;

int64_t nck_nbits_blocks(const nck_nbits *w);
nck_nbits_each nck_nbits_each_of(const nck_nbits *w);
/* Room for a panel of weights that are not packed. */
size_t nck_nbits_panel_bytes(const nck_nbits *w);
/* Panel i, packed into `room` where it is not yet; e: of w. */
nck_nbits_panel nck_nbits_panel_at(const nck_nbits *w, const nck_nbits_each *e, int64_t i, char *room);

/* From a packed panel to the next. */
static inline void nck_nbits_next(const nck_nbits_each *e, nck_nbits_panel *p) {
    p->codes += e->codes;
    p->scale = (const float *)(const void *)((const char *)p->scale + e->scales);
    if (p->zero != NULL) p->zero += e->zeros;
    if (p->float_zero != NULL) p->float_zero = (const float *)(const void *)((const char *)p->float_zero + e->scales);
}

size_t nck_nbits_tiles_workspace(const nck_nbits *w, int64_t M);
void nck_nbits_tiles(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, char *workspace,
                     nc_pool *pool);

#endif
