/* onnx/load_fuzz.c: the fuzz target of the loader, only in a fuzz build (-DNC_FUZZ -fsanitize=fuzzer): any bytes
 * load or fail cleanly, and what loads can be saved, loaded again and given back. fuzz_test.c replays found inputs
 * in every build. */
#ifdef NC_FUZZ

#include "onnx/fuzz_one.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!fuzz_one(data, size)) __builtin_trap(); /* a finding */
    return 0;
}

#endif
