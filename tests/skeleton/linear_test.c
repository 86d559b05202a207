/* tests/skeleton/linear_test.c: reading, inferring and rewriting a model four times as long takes about four times the
 * steps and the memory (base/steps.h), whatever the model is made of: chains that passes clean up, one constant with
 * many users, a body with many captures, many outputs. */
#include "base/mem.h"
#include "base/steps.h"
#include "base/text.h"
#include "nacre/nacre.h"
#include "nacre/nacre_graph.h"
#include "tests/check.h"

/* Node i of a chain from v<i> to v<i+1>. */
typedef void (*link)(nc_text *t, int i);

static void reshape(nc_text *t, int i) { nc_text_addf(t, "v%d = Reshape(v%d, s%d)\n", i + 1, i, i % 2); }
static void transpose(nc_text *t, int i) { nc_text_addf(t, "v%d = Transpose<perm = [1, 0]>(v%d)\n", i + 1, i); }
static void cast(nc_text *t, int i) { nc_text_addf(t, "v%d = Cast<to = %d>(v%d)\n", i + 1, i % 2 ? 1 : 11, i); }
static void identity(nc_text *t, int i) { nc_text_addf(t, "v%d = Identity(v%d)\n", i + 1, i); }
static void neg(nc_text *t, int i) { nc_text_addf(t, "v%d = Neg(v%d)\n", i + 1, i); }
static void concat(nc_text *t, int i) { nc_text_addf(t, "v%d = Concat<axis = 1>(v%d, one)\n", i + 1, i); }
static void multiply(nc_text *t, int i) { nc_text_addf(t, "v%d = Mul(v%d, unit)\n", i + 1, i); }
static void shared(nc_text *t, int i) { nc_text_addf(t, "v%d = Add(v%d, two)\n", i + 1, i); }
static void dims(nc_text *t, int i) {
    nc_text_addf(t, "v%d = %s(v%d, zero)\n", i + 1, i % 2 ? "Squeeze" : "Unsqueeze", i);
}

static const struct {
    const char *name;
    link put;
} chains[] = {{"reshape", reshape}, {"transpose", transpose}, {"cast", cast},     {"identity", identity}, {"neg", neg},
              {"concat", concat},   {"multiply", multiply},   {"shared", shared}, {"dims", dims}};

#define HEAD "<opset: \"\" 17>\ng (float[2,3] v0, bool[] c) => ("
#define CONSTS                                                                                                        \
    ")\n<const int64[2] s0 = {3, 2}, const int64[2] s1 = {2, 3}, const float[2,1] one = {1, 1}, const int64[1] zero " \
    "= {0}, const float[] unit = {1}, const float[] two = {2}>\n{\n"

static void put_chain(nc_text *t, int kind, int n) {
    nc_text_addf(t, HEAD "v%d" CONSTS, n);
    for (int i = 0; i < n; i++) chains[kind].put(t, i);
    nc_text_add(t, "}\n");
}

/* An If whose first branch uses n values of the graph around it. */
static void put_captures(nc_text *t, int n) {
    nc_text_add(t, HEAD "y" CONSTS);
    for (int i = 0; i < n; i++) nc_text_addf(t, "v%d = Sin(v%d)\n", i + 1, i);
    nc_text_add(t, "y = If<then_branch = { () => (w) {\n u0 = Neg(^v0)\n");
    for (int i = 0; i < n; i++) nc_text_addf(t, " u%d = Add(u%d, ^v%d)\n", i + 1, i, i + 1);
    nc_text_addf(t, " w = Neg(u%d)\n} }, else_branch = { () => (q) { q = Neg(^v0) } }>(c)\n}\n", n);
}

/* n Ifs that all capture the same value. */
static void put_branches(nc_text *t, int n) {
    nc_text_addf(t, HEAD "v%d" CONSTS, n);
    nc_text_add(t, "r = Sin(v0)\n");
    for (int i = 0; i < n; i++)
        nc_text_addf(t,
                     "v%d = If<then_branch = { () => (w) { w = Add(^v%d, ^r) } }, else_branch = { () => (q) { q = "
                     "Sub(^v%d, ^r) } }>(c)\n",
                     i + 1, i, i);
    nc_text_add(t, "}\n");
}

static void put_outputs(nc_text *t, int n) {
    nc_text_add(t, HEAD);
    for (int i = 0; i < n; i++) nc_text_addf(t, "%sv%d", i ? ", " : "", i + 1);
    nc_text_add(t, CONSTS);
    for (int i = 0; i < n; i++) nc_text_addf(t, "v%d = Sin(v%d)\n", i + 1, i);
    nc_text_add(t, "}\n");
}

typedef struct work {
    uint64_t steps, bytes;
} work;

static work to_prepare(nacre_env *env, const nc_text *t) {
    nacre_error err;
    nacre_model *m = NULL;
    work begin = {nc_steps(), nc_mem_bytes()};
    nacre_code code = nacre_model_parse(env, t->s, &m, &err);
    if (code == NACRE_OK) code = nacre_model_optimize(m, "all", NULL, 0, &err);
    if (code != NACRE_OK) nc_test_failed(__FILE__, __LINE__, "%s", err.text);
    work did = {nc_steps() - begin.steps, nc_mem_bytes() - begin.bytes};
    nacre_model_release(m);
    return did;
}

/* Load, create, and the first run, which plans the memory. */
static work to_run(nacre_env *env, const nc_text *t) {
    static float x[6];
    static bool yes = true;
    static const int64_t dims[] = {2, 3};
    const char *const names[] = {"v0", "c"};
    nacre_error err;
    nacre_model *m = NULL;
    nacre_session *s = NULL;
    nacre_value *in[2] = {NULL};
    nacre_options *o = NULL;
    work begin = {nc_steps(), nc_mem_bytes()};
    nacre_code code = nacre_model_parse(env, t->s, &m, &err);
    if (code == NACRE_OK) code = nacre_options_create(&o, &err);
    if (code == NACRE_OK) code = nacre_options_set(o, "fusion", "off", &err); /* as many instructions as nodes */
    if (code == NACRE_OK) code = nacre_session_create(env, m, o, &s, &err);
    if (code == NACRE_OK) code = nacre_value_tensor(NACRE_FLOAT, 2, dims, x, &in[0], &err);
    if (code == NACRE_OK) code = nacre_value_tensor(NACRE_BOOL, 0, NULL, &yes, &in[1], &err);
    if (code == NACRE_OK) code = nacre_run(s, NULL, names, in, 2, NULL, 0, NULL, &err);
    if (code != NACRE_OK) nc_test_failed(__FILE__, __LINE__, "%s", err.text);
    work did = {nc_steps() - begin.steps, nc_mem_bytes() - begin.bytes};
    nacre_value_release(in[0]);
    nacre_value_release(in[1]);
    nacre_options_release(o);
    nacre_session_release(s);
    return did;
}

/* Tables grow by doubling, so that a size may lie on either side of a step: hence 5 for 4. */
static void check_growth(const char *name, work (*to_do)(nacre_env *env, const nc_text *t),
                         void (*put)(nc_text *t, int n), int kind) {
    enum { SMALL = 1024 };
    work did[2];
    nacre_env *env;
    nacre_error err;
    REQUIRE(nacre_env_create(1, &env, &err) == NACRE_OK);
    for (int k = 0; k < 2; k++) {
        nc_text t = {0};
        int n = k ? 4 * SMALL : SMALL;
        put ? put(&t, n) : put_chain(&t, kind, n);
        did[k] = to_do(env, &t);
        nc_text_release(&t);
    }
    nacre_env_release(env);
    if (did[1].steps > 5 * did[0].steps || did[1].bytes > 5 * did[0].bytes || did[0].steps < SMALL)
        nc_test_failed(__FILE__, __LINE__, "%s: %llu steps and %llu bytes, four times as long %llu and %llu", name,
                       (unsigned long long)did[0].steps, (unsigned long long)did[0].bytes,
                       (unsigned long long)did[1].steps, (unsigned long long)did[1].bytes);
}

TEST(chains_are_prepared_in_linear_work) {
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) check_growth(chains[i].name, to_prepare, NULL, (int)i);
}

TEST(captures_are_found_in_linear_work) {
    check_growth("captures", to_prepare, put_captures, 0);
    check_growth("branches", to_prepare, put_branches, 0);
}

TEST(many_outputs_are_checked_in_linear_work) { check_growth("outputs", to_prepare, put_outputs, 0); }

/* Whole sessions: aliases, lives, memory and calls of programs and of the programs inside of them. */
TEST(chains_are_planned_in_linear_work) {
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) check_growth(chains[i].name, to_run, NULL, (int)i);
}

TEST(branches_are_planned_in_linear_work) { check_growth("branches", to_run, put_branches, 0); }

TEST(many_outputs_are_planned_in_linear_work) { check_growth("outputs", to_run, put_outputs, 0); }
