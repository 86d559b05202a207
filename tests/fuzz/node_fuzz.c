/* tests/fuzz/node_fuzz.c: the fuzz target of single nodes: any operator with any inputs and attributes runs or is
 * refused with a message, alike on every device. Only in a fuzz build (preset fuzz);
 * fuzz_replay_test.c replays found inputs in every build. */
#include "tests/fuzz/fuzz_node_one.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *wrong = fuzz_node_one(data, size);
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        abort(); /* libFuzzer keeps the input */
    }
    return 0;
}
