/* ops/string/string_cpu.h: what the host kernels of strings share, and the rows of text_cpu.c and tfidf_cpu.c. */
#ifndef NC_OPS_STRING_CPU_H
#define NC_OPS_STRING_CPU_H

#include "ops/binding.h"

/* Input i of a dynamic kernel, strings or not. */
const nc_tensor *nc_strings_of(const nc_dyn *d, int i);
NC_MUST nc_code nc_strings_no_memory(const nc_dyn *d);
/* Element i of strings tensor z becomes a copy of n bytes at p; false: out of memory. */
bool nc_strings_put(nc_object *z, int64_t i, const char *p, size_t n);

NC_MUST nc_code nc_string_split_prepare(nc_prep *p);
NC_MUST nc_code nc_string_split(nc_dyn *d);
NC_MUST nc_code nc_string_normalizer_prepare(nc_prep *p);
NC_MUST nc_code nc_string_normalizer(nc_dyn *d);
NC_MUST nc_code nc_regex_prepare(nc_prep *p);
NC_MUST nc_code nc_regex_full_match(nc_dyn *d);
bool nc_string_cast_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_string_cast(nc_dyn *d); /* Cast to or from strings */
NC_MUST nc_code nc_tfidf_prepare(nc_prep *p);
NC_MUST nc_code nc_tfidf(nc_dyn *d);

NC_MUST nc_code nc_murmur_prepare(nc_prep *p);
NC_MUST nc_code nc_murmur(nc_dyn *d);
NC_MUST nc_code nc_tokenizer_prepare(nc_prep *p);
NC_MUST nc_code nc_tokenizer(nc_dyn *d);

NC_MUST nc_code nc_string_pick_prepare(nc_prep *p);
bool nc_string_unique_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_string_unique(nc_dyn *d);
NC_MUST nc_code nc_string_compress(nc_dyn *d);

#endif
