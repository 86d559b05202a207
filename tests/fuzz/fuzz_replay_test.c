/* tests/fuzz/fuzz_replay_test.c: replays every file of tests/fuzz/text, tests/fuzz/plan, tests/fuzz/node and
 * tests/fuzz/checkpoint through the bodies of the fuzz targets. Runs from the repository's root. */
#include "tests/check.h"
#include "tests/fuzz/fuzz_checkpoint_one.h"
#include "tests/fuzz/fuzz_node_one.h"
#include "tests/fuzz/fuzz_plan_one.h"
#include "tests/fuzz/fuzz_text_one.h"

#include <dirent.h>
#include <stdlib.h>

static void replay(const char *path, const char *(*one)(const uint8_t *, size_t)) {
    FILE *f = fopen(path, "rb");
    REQUIRE(f);
    size_t cap = 1 << 20;
    uint8_t *block = malloc(cap);
    size_t n = block ? fread(block, 1, cap, f) : 0;
    fclose(f);
    uint8_t *exact = block ? realloc(block, n ? n : 1) : NULL; /* sanitizers then see a byte read too far */
    const char *wrong = exact ? one(exact, n) : NULL;
    if (wrong) nc_test_failed(path, 0, "%s", wrong);
    free(exact);
}

static void replay_all(const char *folder, const char *(*one)(const uint8_t *, size_t)) {
    char path[512];
    DIR *d = opendir(folder);
    if (!d) {
        nc_test_not_run("the folder of inputs is not here");
        return;
    }
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        replay(path, one);
        n++;
    }
    closedir(d);
    CHECK(n > 0);
}

TEST(fuzz_replay_text) { replay_all("tests/fuzz/text", fuzz_text_one); }
TEST(fuzz_replay_text_planned) { replay_all("tests/fuzz/text", fuzz_plan_one); }
TEST(fuzz_replay_plan) { replay_all("tests/fuzz/plan", fuzz_plan_one); }
TEST(fuzz_replay_onnx_planned) { replay_all("tests/fuzz/onnx", fuzz_plan_one); }
TEST(fuzz_replay_checkpoint) { replay_all("tests/fuzz/checkpoint", fuzz_checkpoint_one); }
TEST(fuzz_replay_node) { replay_all("tests/fuzz/node", fuzz_node_one); }

/* Every operator, a few times: bytes of a number that follows from its name. */
TEST(fuzz_nodes_of_every_operator) {
    enum { TIMES = 2, BYTES = 256 };
    uint8_t bytes[BYTES];
    for (int i = 0; i < FUZZ_N_CARDS * TIMES; i++) {
        const nc_card *card = fuzz_cards[i / TIMES];
        uint64_t x = fuzz_weight(card->domain, card->name, i % TIMES, 1);
        for (int k = 0; k < BYTES; k++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            bytes[k] = (uint8_t)(x >> 56);
        }
        const char *wrong = fuzz_node_of(card, bytes, BYTES);
        if (wrong) nc_test_failed(card->name, i % TIMES, "%s", wrong);
    }
}
