/* base/text_test.c: growth, columns, remembered failure. */
#include "base/text.h"

#include "base/mem.h"
#include "tests/check.h"

#include <locale.h>
#include <stdio.h>

TEST(text_grows) {
    nc_text t = {0};
    CHECK(t.s == NULL);
    nc_text_add(&t, "");
    CHECK_STR(t.s, "");
    for (int i = 0; i < 1000; i++) nc_text_addf(&t, "%d,", i % 10);
    nc_text_add_n(&t, "abcdef", 3);
    CHECK_INT(t.n, 2003);
    CHECK_INT(strlen(t.s), 2003);
    CHECK_STR(t.s + 1996, "8,9,abc");
    CHECK(!t.failed);
    nc_text_release(&t);
    CHECK(t.s == NULL && t.n == 0 && t.cap == 0);
}

TEST(text_fills_its_capacity_exactly) {
    for (int n = 60; n < 70; n++) {
        nc_text t = {0};
        nc_text_addf(&t, "%*s", n, "x");
        CHECK(t.n < t.cap && strlen(t.s) == (size_t)n);
        nc_text_add(&t, "y");
        CHECK(strlen(t.s) == (size_t)n + 1);
        nc_text_release(&t);
    }
}

TEST(text_pads_to_columns) {
    nc_text t = {0};
    nc_text_pad(&t, 2);
    nc_text_add(&t, "long line\nab");
    nc_text_pad(&t, 5);
    nc_text_add(&t, "c");
    nc_text_pad(&t, 3);
    nc_text_add(&t, "d\n\xC3\xA9");
    nc_text_pad(&t, 3);
    nc_text_add(&t, "e");
    CHECK_STR(t.s, "  long line\nab   c d\n\xC3\xA9  e");
    nc_text_release(&t);
}

TEST(text_remembers_failure) {
    nc_text t = {0};
    nc_text_add(&t, "kept");
    nc_mem_fail_at(1);
    nc_text_addf(&t, "%500d", 1);
    nc_mem_fail_at(0);
    CHECK(t.failed);
    nc_text_add(&t, "ignored");
    nc_text_pad(&t, 90);
    CHECK_STR(t.s, "kept");
    nc_text_release(&t);
    CHECK(!t.failed);
}

/* A host program may have set a locale that writes 1,5. */
TEST(text_numbers_have_a_point_in_any_locale) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C"};
    char old[128], out[32], *end;
    snprintf(old, sizeof old, "%s", setlocale(LC_NUMERIC, NULL));
    for (size_t i = 0; i < 4 && !setlocale(LC_NUMERIC, names[i]); i++) {}
    const char *number = "1.5e3x";
    CHECK_NEAR(nc_text_to_double(number, &end), 1500, 0);
    CHECK_INT(end - number, 5);
    nc_text_of_double(out, sizeof out, 9, 0.25);
    CHECK_STR(out, "0.25");
    setlocale(LC_NUMERIC, old);
}

TEST(text_where_counts_lines_and_columns) {
    const char *text = "ab\n\ncd";
    int line, column;
    nc_text_where(text, text, &line, &column);
    CHECK_INT(line * 10 + column, 11);
    nc_text_where(text, text + 3, &line, &column); /* the empty line */
    CHECK_INT(line * 10 + column, 21);
    nc_text_where(text, text + 6, &line, &column); /* the end */
    CHECK_INT(line * 10 + column, 33);
}
