/* onnx/fuzz_one.h: what fuzzing does with one input: shared by the fuzz target and the replay test. */
#ifndef NC_ONNX_FUZZ_ONE_H
#define NC_ONNX_FUZZ_ONE_H

#include "onnx/load.h"
#include "onnx/ort_format.h"
#include "onnx/save.h"
#include "onnx/testing.h"

/* The bytes that were saved, in onnxruntime's format, where that has words for them: they load too. */
__attribute__((unused)) static nc_code fuzz_ort(nc_work *w, const nc_text *saved) {
    nc_text file = {0};
    nc_model *m = NULL;
    nc_code code = nc_ort_from_onnx(w, (nc_bytes){(const uint8_t *)saved->s, saved->n}, &test_registry, &file);
    code = code == NC_OK ? nc_onnx_load(w, file.s, file.n, NULL, NULL, &test_registry, &m) : NC_OK;
    nc_model_destroy(m);
    nc_text_release(&file);
    return code;
}

/* False when what was saved does not load again, unless a name that was made unique became too long. */
__attribute__((unused)) static bool fuzz_one(const uint8_t *data, size_t size) {
    nc_work w;
    nc_model *m = NULL, *again = NULL;
    nc_text bytes = {0};
    nc_code code = NC_OK;
    nc_work_init(&w);
    nc_buffer *keeps = nc_buffer_wrap((void *)(uintptr_t)data, size, NULL, NULL);
    if (keeps && nc_onnx_load(&w, data, size, keeps, NULL, &test_registry, &m) == NC_OK &&
        nc_onnx_save(&w, m, &bytes) == NC_OK)
        code = nc_onnx_load(&w, bytes.s, bytes.n, NULL, NULL, &test_registry, &again);
    if (code == NC_OK && again) code = fuzz_ort(&w, &bytes);
    nc_model_destroy(m);
    nc_model_destroy(again);
    nc_buffer_unref(keeps);
    nc_text_release(&bytes);
    nc_work_release(&w);
    return code == NC_OK || code == NC_E_LIMIT;
}

#endif
