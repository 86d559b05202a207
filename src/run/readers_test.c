/* run/readers_test.c: which packed constants of a copied file may lose their bytes, and that the others keep them. */
#include "base/mem.h"
#include "ir/text.h"
#include "onnx/load.h"
#include "onnx/save.h"
#include "run/session.h"
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { K = 64, TEXT = 1 << 17 };

static float element(int i) { return (float)(i % 31 + 1) * 0.5f; }

/* The model with this signature and these nodes over w (64,64), as a file loads it. */
static nc_model *load(nc_work *w, const char *io, const char *nodes) {
    char path[] = "/tmp/nacre_readers_XXXXXX", *text = malloc(TEXT);
    int fd = mkstemp(path);
    CHECK(text && fd >= 0);
    if (!text || fd < 0) return NULL;
    close(fd);
    size_t at = (size_t)snprintf(text, TEXT, "<opset: \"\" 17>\ng %s\n<const float[64,64] w = {", io);
    for (int i = 0; i < K * K; i++)
        at += (size_t)snprintf(text + at, TEXT - at, "%s%g", i ? "," : "", (double)element(i));
    snprintf(text + at, TEXT - at, "}>\n{\n%s}\n", nodes);
    nc_model *made = NULL, *m = NULL;
    nc_code code = nc_graph_parse(w, text, nc_ops_registry(), &made);
    if (code == NC_OK) code = nc_onnx_save_file(w, made, path, &(nc_onnx_save_options){0});
    if (code == NC_OK) code = nc_onnx_load_file(w, path, nc_ops_registry(), &m);
    CHECK_INT(code, NC_OK);
    nc_model_destroy(made);
    unlink(path);
    free(text);
    return m;
}

static bool is_whole(const nc_literal *l) {
    for (int i = 0; i < K * K; i++) {
        float x;
        memcpy(&x, (const char *)l->data + (size_t)i * sizeof x, sizeof x);
        if (x != element(i)) return false;
    }
    return true;
}

/* Packs all there is to pack; n_packs: so many; sole: each loses what it was made of, else none does. */
static void check_packs(nc_session *s, int n_packs, bool sole) {
    nc_work w;
    const void *p;
    nc_work_init(&w);
    CHECK_INT(s->program->n_packs, n_packs);
    for (int i = 0; i < s->program->n_packs; i++) CHECK(s->prepared->sole[i] == sole);
    for (int i = 0; i < s->program->n_packs; i++) {
        const nc_literal *l = s->program->packs[i].value->lit;
        CHECK(is_whole(l));
        CHECK_INT(nc_prepared_pack(&w, s->prepared, i, &p), NC_OK);
        CHECK(is_whole(l) == !sole);
    }
    nc_work_release(&w);
}

static void check(const char *io, const char *nodes, bool held, int n_packs, bool sole) {
    nc_env *env = nc_env_create(1);
    nc_session *s = NULL;
    nc_buffer *other = NULL;
    nc_work w;
    nc_work_init(&w);
    nc_model *m = load(&w, io, nodes);
    REQUIRE(env && m && m->buffers.n > 0);
    if (held) other = nc_buffer_ref(m->buffers.v[0]);
    CHECK_INT(nc_session_create(&w, env, m, &(nc_session_options){.level = 3}, &s), NC_OK);
    if (s) check_packs(s, n_packs, sole);
    nc_session_destroy(s);
    nc_buffer_unref(other);
    nc_work_release(&w);
    nc_env_unref(env);
}

TEST(readers_of_a_copied_file) {
    static const char fixed[] = "(float[4,64] x) => (float[4,64] y)";
    static const char two[] = "(float[4,64] x, int64[p] i) => (float[4,64] y, float[p,64] z)";
    static const char both[] = "(float[4,64] x) => (float[4,64] y, float[4,64] z)";
    static const char ranks[] = "(float[4,64] x, float[...] a) => (float[4,64] y, float[...] b)";
    check(fixed, "y = MatMul(x, w)\n", false, 1, true);
    check(fixed, "m = MatMul(x, w)\ny = Relu(m)\n", false, 1, true);
    check(fixed, "y = MatMul(x, w)\n", true, 1, false);                                 /* another model has it too */
    check(two, "y = MatMul(x, w)\nz = Gather(w, i)\n", false, 1, false);                /* read as it lies */
    check(both, "y = MatMul(x, w)\nz = Gemm<transB = 1>(x, w)\n", false, 2, false); /* packed in two ways */
    check(ranks, "y = MatMul(x, w)\nb = Relu(a)\n", false, 1, false); /* bodies that are planned later may read it */
}
