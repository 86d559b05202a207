/* train/checkpoint_test.c: checkpoints there and back in both formats, files of onnxruntime's own and of others, damage
 * that is told by the tensor's name, and every allocation failing. checkpoint_file_test.c has what happens to files. */
#include "train/checkpoint_formats.h"

#include "tests/check.h"
#include "tests/fuzz/fuzz_checkpoint_one.h"

#include <stdlib.h>

static nc_object *numbers(nc_dtype t, int rank, const int64_t *dims, int seed) {
    nc_object *o = nc_object_host_tensor(t, rank, dims);
    size_t bytes = 0;
    if (o && nc_tensor_bytes(t, dims, rank, &bytes))
        for (size_t i = 0; i < bytes; i++) ((uint8_t *)o->t.data)[i] = (uint8_t)(i * 7 + (size_t)seed);
    return o;
}

static nc_code add(nc_work *w, nc_checkpoint *c, const char *name, nc_object *o, bool trainable) {
    NC_NEED(w, o);
    return nc_checkpoint_add(w, c, name, o->t.dtype, o, trainable);
}

static nc_code set(nc_work *w, nc_checkpoint *c, nc_property p) { return nc_checkpoint_set_property(w, c, &p); }

/* One of everything: all types that the format has, ranks 0 to 3, nothing, names that need care. */
static nc_code fill(nc_work *w, nc_checkpoint *c, bool ort) {
    const int64_t dims[] = {3, 2, 1}, empty[] = {0, 5};
    char name[32];
    for (int t = 1; t <= (ort ? 20 : NC_N_DTYPES - 1); t++) {
        if (t == NC_STRING) continue;
        snprintf(name, sizeof name, "p%d", t);
        NC_TRY(add(w, c, name, numbers((nc_dtype)t, t % 4, dims, t), t % 3 != 0));
    }
    NC_TRY(add(w, c, "empty \"\\\xC3\xA9", numbers(NC_FLOAT, 2, empty, 0), true));
    NC_TRY(add(w, c, "optimizer.momentum0.p1", numbers(NC_DOUBLE, 1, dims, 4), false));
    NC_NEED(w, nc_checkpoint_find(c, "p1")->moments[0] = numbers(NC_FLOAT, 1, dims, 9));
    NC_NEED(w, nc_checkpoint_find(c, "p1")->moments[1] = numbers(NC_FLOAT, 1, dims, 10));
    NC_NEED(w, nc_checkpoint_find(c, "p10")->moments[1] = numbers(NC_FLOAT, 2, dims, 11));
    NC_TRY(set(w, c, (nc_property){.name = "z", .kind = NC_PROPERTY_INT, .i = INT64_MIN}));
    NC_TRY(set(w, c, (nc_property){.name = "a", .kind = NC_PROPERTY_FLOAT, .f = 0.1f}));
    NC_TRY(set(w, c, (nc_property){.name = "inf", .kind = NC_PROPERTY_FLOAT, .f = -INFINITY}));
    NC_TRY(set(w, c, (nc_property){.name = "nan", .kind = NC_PROPERTY_FLOAT, .f = NAN}));
    NC_TRY(set(w, c, (nc_property){.name = "who", .kind = NC_PROPERTY_STRING, .s = "line\n\"quoted\""}));
    c->optimizer = (nc_optimizer_state){true, 12, 0.1f, 1e-30f, 3, 100};
    c->has_random = true, c->seed = UINT64_MAX - 1, c->drawn = 1ull << 63;
    c->loss_scale = 1024, c->scale_updates = 7;
    return NC_OK;
}

static nc_code write(nc_work *w, const nc_checkpoint *c, bool ort, bool with_optimizer, nc_text *out) {
    nc_checkpoint_sink sink = {fuzz_checkpoint_add, out};
    return ort ? nc_checkpoint_write_ort(w, c, with_optimizer, sink, NULL)
               : nc_checkpoint_write_safetensors(w, c, with_optimizer, sink);
}

static bool same_tensor(const nc_object *a, const nc_object *b) {
    size_t bytes = 0;
    if (!a || !b) return a == b;
    if (a->t.dtype != b->t.dtype || a->t.rank != b->t.rank) return false;
    for (int d = 0; d < a->t.rank; d++)
        if (a->t.dims[d] != b->t.dims[d]) return false;
    return nc_tensor_bytes(a->t.dtype, a->t.dims, a->t.rank, &bytes) && memcmp(a->t.data, b->t.data, bytes) == 0;
}

static void check_params(const nc_checkpoint *a, const nc_checkpoint *b, bool in_order) {
    REQUIRE(a->params.n == b->params.n);
    for (int i = 0; i < a->params.n; i++) {
        const nc_parameter *p = &a->params.v[i], *q = nc_checkpoint_find(b, p->name);
        REQUIRE(q);
        CHECK(!in_order || q == &b->params.v[i]);
        CHECK(p->dtype == q->dtype && p->trainable == q->trainable && same_tensor(p->value, q->value));
        for (int k = 0; k < NC_MOMENTS; k++) CHECK(same_tensor(p->moments[k], q->moments[k]));
    }
}

static void check_rest(const nc_checkpoint *a, const nc_checkpoint *b) {
    CHECK(memcmp(&a->optimizer.step, &b->optimizer.step, sizeof a->optimizer.step) == 0);
    CHECK(a->optimizer.present == b->optimizer.present && a->optimizer.initial_rate == b->optimizer.initial_rate);
    CHECK(a->optimizer.rate == b->optimizer.rate && a->optimizer.warmup == b->optimizer.warmup);
    CHECK(a->optimizer.total == b->optimizer.total && a->nominal == b->nominal);
    CHECK(a->loss_scale == b->loss_scale && a->scale_updates == b->scale_updates);
    CHECK(a->has_random == b->has_random && a->seed == b->seed && a->drawn == b->drawn);
    REQUIRE(a->properties.n == b->properties.n);
    for (int i = 0; i < a->properties.n; i++) {
        const nc_property *p = &a->properties.v[i], *q = &b->properties.v[i];
        CHECK_STR(q->name, p->name);
        CHECK(p->kind == q->kind && p->i == q->i && (p->f == q->f || (isnan(p->f) && isnan(q->f))));
        if (p->kind == NC_PROPERTY_STRING) CHECK_STR(q->s, p->s);
    }
}

static void there_and_back(bool ort) {
    uint64_t live = nc_mem_live();
    nc_work w;
    nc_text bytes = {0}, again = {0};
    nc_checkpoint *c = NULL, *d = NULL;
    nc_work_init(&w);
    REQUIRE(nc_checkpoint_create(&w, &c) == NC_OK);
    REQUIRE(fill(&w, c, ort) == NC_OK);
    REQUIRE(write(&w, c, ort, true, &bytes) == NC_OK);
    if (nc_checkpoint_load_bytes(&w, bytes.s, bytes.n, &d) != NC_OK)
        nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text);
    REQUIRE(d);
    check_params(c, d, !ort);
    check_rest(c, d);
    for (int i = 0; i < d->params.n; i++) CHECK((uintptr_t)d->params.v[i].value->t.data % 64 == 0);
    CHECK(write(&w, d, ort, true, &again) == NC_OK);
    CHECK(ort || (again.n == bytes.n && memcmp(again.s, bytes.s, bytes.n) == 0));
    nc_checkpoint_release(c);
    nc_checkpoint_release(d);
    nc_text_release(&bytes);
    nc_text_release(&again);
    nc_work_release(&w);
    CHECK_INT(nc_mem_live(), live);
}

TEST(checkpoint_there_and_back_safetensors) { there_and_back(false); }
TEST(checkpoint_there_and_back_ort) { there_and_back(true); }

static uint64_t header_of(const nc_text *bytes) {
    uint64_t n = 8;
    for (int i = 0; i < 8; i++) n += (uint64_t)(uint8_t)bytes->s[i] << 8 * i;
    return n;
}

/* A bit of every byte of the header: what is not refused says the same. */
TEST(checkpoint_damaged_headers_are_refused) {
    nc_work w;
    nc_text bytes = {0};
    nc_checkpoint *c = NULL;
    int refused = 0;
    nc_work_init(&w);
    REQUIRE(nc_checkpoint_create(&w, &c) == NC_OK && fill(&w, c, false) == NC_OK);
    REQUIRE(write(&w, c, false, true, &bytes) == NC_OK);
    uint64_t n = header_of(&bytes);
    for (uint64_t i = 0; i < n; i++) {
        nc_checkpoint *d = NULL;
        if (i > 8 && memcmp(bytes.s + i - 3, "[0,5", 4) == 0) continue; /* dims of no bytes are in no sum */
        bytes.s[i] = (char)(bytes.s[i] ^ 1 << (i * 5 + i / 8) % 8);
        if (nc_checkpoint_load_bytes(&w, bytes.s, bytes.n, &d) != NC_OK) {
            CHECK(!d && w.diag.text[0]);
            refused++;
        } else {
            check_params(c, d, true);
            check_rest(c, d);
        }
        nc_checkpoint_release(d);
        bytes.s[i] = (char)(bytes.s[i] ^ 1 << (i * 5 + i / 8) % 8);
        nc_work_release(&w);
        nc_work_init(&w);
    }
    CHECK(refused > (int)(n * 9 / 10));
    nc_checkpoint_release(c);
    nc_text_release(&bytes);
    nc_work_release(&w);
}

TEST(checkpoint_without_optimizer) {
    for (int ort = 0; ort < 2; ort++) {
        nc_work w;
        nc_text bytes = {0};
        nc_checkpoint *c = NULL, *d = NULL;
        nc_work_init(&w);
        REQUIRE(nc_checkpoint_create(&w, &c) == NC_OK && fill(&w, c, ort) == NC_OK);
        REQUIRE(write(&w, c, ort, false, &bytes) == NC_OK);
        REQUIRE(nc_checkpoint_load_bytes(&w, bytes.s, bytes.n, &d) == NC_OK);
        CHECK(!d->optimizer.present && d->optimizer.step == 0 && d->optimizer.rate == 0);
        CHECK(!nc_checkpoint_find(d, "p1")->moments[0] && d->has_random);
        CHECK_INT(d->params.n, c->params.n);
        CHECK_INT(d->properties.n, c->properties.n);
        nc_checkpoint_release(c);
        nc_checkpoint_release(d);
        nc_text_release(&bytes);
        nc_work_release(&w);
    }
}

TEST(checkpoint_nominal) {
    for (int ort = 0; ort < 2; ort++) {
        nc_work w;
        nc_text bytes = {0};
        nc_checkpoint *c = NULL, *d = NULL;
        nc_work_init(&w);
        REQUIRE(nc_checkpoint_create(&w, &c) == NC_OK);
        c->nominal = true;
        REQUIRE(nc_checkpoint_add(&w, c, "w", NC_BFLOAT16, NULL, true) == NC_OK);
        REQUIRE(nc_checkpoint_add(&w, c, "b", NC_INT64, NULL, false) == NC_OK);
        REQUIRE(write(&w, c, ort, true, &bytes) == NC_OK);
        REQUIRE(nc_checkpoint_load_bytes(&w, bytes.s, bytes.n, &d) == NC_OK);
        CHECK(d->nominal && d->params.n == 2 && !d->params.v[0].value && d->params.v[0].dtype == NC_BFLOAT16);
        CHECK(d->params.v[0].trainable && !d->params.v[1].trainable && d->params.v[1].dtype == NC_INT64);
        nc_checkpoint_release(c);
        nc_checkpoint_release(d);
        nc_text_release(&bytes);
        nc_work_release(&w);
    }
}

TEST(checkpoint_strings_in_ort_alone) {
    const int64_t dims[] = {2};
    const nc_str words[] = {{(char *)"one", 3}, {(char *)"", 0}};
    nc_work w;
    nc_text bytes = {0};
    nc_checkpoint *c = NULL, *d = NULL;
    nc_work_init(&w);
    REQUIRE(nc_checkpoint_create(&w, &c) == NC_OK);
    REQUIRE(nc_checkpoint_add(&w, c, "words", NC_STRING, nc_object_strings(1, dims, words), false) == NC_OK);
    REQUIRE(write(&w, c, true, true, &bytes) == NC_OK);
    REQUIRE(nc_checkpoint_load_bytes(&w, bytes.s, bytes.n, &d) == NC_OK);
    const nc_str *got = d->params.v[0].value->t.data;
    CHECK(got[0].n == 3 && memcmp(got[0].p, "one", 3) == 0 && got[1].n == 0);
    CHECK_INT(write(&w, c, false, true, &bytes), NC_E_UNSUPPORTED);
    CHECK(strstr(w.diag.text, "'words' holds strings"));
    nc_checkpoint_release(c);
    nc_checkpoint_release(d);
    nc_text_release(&bytes);
    nc_work_release(&w);
}

TEST(checkpoint_ort_has_no_int4) {
    const int64_t dims[] = {3};
    nc_work w;
    nc_text bytes = {0};
    nc_checkpoint *c = NULL;
    nc_work_init(&w);
    REQUIRE(nc_checkpoint_create(&w, &c) == NC_OK);
    REQUIRE(nc_checkpoint_add(&w, c, "q", NC_INT4, numbers(NC_INT4, 1, dims, 0), false) == NC_OK);
    CHECK_INT(write(&w, c, true, true, &bytes), NC_E_UNSUPPORTED);
    CHECK(strstr(w.diag.text, "no int4, the type of 'q'"));
    nc_checkpoint_release(c);
    nc_text_release(&bytes);
    nc_work_release(&w);
}

TEST(checkpoint_names_are_unique_and_types_fit) {
    const int64_t dims[] = {3};
    uint64_t live = nc_mem_live();
    nc_work w;
    nc_checkpoint *c = NULL;
    nc_work_init(&w);
    REQUIRE(nc_checkpoint_create(&w, &c) == NC_OK);
    CHECK_INT(nc_checkpoint_add(&w, c, "w", NC_FLOAT, numbers(NC_FLOAT, 1, dims, 0), true), NC_OK);
    CHECK_INT(nc_checkpoint_add(&w, c, "w", NC_FLOAT, numbers(NC_FLOAT, 1, dims, 0), true), NC_E_ARGUMENT);
    CHECK(strstr(w.diag.text, "two parameters are called 'w'"));
    CHECK_INT(nc_checkpoint_add(NULL, c, "v", NC_DOUBLE, numbers(NC_FLOAT, 1, dims, 0), true), NC_E_TYPE);
    CHECK_INT(set(&w, c, (nc_property){.name = "k", .kind = NC_PROPERTY_INT, .i = 1}), NC_OK);
    CHECK_INT(set(&w, c, (nc_property){.name = "k", .kind = NC_PROPERTY_STRING, .s = "one"}), NC_OK);
    CHECK_INT(c->properties.n, 1);
    CHECK_STR(nc_checkpoint_property(c, "k")->s, "one");
    CHECK(!nc_checkpoint_property(c, "j") && !nc_checkpoint_find(c, "v"));
    nc_checkpoint_release(c);
    nc_work_release(&w);
    CHECK_INT(nc_mem_live(), live);
}

/* Written by onnxruntime-training 1.19.2 itself: MatMul(x, w) + b, w trained for three steps, b frozen. */
TEST(checkpoint_of_onnxruntime) {
    nc_work w;
    nc_checkpoint *c = NULL;
    nc_work_init(&w);
    if (nc_checkpoint_load(&w, "tests/fuzz/checkpoint/ort_after3", &c) != NC_OK)
        nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text);
    REQUIRE(c && c->params.n == 2);
    const nc_parameter *p = nc_checkpoint_find(c, "w"), *b = nc_checkpoint_find(c, "b");
    REQUIRE(p && b && p->value && p->moments[0] && p->moments[1]);
    CHECK(p->trainable && !b->trainable && !b->moments[0] && p->value->t.rank == 2 && p->value->t.dims[0] == 3);
    CHECK_NEAR(((float *)p->value->t.data)[0], 0.12368769f, 0);
    CHECK_NEAR(((float *)p->value->t.data)[5], 0.35867888f, 0);
    CHECK(c->optimizer.present && c->optimizer.step == 3 && c->optimizer.initial_rate == 0.001f);
    CHECK(c->optimizer.rate == 0.001f && !c->nominal && !c->has_random);
    REQUIRE(c->properties.n == 3);
    CHECK(nc_checkpoint_property(c, "epoch")->i == 7 && nc_checkpoint_property(c, "best")->f == 0.25f);
    CHECK_STR(nc_checkpoint_property(c, "who")->s, "ort");
    nc_checkpoint_release(c);
    REQUIRE(nc_checkpoint_load(&w, "tests/fuzz/checkpoint/ort_nominal", &c) == NC_OK);
    CHECK(c->nominal && c->params.n == 2 && !c->params.v[0].value && c->params.v[0].dtype == NC_FLOAT);
    nc_checkpoint_release(c);
    nc_work_release(&w);
}

/* A file that only has tensors, as others write them. */
TEST(checkpoint_of_others) {
    static const char header[] = "{\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[8,16]},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    nc_work w;
    nc_checkpoint *c = NULL;
    nc_text file = {0};
    nc_work_init(&w);
    nc_text_add_n(&file, (char[]){(char)strlen(header), 0, 0, 0, 0, 0, 0, 0}, 8);
    nc_text_add(&file, header);
    nc_text_add_n(&file, "\0\0\x80\x3F\0\0\0\x40\5\0\0\0\0\0\0\0", 16);
    REQUIRE(nc_checkpoint_load_bytes(&w, file.s, file.n, &c) == NC_OK);
    REQUIRE(c->params.n == 2);
    CHECK_STR(c->params.v[0].name, "a");
    CHECK(c->params.v[0].trainable && ((float *)c->params.v[0].value->t.data)[1] == 2);
    CHECK(!c->params.v[1].trainable && *(int64_t *)c->params.v[1].value->t.data == 5);
    nc_checkpoint_release(c);
    nc_text_release(&file);
    nc_work_release(&w);
}

static nc_code load_and_drop(nc_work *w, const void *p, size_t n) {
    nc_checkpoint *c = NULL;
    uint8_t *exact = malloc(n ? n : 1); /* sanitizers then see a byte read too far */
    if (n) memcpy(exact, p, n);
    nc_code code = nc_checkpoint_load_bytes(w, exact, n, &c);
    nc_checkpoint_release(c);
    free(exact);
    return code;
}

/* Cut off anywhere, or a bit wrong: refused with words, and in the data with the tensor's name. */
TEST(checkpoint_damage_is_told) {
    for (int ort = 0; ort < 2; ort++) {
        const int64_t dims[] = {4};
        nc_work w;
        nc_text bytes = {0};
        nc_checkpoint *c = NULL;
        nc_work_init(&w);
        REQUIRE(nc_checkpoint_create(&w, &c) == NC_OK);
        REQUIRE(nc_checkpoint_add(&w, c, "first", NC_DOUBLE, numbers(NC_DOUBLE, 1, dims, 3), true) == NC_OK);
        REQUIRE(nc_checkpoint_add(&w, c, "second", NC_FLOAT, numbers(NC_FLOAT, 1, dims, 99), true) == NC_OK);
        REQUIRE(write(&w, c, ort, true, &bytes) == NC_OK);
        for (size_t n = 0; n < bytes.n; n++) {
            w.diag = (nc_diag){0};
            if (load_and_drop(&w, bytes.s, n) == NC_OK || !w.diag.text[0])
                nc_test_failed(__FILE__, __LINE__, "cut at %zu of %zu: %s", n, bytes.n, w.diag.text);
        }
        CHECK(ort || strstr(w.diag.text, "'second' ends at byte 48 of the data, of which the file has 47"));
        for (size_t i = 0; i < bytes.n * 8; i++) {
            bytes.s[i / 8] ^= (char)(1 << i % 8);
            w.diag = (nc_diag){0};
            nc_code code = load_and_drop(&w, bytes.s, bytes.n);
            CHECK(code == NC_OK || w.diag.text[0]);
            if (!ort && i / 8 >= bytes.n - 48)
                CHECK(code == NC_E_BAD_MODEL && strstr(w.diag.text, i / 8 < bytes.n - 16 ? "'first'" : "'second'"));
            bytes.s[i / 8] ^= (char)(1 << i % 8);
        }
        if (ort) { /* the last byte of the file's first tensor */
            char *at = memmem(bytes.s, bytes.n, nc_checkpoint_find(c, "first")->value->t.data, 32);
            REQUIRE(at);
            at[31] ^= 1;
            w.diag = (nc_diag){0};
            CHECK_INT(load_and_drop(&w, bytes.s, bytes.n), NC_E_BAD_MODEL);
            CHECK(strstr(w.diag.text, "the bytes of 'first' are not those that were saved"));
        }
        nc_checkpoint_release(c);
        nc_text_release(&bytes);
        nc_work_release(&w);
    }
}

TEST(checkpoint_refuses_other_files) {
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "got an empty file"},
        {"PK\3\4 a zip", "got something else"},
        {"\x2\0\0\0\0\0\0\0{}x", "1 bytes behind the last tensor"},
        {"\x2f\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"X9\",\"shape\":[],\"data_offsets\":[0,0]}}", "'X9' are not known"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nc_work w;
        nc_work_init(&w);
        size_t n = i < 2 ? strlen(rows[i].text) : 8 + strlen(rows[i].text + 8);
        nc_text file = {0};
        nc_text_add_n(&file, rows[i].text, n);
        if (i == 3) file.s[0] = (char)(n - 8);
        CHECK(load_and_drop(&w, file.s, n) != NC_OK);
        if (!strstr(w.diag.text, rows[i].message)) nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text);
        nc_text_release(&file);
        nc_work_release(&w);
    }
}

static nc_code all(nc_work *w, bool ort, nc_text *bytes) {
    nc_checkpoint *c = NULL, *d = NULL;
    nc_code code = nc_checkpoint_create(w, &c);
    if (code == NC_OK) code = fill(w, c, ort);
    if (code == NC_OK) code = write(w, c, ort, true, bytes);
    if (code == NC_OK) code = nc_checkpoint_load_bytes(w, bytes->s, bytes->n, &d);
    nc_checkpoint_release(c);
    nc_checkpoint_release(d);
    return code;
}

TEST(checkpoint_every_allocation_fails) {
    for (int ort = 0; ort < 2; ort++) {
        uint64_t live = nc_mem_live();
        bool hit = true;
        for (uint64_t n = 1; hit; n++) {
            nc_work w;
            nc_text bytes = {0};
            nc_work_init(&w);
            nc_mem_fail_at(n);
            nc_code code = all(&w, ort, &bytes);
            hit = nc_mem_fail_hit();
            nc_mem_fail_at(0);
            CHECK(hit ? code != NC_OK : code == NC_OK);
            nc_text_release(&bytes);
            nc_work_release(&w);
            CHECK_INT(nc_mem_live(), live);
        }
    }
}
