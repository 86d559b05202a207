/* base/object_test.c: counted objects: sizes, strings, lists, sharing, deep nesting, failures. */
#include "base/object.h"

#include "base/mem.h"
#include "tests/check.h"

TEST(object_tensors) {
    uint64_t live = nc_mem_live();
    const int64_t dims[] = {2, 3}, empty[] = {2, 0, 5}, negative[] = {-1}, huge[] = {INT64_MAX, 4};
    nc_object *o = nc_object_host_tensor(NC_FLOAT, 2, dims);
    REQUIRE(o);
    CHECK_INT(o->t.strides[0], 3);
    CHECK_INT(o->buffer->bytes, 24);
    CHECK(o->t.data == o->buffer->ptr && o->t.rank == 2 && o->t.dtype == NC_FLOAT);
    nc_object_unref(o);
    o = nc_object_host_tensor(NC_INT64, 0, NULL);
    REQUIRE(o);
    CHECK_INT(o->buffer->bytes, 8);
    nc_object_unref(o);
    o = nc_object_host_tensor(NC_BOOL, 3, empty);
    CHECK(o && nc_tensor_numel(&o->t) == 0);
    nc_object_unref(o);
    CHECK(!nc_object_host_tensor(NC_FLOAT, 1, negative));
    CHECK(!nc_object_host_tensor(NC_FLOAT, 2, huge));
    CHECK(!nc_object_host_tensor(NC_UNDEFINED, 0, NULL));
    CHECK(!nc_object_strings(2, huge, NULL));
    CHECK(!nc_object_tensor(nc_buffer_host(23), NC_FLOAT, 2, dims));
    CHECK(!nc_object_tensor(NULL, NC_FLOAT, 2, dims));
    CHECK_INT(nc_mem_live(), live);
}

TEST(object_strings) {
    uint64_t live = nc_mem_live();
    const int64_t dims[] = {3}, none[] = {0};
    const nc_str in[] = {{(char *)"a\0b", 3}, {NULL, 0}, {(char *)"xyz", 2}};
    nc_object *o = nc_object_strings(1, dims, in), *blank = nc_object_host_tensor(NC_STRING, 1, dims);
    nc_object *zero = nc_object_strings(1, none, NULL);
    REQUIRE(o && blank && zero);
    const nc_str *s = o->t.data, *b = blank->t.data;
    CHECK_INT(s[0].n, 3);
    CHECK(memcmp(s[0].p, "a\0b", 4) == 0);
    CHECK_STR(s[1].p, "");
    CHECK_STR(s[2].p, "xy");
    CHECK(b[2].n == 0 && b[2].p && !*b[2].p);
    nc_object_unref(o);
    nc_object_unref(blank);
    nc_object_unref(zero);
    CHECK_INT(nc_mem_live(), live);
}

TEST(object_lists) {
    uint64_t live = nc_mem_live();
    nc_object *seq = nc_object_list(NC_OBJ_SEQUENCE, NC_FLOAT), *first = nc_object_host_tensor(NC_FLOAT, 0, NULL);
    REQUIRE(seq && first);
    CHECK(nc_object_push(seq, nc_object_ref(first)));
    for (int i = 0; i < 100; i++) CHECK(nc_object_push(seq, nc_object_host_tensor(NC_FLOAT, 0, NULL)));
    CHECK_INT(seq->n, 101);
    CHECK(nc_object_own(seq) == seq);
    nc_object *shared = nc_object_own(nc_object_ref(seq));
    REQUIRE(shared && shared != seq);
    CHECK(shared->n == 101 && shared->items[0] == first && shared->t.dtype == NC_FLOAT);
    CHECK_INT(atomic_load(&first->refs), 3);
    nc_object *last = nc_object_pop(shared);
    CHECK(last == seq->items[100] && shared->n == 100 && seq->n == 101);
    nc_object_unref(last);
    nc_object_unref(seq);
    nc_object_unref(shared);
    CHECK_INT(atomic_load(&first->refs), 1);
    nc_object_unref(first);
    nc_object *none = nc_object_list(NC_OBJ_OPTIONAL, NC_UNDEFINED);
    CHECK(none && !nc_object_pop(none));
    nc_object_unref(none);
    nc_object_unref(NULL);
    CHECK_INT(nc_mem_live(), live);
}

TEST(object_deep_nesting_needs_no_stack) {
    uint64_t live = nc_mem_live();
    nc_object *o = nc_object_list(NC_OBJ_TAPE, NC_UNDEFINED);
    for (int i = 0; o && i < 300000; i++) {
        nc_object *outer = nc_object_list(NC_OBJ_TAPE, NC_UNDEFINED);
        REQUIRE(outer && nc_object_push(outer, o));
        o = outer;
    }
    nc_object_unref(o);
    CHECK_INT(nc_mem_live(), live);
}

TEST(object_out_of_memory) {
    uint64_t live = nc_mem_live();
    const int64_t dims[] = {2};
    const nc_str in[] = {{(char *)"ab", 2}, {(char *)"c", 1}};
    for (uint64_t k = 1;; k++) {
        nc_mem_fail_at(k);
        nc_object *seq = nc_object_list(NC_OBJ_SEQUENCE, NC_STRING), *s = nc_object_strings(1, dims, in);
        bool pushed = seq && s && nc_object_push(seq, nc_object_ref(s));
        nc_object *own = seq ? nc_object_own(nc_object_ref(seq)) : NULL;
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK(hit || (pushed && own));
        nc_object_unref(own);
        nc_object_unref(seq);
        nc_object_unref(s);
        CHECK_INT(nc_mem_live(), live);
        if (!hit || nc_test_has_failed()) break;
    }
}
