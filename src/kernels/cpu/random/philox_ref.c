/* kernels/cpu/random/philox_ref.c: dropout's keep flags, each drawn by itself. Slow and obvious; see philox.h. */
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/philox_text.h"

void nck_dropout_mask_ref(int64_t n, nck_rng rng, double ratio, uint8_t *mask) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)(rng.first + i);
        uint32_t words[4];
        nck_philox4(rng.seed, rng.node_id, rng.step, at / 4, words);
        mask[i] = (double)nck_philox_uniform(words[at % 4]) >= ratio;
    }
}
