/* onnx/value_test.c: single values from hand-made messages, whole and broken. */
#include "onnx/value.h"

#include "onnx/wire.h"
#include "tests/check.h"

/* A TensorProto of two floats. */
static void put_tensor(nc_text *t, float a, float b) {
    float v[2] = {a, b};
    nc_wire_put_ints(t, 1, (const int64_t[]){2}, 1);
    nc_wire_put_int(t, 2, NC_FLOAT);
    nc_wire_put_floats(t, 4, v, 2);
    nc_wire_put_str(t, 8, "x");
}

static nc_code load(const nc_text *t, nc_object_kind kind, nc_object **out) {
    nc_work w;
    nc_work_init(&w);
    nc_code code = nc_onnx_load_value(&w, t->s, t->n, kind, out);
    CHECK(code == NC_OK || w.diag.text[0]);
    nc_work_release(&w);
    return code;
}

TEST(value_tensor_from_proto) {
    nc_text t = {0};
    nc_object *o = NULL;
    put_tensor(&t, 1.5f, -2);
    REQUIRE(load(&t, NC_OBJ_TENSOR, &o) == NC_OK);
    CHECK(o->t.rank == 1 && o->t.dims[0] == 2 && o->t.dtype == NC_FLOAT);
    CHECK(((float *)o->t.data)[0] == 1.5f && ((float *)o->t.data)[1] == -2);
    nc_object_unref(o);
    for (size_t n = 1; n < t.n; n++) { /* every cut is refused or another whole message, never read past */
        nc_text cut = {.s = t.s, .n = n};
        o = NULL;
        if (load(&cut, NC_OBJ_TENSOR, &o) == NC_OK) nc_object_unref(o);
    }
    nc_text_release(&t);
}

TEST(value_sequence_and_optional_from_proto) {
    nc_text t = {0};
    nc_object *o = NULL;
    nc_wire_put_str(&t, 1, "s");
    nc_wire_put_int(&t, 2, 1);
    for (int i = 0; i < 3; i++) {
        nc_wire_mark m = nc_wire_begin(&t, 3, 32);
        put_tensor(&t, (float)i, 7);
        nc_wire_end(&t, m);
    }
    REQUIRE(load(&t, NC_OBJ_SEQUENCE, &o) == NC_OK);
    CHECK(o->kind == NC_OBJ_SEQUENCE && o->n == 3 && o->t.dtype == NC_FLOAT);
    CHECK(((float *)o->items[2]->t.data)[0] == 2);
    nc_object_unref(o);
    CHECK_INT(load(&t, NC_OBJ_OPTIONAL, &o), NC_E_BAD_MODEL); /* three values in an optional */
    CHECK_INT(load(&t, NC_OBJ_MAP, &o), NC_E_UNSUPPORTED);
    nc_text_release(&t);
    nc_wire_put_str(&t, 1, "empty");
    REQUIRE(load(&t, NC_OBJ_OPTIONAL, &o) == NC_OK);
    CHECK(o->kind == NC_OBJ_OPTIONAL && o->n == 0);
    nc_object_unref(o);
    nc_wire_put_bytes(&t, 6, "", 0);
    CHECK_INT(load(&t, NC_OBJ_OPTIONAL, &o), NC_E_UNSUPPORTED); /* it holds a map */
    nc_text_release(&t);
}

TEST(value_nesting_is_bounded) {
    nc_text t = {0};
    nc_object *o = NULL;
    nc_wire_mark m[40];
    for (int i = 0; i < 40; i++) m[i] = nc_wire_begin(&t, 7, 64);
    for (int i = 39; i >= 0; i--) nc_wire_end(&t, m[i]);
    CHECK_INT(load(&t, NC_OBJ_OPTIONAL, &o), NC_E_LIMIT);
    nc_text_release(&t);
}
