/* kernels/cpu/gemm/gemm_panels.h: how operands of a product become panels, for gemm.c: which unit multiplies them, what
 * panels hold, and their packing. */
#ifndef NCK_GEMM_PANELS_H
#define NCK_GEMM_PANELS_H

#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/tile_table.h"

#define NCK_GEMM_PACK_TERMS \
    8 /* rows of B, or of A turned, that panels are packed from: whole lines, few pages at a time */
#define NCK_GEMM_NEAR (1 << 16) /* bytes of panels that are packed one by one: all of their rows are at hand */

/* A row of the one product, by the type of its operands. */
typedef struct nck_gemm_form {
    const nck_gemm_unit *u;
    nck_gemm_store *store;
    nck_tile_dense_fn convert; /* operands to what panels hold; NULL: they are that */
    int64_t in, held, out;     /* bytes of an element of A and B, of a panel, of C and the bias */
} nck_gemm_form;

nck_gemm_form nck_gemm_form_of(nc_dtype type);

/* Terms that are packed at a time where rows of B, or of A turned, are far apart: whole groups. */
static inline int64_t nck_gemm_pack_terms(const nck_gemm_form *f) {
    return f->u->group > NCK_GEMM_PACK_TERMS ? f->u->group : NCK_GEMM_PACK_TERMS;
}

/* Do kernels find operands as they lie where panels could be? */
static inline bool nck_gemm_form_is_plain(const nck_gemm_form *f) { return f->convert == NULL && f->u->group == 1; }

/* A panel of A, see nck_gemm_pack. */
void nck_gemm_pack_a(const nck_gemm_form *f, int64_t kc, int64_t rows, const char *src, int64_t ls, int64_t ks,
                     char *dst);
/* kc terms from k on of n panels of columns of g's B from p on, one panel after the other. */
void nck_gemm_pack_panels(const nck_gemm_form *f, const nck_gemm_args *g, int64_t k, int64_t kc, int64_t p, int64_t n,
                          char *dst);

#endif
