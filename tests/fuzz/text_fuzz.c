/* tests/fuzz/text_fuzz.c: the fuzz target of the text form: a text either fails with a message or makes a
 * graph that prints and parses back. Only in a fuzz build (preset fuzz);
 * fuzz_replay_test.c replays found inputs in every build. */
#include "tests/fuzz/fuzz_text_one.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *wrong = fuzz_text_one(data, size);
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        abort(); /* libFuzzer keeps the input */
    }
    return 0;
}
