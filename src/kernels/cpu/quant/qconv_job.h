/* kernels/cpu/quant/qconv_job.h: what qconv.c and qconv_depthwise.c share. */
#ifndef NCK_QUANT_QCONV_JOB_H
#define NCK_QUANT_QCONV_JOB_H

#include "kernels/cpu/quant/qconv.h"

enum { NCK_QCONV_LANES = 16, NCK_QCONV_TAPS = 64 }; /* most threads; most taps of a depthwise window */

/* Channels last on both sides. */
typedef struct nck_qconv_job {
    const nck_qconv_args *a;
    const char *w; /* packed */
    char *room;    /* for each lane */
    size_t bytes_lane;
    int64_t places, plane, blocks; /* of one image; blocks of places */
    int64_t parts;                 /* of the columns of each block */
    bool in_place;                 /* places of x are rows */
} nck_qconv_job;

int64_t nck_qconv_row(const nck_qconv_args *a, int64_t at, int64_t tap);

/* One channel for each group: its weights as they are kept, the room that it needs, and the convolution, which uses
 * w_packed where weights have no zero points. */
size_t nck_qconv_depth_packed_bytes(int64_t C, int64_t taps);
void nck_qconv_depth_pack(const nck_qconv_args *a, int64_t taps, void *dst);
size_t nck_qconv_depth_bytes(int64_t C, int64_t taps);
void nck_qconv_depthwise(const nck_qconv_job *j, int64_t taps, char *room, nc_pool *pool);

#endif
