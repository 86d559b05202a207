/* cuda/text_test.c: the texts as they lie in the library, and the source that a program becomes. That NVRTC compiles
 * them is tests/py/test_cuda_text.py; that they compute right is ops/cuda_test.c. */
#include "kernels/cuda/chain.h"
#include "tests/check.h"

TEST(cuda_texts_are_whole) {
    for (int i = 0; i < NCK_CUDA_N_TEXTS; i++) {
        const char *s = nck_cuda_text_get((nck_cuda_text)i);
        size_t n = strlen(s);
        CHECK(n > 100 && strstr(s, "/*") == NULL && strstr(s, "*/") == NULL && s[n - 1] == '\n');
        CHECK(strstr(nck_cuda_text_name((nck_cuda_text)i), " ") == NULL);
    }
}

TEST(cuda_types) {
    CHECK_STR(nck_cuda_type_name(NC_BFLOAT16), "bf16");
    CHECK_INT(nck_cuda_accumulator(NC_BFLOAT16), NC_FLOAT);
    CHECK_INT(nck_cuda_accumulator(NC_INT8), NC_INT64);
    CHECK(nck_cuda_type_name(NC_STRING) == NULL && nck_cuda_type_name((nc_dtype)-1) == NULL);
    CHECK_INT(nck_cuda_accumulator(NC_STRING), NC_UNDEFINED);
}

TEST(cuda_text_join_defines_types) {
    nc_text s = {0};
    nck_cuda_text_join(&s, NCK_CUDA_TEXT_dropout, NC_FLOAT16, "#define MORE\n");
    CHECK(strstr(s.s, "#define S f16\n#define A float\n#define MORE\n") != NULL);
    CHECK(strstr(s.s, "nck_philox4(uint64_t seed") != NULL);
    nc_text_release(&s);
}

/* What an inference compiles of norms is without their gradients. */
TEST(cuda_gradients_of_norms_are_a_text_of_their_own) {
    nc_text s = {0};
    nck_cuda_text_join(&s, NCK_CUDA_TEXT_norm, NC_FLOAT16, NULL);
    CHECK(strstr(s.s, "norm_rows") != NULL && strstr(s.s, "BEGINS_EARLY") != NULL && strstr(s.s, "grad") == NULL);
    nc_text_release(&s);
    nck_cuda_text_join(&s, NCK_CUDA_TEXT_norm_grad, NC_FLOAT16, NULL);
    CHECK(strstr(s.s, "norm_grad_rows") != NULL && strstr(s.s, "norm_vectors") == NULL);
    nc_text_release(&s);
}

TEST(cuda_chain_source) {
    static const uint16_t out_reg[] = {3};
    nck_tile_op ops[] = {{.lane = NCK_LANE_add, .dst = 2, .src = {0, 1}},
                         {.lane = NCK_LANE_tanh_grad, .dst = 3, .src = {2, 0}},
                         {.lane = NCK_LANE_leaky_relu, .dst = 3, .src = {3}, .param = {0.5}}};
    nck_tile_prog p = {
        .compute = NC_FLOAT, .n_in = 2, .n_out = 1, .n_reg = 4, .n_op = 3, .op = ops, .out_reg = out_reg};
    nc_dtype types[] = {NC_FLOAT, NC_FLOAT16, NC_BFLOAT16};
    nc_text s = {0};
    REQUIRE(nck_tile_check(&p) && nck_cuda_chain_source(&s, &p, types, 3));
    CHECK(strstr(s.s, "r[1] = to<L_T>::put(get(((const f16 *)c.data[1])[at[1]]));") != NULL);
    CHECK(strstr(s.s, "    r[2] = LANE_add(r[0], r[1]);\n") != NULL);
    CHECK(strstr(s.s, "    r[3] = L_MUL(r[2], LANE_tanh_D(r[0]));\n") != NULL);
    CHECK(strstr(s.s, "LANE_leaky_relu(r[3], L_K(__longlong_as_double(0x3fe0000000000000ll)));\n") != NULL);
    CHECK(strstr(s.s, "((bf16 *)c.data[2])[at[2]] = to<bf16>::put(r[3]);") != NULL);
    nc_text_release(&s);
    types[1] = NC_STRING;
    CHECK(!nck_cuda_chain_source(&s, &p, types, 3));
}

TEST(cuda_needs_a_compiler) {
    nc_diag diag = {0};
    nc_function *f = NULL;
    CHECK_INT(nck_cuda_find(NULL, NCK_CUDA_TEXT_copy, NC_FLOAT, NULL, "copy", &f, &diag), NC_E_DEVICE);
    CHECK(strstr(diag.text, "copy") != NULL);
}

/* The struct that launchers fill is the one that kernels read. */
TEST(cuda_walks_have_room_for_any_rank) {
    char line[32];
    snprintf(line, sizeof line, "#define MAX_RANK %d\n", NC_MAX_RANK);
    CHECK(strstr(nck_cuda_text_get(NCK_CUDA_TEXT_common), line) != NULL);
    int64_t dims[NC_MAX_RANK], strides[NC_MAX_RANK], turned[NC_MAX_RANK];
    for (int d = 0; d < NC_MAX_RANK; d++) dims[d] = d % 4 == 3 ? 2 : 1;
    nc_dense_strides(dims, NC_MAX_RANK, strides);
    for (int d = 0; d < NC_MAX_RANK; d++) turned[d] = strides[NC_MAX_RANK - 1 - d];
    nck_cuda_walk w = nck_cuda_walk_of(NC_MAX_RANK, dims, strides, turned);
    CHECK(w.rank == 16 && w.dims[15] == 2 && w.strides[0][15] == 1 && w.strides[0][0] == 1 << 15);
}

/* An elementwise op of three operands runs at any rank; many operands at few dims only. */
TEST(cuda_chains_fit_one_launch) {
    static const nck_tile_op op = {.lane = NCK_LANE_where, .dst = 3, .src = {0, 1, 2}};
    static const uint16_t out[] = {3};
    nck_tile_prog p = {.compute = NC_FLOAT, .n_in = 3, .n_out = 1, .n_reg = 4, .n_op = 1, .op = &op, .out_reg = out};
    nc_dtype types[] = {NC_BOOL, NC_FLOAT, NC_FLOAT, NC_FLOAT};
    nc_text s = {0};
    CHECK(nck_cuda_chain_source(&s, &p, types, NC_MAX_RANK) && strstr(s.s, "#define RANK 64\n") != NULL);
    nc_text_release(&s);
    CHECK(nck_cuda_chain_holds(13, 32) && !nck_cuda_chain_holds(13, 64));
    CHECK(nck_cuda_chain_holds(33, 12) && !nck_cuda_chain_holds(33, 16) && !nck_cuda_chain_holds(34, 1));
}

TEST(cuda_walks_merge) {
    int64_t dims[] = {2, 3, 1, 4}, dense[] = {12, 4, 4, 1}, turned[] = {1, 2, 6, 6};
    nck_cuda_walk w = nck_cuda_walk_of(4, dims, dense, NULL);
    CHECK(w.rank == 1 && w.dims[0] == 24 && w.strides[0][0] == 1);
    w = nck_cuda_walk_of(4, dims, dense, turned);
    CHECK(w.rank == 3 && w.dims[2] == 4 && w.strides[0][2] == 1 && w.strides[1][2] == 6);
    w = nck_cuda_walk_of(0, dims, dense, turned);
    CHECK(w.rank == 1 && w.dims[0] == 1);
}
