/* Programs that the planner made pass the checker; each promise, broken by hand, is seen. */
#include "plan/check_program.h"

#include "base/mem.h"
#include "infer/infer.h"
#include "ir/text.h"
#include "plan/plan.h"
#include "tests/check.h"

#include <string.h>

typedef struct made {
    nc_work w;
    nc_model *m;
    nc_device *device;
    nc_program *p;
} made;

static bool make(made *t, const char *device, const char *text) {
    *t = (made){.m = NULL};
    nc_work_init(&t->w);
    nc_code code = nc_device_open(&t->w, device, &t->device);
    if (code == NC_OK) code = nc_graph_parse(&t->w, text, nc_ops_registry(), &t->m);
    if (code == NC_OK) code = nc_infer_model(&t->w, t->m);
    nc_plan_options o = {.device = t->device, .no_fusion = true};
    if (code == NC_OK) code = nc_plan_lower(&t->w, t->m, &o);
    if (code == NC_OK) code = nc_plan_build(&t->w, t->m, &o, &t->p);
    if (code != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s: %s", device, t->w.diag.text);
    return code == NC_OK;
}

static void unmake(made *t) {
    nc_program_destroy(t->p);
    nc_model_destroy(t->m);
    nc_device_close(t->device);
    nc_work_release(&t->w);
}

/* What the checker says must hold `part`; NULL: nothing is wrong. */
static void says(made *t, nc_code code, const char *part) {
    if (!part) CHECK_STR(code == NC_OK ? "" : t->w.diag.text, "");
    if (part && (code != NC_E_FAIL || !strstr(t->w.diag.text, part))) CHECK_STR(t->w.diag.text, part);
    t->w.diag = (nc_diag){.code = NC_OK};
}

static int instr_of(const nc_program *p, const char *op) {
    for (int i = 0; i < p->n_instrs; i++)
        if (strcmp(p->instrs[i].node->card->name, op) == 0) return i;
    nc_test_failed(__FILE__, __LINE__, "no instruction %s", op);
    return 0;
}

static int slot_with(const nc_program *p, nc_storage storage) {
    for (int i = 0; i < p->n_slots; i++)
        if (p->slots[i].storage == storage) return i;
    nc_test_failed(__FILE__, __LINE__, "no slot of storage %d", (int)storage);
    return 0;
}

static const char chain[] =
    "<opset: \"\" 18> g (float[3,4] x) => (z) {\n"
    "a = Exp(x)\n b = Softmax(a)\n c = Transpose<perm = [1, 0]>(b)\n d = Neg(c)\n z = Abs(d)\n }";
static const char update[] = "<opset: \"\" 17> g (float[2,3] g) => (y)\n"
                             "<var float[2,3] w = {1, 2, 3, 4, 5, 6} -> w_1>\n{\n"
                             "  y = Relu(w)\n  w_1 = Sub(w, g)\n}\n";
static const char apart[] = "<opset: \"\" 18> g (float[64] x, float[64] y) => (z) {\n"
                            "a = Exp(x)\n b = Sin(y)\n c = Neg(a)\n d = Cos(b)\n e = Sub(c, d)\n f = Mul(e, a)\n"
                            "z = Add(f, b)\n }";
static const char found[] = "<opset: \"\" 18> g (float[n] x) => (y, z) {\n"
                            "i = NonZero(x)\n j = Squeeze(i)\n y = Gather(x, j)\n z = Exp(x)\n }";

static void passes(const char *device, const char *text) {
    made t;
    if (make(&t, device, text)) says(&t, nc_program_check(&t.w, t.p), NULL);
    unmake(&t);
}
TEST(what_the_planner_makes_keeps_its_promises) {
    const char *const texts[] = {chain, update, apart, found};
    for (int i = 0; i < 4; i++) passes("cpu", texts[i]), passes("guard", texts[i]);
}

TEST(a_result_over_an_operand_needs_leave) {
    made t;
    if (make(&t, "cpu", chain)) {
        int s = slot_with(t.p, NC_S_ALIAS);
        nc_choice *ch = nc_choice_of(t.p->slots[s].value->def);
        memset(ch->prep.over, 0, sizeof ch->prep.over);
        says(&t, nc_program_check(&t.w, t.p), "which the kernel does not allow");
    }
    unmake(&t);
}

TEST(a_result_lies_over_as_many_bytes) {
    made t;
    if (make(&t, "cpu", chain)) {
        t.p->slots[slot_with(t.p, NC_S_ALIAS)].dtype = NC_DOUBLE;
        says(&t, nc_program_check(&t.w, t.p), "of other bytes");
    }
    unmake(&t);
}

TEST(what_was_overwritten_is_not_read) {
    made t;
    if (make(&t, "cpu", chain)) {
        int s = slot_with(t.p, NC_S_ALIAS);
        t.p->instrs[instr_of(t.p, "Abs")].in[0] = t.p->slots[s].of;
        says(&t, nc_program_check(&t.w, t.p), "has overwritten");
    }
    unmake(&t);
}

TEST(an_old_version_of_a_variable_is_not_read) {
    made t;
    if (make(&t, "cpu", update)) {
        nc_instr *relu = &t.p->instrs[instr_of(t.p, "Relu")], *sub = &t.p->instrs[instr_of(t.p, "Sub")];
        CHECK(relu < sub);
        nc_instr kept = *relu;
        *relu = *sub, *sub = kept; /* the reader comes after the writer */
        says(&t, nc_program_check(&t.w, t.p), "has overwritten");
    }
    unmake(&t);
}

TEST(a_device_waits_for_what_it_reads) {
    made t;
    if (make(&t, "guard", chain)) {
        nc_instr *x = &t.p->instrs[instr_of(t.p, "Exp")];
        CHECK(x->n_wait > 0);
        x->n_wait = 0;
        says(&t, nc_program_check(&t.w, t.p), "does not wait for instruction");
    }
    unmake(&t);
}

/* What a device's kernel is given by the host, and the device computes, is waited for by the host itself. */
TEST(the_host_waits_for_what_it_reads_for_a_device) {
    made t;
    if (make(&t, "guard",
             "<opset: \"\" 22> g (float[8] x, float[1] a) => (y) <const bool[] t = {1}, const int64[0] s = {}> {\n"
             "b = Sigmoid(a)\n r = Reshape(b, s)\n y = Dropout(x, r, t)\n }")) {
        says(&t, nc_program_check(&t.w, t.p), NULL);
        int i = 0;
        while (i < t.p->n_instrs && !t.p->instrs[i].n_host_wait) i++;
        CHECK(i < t.p->n_instrs);
        if (i < t.p->n_instrs) t.p->instrs[i].n_host_wait = 0;
        says(&t, nc_program_check(&t.w, t.p), "is issued before the host has waited for");
    }
    unmake(&t);
}

TEST(an_event_is_recorded_before_it_is_waited_for) {
    made t;
    if (make(&t, "guard", chain)) {
        nc_instr *x = &t.p->instrs[instr_of(t.p, "Exp")];
        for (int i = 0; i < t.p->n_instrs; i++)
            if (x->n_wait && t.p->instrs[i].record == x->wait[0]) t.p->instrs[i].record = -1;
        says(&t, nc_program_check(&t.w, t.p), "which nothing before it records");
    }
    unmake(&t);
}

TEST(a_view_is_read_while_its_memory_lives) {
    made t;
    if (make(&t, "cpu", chain)) {
        int view = slot_with(t.p, NC_S_VIEW);
        t.p->slots[t.p->slots[view].root].last--;
        says(&t, nc_program_check(&t.w, t.p), "its memory lives in instructions");
    }
    unmake(&t);
}

static nc_instance *instance(made *t) {
    int64_t caps[8] = {16, 16, 16, 16, 16, 16, 16, 16};
    bool known[8] = {true, true, true, true, true, true, true, true};
    nc_instance *x = NULL;
    CHECK(t->p->n_syms < 8);
    says(t, nc_instance_create(&t->w, t->p, 0, caps, known, &x), NULL);
    return x;
}

static void blocks_share(const char *device) {
    made t;
    nc_instance *x = make(&t, device, apart) ? instance(&t) : NULL;
    if (x) {
        says(&t, nc_instance_check(&t.w, t.p, 0, x), NULL);
        int a = t.p->instrs[instr_of(t.p, "Exp")].out[0], b = t.p->instrs[instr_of(t.p, "Sin")].out[0];
        CHECK(x->offset[t.p->slots[a].block] != x->offset[t.p->slots[b].block]);
        x->offset[t.p->slots[b].block] = x->offset[t.p->slots[a].block];
        says(&t, nc_instance_check(&t.w, t.p, 0, x), "share bytes while both are needed");
        x->offset[t.p->slots[b].block] = x->total[t.p->slots[b].place];
        says(&t, nc_instance_check(&t.w, t.p, 0, x), "outside of its block");
    }
    nc_free(x);
    unmake(&t);
}
TEST(blocks_that_are_needed_together_lie_apart) {
    blocks_share("cpu");
    blocks_share("guard");
}
