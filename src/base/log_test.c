/* base/log_test.c: levels, sinks, long messages. */
#include "base/log.h"

#include "tests/check.h"

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
