/* run/prepared_test.c: all packed forms in one block, of which each goes with its last user. */
#include "base/intmath.h"
#include "base/mem.h"
#include "ir/text.h"
#include "run/session.h"
#include "tests/check.h"

#include <stdio.h>

enum { K = 40, TEXT = 1 << 17 };

/* Two products; of `other`, the second matrix differs. */
static nc_session *open_session(nc_env *env, int other) {
    static char text[TEXT];
    size_t at = (size_t)snprintf(text, TEXT, "<opset: \"\" 17>\ng (float[4,40] x) => (float[4,40] y)\n<");
    for (int m = 0; m < 2; m++) {
        at += (size_t)snprintf(text + at, TEXT - at, "%sconst float[40,40] w%d = {", m ? "," : "", m);
        for (int i = 0; i < K * K; i++)
            at += (size_t)snprintf(text + at, TEXT - at, "%s%d", i ? "," : "", 1 + (i * (m + 3 + m * other)) % 17);
        at += (size_t)snprintf(text + at, TEXT - at, "}");
    }
    snprintf(text + at, TEXT - at, ">\n{\n  t = MatMul(x, w0)\n  y = MatMul(t, w1)\n}\n");
    nc_work w;
    nc_model *m = NULL;
    nc_session *s = NULL;
    nc_work_init(&w);
    nc_code code = nc_graph_parse(&w, text, env->registry, &m);
    if (code == NC_OK) code = nc_session_create(&w, env, m, &(nc_session_options){0}, &s);
    CHECK_INT(code, NC_OK);
    nc_work_release(&w);
    return s;
}

static const nc_buffer *packed(const nc_session *s, int i) { return atomic_load(&s->prepared->packs[i]); }

/* What a session in an environment of its own makes of the same constant, alone. */
static bool is_right(const nc_session *s, int i, int other) {
    nc_env *env = nc_env_create(1);
    nc_session *alone = env ? open_session(env, other) : NULL;
    const void *p = NULL;
    nc_work w;
    nc_work_init(&w);
    bool right = alone && nc_prepared_pack(&w, alone->prepared, i, &p) == NC_OK &&
                 memcmp(p, packed(s, i)->ptr, packed(s, i)->bytes) == 0;
    nc_work_release(&w);
    nc_session_destroy(alone);
    nc_env_unref(env);
    return right;
}

TEST(packs_lie_in_one_block_and_go_one_by_one) {
    uint64_t live = nc_mem_live();
    nc_env *env = nc_env_create(2);
    REQUIRE(env);
    nc_session *a = open_session(env, 0), *b = open_session(env, 1);
    REQUIRE(a && b && a->program->n_packs == 2 && b->program->n_packs == 2);
    nc_prepared_pack_all(a->prepared);
    nc_prepared_pack_all(b->prepared);
    const nc_buffer *first = packed(a, 0), *second = packed(a, 1);
    CHECK((char *)second->ptr - (char *)first->ptr == (ptrdiff_t)nc_round_up_size(first->bytes, 64));
    CHECK(packed(b, 0) == first && packed(b, 1) != second);
    for (int i = 0; i < 2; i++) CHECK(is_right(a, i, 0) && is_right(b, i, 1));
    nc_session_destroy(a);
    for (int i = 0; i < 2; i++) CHECK(is_right(b, i, 1));
    nc_session_destroy(b);
    CHECK(env->packed == NULL);
    nc_env_unref(env);
    CHECK_INT(nc_mem_live(), live);
}
