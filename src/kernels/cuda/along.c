/* cuda/along.c: launchers of along.cu, see along.h. */
#include "kernels/cuda/along.h"

#include "base/intmath.h"

/* Elements of a part, of a line side by side and of others; lines up to SHORT are not cut. MOST_PARTS: of a line side
 * by side whose best is looked for. */
enum { THREADS = 256, PART = 4096, COLUMN = 256, SHORT = 1024, MOST_PARTS = 1024 };

/* Mirrors line_args of along.cu. */
typedef struct line_args {
    int64_t outer, C, inner;
    int first, second, reverse, each;
} line_args;

nc_code nck_cuda_along_prepare(nc_device *d, nc_dtype t, nck_cuda_along *out, nc_diag *diag) {
    if (nck_cuda_type_name(t) == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s is not walked along on a GPU", nc_dtype_name(t));
    const struct {
        const char *name;
        nc_function **to;
    } all[] = {{"arg", &out->arg},
               {"arg_parts", &out->arg_parts},
               {"arg_join", &out->arg_join},
               {"cumulate", &out->cumulate},
               {"cumulate_parts", &out->cumulate_parts},
               {"cumulate_add", &out->cumulate_add},
               {"cumulate_within", &out->cumulate_within}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_along, t, NULL, all[i].name, all[i].to, diag));
    return NC_OK;
}

static line_args lines_of(const nc_tensor *x, int axis, bool first, bool second, bool reverse) {
    line_args p = {.outer = 1, .C = x->dims[axis], .inner = 1, .first = first, .second = second, .reverse = reverse};
    for (int k = 0; k < x->rank; k++)
        if (k != axis) *(k < axis ? &p.outer : &p.inner) *= x->dims[k];
    p.each = p.inner == 1 ? PART : COLUMN;
    return p;
}

static nc_code launch(nck_cuda_at at, nc_function *f, line_args p, const void *x, void *out) {
    void *args[] = {&p, &x, &out};
    nc_dim3 grid = {nck_cuda_blocks(at.device, p.outer * p.inner, 8), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, f, grid, (nc_dim3){32, 8, 1}, 0, args, at.diag);
}

/* Parts of a line; 0: it is not cut, and belongs to a warp. */
static int64_t n_parts(const line_args *p) {
    if (p->inner == 1 && p->C <= SHORT) return 0;
    return nc_ceil_div(p->C, p->each);
}

static uint32_t part_blocks(nck_cuda_at at, const line_args *p, int64_t parts) {
    return nck_cuda_blocks(at.device, p->outer * parts * p->inner, p->inner == 1 ? 1 : THREADS);
}

/* A line of several parts has more than COLUMN elements, so at most two parts for as many. */
size_t nck_cuda_along_workspace(int64_t n) { return (size_t)(n / (COLUMN / 2) + 1) * sizeof(int64_t); }

nc_code nck_cuda_arg_run(const nck_cuda_along *k, nck_cuda_at at, const nc_tensor *x, int axis, bool smallest,
                         bool last, void *workspace, void *out) {
    line_args p = lines_of(x, axis, smallest, last, false);
    if (p.inner == 1) p.each *= (int)nc_max64(1, nc_ceil_div(p.C, (int64_t)PART * MOST_PARTS));
    int64_t parts = n_parts(&p);
    const void *from = x->data;
    void *places = parts == 1 ? out : workspace, *args[] = {&p, &parts, &from, &places, &out};
    if (parts == 0) return launch(at, k->arg, p, x->data, out);
    NC_TRY(nck_cuda_launch(at, k->arg_parts, part_blocks(at, &p, parts), THREADS, args));
    if (parts == 1) return NC_OK;
    nc_dim3 block = p.inner == 1 ? (nc_dim3){THREADS, 1, 1} : (nc_dim3){32, 8, 1};
    nc_dim3 grid = {nck_cuda_blocks(at.device, p.outer * p.inner, block.y), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, k->arg_join, grid, block, 0, args, at.diag);
}

nc_code nck_cuda_cumulate_run(const nck_cuda_along *k, nck_cuda_at at, const nc_tensor *x, int axis, bool product,
                              bool exclusive, bool reverse, void *workspace, void *out) {
    line_args p = lines_of(x, axis, product, exclusive, reverse);
    int64_t parts = n_parts(&p);
    const void *from = x->data;
    void *sums = parts > 1 ? workspace : NULL, *of_parts[] = {&p, &parts, &from, &sums}, *add[] = {&p, &parts, &sums};
    void *within[] = {&p, &parts, &sums, &from, &out};
    if (parts == 0) return launch(at, k->cumulate, p, x->data, out);
    if (parts > 1) {
        NC_TRY(nck_cuda_launch(at, k->cumulate_parts, part_blocks(at, &p, parts), THREADS, of_parts));
        uint32_t lines = nck_cuda_blocks(at.device, p.outer * p.inner, 1);
        NC_TRY(nck_cuda_launch(at, k->cumulate_add, lines, THREADS, add));
    }
    return nck_cuda_launch(at, k->cumulate_within, part_blocks(at, &p, parts), THREADS, within);
}
