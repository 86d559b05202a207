/* Room of variables: sizes that no machine has. */
#include "run/state.h"

#include "tests/check.h"

TEST(variable_of_more_than_a_power_of_two_that_fits_is_refused) {
    nc_work w;
    nc_work_init(&w);
    nc_state_var v = {.name = "v", .device = nc_device_cpu(), .dtype = NC_FLOAT, .rank = 1, .grow_axis = 0, .cap = 1};
    static const int64_t sizes[] = {INT64_MAX / 2 + 1, INT64_MAX / 2 + 2, INT64_MAX - 1, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        w.diag = (nc_diag){.code = NC_OK};
        CHECK_INT(nc_state_reserve(&w, &v, &sizes[i]), NC_E_LIMIT);
        CHECK(v.buffer == NULL);
    }
    nc_work_release(&w);
}
