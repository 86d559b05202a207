/* onnx/fuzz_test.c: replays every file of tests/fuzz/onnx through the fuzz target's body. Runs from the repository's
 * root. */
#include "onnx/fuzz_one.h"
#include "tests/check.h"

#include <dirent.h>
#include <stdlib.h>

#define FOLDER "tests/fuzz/onnx"

static void replay(const char *name) {
    char path[512];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    FILE *f = fopen(path, "rb");
    REQUIRE(f);
    size_t cap = 1 << 20;
    uint8_t *block = malloc(cap);
    size_t n = block ? fread(block, 1, cap, f) : 0;
    fclose(f);
    uint8_t *exact = block ? realloc(block, n ? n : 1) : NULL; /* sanitizers then see a byte read too far */
    if (exact && !fuzz_one(exact, n)) nc_test_failed(path, 0, "was saved but does not load again");
    free(exact);
}

TEST(fuzz_replay) {
    DIR *d = opendir(FOLDER);
    if (!d) {
        nc_test_not_run("no folder " FOLDER " here");
        return;
    }
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            replay(e->d_name);
            n++;
        }
    closedir(d);
    CHECK(n > 0);
}
