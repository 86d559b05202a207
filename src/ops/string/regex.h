/* ops/string/regex.h: regular expressions as RE2 writes them, matched in time linear in the text: no backtracking.
 *
 * Known: literals, . [] [^] with ranges and [:classes:], \d \w \s \D \W \S \b \B \A \z ^ $, escapes, groups, (?:) (?i)
 * (?s), |, * + ? {m} {m,} {m,n} and their lazy forms. Text and pattern are UTF-8; a bad byte counts as U+FFFD. Not
 * known: \p{} \Q\E and flags other than i and s; these are refused. */
#ifndef NC_OPS_STRING_REGEX_H
#define NC_OPS_STRING_REGEX_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct nc_regex nc_regex;

/* BAD_GRAPH names what is wrong with the pattern; LIMIT: it is too large. Lives in the arena. */
NC_MUST nc_code nc_regex_compile(nc_work *w, nc_arena *arena, const char *pattern, size_t bytes, const nc_regex **out);

/* Ints of scratch memory that a match needs. */
size_t nc_regex_scratch(const nc_regex *r);

/* The whole text matches. */
bool nc_regex_match(const nc_regex *r, const char *text, size_t bytes, int *scratch);

/* The first match in the text at or behind byte `from`, and of those that begin there the longest; *at and *length in
 * bytes. Anchors and edges of words see the whole text, which has less than INT_MAX bytes. False: there is none. */
bool nc_regex_find(const nc_regex *r, const char *text, size_t bytes, size_t from, int *scratch, size_t *at,
                   size_t *length);

#endif
