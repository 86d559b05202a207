/* base/file.h: mapped files and files that appear whole or not at all. */
#ifndef NC_BASE_FILE_H
#define NC_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>

typedef struct nc_mapping {
    const uint8_t *p; /* NULL for an empty file */
    size_t bytes;
    uint64_t id; /* equal only for the same unchanged file; 0: not known, or it was changed a moment ago */
    bool copied; /* pages that are forgotten do not come back */
} nc_mapping;

/* Read-only. Up to 8 MiB the bytes are copied, so that the file may change; above that they are mapped. */
NC_MUST nc_code nc_file_map(nc_work *w, const char *path, nc_mapping *out);
void nc_file_unmap(nc_mapping *m);
/* Bytes of a mapping that will hardly be read again: their whole pages leave the process and come back from the file
 * when touched. Of a copy, and of any other memory, the bytes are lost: only for what is never read again. */
void nc_file_forget(const void *p, size_t bytes);
/* Writes a temporary file beside path, syncs it and renames it over path. Temporaries of path that killed processes
 * left are removed. */
NC_MUST nc_code nc_file_write(nc_work *w, const char *path, const void *p, size_t bytes);

/* The same in pieces: begin, add any number of times, then either end, which makes the file appear, or drop. End and
 * drop take the writer. */
typedef struct nc_file_writer nc_file_writer;
NC_MUST nc_code nc_file_begin(nc_work *w, const char *path, nc_file_writer **out);
NC_MUST nc_code nc_file_add(nc_work *w, nc_file_writer *f, const void *p, size_t bytes);
NC_MUST nc_code nc_file_end(nc_work *w, nc_file_writer *f);
void nc_file_drop(nc_file_writer *f); /* NULL is fine */

#endif
