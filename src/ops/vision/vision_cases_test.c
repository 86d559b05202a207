/* ops/vision/vision_cases_test.c: the cases of the vision family (ops/cases.h), and known values: weights sum to one,
 * boxes that overlap. */
#include "ops/cases_testing.h"

#include "kernels/cpu/vision/resize.h"
#include "kernels/cpu/vision/sample.h"
#include "tests/graph_testing.h"

extern const nc_case nc_vision_cases[];

#define G "<opset: \"\" 22, \"nacre\" 1> g "
#define FIXED NC_CASE_NO_GRAD | NC_CASE_EXACT
/* "float [": stays float when the test makes the graph double. */
#define UP "<const float [4] s = {1, 1, 1.7, 2}> "
#define DOWN "<const float [4] s = {1, 1, 0.6, 0.5}> "
#define RESIZE(name, shape, scales, attrs) \
    { name, G "(float[" shape "] x) => (y) " scales "{ y = Resize<" attrs ">(x, , s) }", {{0, 0}}, 0 }

#define REGIONS_OF(t)                                                                                         \
    "const " t                                                                                                \
    "[3,4] r = {0.53, 1.07, 4.11, 5.02, -1.13, 0.04, 9.01, 3.2, 2.2, 3.1, 2.4, 3.3}, const int64[3] i = {1, " \
    "0, 1}"
#define REGIONS REGIONS_OF("float")
#define REGIONS16 REGIONS_OF("float16")

/* Places in pixels, and in -1..1, with both gradients of the first. */
#define AT(name, mode, padding, x, grid, y)                                                            \
    {                                                                                                  \
        "grid_sample_at_" name,                                                                        \
            G "(" x " x, " grid " g, " y " d) => (y, z, a, b) { y = nacre.GridSampleAt<mode = \"" mode \
              "\", padding_mode = \"" padding "\">(x, g) z = GridSample<mode = \"" mode                \
              "\", padding_mode = \"" padding "\">(x, g) a, b = nacre.GridSampleGrad<mode = \"" mode   \
              "\", padding_mode = \"" padding "\", pixels = 1>(x, g, d) }",                            \
            {{-2, 2}, {-3.3, 6.1}, {-2, 2}}, NC_CASE_NO_GRAD                                           \
    }

const nc_case nc_vision_cases[] = {
    RESIZE("resize_nearest", "1,2,5,n", UP, "mode = \"nearest\""),
    RESIZE("resize_nearest_rows", "2,3,4,8", "<const float [4] s = {1, 2, 1.5, 1}> ", "mode = \"nearest\""),
    RESIZE("resize_nearest_of_one_size", "2,3,4,5", "<const float [4] s = {1, 1, 1, 1}> ", "mode = \"nearest\""),
    RESIZE("resize_nearest_ceil", "1,2,5,7", DOWN, "nearest_mode = \"ceil\""),
    RESIZE("resize_linear", "1,2,5,n", UP, "mode = \"linear\""),
    RESIZE("resize_linear_corners", "2,1,5,7", UP,
           "mode = \"linear\", coordinate_transformation_mode = \"align_corners\""),
    RESIZE("resize_linear_down", "1,2,9,8", DOWN, "mode = \"linear\""),
    RESIZE("resize_linear_antialias", "1,2,9,8", DOWN, "mode = \"linear\", antialias = 1"),
    RESIZE("resize_cubic", "1,1,5,6", UP, "mode = \"cubic\""),
    RESIZE("resize_cubic_inside", "1,1,9,8", DOWN, "mode = \"cubic\", antialias = 1, exclude_outside = 1"),
    RESIZE("resize_five_axes", "2,3,2,3,2", "<const float [5] s = {1.5, 2, 0.6, 1.4, 2}>", "mode = \"linear\""),
    RESIZE("resize_nearest_five_axes", "2,3,2,3,2", "<const float [5] s = {1.5, 2, 0.6, 1.4, 2}>",
           "mode = \"nearest\""),
    RESIZE("resize_cubic_apart", "3,2,4", "<const float [3] s = {2, 1, 1.6}>", "mode = \"cubic\""),
    {"resize_sizes",
     G "(float[1,2,5,4] x) => (y) <const int64[2] z = {7, 3}> { y = Resize<mode = \"linear\", axes = [2, -1]>(x, , , "
       "z) }",
     {{0, 0}},
     0},
    {"resize_keeps_ratio",
     G "(float[1,2,5,4] x) => (y) <const int64[2] z = {9, 3}> { y = Resize<mode = \"linear\", axes = [2, 3], "
       "keep_aspect_ratio_policy = \"not_larger\">(x, , , z) }",
     {{0, 0}},
     0},
    {"resize_crop_turned",
     G "(float16[2,5,4] x) => (y) <const float[6] r = {0, 0.9, 0.2, 1, -0.2, 1.3}, const int64[3] z = {2, 3, 6}> { y = "
       "Resize<coordinate_transformation_mode = \"tf_crop_and_resize\", extrapolation_value = 7.0>(x, r, , z) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"resize_crop_cubic",
     G "(float[5,n] x) => (y) <const float[4] r = {0.8, 0.1, 0.1, 0.9}, const int64[2] z = {4, 6}> { y = "
       "Resize<mode = \"cubic\", coordinate_transformation_mode = \"tf_crop_and_resize\">(x, r, , z) }"},
    {"resize_crop",
     G "(float[4,5] x) => (y) <const float[4] r = {0.1, -0.2, 0.7, 0.9}, const int64[2] z = {3, 6}> { y = "
       "Resize<mode = \"linear\", coordinate_transformation_mode = \"tf_crop_and_resize\">(x, r, , z) }",
     {{0, 0}},
     0},
    {"resize_half",
     G "(float16[1,1,5,6] x) => (y) " UP "{ y = Resize<mode = \"linear\">(x, , s) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"resize_integers",
     G "(int32[1,1,5,6] x, int8[4,5] c) => (y, z) <const float [4] s = {1, 1, 1.7, 2}, const float [4] r = {0.1, -0.2, "
       "0.7, 0.9}, const int64[2] l = {3, 6}> { y = Resize<mode = \"cubic\">(x, , s) z = Resize<mode = \"linear\", "
       "coordinate_transformation_mode = \"tf_crop_and_resize\", extrapolation_value = 7.7>(c, r, , l) }",
     {{-90, 90}},
     FIXED},
    {"resize_bytes", G "(uint8[1,1,5,6] x) => (y) " UP "{ y = Resize<mode = \"linear\">(x, , s) }", {{0, 200}}, FIXED},
    {"resize_bool", G "(bool[1,1,5,6] x) => (y) " UP "{ y = Resize(x, , s) }", {{-1, 1}}, FIXED},
    {"resize_same",
     G "(float[2,3] x) => (y) <const float [2] s = {1, 1}> { y = Resize<mode = \"cubic\">(x, , s) }",
     {{0, 0}},
     0},
    {"resize_none",
     G "(float[2,3] x) => (y) <const float [2] s = {0.2, 1}> { y = Resize<mode = \"linear\">(x, , s) }",
     {{0, 0}},
     FIXED},
    {"upsample",
     "<opset: \"\" 9> g (float[1,1,3,n] x) => (y) <const float [4] s = {1, 1, 2, 3}> { y = Upsample(x, s) }",
     {{0, 0}},
     0},
    {"upsample_old",
     "<opset: \"\" 7> g (float[1,1,3,4] x) => (y) { y = Upsample<mode = \"linear\", scales = [1.0, 1.0, 2.0, 2.5]>(x) "
     "}",
     {{0, 0}},
     0},
    {"grid_sample", G "(float[2,3,4,5] x, float[2,3,n,2] g) => (y) { y = GridSample(x, g) }", {{-2, 2}, {-1.5, 1.5}}},
    {"grid_sample_cubic",
     G "(float[1,2,4,5] x, float[1,3,4,2] g) => (y) { y = GridSample<mode = \"cubic\", padding_mode = "
       "\"reflection\">(x, g) }",
     {{-2, 2}, {-1.5, 1.5}}},
    {"grid_sample_deep",
     G "(float[1,2,3,4,5] x, float[1,2,2,3,3] g) => (y) { y = GridSample<padding_mode = \"border\", align_corners = "
       "1>(x, g) }",
     {{-2, 2}, {-1.5, 1.5}}},
    {"grid_sample_half",
     G "(float16[1,2,4,5] x, float16[1,3,4,2] g) => (y) { y = GridSample(x, g) }",
     {{-2, 2}, {-1, 1}}},
    {"grid_sample_nearest",
     G "(float[1,2,4,5] x, float[1,0,4,2] g, float[1,3,4,2] h) => (y, z) { y = GridSample<mode = \"nearest\">(x, g) "
       "z = GridSample<mode = \"nearest\", padding_mode = \"reflection\", align_corners = 1>(x, h) }",
     {{-2, 2}, {-3, 3}},
     NC_CASE_NO_GRAD},
    {"grid_sample_grad",
     G "(float[2,3,4,5] x, float[2,3,4,2] g, float[2,3,3,4] d) => (a, b) { a, b = nacre.GridSampleGrad(x, g, d) }",
     {{-2, 2}, {-1.5, 1.5}, {-2, 2}},
     NC_CASE_NO_GRAD},
    {"grid_sample_grad_cubic",
     G "(double[1,2,4,5] x, double[1,3,4,2] g, double[1,2,3,4] d) => (a, b) { a, b = nacre.GridSampleGrad<mode = "
       "\"cubic\", padding_mode = \"border\", align_corners = 1>(x, g, d) }",
     {{-2, 2}, {-1.5, 1.5}, {-2, 2}},
     NC_CASE_NO_GRAD},
    AT("zeros", "linear", "zeros", "double[2,3,4,5]", "double[2,3,n,2]", "double[2,3,3,n]"),
    AT("border", "linear", "border", "float[2,9,4,5]", "float[2,3,4,2]", "float[2,9,3,4]"),
    AT("deep", "linear", "reflection", "bfloat16[2,3,4,5,3]", "bfloat16[2,3,4,2,3]", "bfloat16[2,3,3,4,2]"),
    AT("nearest", "nearest", "reflection", "float16[1,17,4,5]", "float16[1,3,4,2]", "float16[1,17,3,4]"),
    AT("cubic", "cubic", "reflection", "float[1,2,6,5]", "float[1,3,4,2]", "float[1,2,3,4]"),
    AT("cubic_deep", "cubic", "zeros", "float[1,2,3,4,5]", "float[1,2,2,3,3]", "float[1,2,2,2,3]"),
    AT("line", "cubic", "border", "double[2,2,9]", "double[2,7,1]", "double[2,2,7]"),
    AT("mixed", "linear", "zeros", "float16[2,3,4,5]", "float[2,3,4,2]", "float16[2,3,3,4]"),
    AT("nowhere", "linear", "zeros", "float[2,3,4,5]", "float[2,0,4,2]", "float[2,3,0,4]"),
    {"grid_sample_grad_many",
     G "(float[1,2,9,9] x, float[1,50,50,2] g, float[1,2,50,50] d) => (a, b) { a, b = nacre.GridSampleGrad(x, g, d) }",
     {{-2, 2}, {-1.5, 1.5}, {-1, 1}},
     NC_CASE_NO_GRAD},
    {"grid_sample_at_grad",
     G "(float[2,3,4,5] x, float[2,3,4,2] g) => (y) { y = nacre.GridSampleAt(x, g) }",
     {{-2, 2}, {0.1, 2.9}}},
    {"nms_in_pieces",
     G "(float [2,1300,2] a, float [2,1300,2] s, float [2,2,1300] p) => (y) <const int64[1] m = {900}, const float [1] "
       "o = "
       "{0.3}, const float [1] l = {0.1}> { e = Add(a, s) b = Concat<axis = 2>(a, e) y = NonMaxSuppression(b, p, m, o, "
       "l) "
       "}",
     {{0, 30}, {1, 4}, {0, 1}},
     FIXED},
    {"affine_grid_half",
     G "(float16[2,2,3] t) => (y) <const int64[4] s = {2, 1, 1, 5}> { y = AffineGrid<align_corners = 1>(t, s) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"affine_grid_empty",
     G "(float[2,2,3] t) => (y) <const int64[4] s = {2, 1, 0, 5}> { y = AffineGrid(t, s) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"affine_grid",
     G "(float[2,2,3] t) => (y) <const int64[4] s = {2, 1, 3, 4}> { y = AffineGrid(t, s) }",
     {{0, 0}},
     0},
    {"affine_grid_deep",
     G "(float[1,3,4] t) => (y) <const int64[5] s = {1, 1, 2, 3, 2}> { y = AffineGrid<align_corners = 1>(t, s) }",
     {{0, 0}},
     0},
    {"roi_align",
     G "(float[2,2,6,7] x) => (y) <const float[2,4] r = {0.53, 1.07, 4.11, 5.02, -1.13, 0.04, 9.01, 3.2}, const "
       "int64[2] b = {1, 0}> { y = RoiAlign<output_height = 2, output_width = 3, sampling_ratio = 2>(x, r, b) }",
     {{0, 0}}},
    {"roi_align_grad",
     G "(float[2,2,6,7] x, float[3,2,2,3] d) => (a, b) <" REGIONS "> { a, b = nacre.RoiAlignGrad<output_height = 2, "
       "output_width = 3, spatial_scale = 0.75>(x, r, i, d) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"roi_align_grad_planes",
     G "(double[2,18,6,7] x, double[3,18,2,3] d) => (a) <" REGIONS_OF(
         "double") "> { a = "
                   "nacre.RoiAlignGrad<output_height = 2, output_width = 3, sampling_ratio = 2>(x, r, i, d) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"roi_align_grad_max",
     G "(float16[2,2,6,7] x, float16[3,2,2,1] d) => (a, b) <" REGIONS16 "> { a, b = nacre.RoiAlignGrad<output_height = "
       "2, mode = \"max\", coordinate_transformation_mode = \"output_half_pixel\", sampling_ratio = 3>(x, r, i, d) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"roi_align_along",
     G "(float[2,2,6,7] x, float[2,2,6,7] u) => (a, b) <" REGIONS "> { a = nacre.RoiAlignAlong<output_width = 2>(x, r, "
       "i, u) b = nacre.RoiAlignAlong<output_width = 2, mode = \"max\">(x, r, i, u) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"roi_align_none",
     G "(float[1,2,6,7] x, float[0,4] r) => (y) <const int64[0] i = {}> { y = RoiAlign<output_height = 2>(x, r, i) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"max_roi_pool", G "(float[2,2,6,7] x) => (y) <const float[3,5] r = {0, 0, 0, 6, 5, 1, 1, 2, 4, 3, 0, 5, 5, 9, 9}> "
                       "{ y = MaxRoiPool<pooled_shape = [2, 3]>(x, r) }"},
    {"max_roi_pool_scale", G "(float[1,1,6,7] x) => (y) <const float[1,5] r = {0, 2, 2, 9, 11}> "
                             "{ y = MaxRoiPool<pooled_shape = [4, 2], spatial_scale = 0.5>(x, r) }"},
    {"max_roi_pool_half",
     G "(float16[1,2,4,4] x) => (y) <const float16[1,5] r = {0, 0, 0, 3, 3}> "
       "{ y = MaxRoiPool<pooled_shape = [2, 2]>(x, r) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"roi_align_max",
     G "(float[1,2,6,7] x) => (y) <const float[1,4] r = {0.53, 1.07, 4.11, 5.02}, const int64[1] b = {0}> "
       "{ y = RoiAlign<output_height = 2, mode = \"max\">(x, r, b) }",
     {{0, 0}}},
    {"non_max_suppression_many",
     "<opset: \"\" 22> g (float [1,300,4] b, float [1,2,300] s) => (y) <const int64[1] m = {1000}, const float [1] t = "
     "{0.1}, const float [1] u = {0.2}> { y = NonMaxSuppression<center_point_box = 1>(b, s, m, t, u) }",
     {{0, 1}},
     NC_CASE_NO_GRAD},
    {"non_max_suppression_none",
     "<opset: \"\" 22> g (float [2,0,4] b, float [2,1,0] s, float [1,3,4] c, float [1,2,3] t) => (y, z) "
     "<const int64[1] m = {4}> { y = NonMaxSuppression(b, s, m) z = NonMaxSuppression(c, t) }",
     {{0, 1}},
     NC_CASE_NO_GRAD},
    {"non_max_suppression",
     "<opset: \"\" 22> g (float [2,9,4] b, float [2,3,9] s) => (y) <const int64[1] m = {4}, const float [1] t = {0.3}> "
     "{ y = NonMaxSuppression(b, s, m, t) }",
     {{0, 1}},
     NC_CASE_NO_GRAD},
    {0}};

TEST(vision_values) { nc_cases_check_values(nc_vision_cases); }
TEST(vision_isas) { nc_cases_check_isas(nc_vision_cases); }
TEST(vision_gradients) { nc_cases_check_gradients(nc_vision_cases); }

TEST(resize_weights_sum_to_one) {
    static double memory[4096];
    for (int mode = 0; mode < 3; mode++)
        for (int coords = 0; coords < 5; coords++)
            for (int anti = 0; anti < 2; anti++) {
                nck_resize_rule rule = {.mode = (nck_resize_mode)mode,
                                        .coords = (nck_resize_coords)coords,
                                        .antialias = anti != 0,
                                        .cubic_a = -0.75,
                                        .exclude_outside = anti != 0};
                nck_resize_axis a = {.in = 11, .out = 4, .scale = 4.2 / 11};
                CHECK(nck_resize_table_bytes(a.in, a.out) <= sizeof memory);
                nck_resize_table(&rule, &a, memory);
                for (int64_t i = 0; i < a.out; i++) {
                    double sum = 0;
                    for (int k = 0; k < a.taps; k++) {
                        sum += a.weight[i * a.taps + k];
                        CHECK(a.index[i * a.taps + k] >= 0 && a.index[i * a.taps + k] < a.in);
                    }
                    CHECK_CLOSE(sum, 1, nc_tol_kernel_f64);
                }
            }
}

TEST(non_max_suppression_keeps_the_better_of_two) {
    float boxes[12] = {0, 0, 1, 1, 1, 1.1f, 0, 0.1f, 0, 5, 1, 6}, scores[3] = {0.5f, 0.9f, NAN};
    int64_t kept[3], work[24];
    REQUIRE(nck_nms_workspace(3) <= sizeof work);
    nck_nms s = {.iou = 0.5f, .n = 3, .max = 3, .boxes = boxes, .scores = scores};
    CHECK_INT(nck_nms_run(&s, kept, work), 2);
    CHECK(kept[0] == 2 && kept[1] == 1);
    s.has_threshold = true;
    s.threshold = 0.6f;
    CHECK_INT(nck_nms_run(&s, kept, work), 1);
    CHECK_INT(kept[0], 1);
    s.max = 0;
    CHECK_INT(nck_nms_run(&s, kept, work), 0);
}

/* The share of two boxes of corners that both cover. */
static float iou_of(const float *a, const float *b) {
    float h = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), w = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
    float both = h > 0 && w > 0 ? h * w : 0;
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both);
}

/* Every pick is the best one left that none before it covers; equal scores go by place. */
TEST(non_max_suppression_of_many) {
    enum { N = 300 };
    static float boxes[N * 4], scores[N];
    static int64_t kept[N], work[N * 8];
    uint32_t seed = 5;
    REQUIRE(nck_nms_workspace(N) <= sizeof work);
    for (int i = 0; i < N * 4; i++) {
        seed = seed * 1664525u + 1013904223u;
        boxes[i] = (float)(seed >> 24) / 16 + (i % 4 >= 2 ? boxes[i - 2] + 1 : 0);
        scores[i / 4] = (float)(seed >> 27) / 32;
    }
    for (int64_t max = 1; max <= N; max += 23) {
        nck_nms s = {.iou = 0.3f, .n = N, .max = max, .boxes = boxes, .scores = scores};
        s.has_threshold = max % 2 == 0, s.threshold = 0.25f;
        bool gone[N] = {false};
        int64_t found = nck_nms_run(&s, kept, work), n = 0;
        for (;; n++) {
            int64_t best = -1;
            for (int64_t i = 0; i < N; i++)
                if (!gone[i] && (best < 0 || scores[i] > scores[best])) best = i;
            if (n == max || best < 0 || (s.has_threshold && !(scores[best] > s.threshold))) break;
            REQUIRE(n < found && kept[n] == best);
            for (int64_t i = 0; i < N; i++) gone[i] |= i == best || iou_of(boxes + 4 * best, boxes + 4 * i) > s.iou;
        }
        CHECK_INT(found, n);
    }
}

TEST(vision_types) {
    CHECK_INFERS(G "(float[n,c,h,w] x) => (y) <const float [4] s = {1, 1, 2, 0.5}> { y = Resize(x, , s) }",
                 "float[n,c,2*h,floor(w/2)]");
    CHECK_INFERS(G "(float[n,c,h,w] x) => (y) <const float[3] s = {1, 1, 2}> { y = Resize(x, , s) }",
                 "scales has 3 elements, expected 4");
    CHECK_INFERS(G "(float[n,c,h,w] x, float[n,a,b,2] g) => (y) { y = GridSample(x, g) }", "float[n,c,a,b]");
    CHECK_INFERS(G "(float[n,c,h,w] x, float[n,a,b,3] g) => (y) { y = GridSample(x, g) }",
                 "grid has 3 numbers per place, expected 2");
}

/* Axes behind those that change move as one: 16 and 8 floats, as blocks of channels are, and other sizes. */
TEST(resize_nearest_moves_blocks) {
    int64_t down[] = {0, 0, 1, 2, 2}, across[] = {3, 0, 1, 1};
    static const int64_t blocks[] = {16, 8, 5, 1};
    for (int i = 0; i < 4; i++) {
        int64_t b = blocks[i];
        float from[2 * 3 * 4 * 16], to[2 * 5 * 4 * 16];
        for (int k = 0; k < 2 * 3 * 4 * 16; k++) from[k] = (float)k;
        nc_tensor x = {.dtype = NC_FLOAT, .rank = 4, .dims = {2, 3, 4, b}, .data = from};
        nc_tensor y = {.dtype = NC_FLOAT, .rank = 4, .dims = {2, 5, 4, b}, .data = to};
        nck_resize_axis axes[] = {{.axis = 1, .in = 3, .out = 5, .taps = 1, .index = down},
                                  {.axis = 2, .in = 4, .out = 4, .taps = 1, .index = across}};
        nck_resize_nearest(&x, axes, 2, &y, NULL);
        for (int64_t k = 0; k < 2 * 5 * 4 * b; k++) {
            int64_t n = k / (20 * b), r = k / (4 * b) % 5, c = k / b % 4;
            CHECK(to[k] == (float)(((n * 3 + down[r]) * 4 + across[c]) * b + k % b));
        }
    }
}
