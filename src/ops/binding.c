/* ops/binding.c: which kernel serves a node on a kind of device: the first row that fits among the tables of
 * families.list, then the lane binding where the card is a lane. Refused rows leave their reasons. Chooses only; the
 * planner prepares. */
#include "ops/lane.h"

#include <stdio.h>
#include <string.h>

#define FAMILY(x) extern const nc_binding nc_##x##_cpu[], nc_##x##_cuda[];
#include "ops/families.list"
#undef FAMILY

static const nc_binding *const cpu_tables[] = {
#define FAMILY(x) nc_##x##_cpu,
#include "ops/families.list"
#undef FAMILY
};

static const nc_binding *const cuda_tables[] = {
#define FAMILY(x) nc_##x##_cuda,
#include "ops/families.list"
#undef FAMILY
};

enum { N_TABLES = sizeof cpu_tables / sizeof cpu_tables[0] };

typedef struct reasons {
    char *s;
    size_t bytes, n;
} reasons;

static void refuse(reasons *r, const char *which, const char *why) {
    if (r->s == NULL || r->n + 1 >= r->bytes) return;
    int n = snprintf(r->s + r->n, r->bytes - r->n, "%s%s: %s", r->n > 0 ? "; " : "", which, why);
    if (n > 0) r->n = (size_t)n < r->bytes - r->n ? r->n + (size_t)n : r->bytes - 1;
}

static bool same_domain(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static nc_dtype elem_of(const nc_node *n) {
    const nc_value *v = n->n_in > 0 ? n->in[0] : n->n_out > 0 ? n->out[0] : NULL;
    return v != NULL && v->type != NULL ? v->type->elem : NC_UNDEFINED;
}

static bool is_string(const nc_value *v) { return v != NULL && v->type != NULL && v->type->elem == NC_STRING; }

/* Kernels of sized memory cannot hold strings, unless only the dims are looked at. */
static bool holds_operands(const nc_binding *b, const nc_node *n) {
    if (b->kind != NC_K_STATIC && b->kind != NC_K_BOUNDED) return true;
    for (int i = 0; i < n->n_in; i++)
        if (is_string(n->in[i]) && (i >= 32 || !(n->card->dims_only_in & (1u << i)))) return false;
    for (int i = 0; i < n->n_out; i++)
        if (is_string(n->out[i])) return false;
    return true;
}

/* t: the element type that decides. */
static bool row_fits(const nc_binding *b, const nc_node *n, nc_dtype t, reasons *r) {
    int since = n->version->since;
    if (since < b->since || (b->until != 0 && since > b->until)) {
        refuse(r, b->op, "serves other versions of the op");
        return false;
    }
    if (b->types != 0 && (t == NC_UNDEFINED || !(b->types & NC_BIT(t)))) {
        refuse(r, b->op, t == NC_UNDEFINED ? "the element type is not known" : nc_dtype_name(t));
        return false;
    }
    const char *why = "refused";
    if (b->fits != NULL && !b->fits(n, &why)) {
        refuse(r, b->op, why);
        return false;
    }
    return true;
}

const nc_binding *nc_binding_find(const nc_node *n, const char *kernels, char *why, size_t bytes_why) {
    reasons r = {.s = bytes_why > 0 ? why : NULL, .bytes = bytes_why};
    if (r.s != NULL) r.s[0] = '\0';
    bool cuda = strcmp(kernels, "cuda") == 0;
    if (!cuda && strcmp(kernels, "cpu") != 0) {
        refuse(&r, kernels, "no such kernels");
        return NULL;
    }
    if (!cuda && n->card->plugin) return n->card->plugin;
    for (int i = 0; i < N_TABLES; i++)
        for (const nc_binding *b = cuda ? cuda_tables[i] : cpu_tables[i]; b->op != NULL; b++)
            if (strcmp(b->op, n->card->name) == 0 && same_domain(b->domain, n->card->domain) &&
                row_fits(b, n, elem_of(n), &r)) {
                if (holds_operands(b, n)) return b;
                refuse(&r, b->op, "string");
            }
    const nc_binding *lane = cuda ? &nc_lane_cuda : &nc_lane_cpu;
    if (n->card->lane > 0 && lane->op != NULL && row_fits(lane, n, elem_of(n), &r)) return lane;
    if (r.n == 0) refuse(&r, kernels, "no kernel for this op");
    return NULL;
}

const nc_binding *nc_binding_find_moving(const nc_node *n, nc_dtype as) {
    reasons r = {.s = NULL};
    for (int i = 0; i < N_TABLES; i++)
        for (const nc_binding *b = cpu_tables[i]; b->op != NULL; b++)
            if ((b->kind == NC_K_STATIC || b->kind == NC_K_VIEW) && strcmp(b->op, n->card->name) == 0 &&
                same_domain(b->domain, n->card->domain) && row_fits(b, n, as, &r))
                return b;
    return NULL;
}

nc_code nc_binding_prepare(const nc_binding *b, nc_prep *p) {
    p->own = b->own;
    return b->prepare != NULL ? b->prepare(p) : NC_OK;
}
