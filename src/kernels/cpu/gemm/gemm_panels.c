/* kernels/cpu/gemm/gemm_panels.c: which unit multiplies operands of a type, and how panels are made of them; see
 * gemm_kernel.h for what a panel is. Halves are widened a strip at a time on the way into a panel:
 * float16 is multiplied as float, and bfloat16 too where the processor has no instructions for it. */
#include "kernels/cpu/gemm/gemm_panels.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"

#include <string.h>

enum {
    PANELS = 8, /* that are packed together: rows of B are whole lines */
    STRIP = 64  /* terms that are converted at a time */
};

nck_gemm_form nck_gemm_form_of(nc_dtype type) {
    const nck_isa *isa = nck_isa_get();
    const nck_gemm_table *t = isa->gemm;
    const nck_gemm_unit *sums = type == NC_DOUBLE ? t->f64 : t->f32;
    nck_gemm_form f = {.u = sums, .store = sums->store, .in = (int64_t)nc_dtype_bytes(type)};
    f.out = f.held = type == NC_DOUBLE ? 8 : 4;
    if (type == NC_BFLOAT16 && t->bf16 != NULL)
        f.u = t->bf16, f.held = f.in;
    else if (type == NC_BFLOAT16 || type == NC_FLOAT16)
        f.convert = type == NC_FLOAT16 ? isa->tile->load_f16 : isa->tile->load_bf16;
    return f;
}

int64_t nck_gemm_columns(nc_dtype type) { return nck_gemm_form_of(type).u->nr; }

size_t nck_gemm_packed_b_bytes(nc_dtype type, int64_t K, int64_t N) {
    const nck_gemm_form f = nck_gemm_form_of(type);
    return nc_align64((size_t)(nc_round_up(N, f.u->nr) * nc_round_up(K, f.u->group) * f.held));
}

/* Lanes of n terms as numbers, lane l at numbers + l * STRIP: terms of a lane lie side by side. */
static void convert_lanes(const nck_gemm_form *f, int64_t n, int64_t lanes, const char *src, int64_t ls,
                          float *numbers) {
    for (int64_t l = 0; l < lanes; l++) f->convert(numbers + l * STRIP, src + l * ls * f->in, n);
}

/* The same by terms, term k at numbers + k * lanes, from any strides. */
static void convert_terms(const nck_gemm_form *f, int64_t n, int64_t lanes, const char *src, int64_t ls, int64_t ks,
                          float *numbers) {
    uint16_t halves[NCK_GEMM_WIDEST];
    for (int64_t k = 0; k < n; k++, src += ks * f->in) {
        for (int64_t l = 0; ls != 1 && l < lanes; l++) memcpy(&halves[l], src + l * ls * f->in, sizeof *halves);
        f->convert(numbers + k * lanes, ls == 1 ? src : (const char *)halves, lanes);
    }
}

static void pack_panel(const nck_gemm_form *f, nck_gemm_pack *pack, int64_t kc, int64_t lanes, int64_t width,
                       const char *src, int64_t ls, int64_t ks, char *dst) {
    float numbers[NCK_GEMM_WIDEST * STRIP];
    if (f->convert == NULL) {
        pack(kc, lanes, width, src, ls, ks, dst);
        return;
    }
    for (int64_t k = 0; k < kc; k += STRIP, src += STRIP * ks * f->in, dst += STRIP * width * f->held) {
        int64_t n = nc_min64(STRIP, kc - k);
        if (ks == 1)
            convert_lanes(f, n, lanes, src, ls, numbers);
        else
            convert_terms(f, n, lanes, src, ls, ks, numbers);
        pack(n, lanes, width, numbers, ks == 1 ? STRIP : 1, ks == 1 ? 1 : lanes, dst);
    }
}

void nck_gemm_pack_a(const nck_gemm_form *f, int64_t kc, int64_t rows, const char *src, int64_t ls, int64_t ks,
                     char *dst) {
    pack_panel(f, f->u->pack, kc, rows, rows, src, ls, ks, dst);
}

void nck_gemm_pack_panels(const nck_gemm_form *f, const nck_gemm_args *g, int64_t k, int64_t kc, int64_t p, int64_t n,
                          char *dst) {
    int64_t nr = f->u->nr, all = nc_round_up(kc, f->u->group);
    int64_t step = g->b_cs == 1 && kc * n * nr * f->held > NCK_GEMM_NEAR ? nck_gemm_pack_terms(f) : kc;
    for (int64_t t = 0; t < kc; t += step)
        for (int64_t q = 0; q < n; q++) {
            int64_t j = (p + q) * nr;
            pack_panel(f, f->u->pack_b ? f->u->pack_b : f->u->pack, nc_min64(step, kc - t), nc_min64(nr, g->N - j), nr,
                       (const char *)g->b + ((k + t) * g->b_rs + j * g->b_cs) * f->in, g->b_cs, g->b_rs,
                       dst + (q * all + t) * nr * f->held);
        }
}

/* Packed B: its panels in order, each with all of K. */
void nck_gemm_pack_b(nc_dtype type, int64_t K, int64_t N, const void *b, int64_t rs, int64_t cs, void *dst) {
    const nck_gemm_form f = nck_gemm_form_of(type);
    nck_gemm_args g = {.type = type, .N = N, .K = K, .b = b, .b_rs = rs, .b_cs = cs};
    int64_t panels = nc_ceil_div(N, f.u->nr), bytes = nc_round_up(K, f.u->group) * f.u->nr * f.held;
    for (int64_t p = 0; p < panels; p += PANELS)
        nck_gemm_pack_panels(&f, &g, 0, K, p, nc_min64(PANELS, panels - p), (char *)dst + p * bytes);
}
