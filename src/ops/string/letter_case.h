/* ops/string/letter_case.h: capital and small letters in UTF-8: Latin, Greek, Cyrillic and Armenian letters that pair
 * one to one, whatever the locale. Bad bytes stay as they are. */
#ifndef NC_OPS_STRING_LETTER_CASE_H
#define NC_OPS_STRING_LETTER_CASE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum nc_letter_case { NC_CASE_KEEP, NC_CASE_LOWER, NC_CASE_UPPER } nc_letter_case;

/* A new NUL-terminated string of base/mem.h; NULL: out of memory. */
char *nc_letters_to(nc_letter_case to, const char *p, size_t n, size_t *n_out);
bool nc_equal_but_case(const char *a, size_t n_a, const char *b, size_t n_b);

#endif
