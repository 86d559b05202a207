/* tests/plugins/meet.c: two custom ops that show what runs do at once. Meet waits until a second call of it is in
 * progress and gives how many it saw: 2, or 1 when none came in ten seconds. Wait ends only when its run is cancelled,
 * or after a minute. Neither touches Python. */
#include "add.h"

#include <stdatomic.h>
#include <time.h>

static atomic_int present;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static nacre_code give(nacre_op_call *c, const nacre_op_api *api, float v) {
    nacre_op_tensor y;
    nacre_code code = api->output(c, 0, NACRE_FLOAT, 1, &(int64_t){1}, &y);
    if (code == NACRE_OK) *(float *)y.data = v;
    return code;
}

static nacre_code meet(void *user, nacre_op_call *c, const nacre_op_api *api) {
    (void)user;
    int most = 0;
    atomic_fetch_add(&present, 1);
    for (int i = 0; i < 10000 && most < 2; i++) {
        int now = atomic_load(&present);
        if (now > most) most = now;
        nap();
    }
    for (int i = 0; i < 50; i++) nap(); /* stays until the other has seen it */
    atomic_fetch_sub(&present, 1);
    return give(c, api, (float)most);
}

static nacre_code wait_for_cancel(void *user, nacre_op_call *c, const nacre_op_api *api) {
    (void)user;
    for (int i = 0; i < 60000; i++) {
        if (api->cancelled(c)) return api->fail(c, NACRE_CANCELLED, "cancelled while it waited");
        nap();
    }
    return give(c, api, 0);
}

nacre_code nacre_plugin_register(nacre_plugin_host *host) {
    nacre_code code = add_op(host, "test.meet", "Meet", 1, meet);
    return code == NACRE_OK ? add_op(host, "test.meet", "Wait", 1, wait_for_cancel) : code;
}
