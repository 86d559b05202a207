/* base/codecs.c: finds and loads the shared object of image formats, once for the process. */
#include "base/codecs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "libnacre_codecs.so"

static const nc_codecs *loaded;
static char missing[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The folder of this library, with its slash; empty where it is linked into a program that the loader has no path
 * of. */
static void own_folder(char *out, size_t bytes) {
    Dl_info where;
    const char *slash = NULL;
    if (dladdr((const void *)&once, &where) != 0 && where.dli_fname != NULL) slash = strrchr(where.dli_fname, '/');
    size_t n = slash != NULL ? (size_t)(slash - where.dli_fname) + 1 : 0;
    if (n >= bytes) n = 0;
    if (n > 0) memcpy(out, where.dli_fname, n);
    out[n] = '\0';
}

static void load(void) {
    char path[4096 + sizeof FILE_NAME], folder[4096];
    const char *asked = getenv("NACRE_CODECS");
    own_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s%s", folder, FILE_NAME);
    void *h = dlopen(asked != NULL && *asked ? asked : path, RTLD_NOW | RTLD_LOCAL);
    const nc_codecs *table = h != NULL ? dlsym(h, NC_CODECS_TABLE) : NULL;
    if (table == NULL) {
        const char *says = dlerror();
        snprintf(missing, sizeof missing, "needs " FILE_NAME ", which cannot be loaded: %.400s", says ? says : "?");
    } else if (table->version != NC_CODECS_VERSION) {
        snprintf(missing, sizeof missing, FILE_NAME " is of version %d, expected %d", table->version,
                 NC_CODECS_VERSION);
    } else {
        loaded = table;
    }
}

nc_image_decoder nc_codec_find(nc_image_format f, const char **why) {
    static const char *const without[NC_N_IMAGE_FORMATS] = {
        FILE_NAME " was built without libjpeg-turbo", FILE_NAME " was built without libpng",
        FILE_NAME " was built without libwebp", FILE_NAME " was built without libtiff",
        FILE_NAME " was built without OpenJPEG"};
    pthread_once(&once, load);
    *why = loaded != NULL ? without[f] : missing;
    return loaded != NULL ? loaded->decode[f] : NULL;
}
