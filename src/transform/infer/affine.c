/* transform/infer/affine.c: see affine.h. */
#include "transform/infer/affine.h"

#include "ops/norm/batch.h"
#include "transform/rewrite.h"

#include <float.h>
#include <math.h>

nc_code nc_affine_init(nc_work *w, int64_t channels, nc_affine *a) {
    *a = (nc_affine){.scale = nc_arena_array(&w->scratch, (size_t)channels, sizeof *a->scale),
                     .shift = nc_arena_array(&w->scratch, (size_t)channels, sizeof *a->shift)};
    NC_NEED(w, a->scale);
    NC_NEED(w, a->shift);
    return NC_OK;
}

bool nc_affine_may_use(const nc_value *v) {
    return nc_rewrite_fixed(v) && (v->lit->dtype == NC_FLOAT || v->lit->dtype == NC_DOUBLE);
}

double nc_affine_number(const nc_value *v, int64_t c) {
    double x = 0;
    return nc_rewrite_number(v->lit, v->lit->n == 1 ? 0 : c, &x) ? x : 0;
}

bool nc_affine_of_batch(const nc_node *n, int64_t channels, nc_affine *a) {
    if (nc_batch_trains(n) || !nc_batch_is_spatial(n) || n->n_in != 5) return false;
    for (int i = 1; i < 5; i++)
        if (!nc_affine_may_use(n->in[i]) || n->in[i]->lit->n != channels) return false;
    double epsilon = nc_attr_float(n, "epsilon");
    for (int64_t c = 0; c < channels; c++) {
        a->scale[c] = nc_affine_number(n->in[1], c) / sqrt(nc_affine_number(n->in[4], c) + epsilon);
        a->shift[c] = nc_affine_number(n->in[2], c) - nc_affine_number(n->in[3], c) * a->scale[c];
    }
    a->scales = true;
    return true;
}

bool nc_affine_is_tame(const nc_affine *a, nc_dtype t, int64_t channels) {
    for (int64_t c = 0; c < channels; c++) {
        double s = fabs(a->scale[c]), most = t == NC_DOUBLE ? DBL_MAX : FLT_MAX;
        if (!(fabs(a->shift[c]) <= most) || !(s == 0 || (s > 1e-12 && s < 1e12))) return false;
    }
    return true;
}

const nc_literal *nc_affine_literal(nc_work *w, nc_model *m, nc_dtype t, int rank, int64_t channels, const double *v) {
    int64_t dims[NC_MAX_RANK] = {channels};
    float *narrow = nc_arena_array(&w->scratch, (size_t)channels, sizeof *narrow);
    if (narrow == NULL) return NULL;
    for (int i = 1; i < rank; i++) dims[i] = 1;
    for (int64_t c = 0; t != NC_DOUBLE && c < channels; c++) narrow[c] = (float)v[c];
    return nc_edit_literal(m, t, rank, dims, t == NC_DOUBLE ? (const void *)v : narrow);
}
