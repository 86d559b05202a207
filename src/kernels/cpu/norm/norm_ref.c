/* kernels/cpu/norm/norm_ref.c: rows normalized in double, element after element: what norm.c is compared with. */
#include "kernels/cpu/norm/norm.h"

#include "base/real.h"

#include <math.h>

void nck_norm_rows_ref(const nck_norm_args *a) {
    for (int64_t r = 0; r < a->rows; r++) {
        double mean = 0, var = 0;
        for (int64_t i = 0; a->center && i < a->cols; i++) mean += nc_real_get(a->type, a->x, r * a->cols + i);
        mean /= (double)a->cols;
        for (int64_t i = 0; i < a->cols; i++) {
            double d = nc_real_get(a->type, a->x, r * a->cols + i) - mean;
            var += d * d;
        }
        double inv = 1 / sqrt(var / (double)a->cols + a->epsilon);
        if (a->mean) nc_real_put(a->type, a->mean, r, mean);
        if (a->inv_std) nc_real_put(a->type, a->inv_std, r, inv);
        for (int64_t i = 0; i < a->cols; i++) {
            int64_t at = r % a->pick.mod * a->pick.row_step + i / a->pick.div * a->pick.col_step;
            double h = (nc_real_get(a->type, a->x, r * a->cols + i) - mean) * inv;
            if (a->scale) h *= nc_real_get(a->type, a->scale, at);
            if (a->bias) h += nc_real_get(a->type, a->bias, at);
            nc_real_put(a->type, a->y, r * a->cols + i, h);
        }
    }
}
