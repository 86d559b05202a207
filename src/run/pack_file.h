/* run/pack_file.h: packed weights kept in a file: a session with the same model and kernels maps them. */
#ifndef NC_RUN_PACK_FILE_H
#define NC_RUN_PACK_FILE_H

#include "run/session.h"

/* All packs of the host that r and its subprograms will read: from the file at path if it fits them, else they are made
 * now and written there. A file that cannot be written is a warning. */
NC_MUST nc_code nc_pack_file(nc_work *w, nc_prepared *r, const char *path);

#endif
