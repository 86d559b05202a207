/* base/text.h: a growing text for dumps and messages. A failed allocation is remembered, not reported each time. */
#ifndef NC_BASE_TEXT_H
#define NC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nc_text {
    char *s; /* NUL-terminated once anything was added, else NULL */
    size_t n, cap;
    bool failed;
} nc_text;

void nc_text_add(nc_text *t, const char *s);
void nc_text_add_n(nc_text *t, const char *s, size_t n);
void nc_text_addf(nc_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void nc_text_pad(nc_text *t, size_t column); /* spaces up to a column of the current line, at least one */
void nc_text_release(nc_text *t);

/* Numbers with a point, whatever the process's locale: as strtod, and as snprintf of "%.*g". */
double nc_text_to_double(const char *s, char **end);
void nc_text_of_double(char *out, size_t bytes, int digits, double v);

/* The line and the column, both from one, of the place `at` in a text. */
void nc_text_where(const char *text, const char *at, int *line, int *column);

#endif
