/* base/log_test.c: levels, sinks, long messages. */
#include "base/log.h"

#include "tests/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

typedef struct heard {
    int n;
    nc_log_level level;
    size_t length;
    char text[64];
} heard;

static void hear(void *user, nc_log_level level, const char *text) {
    heard *h = user;
    h->n++;
    h->level = level;
    h->length = strlen(text);
    snprintf(h->text, sizeof h->text, "%.60s", text);
    if (h->n == 1) nc_log(NC_LOG_ERROR, "from inside the sink");
}

TEST(log_filters_by_level) {
    heard h = {.n = 1};
    nc_log_set_sink(hear, &h);
    nc_log(NC_LOG_INFO, "below the default");
    CHECK_INT(h.n, 1);
    nc_log(NC_LOG_WARNING, "w%d", 1);
    CHECK(h.n == 2 && h.level == NC_LOG_WARNING);
    CHECK_STR(h.text, "w1");
    nc_log_set_level(NC_LOG_VERBOSE);
    nc_log(NC_LOG_VERBOSE, "v");
    CHECK_INT(h.n, 3);
    nc_log_set_level(NC_LOG_OFF);
    nc_log(NC_LOG_ERROR, "e");
    nc_log(NC_LOG_OFF, "no level of a message");
    CHECK_INT(h.n, 3);
    nc_log_set_level(NC_LOG_WARNING);
    nc_log_set_sink(NULL, NULL);
}

typedef struct counted {
    atomic_int n_a, n_b, n_bad;
    atomic_bool stop;
} counted;

static void count_a(void *user, nc_log_level level, const char *text) {
    counted *c = user;
    atomic_fetch_add(&c->n_a, 1);
    if (level != NC_LOG_WARNING || strncmp(text, "from ", 5) != 0) atomic_fetch_add(&c->n_bad, 1);
}

static void count_b(void *user, nc_log_level level, const char *text) {
    (void)level, (void)text;
    atomic_fetch_add(&((counted *)user)->n_b, 1);
}

static void *talk(void *arg) {
    counted *c = arg;
    for (int i = 0; i < 3000 || !atomic_load(&c->stop); i++) nc_log(NC_LOG_WARNING, "from %d", i);
    return NULL;
}

/* Messages of several threads while level and sink change: whole, at the level they were sent with, and none after all
 * have ended. */
TEST(log_level_and_sink_change_while_others_log) {
    counted c = {0};
    pthread_t t[3];
    nc_log_set_sink(count_a, &c);
    for (int i = 0; i < 3; i++) REQUIRE(pthread_create(&t[i], NULL, talk, &c) == 0);
    for (int i = 0; i < 300; i++) {
        nc_log_set_level(i % 2 ? NC_LOG_WARNING : NC_LOG_ERROR);
        nc_log_set_sink(i % 3 ? count_a : count_b, &c);
    }
    nc_log_set_level(NC_LOG_WARNING);
    nc_log_set_sink(count_a, &c);
    while (atomic_load(&c.n_a) == 0) sched_yield();
    atomic_store(&c.stop, true);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    CHECK_INT(c.n_bad, 0);
    nc_log_set_sink(NULL, NULL);
    int heard_all = c.n_a + c.n_b;
    nc_log_set_level(NC_LOG_OFF);
    nc_log(NC_LOG_WARNING, "to nobody");
    nc_log_set_level(NC_LOG_WARNING);
    CHECK_INT(c.n_a + c.n_b, heard_all);
}

TEST(log_sink_may_log_and_long_text_is_cut) {
    heard h = {0};
    nc_log_set_sink(hear, &h);
    nc_log(NC_LOG_ERROR, "outer");
    CHECK_INT(h.n, 2);
    CHECK_STR(h.text, "from inside the sink");
    nc_log(NC_LOG_ERROR, "%*d", 100000, 1);
    CHECK(h.length > 1000 && h.length < 100000);
    nc_log_set_sink(NULL, NULL);
}

TEST(log_scope_has_its_own_level_and_name) {
    heard h = {.n = 1};
    nc_log_set_sink(hear, &h);
    nc_log_scope outer = nc_log_enter((nc_log_scope){.has_level = true, .level = NC_LOG_INFO, .id = "mine"});
    nc_log(NC_LOG_INFO, "i");
    CHECK_STR(h.text, "[mine] i");
    nc_log_scope inner = nc_log_enter((nc_log_scope){.has_level = true, .level = NC_LOG_OFF});
    nc_log(NC_LOG_ERROR, "e");
    CHECK_INT(h.n, 2);
    nc_log_enter(inner);
    nc_log(NC_LOG_VERBOSE, "v");
    CHECK_INT(h.n, 2);
    nc_log_enter(outer);
    nc_log(NC_LOG_INFO, "below the level of the process");
    CHECK_INT(h.n, 2);
    nc_log(NC_LOG_WARNING, "w");
    CHECK_STR(h.text, "w");
    nc_log_set_sink(NULL, NULL);
}
