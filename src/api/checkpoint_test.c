/* api/checkpoint_test.c: a checkpoint of properties alone, through the public header. */
#include "nacre/nacre_train.h"
#include "tests/check.h"

#include <stdio.h>
#include <unistd.h>

static nacre_code set(nacre_checkpoint *c, nacre_property p, nacre_error *err) {
    return nacre_checkpoint_set_property(c, &p, err);
}

TEST(checkpoint_of_properties_alone_is_kept) {
    static const char *const formats[] = {"ort", "safetensors"};
    nacre_checkpoint *c, *again;
    nacre_error err = {0};
    char path[64];
    snprintf(path, sizeof path, "/tmp/nacre_properties_%ld", (long)getpid());
    REQUIRE(nacre_checkpoint_create(&c, &err) == NACRE_OK);
    CHECK_INT(set(c, (nacre_property){.name = "path", .kind = NACRE_PROPERTY_STRING, .s = "a/b"}, &err), NACRE_OK);
    CHECK_INT(set(c, (nacre_property){.name = "epoch", .kind = NACRE_PROPERTY_INT, .i = 400}, &err), NACRE_OK);
    CHECK_INT(set(c, (nacre_property){.name = "half", .kind = NACRE_PROPERTY_FLOAT, .f = 0.5f}, &err), NACRE_OK);
    for (int k = 0; k < 2; k++) {
        nacre_property p;
        REQUIRE(nacre_checkpoint_save(c, path, formats[k], 0, &err) == NACRE_OK);
        REQUIRE(nacre_checkpoint_load(path, &again, &err) == NACRE_OK);
        CHECK_INT(nacre_checkpoint_n(again), 0);
        REQUIRE(nacre_checkpoint_n_properties(again) == 3);
        CHECK_INT(nacre_checkpoint_property(again, 0, &p, &err), NACRE_OK);
        CHECK(p.kind == NACRE_PROPERTY_INT && p.i == 400);
        CHECK_INT(nacre_checkpoint_property(again, 1, &p, &err), NACRE_OK);
        CHECK(p.kind == NACRE_PROPERTY_FLOAT && p.f == 0.5f);
        CHECK_INT(nacre_checkpoint_property(again, 2, &p, &err), NACRE_OK);
        CHECK_STR(p.s, "a/b");
        CHECK_INT(nacre_checkpoint_property(again, 3, &p, &err), NACRE_ARGUMENT);
        nacre_checkpoint_release(again);
    }
    unlink(path);
    nacre_checkpoint_release(c);
}

TEST(checkpoint_refuses_properties_of_no_kind_or_name) {
    nacre_checkpoint *c;
    nacre_error err = {0};
    REQUIRE(nacre_checkpoint_create(&c, &err) == NACRE_OK);
    CHECK_INT(set(c, (nacre_property){.name = "x", .kind = (nacre_property_kind)7}, &err), NACRE_ARGUMENT);
    CHECK_STR(err.text, "property 'x': expected an int, a float or a string, got kind 7");
    CHECK_INT(set(c, (nacre_property){.kind = NACRE_PROPERTY_INT}, &err), NACRE_ARGUMENT);
    CHECK_STR(err.text, "a property needs a name");
    CHECK_INT(nacre_checkpoint_n_properties(c), 0);
    nacre_checkpoint_release(c);
}
