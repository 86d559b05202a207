/* onnx/load_fuzz.c: the fuzz target of the loader, only in a fuzz build (-DNC_FUZZ -fsanitize=fuzzer): any bytes
 * load or fail cleanly, and what loads can be saved, loaded again and given back. fuzz_test.c replays found inputs
 * in every build. */
#ifdef NC_FUZZ

#include "onnx/fuzz_one.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!fuzz_one(data, size)) abort(); /* a finding: libFuzzer keeps the input */
    return 0;
}

#endif
