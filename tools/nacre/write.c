/* tools/nacre/write.c: files that appear whole or not at all: outputs, profiles. The library writes models its own
 * way. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* mkstemp makes the file private; what the user asked for has the mode that any new file would have. */
static void usual_mode(int fd) {
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask) != 0) return; /* it stays private */
}

nacre_code file_write(const char *path, const file_piece *pieces, int n, nacre_error *err) {
    struct stat st;
    char tmp[4096];
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* a pipe, /dev/stdout: nothing to replace */
        FILE *out = S_ISDIR(st.st_mode) ? NULL : fopen(path, "wb");
        bool ok = out != NULL;
        for (int i = 0; ok && i < n; i++) ok = fwrite(pieces[i].p, 1, pieces[i].bytes, out) == pieces[i].bytes;
        if (out && fclose(out) != 0) ok = false;
        return ok ? NACRE_OK : file_error(err, NACRE_IO, path, "cannot be written");
    }
    if ((size_t)snprintf(tmp, sizeof tmp, "%s.XXXXXX", path) >= sizeof tmp)
        return file_error(err, NACRE_IO, path, "the path is too long");
    int fd = mkstemp(tmp);
    FILE *f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!f) {
        if (fd >= 0) close(fd), unlink(tmp);
        return file_error(err, NACRE_IO, path, "cannot be written");
    }
    bool ok = true;
    for (int i = 0; ok && i < n; i++)
        ok = !pieces[i].bytes || fwrite(pieces[i].p, 1, pieces[i].bytes, f) == pieces[i].bytes;
    usual_mode(fd);
    if (fclose(f) != 0) ok = false;
    if (ok && rename(tmp, path) == 0) return NACRE_OK;
    unlink(tmp);
    return file_error(err, NACRE_IO, path, "writing failed");
}
