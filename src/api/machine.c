/* api/machine.c: what this machine is, element types by name, single values from ONNX's messages. */
#include "api/api.h"

#include "base/cpu.h"
#include "base/machine.h"
#include "kernels/cpu/isa.h"
#include "onnx/value.h"

static void add_features(nc_text *t) {
    const nc_cpu *c = nc_cpu_get();
    const struct {
        bool has;
        const char *name;
    } all[] = {{c->neon, "neon"},     {c->dotprod, "dotprod"},         {c->i8mm, "i8mm"},
               {c->bf16, "bf16"},     {c->avx2_fma, "avx2+fma"},       {c->f16c, "f16c"},
               {c->avx512, "avx512"}, {c->avx512_vnni, "avx512_vnni"}, {c->amx, "amx"}};
    nc_text_add(t, "features\t");
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].has) nc_text_addf(t, "%s%s", n++ ? " " : "", all[i].name);
    nc_text_add(t, n ? "\n" : "none\n");
}

/* Which row of isa.list each table of kernels is of, and what the processor lacks for the other rows. */
static void add_tables(nc_text *t) {
    nck_isa_line line;
    nc_text_add(t, "kernels\t");
    for (int i = 0; nck_isa_table_line(i, &line); i++)
        nc_text_addf(t, "%s%s by %s", i ? ", " : "", line.what, line.text);
    nc_text_add(t, "\n");
    for (int i = 0; nck_isa_missing_line(i, &line); i++)
        nc_text_addf(t, "no %s\tthe processor lacks %s\n", line.what, line.text);
}

nacre_code nacre_env_describe_machine(nacre_env *env, char **text, nacre_error *err) {
    const nc_cpu *c = nc_cpu_get();
    nc_text t = {0};
#if defined(__aarch64__)
    const char *architecture = "aarch64";
#elif defined(__x86_64__)
    const char *architecture = "x86-64";
#else
    const char *architecture = "other";
#endif
    nc_text_addf(&t, "processor\t%s\narchitecture\t%s\nisa\t%s\nisas\t", c->name[0] ? c->name : "unknown", architecture,
                 nck_isa_get()->name);
    for (int i = 0; nck_isa_at(i); i++) nc_text_addf(&t, "%s%s", i ? " " : "", nck_isa_at(i)->name);
    nc_text_add(&t, "\n");
    add_tables(&t);
    add_features(&t);
    nc_text_addf(&t, "l1d\t%zu\nl2\t%zu\nthreads\t%d\n", c->l1d, c->l2, nc_pool_threads(env->env->pool));
    int quota = nc_machine_quota("");
    if (quota)
        nc_text_addf(&t, "quota\t%d threads\n", quota);
    else
        nc_text_add(&t, "quota\tnone\n");
    return nc_api_text(&t, text, err);
}

const char *nacre_type_name(nacre_type type) { return nc_dtype_name((nc_dtype)type); }
size_t nacre_type_bytes(nacre_type type) { return type == NACRE_STRING ? 0 : nc_dtype_bytes((nc_dtype)type); }

int nacre_type_bits(nacre_type type) { return type == NACRE_STRING ? 0 : (int)nc_dtype_bits((nc_dtype)type); }

nacre_code nacre_value_from_proto(nacre_kind kind, const void *bytes, size_t n, nacre_value **out, nacre_error *err) {
    nc_work w;
    nc_object *o = NULL;
    nc_work_init(&w);
    nc_code code = nc_onnx_load_value(&w, bytes, n, (nc_object_kind)kind, &o);
    if (code == NC_OK) *out = nc_api_value(o);
    return nc_api_end(&w, code, err);
}
