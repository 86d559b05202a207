/* ir/text_core.h: what the files of ir/text.h share; private to ir/. The grammar stands in text_parse.c. */
#ifndef NC_IR_TEXT_CORE_H
#define NC_IR_TEXT_CORE_H

#include "ir/text.h"

#define NC_TEXT_MAX_ELEMENTS 256 /* longer constants print as their size alone */

/* ---- printing ---- */
void nc_text_put_string(nc_text *out, const char *s, size_t n); /* in quotes, with escapes */
void nc_text_put_name(nc_text *out, const char *name);          /* as it is when it is an identifier, else in quotes */
void nc_text_put_float(nc_text *out, double v, int digits);     /* %.*g, nan, inf, -inf */
void nc_text_put_data(nc_text *out, const nc_literal *l);       /* {1, 2, 3} */

/* ---- parsing: a cursor over the text ---- */
typedef struct nc_reader {
    nc_work *w;
    nc_model *m;
    const char *text, *s;
    int depth; /* of subgraphs and types */
} nc_reader;

nc_code nc_read_fail(nc_reader *r, const char *fmt, ...) NC_PRINTF(2, 3); /* BAD_MODEL with line and column */
char nc_read_peek(nc_reader *r);            /* the next character behind space and comments; 0 at the end */
bool nc_read_same_line(const nc_reader *r); /* is there more before the line ends? */
bool nc_read_eat(nc_reader *r, char c);
bool nc_read_word(nc_reader *r, const char *word); /* eats exactly this identifier */
bool nc_read_at_ident(nc_reader *r);
NC_MUST nc_code nc_read_expect(nc_reader *r, char c);
NC_MUST nc_code nc_read_ident(nc_reader *r, const char **out); /* letters, digits, _ . and $; in the arena of r->m */
NC_MUST nc_code nc_read_string(nc_reader *r, nc_str *out);
NC_MUST nc_code nc_read_name(nc_reader *r, const char **out); /* an identifier or a string */
NC_MUST nc_code nc_read_int(nc_reader *r, int64_t *out);
NC_MUST nc_code nc_read_float(nc_reader *r, double *out); /* also nan, inf, -inf */
bool nc_read_number_is_float(nc_reader *r);
bool nc_read_at_type(nc_reader *r); /* does a type begin here? */
NC_MUST nc_code nc_read_type(nc_reader *r, const nc_type **out);
NC_MUST nc_code nc_read_data(nc_reader *r, const nc_type *type, const nc_literal **out); /* { ... } of a tensor type */

#endif
