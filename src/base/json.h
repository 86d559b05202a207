/* base/json.h: JSON texts as a tree in an arena, and strings written for one. Untrusted input: any bytes give a tree or
 * BAD_MODEL with the place. */
#ifndef NC_BASE_JSON_H
#define NC_BASE_JSON_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

typedef enum nc_json_kind {
    NC_JSON_NULL,
    NC_JSON_BOOL,
    NC_JSON_NUMBER,
    NC_JSON_STRING,
    NC_JSON_LIST,
    NC_JSON_OBJECT
} nc_json_kind;

typedef struct nc_json {
    nc_json_kind kind;
    const char *key; /* of an object's member; NUL-terminated, as s is */
    const char *s;   /* STRING: without escapes, UTF-8; a NUL inside is refused */
    bool is_int;     /* NUMBER: without point and exponent, and within int64 */
    int64_t i;       /* NUMBER that is_int; BOOL: 0 or 1 */
    double d;        /* NUMBER */
    struct nc_json *first, *next;
    int n; /* LIST, OBJECT: items */
} nc_json;

NC_MUST nc_code nc_json_parse(nc_work *w, nc_arena *a, const char *s, size_t n, nc_json **out);
const nc_json *nc_json_get(const nc_json *object, const char *key); /* NULL: none, or no object; walks the members */
/* In quotes, escaped. False: not UTF-8, nothing was added. */
bool nc_json_put_string(nc_text *out, const char *s);

#endif
