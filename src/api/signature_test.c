/* api/signature_test.c: what a session tells of itself, sizes that the caller fixes, a transformed graph that is
 * saved, and values over memory that is given back. All through the public header. */
#include "nacre/nacre.h"
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] = "<opset: \"\" 17>\n"
                           "g (float[batch,?,3] x, seq(float[n]) s) => (float[batch,?,3] y, int64[] k)\n"
                           "{ y = Relu(x) k = SequenceLength(s) }\n";

typedef struct rig {
    nacre_env *env;
    nacre_session *s;
    nacre_error err;
} rig;

static nacre_code open_text(rig *r, const char *model, const nacre_options *o) {
    nacre_model *m;
    nacre_code code = nacre_model_parse(r->env, model, &m, &r->err);
    return code == NACRE_OK ? nacre_session_create(r->env, m, o, &r->s, &r->err) : code;
}

static void close_rig(rig *r) {
    nacre_session_release(r->s);
    nacre_env_release(r->env);
}

TEST(signature_names_types_and_dims) {
    rig r = {0};
    nacre_signature sig;
    REQUIRE(nacre_env_create(1, &r.env, &r.err) == NACRE_OK);
    REQUIRE(open_text(&r, text, NULL) == NACRE_OK);
    CHECK_INT(nacre_session_n(r.s, NACRE_INPUT), 2);
    CHECK_INT(nacre_session_n(r.s, NACRE_OUTPUT), 2);
    CHECK_INT(nacre_session_n(r.s, NACRE_OVERRIDABLE), 0);
    for (int side = NACRE_INPUT; side <= NACRE_OUTPUT; side++) {
        REQUIRE(nacre_session_signature(r.s, (nacre_side)side, 0, &sig, &r.err) == NACRE_OK);
        CHECK_STR(sig.name, side == NACRE_INPUT ? "x" : "y");
        CHECK_STR(sig.type, "tensor(float)");
        CHECK_INT(sig.rank, 3);
        CHECK(sig.dims[0] == -1 && sig.dims[1] == -1 && sig.dims[2] == 3);
        CHECK_STR(sig.dim_names[0], "batch");
        CHECK_STR(sig.dim_names[1], "");
    }
    REQUIRE(nacre_session_signature(r.s, NACRE_INPUT, 1, &sig, &r.err) == NACRE_OK);
    CHECK_STR(sig.type, "seq(tensor(float))");
    CHECK_INT(sig.rank, -1);
    REQUIRE(nacre_session_signature(r.s, NACRE_OUTPUT, 1, &sig, &r.err) == NACRE_OK);
    CHECK_STR(sig.type, "tensor(int64)");
    CHECK_INT(sig.rank, 0);
    CHECK(nacre_session_signature(r.s, NACRE_OUTPUT, 2, &sig, &r.err) == NACRE_ARGUMENT);
    nacre_model_info info;
    nacre_session_model_info(r.s, &info);
    CHECK_STR(info.graph_name, "g");
    CHECK(info.description && info.graph_description && info.n_props == 0 && !nacre_session_prop(r.s, 0, NULL));
    close_rig(&r);
}

TEST(signature_fixed_dims) {
    rig r = {0};
    nacre_options *o = NULL;
    nacre_signature sig;
    REQUIRE(nacre_env_create(1, &r.env, &r.err) == NACRE_OK && nacre_options_create(&o, &r.err) == NACRE_OK);
    CHECK(nacre_options_dim(o, "batch", -1, &r.err) == NACRE_ARGUMENT);
    CHECK(nacre_options_dim(o, "", 1, &r.err) == NACRE_ARGUMENT);
    CHECK(nacre_options_dim(o, "batch", 4, &r.err) == NACRE_OK);
    CHECK(nacre_options_dim(o, "nowhere", 9, &r.err) == NACRE_OK);
    REQUIRE(open_text(&r, text, o) == NACRE_OK);
    REQUIRE(nacre_session_signature(r.s, NACRE_INPUT, 0, &sig, &r.err) == NACRE_OK);
    CHECK_INT(sig.dims[0], 4);
    CHECK_INT(sig.dims[1], -1);
    REQUIRE(nacre_session_signature(r.s, NACRE_OUTPUT, 0, &sig, &r.err) == NACRE_OK);
    CHECK_INT(sig.dims[0], 4);
    nacre_options_release(o);
    close_rig(&r);
}

TEST(signature_saves_what_was_transformed) {
    rig r = {0};
    nacre_options *o = NULL;
    nacre_model *again;
    char path[] = "/tmp/nacre_save_XXXXXX";
    int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    close(fd);
    REQUIRE(nacre_env_create(1, &r.env, &r.err) == NACRE_OK && nacre_options_create(&o, &r.err) == NACRE_OK);
    CHECK(nacre_options_set(o, "save", path, &r.err) == NACRE_OK);
    REQUIRE(open_text(&r, "<opset: \"\" 17>\ng (float[n] x) => (float[n] y) { a = Identity(x) y = Relu(a) }\n", o) ==
            NACRE_OK);
    REQUIRE(nacre_model_load(r.env, path, &again, &r.err) == NACRE_OK);
    nacre_model_release(again);
    unlink(path);
    nacre_options_release(o);
    close_rig(&r);
}

static void count(void *n) { ++*(int *)n; }

TEST(value_owned_memory_is_given_back_once) {
    float data[2] = {1, 2};
    int given = 0;
    nacre_value *v, *w, *seq;
    nacre_error err;
    CHECK(nacre_value_tensor_owned(NACRE_STRING, 1, (int64_t[]){2}, data, count, &given, &v, &err) == NACRE_TYPE);
    CHECK(nacre_value_tensor_owned(NACRE_FLOAT, 1, (int64_t[]){-1}, data, count, &given, &v, &err) == NACRE_SHAPE);
    CHECK_INT(given, 0);
    REQUIRE(nacre_value_tensor_owned(NACRE_FLOAT, 1, (int64_t[]){2}, data, count, &given, &v, &err) == NACRE_OK);
    CHECK(nacre_value_data(v) == data);
    REQUIRE(nacre_value_sequence(NACRE_FLOAT, &v, 1, &seq, &err) == NACRE_OK);
    nacre_value_release(v);
    CHECK_INT(given, 0);
    nacre_value_release(seq);
    CHECK_INT(given, 1);
    REQUIRE(nacre_value_tensor_owned(NACRE_FLOAT, 1, (int64_t[]){0}, NULL, count, &given, &w, &err) == NACRE_OK);
    nacre_value_release(w);
    CHECK_INT(given, 2);
}

TEST(value_strings_with_zeros_and_maps) {
    nacre_value *keys, *values, *map, *item;
    nacre_error err;
    size_t bytes = 0;
    const char *const texts[] = {"a\0b", ""};
    float numbers[3] = {1, 2, 3};
    REQUIRE(nacre_value_strings_n(1, (int64_t[]){2}, texts, (size_t[]){3, 0}, &keys, &err) == NACRE_OK);
    CHECK(memcmp(nacre_value_string(keys, 0, &bytes), "a\0b", 4) == 0);
    CHECK_INT(bytes, 3);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, (int64_t[]){2}, numbers, &values, &err) == NACRE_OK);
    REQUIRE(nacre_value_map(keys, values, &map, &err) == NACRE_OK);
    CHECK(nacre_value_kind(map) == NACRE_KIND_MAP);
    item = nacre_value_item(map, 1);
    CHECK(item == values);
    nacre_value_release(item);
    nacre_value_release(map);
    nacre_value_release(values);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, (int64_t[]){3}, numbers, &values, &err) == NACRE_OK);
    CHECK(nacre_value_map(keys, values, &map, &err) == NACRE_SHAPE);
    nacre_value_release(values);
    nacre_value_release(keys);
    CHECK_STR(nacre_type_name(NACRE_FLOAT), "float");
    CHECK_INT(nacre_type_bytes(NACRE_BFLOAT16), 2);
    CHECK_INT(nacre_type_bytes(NACRE_STRING), 0);
}
