/* tests/fuzz/plan_fuzz.c: the fuzz target of everything from bytes to a program: any model is planned or
 * refused with a message. Only in a fuzz build (preset fuzz);
 * fuzz_replay_test.c replays found inputs in every build. */
#include "tests/fuzz/fuzz_plan_one.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *wrong = fuzz_plan_one(data, size);
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        abort(); /* libFuzzer keeps the input */
    }
    return 0;
}
