/* Constants of a file: at every alignment, read in place by Gather, packed by MatMul, used by both, and copied for Add;
 * the pages of what was packed are given back, so later runs and what still reads the plain bytes prove that nothing
 * was lost. */
#include "tests/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 700, K = 48, N = 90, PICKED = 3, TEXT = 1 << 20 };

static float element(int64_t i) { return (float)(i * 7 % 23) * 0.25f - 2; }

static size_t put_const(char *text, size_t at, const char *type, const char *name, int64_t n) {
    at += (size_t)snprintf(text + at, TEXT - at, "const %s %s = {", type, name);
    for (int64_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, TEXT - at, "%s%g", i ? "," : "", (double)element(i));
    return at + (size_t)snprintf(text + at, TEXT - at, "}");
}

/* w is packed for the product and gathered from too. The length of the graph's name moves the tensors in the file. */
static void write_text(char *text, int shift) {
    size_t at = (size_t)snprintf(text, TEXT, "<opset: \"\" 17>\n%.*s (int64[p] i) => (float[p,%d] y, float[p,%d] z)\n<",
                                 shift + 1, "ggggg", N, N);
    at = put_const(text, at, "float[700,48]", "table", ROWS * K);
    at += (size_t)snprintf(text + at, TEXT - at, ",\n");
    at = put_const(text, at, "float[48,90]", "w", K * N);
    at += (size_t)snprintf(text + at, TEXT - at, ",\n");
    at = put_const(text, at, "float[90]", "b", N);
    snprintf(text + at, TEXT - at,
             ",\nconst int64[] n = {%d}>\n{\n  r = Gather(table, i)\n  m = MatMul(r, w)\n  y = Add(m, b)\n"
             "  k = Mod(i, n)\n  z = Gather(w, k)\n}\n",
             K);
}

static void open_file(model *m, const char *text, const char *path) {
    nacre_model *made = NULL, *mapped = NULL;
    if (nacre_model_parse(m->env, text, &made, &m->err) == NACRE_OK &&
        nacre_model_save(made, path, &m->err) == NACRE_OK &&
        nacre_model_load(m->env, path, &mapped, &m->err) == NACRE_OK) {
        nacre_options *o = model_options(m);
        if (nacre_session_create(m->env, mapped, o, &m->session, &m->err) != NACRE_OK) m->failed = true;
    } else {
        m->failed = true;
    }
    nacre_model_release(made);
    if (m->failed) nc_test_failed(__FILE__, __LINE__, "%s: %s", m->err.op, m->err.text);
}

static void check_run(model *m, const int64_t *picked) {
    model_input(m, "i", NACRE_INT64, 1, D(PICKED), picked);
    model_run(m);
    const float *y = model_floats(m, "y", PICKED * N), *z = model_floats(m, "z", PICKED * N);
    for (int r = 0; y && z && r < PICKED; r++)
        for (int j = 0; j < N; j++) {
            double want = element(j);
            for (int k = 0; k < K; k++) want += (double)element(picked[r] * K + k) * element(k * N + j);
            CHECK_CLOSE(y[r * N + j], want, nc_tol_long_sum_f32);
            CHECK(z[r * N + j] == element(picked[r] % K * N + j));
        }
    model_collect_all(m);
}

static void every_alignment(model *m) {
    char path[] = "/tmp/nacre_mapped_XXXXXX.onnx", *text = malloc(TEXT);
    int fd = mkstemps(path, 5);
    REQUIRE(text && fd >= 0);
    close(fd);
    for (int shift = 0; shift < 4 && !m->failed; shift++) {
        write_text(text, shift);
        open_file(m, text, path);
        if (m->failed) break;
        check_run(m, D(0, ROWS - 1, 350));
        check_run(m, D(699, 1, 48));
        nacre_session_release(m->session);
        m->session = NULL;
    }
    unlink(path);
    free(text);
}

TEST(mapped_constants_at_every_alignment) { model_everywhere(every_alignment); }
