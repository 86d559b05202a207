/* The tile program of an optimizer's step against its formulas: both forms of Adam, SGD with momentum and without, all
 * storage types, odd sizes, in place, with NaN and infinities; and the same bits for any number of threads and on every
 * instruction set. */
#include "kernels/cpu/optim/optim.h"

#include "kernels/cpu/isa_testing.h"
#include "tests/check.h"
#include "tests/tolerances.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 70001 };

typedef struct one {
    double room[4][MOST]; /* w m v g, of the widest type */
    nc_tensor t[4];
} one;

static void fill(one *o, int64_t n, const nc_dtype *types) {
    for (int k = 0; k < 4; k++) {
        nc_tensor_set(&o->t[k], o->room[k], types[k], 1);
        o->t[k].dims[0] = n, o->t[k].strides[0] = 1;
        for (int64_t i = 0; i < n; i++) {
            double x = sin((double)(i * 7 + k)) * (k == 2 ? 0.01 : 1);
            if (k == 2) x = fabs(x);
            if (i == 5 && k == 3) x = NAN;
            if (i == 6 && k == 3) x = INFINITY;
            switch (types[k]) {
            case NC_DOUBLE: ((double *)o->t[k].data)[i] = x; break;
            case NC_FLOAT16: ((uint16_t *)o->t[k].data)[i] = nc_f32_to_f16((float)x); break;
            case NC_BFLOAT16: ((uint16_t *)o->t[k].data)[i] = nc_f32_to_bf16((float)x); break;
            default: ((float *)o->t[k].data)[i] = (float)x; break;
            }
        }
    }
}

static nck_optim_tensors in_place(one *o) {
    return (nck_optim_tensors){.w = &o->t[0],
                               .m = &o->t[1],
                               .v = &o->t[2],
                               .g = &o->t[3],
                               .new_w = &o->t[0],
                               .new_m = &o->t[1],
                               .new_v = &o->t[2]};
}

static double at(const nc_tensor *t, int64_t i) {
    switch (t->dtype) {
    case NC_DOUBLE: return ((const double *)t->data)[i];
    case NC_FLOAT16: return (double)nc_f16_to_f32(((const uint16_t *)t->data)[i]);
    case NC_BFLOAT16: return (double)nc_bf16_to_f32(((const uint16_t *)t->data)[i]);
    default: return (double)((const float *)t->data)[i];
    }
}

static void compare(const one *got, const one *want, int64_t n) {
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < n; i++) {
            double g = at(&got->t[k], i), w = at(&want->t[k], i);
            switch (got->t[k].dtype) {
            case NC_DOUBLE: CHECK_CLOSE(g, w, nc_tol_op_f64); break;
            case NC_FLOAT16: CHECK_CLOSE(g, w, nc_tol_op_f16); break;
            case NC_BFLOAT16: CHECK_CLOSE(g, w, nc_tol_op_bf16); break;
            default: CHECK_CLOSE(g, w, nc_tol_op_f32); break;
            }
        }
}

static one a, b;

static const nck_optim_rule rules[] = {
    {.adam = true, .correct_bias = true, .alpha = 0.9, .beta = 0.999, .epsilon = 1e-8, .decay = 0.01},
    {.adam = true, .decay_last = true, .correct_bias = true, .alpha = 0.8, .beta = 0.99, .epsilon = 1e-6, .decay = 0.1},
    {.adam = true, .decay_last = true, .alpha = 0.8, .beta = 0.99, .epsilon = 1e-6},
    {.momentum = true, .alpha = 0.9, .dampening = 0.25, .decay = 0.02},
    {.momentum = true, .nesterov = true, .alpha = 0.8},
    {.adam = false}};

TEST(optimizer_step_as_its_formulas) {
    static const nc_dtype types[][4] = {{NC_FLOAT, NC_FLOAT, NC_FLOAT, NC_FLOAT},
                                        {NC_DOUBLE, NC_DOUBLE, NC_DOUBLE, NC_DOUBLE},
                                        {NC_FLOAT16, NC_FLOAT, NC_FLOAT, NC_FLOAT16},
                                        {NC_BFLOAT16, NC_FLOAT, NC_FLOAT, NC_FLOAT}};
    static const int64_t sizes[] = {0, 1, 7, 33, 4097};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
            for (size_t s = 0; s < 2 * sizeof sizes / sizeof sizes[0]; s++) {
                nck_optim_args args = {.rule = &rules[r], .rate = 0.05, .step = s % 2 ? 3 : 1, .scale = 0.5};
                fill(&a, sizes[s / 2], types[t]), fill(&b, sizes[s / 2], types[t]);
                nck_optim_tensors ta = in_place(&a), tb = in_place(&b);
                nck_optim_step(&args, &ta, NULL);
                nck_optim_ref(&args, &tb);
                compare(&a, &b, sizes[s / 2]);
            }
}

TEST(optimizer_step_of_any_number_of_threads) {
    static const nc_dtype types[4] = {NC_FLOAT, NC_FLOAT, NC_FLOAT, NC_FLOAT};
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        nck_optim_args args = {.rule = &rules[r], .rate = 0.05, .step = 1, .scale = 1};
        fill(&a, MOST, types), fill(&b, MOST, types);
        nck_optim_tensors ta = in_place(&a), tb = in_place(&b);
        nck_optim_step(&args, &ta, NULL);
        nck_optim_step(&args, &tb, pool);
        for (int k = 0; k < 3; k++) CHECK(memcmp(a.t[k].data, b.t[k].data, MOST * sizeof(float)) == 0);
    }
    nc_pool_destroy(pool);
}

TEST(optimizer_step_has_the_same_bits_on_every_instruction_set) {
    static const nc_dtype types[4] = {NC_FLOAT, NC_FLOAT, NC_FLOAT, NC_FLOAT};
    static const int64_t sizes[] = {1, 3, 4, 21, 1000};
    for (size_t r = 0; rules[r].adam; r++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            nck_optim_args args = {.rule = &rules[r], .rate = 0.05, .step = 2, .scale = 0.5};
            CHECK(nck_isa_set_for_test("portable"));
            fill(&a, sizes[s], types);
            nck_optim_tensors ta = in_place(&a);
            nck_optim_step(&args, &ta, NULL);
            for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, optim)) {
                CHECK(nck_isa_set_for_test(nck_isa_at(i)->name));
                fill(&b, sizes[s], types);
                nck_optim_tensors tb = in_place(&b);
                nck_optim_step(&args, &tb, NULL);
                for (int k = 0; k < 3; k++)
                    CHECK(memcmp(a.t[k].data, b.t[k].data, (size_t)sizes[s] * sizeof(float)) == 0);
            }
        }
    CHECK(nck_isa_set_for_test(NULL));
}
