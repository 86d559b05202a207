/* base/status_test.c: codes, the first failure wins, cutting of long text. */
#include "base/status.h"

#include "tests/check.h"

static nc_code fail_in_stage(nc_work *w) {
    NC_FAIL(w, NC_E_SHAPE, "weight has %d dims, input has %d", 4, 3);
}

static nc_code forward(nc_work *w) {
    NC_TRY(fail_in_stage(w));
    return NC_OK;
}

static nc_code need(nc_work *w, const void *p) {
    NC_NEED(w, p);
    return NC_OK;
}

TEST(status_code_names) {
    CHECK_STR(nc_code_name(NC_E_SHAPE), "SHAPE");
    CHECK_STR(nc_code_text(NC_E_SHAPE), "shapes do not fit");
    CHECK_STR(nc_code_name((nc_code)9999), "?");
    CHECK_STR(nc_code_text((nc_code)-1), "unknown error");
}

TEST(status_first_failure_stays) {
    nc_work w;
    nc_work_init(&w);
    char line[256];
    w.at_op = "Conv";
    w.at_node = "conv1";
    CHECK_INT(forward(&w), NC_E_SHAPE);
    CHECK_STR(nc_diag_print(&w.diag, line, sizeof line), "Conv 'conv1': weight has 4 dims, input has 3 [SHAPE]");
    CHECK_INT(need(&w, NULL), NC_E_MEMORY);
    CHECK_INT(w.diag.code, NC_E_SHAPE);
    CHECK_INT(need(&w, &w), NC_OK);
    nc_work_release(&w);
}

TEST(status_never_reports_ok) {
    nc_work w;
    nc_work_init(&w);
    CHECK_INT(nc_fail(NULL, NC_E_TYPE, "x"), NC_E_TYPE);
    CHECK_INT(nc_fail(NULL, NC_OK, "x"), NC_E_FAIL);
    CHECK_INT(nc_fail(&w, NC_OK, "x"), NC_E_FAIL);
    CHECK_INT(w.diag.code, NC_E_FAIL);
    nc_work_release(&w);
}

TEST(status_print_leaves_out_what_is_unknown) {
    nc_diag d;
    char line[64], tiny[4] = "zzz";
    CHECK_INT(nc_diag_set(&d, NC_E_IO, NULL, NULL, "%s", ""), NC_E_IO);
    CHECK_STR(nc_diag_print(&d, line, sizeof line), "reading or writing failed [IO]");
    nc_diag_set(&d, NC_E_IO, "n", NULL, "t");
    CHECK_STR(nc_diag_print(&d, line, sizeof line), "'n': t [IO]");
    nc_diag_set(&d, NC_E_IO, NULL, "Op", "t");
    CHECK_STR(nc_diag_print(&d, line, sizeof line), "Op: t [IO]");
    CHECK_STR(nc_diag_print(&d, tiny, sizeof tiny), "Op:");
    CHECK_STR(nc_diag_print(&d, tiny, 0), "Op:");
}

TEST(status_cuts_between_characters) {
    nc_diag d;
    char name[201], text[1025];
    for (int lead = 0; lead < 4; lead++) { /* the cut falls on every byte of a character */
        memset(name, 'a', (size_t)lead);
        memset(text, 'a', (size_t)lead);
        for (size_t i = (size_t)lead; i + 4 <= 200; i += 4) memcpy(name + i, "\xF0\x9F\x90\x9A", 4);
        for (size_t i = (size_t)lead; i + 4 <= 1024; i += 4) memcpy(text + i, "\xF0\x9F\x90\x9A", 4);
        name[lead ? 196 + lead : 200] = '\0';
        text[lead ? 1020 + lead : 1024] = '\0';
        nc_diag_set(&d, NC_E_TYPE, name, "Op", "%s", text);
        CHECK_INT((strlen(d.node) - (size_t)lead) % 4, 0);
        CHECK_INT((strlen(d.text) - (size_t)lead) % 4, 0);
        CHECK(strlen(d.node) + 4 >= sizeof d.node - 1 && strlen(d.text) + 4 >= sizeof d.text - 1);
    }
    memset(name, 'b', 95);
    name[95] = '\0';
    nc_diag_set(&d, NC_E_TYPE, name, NULL, "t");
    CHECK_STR(d.node, name);
}
