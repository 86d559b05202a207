/* ops/string/regex_program.h: what regex_parse.c makes and regex.c runs. Nobody else includes it. */
#ifndef NC_OPS_STRING_REGEX_PROGRAM_H
#define NC_OPS_STRING_REGEX_PROGRAM_H

#include "ops/string/regex.h"

#include <stdint.h>

typedef struct nc_regex_range {
    int32_t lo, hi;
} nc_regex_range;

typedef struct nc_regex_set {
    NC_VEC(nc_regex_range) ranges;
    bool negated;
} nc_regex_set;

typedef enum nc_regex_kind { NC_RE_SET, NC_RE_SPLIT, NC_RE_JUMP, NC_RE_ASSERT, NC_RE_MATCH } nc_regex_kind;
typedef enum nc_regex_assert { NC_RE_BEGIN, NC_RE_END, NC_RE_WORD_EDGE, NC_RE_NO_WORD_EDGE } nc_regex_assert;

typedef struct nc_regex_instr {
    nc_regex_kind kind;
    int a, b; /* SPLIT: both ways. JUMP: a. ASSERT: a is the nc_regex_assert */
    const nc_regex_set *set;
} nc_regex_instr;

struct nc_regex {
    NC_VEC(nc_regex_instr) code;
};

/* The code point at *p, which is before `end`; advances *p. */
int32_t nc_utf8_next(const char **p, const char *end);

#endif
