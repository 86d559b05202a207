/* ops/string/regex_test.c: which texts a pattern matches as a whole, which patterns are refused, and that time grows
 * with the text's length only. */
#include "ops/string/regex.h"

#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

/* 1: matches, 0: does not, -1: the pattern is refused. */
static int match_bytes(const char *pattern, const char *text, size_t n) {
    nc_work w;
    nc_arena arena = {0};
    const nc_regex *r;
    int got = -1;
    nc_work_init(&w);
    if (nc_regex_compile(&w, &arena, pattern, strlen(pattern), &r) == NC_OK) {
        int *scratch = malloc(nc_regex_scratch(r) * sizeof *scratch);
        got = scratch != NULL && nc_regex_match(r, text, n, scratch);
        free(scratch);
    }
    nc_arena_release(&arena);
    nc_work_release(&w);
    return got;
}

static int match(const char *pattern, const char *text) { return match_bytes(pattern, text, strlen(text)); }

TEST(regex_matches_whole_texts) {
    CHECK_INT(match("", ""), 1);
    CHECK_INT(match("", "a"), 0);
    CHECK_INT(match("abc", "abc"), 1);
    CHECK_INT(match("abc", "abcd"), 0);
    CHECK_INT(match("a|bc|", ""), 1);
    CHECK_INT(match("a|bc", "bc"), 1);
    CHECK_INT(match("(a|b)*c", "ababc"), 1);
    CHECK_INT(match("a{2,3}", "aaaa"), 0);
    CHECK_INT(match("a{2,3}", "aa"), 1);
    CHECK_INT(match("a{2,}b?", "aaaaab"), 1);
    CHECK_INT(match("(ab){0}", ""), 1);
    CHECK_INT(match("a{x", "a{x"), 1);
    CHECK_INT(match("a+?b*?", "aab"), 1);
    CHECK_INT(match("(a*)*", "aaa"), 1);
    CHECK_INT(match("(?:x|y)z", "yz"), 1);
}

TEST(regex_sets) {
    CHECK_INT(match("[a-c]+", "abcabc"), 1);
    CHECK_INT(match("[^a-c]", "b"), 0);
    CHECK_INT(match("[]a]+", "]a"), 1);
    CHECK_INT(match("[\\w.-]+@\\d\\D", "x.y-z@7a"), 1);
    CHECK_INT(match("[[:alpha:]_]+", "ab_Z"), 1);
    CHECK_INT(match("[^\\d\\s]", "7"), 0);
    CHECK_INT(match("a.c", "a\nc"), 0);
    CHECK_INT(match("(?s)a.c", "a\nc"), 1);
    CHECK_INT(match("(?i)hEl[L-M]o", "HELlO"), 1);
    CHECK_INT(match("\\x41\\x{42}\\.", "AB."), 1);
}

TEST(regex_code_points) {
    CHECK_INT(match("..", "\xc3\xa9\xe2\x82\xac"), 1);
    CHECK_INT(match("[\xc3\xa0-\xc3\xbf]", "\xc3\xa9"), 1);
    CHECK_INT(match(".", "\xff"), 1);
    CHECK_INT(match(".", "\xc3"), 1);
    CHECK_INT(match_bytes("a\\x00b", "a\0b", 3), 1);
}

TEST(regex_edges) {
    CHECK_INT(match("^a$", "a"), 1);
    CHECK_INT(match("a^", "a"), 0);
    CHECK_INT(match("\\bfoo\\b", "foo"), 1);
    CHECK_INT(match("foo\\bbar", "foobar"), 0);
    CHECK_INT(match("foo\\Bbar", "foobar"), 1);
    CHECK_INT(match("(\\W|^)x(\\W|$)", "x"), 1);
}

TEST(regex_refuses_bad_patterns) {
    static const char *const bad[] = {"(",
                                      ")",
                                      "a(b",
                                      "[a",
                                      "*a",
                                      "a{3,2}",
                                      "\\",
                                      "\\p{L}",
                                      "[b-a]",
                                      "(?P<n>a)",
                                      "[[:x:]]",
                                      "a{2000}",
                                      "((((a{900}){900}){900}){900})"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (match(bad[i], "a") != -1) nc_test_failed(__FILE__, __LINE__, "'%s' was taken", bad[i]);
    }
}

/* A matcher that tries one way after another needs 2^30000 steps here. */
TEST(regex_takes_linear_time) {
    enum { N = 30000 };
    char *text = malloc(N + 1);
    REQUIRE(text != NULL);
    memset(text, 'a', N);
    text[N] = '!';
    CHECK_INT(match_bytes("(a|aa|a*)*b", text, N + 1), 0);
    free(text);
}

/* at * 100 + length of the first match from a byte on; -1: none. */
static int find(const char *pattern, const char *text, size_t from) {
    nc_work w;
    nc_arena arena = {0};
    const nc_regex *r;
    size_t at, length;
    int got = -2;
    nc_work_init(&w);
    if (nc_regex_compile(&w, &arena, pattern, strlen(pattern), &r) == NC_OK) {
        int *scratch = malloc(nc_regex_scratch(r) * sizeof *scratch);
        got = nc_regex_find(r, text, strlen(text), from, scratch, &at, &length) ? (int)(at * 100 + length) : -1;
        free(scratch);
    }
    nc_arena_release(&arena);
    nc_work_release(&w);
    return got;
}

TEST(regex_finds_the_first_and_longest) {
    CHECK_INT(find("b+", "aabbb", 0), 203);
    CHECK_INT(find("b+", "aabbb", 3), 302);
    CHECK_INT(find("b+", "aaa", 0), -1);
    CHECK_INT(find("b", "", 0), -1);
    CHECK_INT(find("", "ab", 1), 100);
    CHECK_INT(find("", "ab", 2), 200);
    CHECK_INT(find("ab|abc", "xabc", 0), 103);  /* the longest, not the first that is written */
    CHECK_INT(find("a+?", "aaa", 0), 3);        /* nor the lazy one */
    CHECK_INT(find("abcd|bc", "abcx", 0), 102); /* what began earlier and failed gives way */
    CHECK_INT(find("bc|abcd", "abcd", 0), 4);   /* what began earlier wins, though found later */
    CHECK_INT(find("^ab", "abab", 2), -1);      /* anchors see the whole text */
    CHECK_INT(find("ab$", "abab", 0), 202);
    CHECK_INT(find("\\bb", "ab b", 0), 301);
    CHECK_INT(find("\\bb", "ab", 1), -1);
    CHECK_INT(find(".", "\xc3\xa9t", 0), 2);
}
