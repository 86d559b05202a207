/* lanes/lanes.c: the table of lane facts and the search by name. Holds no formula: those are macros in the headers
 * beside it, made into code by the tile machine (cpu/), CUDA source and graph builders. */
#include "kernels/lanes/lanes.h"

#include <stddef.h>
#include <string.h>

#define GRAD_ROW(name_, n_param_) \
    [NCK_LANE_##name_##_grad] = {.name = #name_ "_grad", .n_in = 2, .n_param = n_param_, .kinds = 'F', .grad = -1},
#define GRAD_NONE(name, n_param)
#define GRAD_X(name, n_param) GRAD_ROW(name, n_param)
#define GRAD_Y(name, n_param) GRAD_ROW(name, n_param)
#define GRAD_OF_NONE(name)    -1
#define GRAD_OF_X(name)       NCK_LANE_##name##_grad
#define GRAD_OF_Y(name)       NCK_LANE_##name##_grad

static const nck_lane_info table[NCK_N_LANES] = {
#define UNARY(name_, n_param_, kinds_, uses_)                                                       \
    [NCK_LANE_##name_] = {.name = #name_, .n_in = 1, .n_param = n_param_, .kinds = #kinds_[0],       \
                          .uses = NCK_USES_##uses_, .diff = NCK_USES_##uses_ != NCK_USES_NONE,       \
                          .grad = GRAD_OF_##uses_(name_)},                                           \
    GRAD_##uses_(name_, n_param_)
#define BINARY(name_, n_param_, kinds_, diff_)                                                      \
    [NCK_LANE_##name_] = {.name = #name_, .n_in = 2, .n_param = n_param_, .kinds = #kinds_[0],       \
                          .diff = diff_, .grad = -1},
#define TERNARY(name_, kinds_) \
    [NCK_LANE_##name_] = {.name = #name_, .n_in = 3, .kinds = #kinds_[0], .grad = -1},
#include "kernels/lanes/lanes.list"
#undef UNARY
#undef BINARY
#undef TERNARY
};

const nck_lane_info *nck_lane_get(int lane) {
    return lane >= 0 && lane < NCK_N_LANES ? &table[lane] : NULL;
}

int nck_lane_find(const char *name) {
    for (int i = 0; i < NCK_N_LANES; i++)
        if (strcmp(table[i].name, name) == 0) return i;
    return -1;
}
