/* tests/tools/print_cuda_text.c: prints every source that the library may give to NVRTC: each kernel file for each
 * element type, and chains that use every formula on every compute type. A source is preceded by a line "==== name" and
 * a line with its entry points; "name@90" is there for sm_90 and newer alone. Read by tests/py/test_cuda_text.py. */
#include "kernels/cuda/attention_few.h"
#include "kernels/cuda/attention_grad.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/gemv.h"
#include "kernels/cuda/nbits.h"

#include <stdio.h>
#include <string.h>

static void print(const char *file, const char *what, const char *entries, nc_text *source) {
    printf("==== %s %s\n%s\n%s\n", file, what, entries, source->failed ? "#error out of memory" : source->s);
    nc_text_release(source);
}

static void print_file(nck_cuda_text file, nc_dtype t, const char *define, const char *entries) {
    nc_text source = {0};
    char what[64];
    snprintf(what, sizeof what, "%s %.*s", nc_dtype_name(t), (int)strcspn(define, "\n"), define);
    nck_cuda_text_join(&source, file, t, define);
    print(nck_cuda_text_name(file), what, entries, &source);
}

static void print_files(void) {
    static const nc_dtype floats[] = {NC_FLOAT, NC_DOUBLE, NC_FLOAT16, NC_BFLOAT16}, ints[] = {NC_INT32, NC_INT64};
    static const char *const joins[] = {"#define J sum\n", "#define J max\n", "#define J min\n", "#define J prod\n"};
    static const char *const words[] = {"#define U uint8_t\n", "#define U uint16_t\n", "#define U uint32_t\n",
                                        "#define U uint64_t\n"};
    static const char alongs[] = "arg arg_parts arg_join cumulate cumulate_parts cumulate_add cumulate_within";
    static const char topks[] = "topk_pick topk_sort topk_begin topk_count topk_choose topk_tally topk_add topk_gather "
                                "topk_words topk_put";
    static const char uniques[] = "unique_words unique_sort unique_begins unique_firsts unique_count unique_add "
                                  "unique_number unique_name";
    static const char *const samples[] = {
        "#define TAPS 2\n#define AXES 2\n#define G float\n", "#define TAPS 4\n#define AXES 3\n#define G double\n",
        "#define TAPS 1\n#define AXES 3\n#define G float\n", "#define TAPS 4\n#define AXES 1\n#define G bf16\n"};
    for (int i = 0; i < 4; i++) {
        print_file(NCK_CUDA_TEXT_copy, NC_UNDEFINED, words[i], "copy copy_rows copy_words turn copy_at_zero fill");
        print_file(NCK_CUDA_TEXT_index, NC_UNDEFINED, words[i],
                   "gather gather_words gather_lines scatter_keys scatter_clear scatter_claim");
        print_file(NCK_CUDA_TEXT_pad, NC_UNDEFINED, words[i], "pad");
        print_file(NCK_CUDA_TEXT_rows, NC_UNDEFINED, words[i], "reverse put_rows");
        print_file(NCK_CUDA_TEXT_det, floats[i], "", "det det_grad inverse");
        print_file(NCK_CUDA_TEXT_dft, floats[i], i == 1 ? "#define T double\n" : "#define T float\n", "dft_pass_run");
        print_file(NCK_CUDA_TEXT_rnn, floats[i], "",
                   "widen narrow rnn_start rnn_store gru_reset rnn_step rnn_back_step gru_back rnn_bias rnn_peepholes");
        print_file(NCK_CUDA_TEXT_scatter, floats[i], "", "scatter scatter_lines scatter_put");
        print_file(NCK_CUDA_TEXT_along, floats[i], "", alongs);
        if (floats[i] != NC_DOUBLE) print_file(NCK_CUDA_TEXT_rotary, floats[i], "", "rotary");
        if (floats[i] != NC_DOUBLE) print_file(NCK_CUDA_TEXT_linear_attention, floats[i], "", "attend_linear");
        print_file(NCK_CUDA_TEXT_place, floats[i], words[i], "trilu eye one_hot range triangles");
        print_file(NCK_CUDA_TEXT_compact, floats[i], words[i],
                   "compact_count compact_add compact_write compact_take compact_behind");
        print_file(NCK_CUDA_TEXT_topk, floats[i], "", topks);
        print_file(NCK_CUDA_TEXT_unique, floats[i], "", uniques);
        print_file(NCK_CUDA_TEXT_roi, floats[i], "",
                   "roi_align roi_align_dx roi_align_dx_max roi_align_drois roi_places");
        print_file(NCK_CUDA_TEXT_sample, floats[i], samples[i],
                   "sample sample_words sample_begins sample_dx sample_dgrid");
        print_file(NCK_CUDA_TEXT_resize, floats[i], words[i],
                   "resize_only resize_first resize_between resize_last resize_back_only resize_back_first "
                   "resize_back_between resize_back_last resize_pick resize_table resize_outside");
        print_file(NCK_CUDA_TEXT_softmax, floats[i], i == 3 ? "#define W float\n#define X bf16\n" : "",
                   "softmax softmax_vectors softmax_grad loss_rows loss_join loss_norm loss_grad loss_picked "
                   "scores_grad");
        print_file(NCK_CUDA_TEXT_draw, floats[i], i == 0 ? "#define X bf16\n" : "#define X float\n",
                   "draw_uniform draw_normal draw_flags draw_classes");
        print_file(NCK_CUDA_TEXT_dropout, floats[i], "", "dropout dropout_keep dropout_pair dropout_grad random_step");
        const char *norm_types =
            i == 0   ? "#define W float\n#define Y bf16\n#define X float\n#define M float\n#define H bf16\n"
            : i == 2 ? "#define W float\n#define Y f16\n#define X bf16\n#define M bf16\n#define H bf16\n"
                     : "";
        print_file(NCK_CUDA_TEXT_norm, floats[i], norm_types, "norm_rows norm_vectors");
        print_file(NCK_CUDA_TEXT_norm_sum, floats[i], i % 2 ? "#define DROPOUT\n" : norm_types,
                   "norm_sum_rows norm_sum_vectors");
        print_file(NCK_CUDA_TEXT_norm_grad, floats[i], "#define DROPOUT\n", "norm_grad_sums norm_grad_narrow");
        print_file(NCK_CUDA_TEXT_norm_grad, floats[i], norm_types,
                   "norm_grad_rows norm_grad_vectors norm_grad_sums norm_grad_columns norm_grad_columns_4 "
                   "norm_grad_narrow norm_grad_join");
        print_file(NCK_CUDA_TEXT_gemm, floats[i], "", "multiply spread");
        if (floats[i] != NC_DOUBLE) print_file(NCK_CUDA_TEXT_gemv, floats[i], "", "gemv_columns gemv_narrow gemv_rows");
        if (floats[i] == NC_FLOAT16 || floats[i] == NC_BFLOAT16)
            print_file(NCK_CUDA_TEXT_gemv_bulk, floats[i], "", "gemv_bulk@90");
        print_file(NCK_CUDA_TEXT_conv, floats[i], "", "columns back depthwise biases add_biases side_by_side apart");
        print_file(NCK_CUDA_TEXT_conv_last, floats[i], "", "columns columns_wide depthwise");
        print_file(NCK_CUDA_TEXT_pool, floats[i], "", "pool_average pool_average_grad pool_lp");
        print_file(NCK_CUDA_TEXT_pool_max, floats[i], "#define LEAST -INF\n", "pool_max pool_max_last");
        for (int j = 0; j < 4; j++)
            print_file(NCK_CUDA_TEXT_reduce, floats[i], joins[j], "rows columns column_vectors join");
    }
    print_file(NCK_CUDA_TEXT_pool_max, NC_INT8, "#define LEAST -128\n", "pool_max pool_max_last");
    print_file(NCK_CUDA_TEXT_scatter, NC_UINT64, "", "scatter scatter_lines scatter_put");
    print_file(NCK_CUDA_TEXT_topk, NC_UINT64, "", topks);
    print_file(NCK_CUDA_TEXT_unique, NC_UINT64, "", uniques);
    print_file(NCK_CUDA_TEXT_compact, NC_BOOL, "", "compact_count compact_add compact_write");
    print_file(NCK_CUDA_TEXT_nms, NC_FLOAT, "", "nms_begin nms_cover nms_settle nms_write");
    print_file(NCK_CUDA_TEXT_sort, NC_UNDEFINED, "", "sort_count sort_add sort_move sort_one");
    print_file(NCK_CUDA_TEXT_optim, NC_UNDEFINED, "", "optim_step");
    print_file(NCK_CUDA_TEXT_many, NC_UNDEFINED, "", "many");
    print_file(NCK_CUDA_TEXT_place, NC_UINT64, words[2], "trilu eye one_hot range triangles");
    for (int i = 0; i < 2; i++) {
        print_file(NCK_CUDA_TEXT_scatter, ints[i], "", "scatter scatter_lines scatter_put");
        print_file(NCK_CUDA_TEXT_along, ints[i], "", alongs);
        print_file(NCK_CUDA_TEXT_place, ints[i], words[i], "trilu eye one_hot range triangles");
        print_file(NCK_CUDA_TEXT_gemm, ints[i], "", "multiply spread");
        for (int j = 0; j < 4; j++)
            print_file(NCK_CUDA_TEXT_reduce, ints[i], joins[j], "rows columns column_vectors join");
    }
}

static void print_attention_grad(nc_dtype t, const nck_cuda_attn_form *f) {
    char define[160];
    if (!nck_cuda_attn_grad_takes(t, f->cols)) return;
    nck_cuda_attn_grad_define(t, f, define, sizeof define);
    print_file(NCK_CUDA_TEXT_attention_grad, t, define, "grad_queries grad_keys grad_deltas");
}

/* Attention of every size of tile, without a mask and with either kind, some with dropout. */
static void print_attention(void) {
    static const nc_dtype halves[] = {NC_FLOAT16, NC_BFLOAT16}, floats[] = {NC_FLOAT, NC_DOUBLE};
    static const int cols[] = {32, 64, 128, 256};
    char define[160];
    for (int i = 0; i < 2; i++) {
        nck_cuda_attn_define_form(&(nck_cuda_attn_form){.mask = i ? NC_BOOL : NC_UNDEFINED}, define, sizeof define);
        print_file(NCK_CUDA_TEXT_attention_seen, halves[i], define, "seen_lens seen_bias seen_mend");
        for (int k = 0; k < 4; k++) {
            nc_dtype mask = k == 0 ? NC_BOOL : k == 1 ? NC_UNDEFINED : halves[i];
            nck_cuda_attn_form form = {.cols = cols[k], .mask = mask, .softcap = k == 2, .drops = k == i};
            nck_cuda_attn_define(halves[i], &form, define, sizeof define);
            print_file(NCK_CUDA_TEXT_attention, halves[i], define, "attend");
            print_attention_grad(halves[i], &form);
            if (!nck_cuda_attn_takes(floats[i], cols[k])) continue;
            form.mask = mask == halves[i] ? NC_INT32 : mask, form.softcap = k == 1;
            nck_cuda_attn_define(floats[i], &form, define, sizeof define);
            print_file(NCK_CUDA_TEXT_attention_plain, floats[i], define, "attend");
            print_attention_grad(floats[i], &form);
        }
    }
}

/* Attention of few queries: every number of rows and of columns. */
static void print_attention_few(void) {
    static const nc_dtype types[] = {NC_FLOAT16, NC_BFLOAT16, NC_FLOAT, NC_FLOAT16};
    char define[160];
    for (int i = 0; i < 4; i++) {
        nc_dtype mask = i == 0 ? NC_UNDEFINED : i == 1 ? NC_BOOL : types[i];
        nck_cuda_attn_few_define(256 >> i, mask, i == 2, 1 << (i < 2 ? i : 2), define, sizeof define);
        print_file(NCK_CUDA_TEXT_attention_few, types[i], define, "attend_few attend_splits");
        print_file(NCK_CUDA_TEXT_attention_bulk, types[i], define, "attend_bulk@90");
        if (types[i] == NC_FLOAT) continue;
        nck_cuda_attn_few_define(i == 1 ? 128 : 64, mask, i == 1, i == 0 ? 16 : 8, define, sizeof define);
        print_file(NCK_CUDA_TEXT_attention_mma, types[i], define, "attend_mma@90");
    }
}

/* Conversions from and to every kind of element. */
static void print_converts(void) {
    static const nc_dtype pairs[][2] = {
        {NC_FLOAT, NC_FLOAT8E4M3FN}, {NC_FLOAT8E5M2, NC_FLOAT16}, {NC_INT4, NC_INT8},      {NC_UINT64, NC_FLOAT6E2M3},
        {NC_UINT2, NC_BOOL},         {NC_FLOAT16, NC_UINT4},      {NC_BFLOAT16, NC_UINT8}, {NC_DOUBLE, NC_INT64},
        {NC_BOOL, NC_FLOAT8E8M0},    {NC_FLOAT4E2M1, NC_INT32},   {NC_DOUBLE, NC_UINT64},  {NC_UINT4, NC_BFLOAT16}};
    char define[128];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        nc_dtype read = nck_cuda_convert_define(pairs[i][0], pairs[i][1], define, sizeof define);
        print_file(NCK_CUDA_TEXT_convert, read, define, "convert");
    }
}

/* Products with codes: zero points of every kind, both sizes of turns. */
static void print_nbits(void) {
    static const nck_cuda_nbits_how how[] = {
        {.type = NC_FLOAT, .block = 16, .zeros = NC_FLOAT},   {.type = NC_FLOAT16, .block = 32},
        {.type = NC_FLOAT16, .block = 32, .zeros = NC_UINT8}, {.type = NC_BFLOAT16, .block = 128, .zeros = NC_FLOAT16},
        {.type = NC_FLOAT, .block = 64, .table = true},       {.type = NC_FLOAT16, .block = 64, .table = true},
        {.type = NC_BFLOAT16, .block = 16, .table = true}};
    char define[112];
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        nck_cuda_nbits_define(&how[i], define, sizeof define);
        print_file(NCK_CUDA_TEXT_nbits, how[i].type, define, "nbits_one nbits_few nbits_decode nbits_fixed");
    }
}

/* Products of one row with a norm before them, formulas behind them, and both. */
static void print_gemv(void) {
    static const nc_dtype types[] = {NC_FLOAT16, NC_BFLOAT16, NC_FLOAT};
    static const uint16_t out_reg[] = {3};
    nck_tile_op ops[] = {{.lane = NCK_LANE_sigmoid, .dst = 2, .src = {0}},
                         {.lane = NCK_LANE_mul, .dst = 3, .src = {2, 1}}};
    nck_tile_prog p = {
        .compute = NC_FLOAT, .n_in = 2, .n_out = 1, .n_reg = 4, .n_op = 2, .op = ops, .out_reg = out_reg};
    for (int i = 0; i < 9; i++) {
        nc_text define = {0};
        nck_cuda_gemv_define(&define, i % 3 != 1, i % 3 != 0 ? &p : NULL);
        if (types[i / 3] != NC_FLOAT)
            print_file(NCK_CUDA_TEXT_gemv_bulk, types[i / 3], define.failed ? "#error out of memory\n" : define.s,
                       "gemv_bulk@90");
        print_file(NCK_CUDA_TEXT_gemv, types[i / 3], define.failed ? "#error out of memory\n" : define.s,
                   "gemv_columns gemv_narrow gemv_rows");
        nc_text_release(&define);
    }
}

/* Lanes that the compute type has, each read from three inputs, all joined into one output by sums: every lane where
 * nothing is converted, else one for the loads and stores. */
static void print_lanes(nc_dtype compute, nc_dtype in, nc_dtype out) {
    int n_lanes = in == compute && out == compute ? NCK_N_LANES : 1;
    nck_tile_op ops[2 * NCK_N_LANES];
    int n = 0;
    for (int lane = 0; lane < n_lanes; lane++) {
        bool floats = compute == NC_FLOAT || compute == NC_DOUBLE;
        if (nck_lane_get(lane)->kinds == (floats ? 'I' : 'F')) continue;
        ops[n++] = (nck_tile_op){.lane = (uint16_t)lane, .dst = 3, .src = {0, 1, 2}, .param = {0.01, 1e300 * 1e300}};
        ops[n] = (nck_tile_op){.lane = NCK_LANE_add, .dst = 4, .src = {(uint16_t)(n > 1 ? 4 : 3), 3}};
        n++;
    }
    static const uint16_t out_reg[] = {4};
    nck_tile_prog p = {.compute = compute, .n_in = 3, .n_out = 1, .n_reg = 5, .n_op = n, .op = ops, .out_reg = out_reg};
    nc_dtype types[] = {in, in, in, out};
    nc_text source = {0};
    char what[64];
    snprintf(what, sizeof what, "%s %s %s", nc_dtype_name(compute), nc_dtype_name(in), nc_dtype_name(out));
    if (!nck_tile_check(&p) || !nck_cuda_chain_source(&source, &p, types, 4))
        nc_text_add(&source, "#error no program\n");
    print("chain", what, NCK_CUDA_CHAIN_ENTRIES, &source);
}

int main(void) {
    static const nc_dtype computes[] = {NC_FLOAT, NC_DOUBLE, NC_INT64, NC_UINT64};
    static const nc_dtype storages[] = {NC_FLOAT, NC_DOUBLE, NC_FLOAT16, NC_BFLOAT16, NC_BOOL,   NC_INT8,  NC_INT16,
                                        NC_INT32, NC_INT64,  NC_UINT8,   NC_UINT16,   NC_UINT32, NC_UINT64};
    enum { N_STORAGES = sizeof storages / sizeof *storages };
    print_files();
    print_attention();
    print_attention_few();
    print_nbits();
    print_converts();
    print_gemv();
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < N_STORAGES; j++)
            if (nck_tile_compute(storages[j]) == computes[i]) print_lanes(computes[i], storages[j], storages[j]);
    for (int j = 0; j < N_STORAGES; j++) print_lanes(NC_DOUBLE, NC_FLOAT, storages[j]);
    print_lanes(NC_INT64, NC_INT64, NC_FLOAT16);
    return 0;
}
