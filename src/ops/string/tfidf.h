/* ops/string/tfidf.h: what TfIdfVectorizer of integers is made of, for its card. */
#ifndef NC_OPS_STRING_TFIDF_H
#define NC_OPS_STRING_TFIDF_H

#include "ops/build.h"
#include "ops/card.h"

NC_MUST nc_code nc_tfidf_decompose(nc_builder *b, const nc_node *n, nc_value **out);

#endif
