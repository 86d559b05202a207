/* kernels/cpu/vision/grid_taps.h: which pixels a place of a grid reads, with which weights, and how these change when
 * the place moves. Private to this folder. */
#ifndef NCK_GRID_TAPS_H
#define NCK_GRID_TAPS_H

#include "kernels/cpu/vision/sample.h"

enum { NCK_GRID_MAX_TAPS = 64 };

typedef struct nck_grid_taps {
    int n;
    int64_t at[NCK_GRID_MAX_TAPS]; /* within a channel */
    double weight[NCK_GRID_MAX_TAPS];
    double slope[NCK_SAMPLE_MAX_DIMS][NCK_GRID_MAX_TAPS]; /* of the weight, by coordinate k of the grid */
} nck_grid_taps;

/* place counts through the whole grid; slopes are filled where asked for. */
void nck_grid_place_taps(const nck_grid_sample *s, int64_t place, bool slopes, nck_grid_taps *t);

/* The same where a place has few taps, as linear sampling of two axes has them. */
typedef struct nck_grid_few {
    int32_t n, at[4];
    double weight[4];
} nck_grid_few;
/* Channels of at most INT32_MAX pixels. false: places have more taps. */
bool nck_grid_place_few(const nck_grid_sample *s, int64_t place, nck_grid_few *few);

#endif
