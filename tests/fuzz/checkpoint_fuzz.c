/* tests/fuzz/checkpoint_fuzz.c: the fuzz target of checkpoints, safetensors and onnxruntime's: bytes fail with a
 * message or make a checkpoint that can be saved in both formats and loaded again. Only in a fuzz build (preset fuzz);
 * fuzz_replay_test.c replays found inputs in every build. */
#include "tests/fuzz/fuzz_checkpoint_one.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *wrong = fuzz_checkpoint_one(data, size);
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        abort(); /* libFuzzer keeps the input */
    }
    return 0;
}
