/* device/budget.c: charging and giving back. The peak is the highest sum that was ever charged. */
#include "device/budget.h"

#include "base/mem.h"

nc_budget *nc_budget_create(size_t limit) {
    nc_budget *b = nc_alloc_zero(1, sizeof *b);
    if (b == NULL) return NULL;
    atomic_init(&b->refs, 1);
    b->limit = limit;
    return b;
}

nc_budget *nc_budget_ref(nc_budget *b) {
    if (b != NULL) atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void nc_budget_unref(nc_budget *b) {
    if (b != NULL && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1) nc_free(b);
}

nc_code nc_budget_take(nc_budget *b, size_t bytes, nc_diag *diag) {
    if (b == NULL) return NC_OK;
    size_t live = atomic_load(&b->live), most = b->limit ? b->limit : SIZE_MAX;
    do {
        if (bytes > most || live > most - bytes)
            return nc_diag_set(diag, NC_E_LIMIT, NULL, NULL,
                               "the session's memory limit is %zu bytes: %zu wanted, %zu in use, %zu left", most, bytes,
                               live, most > live ? most - live : 0);
    } while (!atomic_compare_exchange_weak(&b->live, &live, live + bytes));
    size_t now = live + bytes, peak = atomic_load(&b->peak);
    while (peak < now && !atomic_compare_exchange_weak(&b->peak, &peak, now)) {}
    return NC_OK;
}

void nc_budget_give(nc_budget *b, size_t bytes) {
    if (b != NULL) atomic_fetch_sub(&b->live, bytes);
}
