/* base/json_test.c: what a tree holds, strings there and back, and texts that are refused with their place. */
#include "base/json.h"

#include "base/mem.h"
#include "tests/check.h"

TEST(json_tree) {
    nc_work w;
    nc_work_init(&w);
    nc_json *v = NULL;
    const char *text = " {\"a\": [1, -2.5e1, true, null], \"b\\u00e9\\ud83d\\ude00\": \"x\\n\\\"\\\\/\", \"c\": {}, "
                       "\"big\": 9223372036854775808, \"low\": -9223372036854775808} ";
    REQUIRE(nc_json_parse(&w, &w.scratch, text, strlen(text), &v) == NC_OK);
    CHECK_INT(v->n, 5);
    const nc_json *a = nc_json_get(v, "a");
    REQUIRE(a && a->kind == NC_JSON_LIST && a->n == 4);
    CHECK(a->first->is_int && a->first->i == 1);
    CHECK(!a->first->next->is_int && a->first->next->d == -25);
    CHECK(a->first->next->next->kind == NC_JSON_BOOL && a->first->next->next->i == 1);
    CHECK(a->first->next->next->next->kind == NC_JSON_NULL);
    const nc_json *b = nc_json_get(v, "b\xC3\xA9\xF0\x9F\x98\x80");
    REQUIRE(b);
    CHECK_STR(b->s, "x\n\"\\/");
    CHECK(nc_json_get(v, "c")->kind == NC_JSON_OBJECT && !nc_json_get(v, "c")->first);
    CHECK(!nc_json_get(v, "big")->is_int && nc_json_get(v, "big")->d == 9223372036854775808.0);
    CHECK(nc_json_get(v, "low")->is_int && nc_json_get(v, "low")->i == INT64_MIN);
    CHECK(!nc_json_get(v, "d") && !nc_json_get(a, "a"));
    nc_work_release(&w);
}

TEST(json_strings_there_and_back) {
    nc_work w;
    nc_work_init(&w);
    nc_text out = {0};
    nc_json *v = NULL;
    const char *s = "a\"b\\c\x01\n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
    CHECK(nc_json_put_string(&out, s));
    REQUIRE(nc_json_parse(&w, &w.scratch, out.s, out.n, &v) == NC_OK);
    CHECK_STR(v->s, s);
    size_t before = out.n;
    static const char *const wrong[] = {"\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xFF"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) CHECK(!nc_json_put_string(&out, wrong[i]));
    CHECK_INT(out.n, before);
    nc_text_release(&out);
    nc_work_release(&w);
}

TEST(json_refuses_with_the_place) {
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "a value is expected at byte 0"},
        {"{\"a\" 1}", "':' is expected at byte 5"},
        {"[1, 2", "',' or ']' is expected at byte 5"},
        {"{\"a\": 1,}", "a string is expected at byte 8"},
        {"\"abc", "a string without its end at byte 1"},
        {"\"a\\", "a string without its end at byte 1"},
        {"\"\\x\"", "an escape that is none"},
        {"\"\\u00g0\"", "an escape that is none"},
        {"\"\\u0000\"", "an escape that is none"},
        {"\"\\ud800x\"", "an escape that is none"},
        {"\"\\udc00\"", "an escape that is none"},
        {"\"\xC3\"", "not UTF-8"},
        {"\"\n\"", "a control character"},
        {"01", "a number that is none"},
        {"1.", "a number that is none"},
        {"1e", "a number that is none"},
        {"-", "a number that is none"},
        {"truE", "a value is expected"},
        {"1 2", "more than one value at byte 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nc_work w;
        nc_work_init(&w);
        nc_json *v = NULL;
        CHECK_INT(nc_json_parse(&w, &w.scratch, rows[i].text, strlen(rows[i].text), &v), NC_E_BAD_MODEL);
        if (!strstr(w.diag.text, rows[i].message))
            nc_test_failed(__FILE__, __LINE__, "%s: %s, expected %s", rows[i].text, w.diag.text, rows[i].message);
        CHECK(!v);
        nc_work_release(&w);
    }
}

TEST(json_depth_is_bounded) {
    nc_work w;
    nc_work_init(&w);
    char deep[4096];
    nc_json *v = NULL;
    memset(deep, '[', sizeof deep);
    CHECK_INT(nc_json_parse(&w, &w.scratch, deep, sizeof deep, &v), NC_E_BAD_MODEL);
    CHECK(strstr(w.diag.text, "nested too deep"));
    nc_work_release(&w);
}
