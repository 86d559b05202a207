/* ops/binding.c: which kernel serves a node on a kind of device: the first row that fits among the tables of
 * families.list, then the lane binding where the card is a lane. Refused rows leave their reasons. Chooses only; the
 * planner prepares.
 *
 * Rows are found through an index by (domain, op), filled once, on first use: a table of heads, each the first of a
 * list of rows in the order of families.list. */
#include "kernels/cpu/conv/conv_blocked.h"
#include "ops/lane.h"

#include <pthread.h>
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

/* ---- the index ---- */

enum { MAX_ROWS = 2048, N_HEADS = 2 * MAX_ROWS };

typedef struct row_link {
    const nc_binding *row;
    int next; /* number of the next link of the same op; 0: none */
} row_link;

typedef struct row_index {
    row_link links[MAX_ROWS]; /* from 1 on */
    int n_links;
    int heads[N_HEADS]; /* by hash: the first link of an op; 0: free */
    bool overflows;     /* there are more rows than links: a fault of this file */
} row_index;

static row_index cpu_index, cuda_index;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *plain(const char *domain) { return domain != NULL ? domain : ""; }

static bool is_of(const nc_binding *b, const char *domain, const char *op) {
    return strcmp(b->op, op) == 0 && strcmp(plain(b->domain), domain) == 0;
}

/* The head of the op, or the free one where it belongs. At most half of them are taken. */
static int *head_of(row_index *x, const char *domain, const char *op) {
    for (uint64_t i = nc_hash(op, strlen(op), nc_hash(domain, strlen(domain), 0));; i++) {
        int *h = &x->heads[i % N_HEADS];
        if (*h == 0 || is_of(x->links[*h].row, domain, op)) return h;
    }
}

static void add_row(row_index *x, const nc_binding *b) {
    if (x->n_links + 1 >= MAX_ROWS) {
        x->overflows = true;
        return;
    }
    int *at = head_of(x, plain(b->domain), b->op);
    while (*at != 0) at = &x->links[*at].next;
    *at = ++x->n_links;
    x->links[*at] = (row_link){.row = b};
}

static void binding_fill(void) {
    for (int i = 0; i < N_TABLES; i++) {
        for (const nc_binding *b = cpu_tables[i]; b->op != NULL; b++) add_row(&cpu_index, b);
        for (const nc_binding *b = cuda_tables[i]; b->op != NULL; b++) add_row(&cuda_index, b);
    }
}

/* The rows of a card's op: `for (const row_link *l = first_row(x, card); l; l = next_row(x, l))`. */
static const row_link *link_at(const row_index *x, int i) { return i != 0 ? &x->links[i] : NULL; }
static const row_link *next_row(const row_index *x, const row_link *l) { return link_at(x, l->next); }
static const row_link *first_row(row_index *x, const nc_card *card) {
    pthread_once(&once, binding_fill);
    return link_at(x, *head_of(x, plain(card->domain), card->name));
}

/* NULL: there are no such kernels. */
static row_index *index_of(const char *kernels) {
    return strcmp(kernels, "cuda") == 0 ? &cuda_index : strcmp(kernels, "cpu") == 0 ? &cpu_index : NULL;
}

/* ---- fitting ---- */

typedef struct reasons {
    char *s;
    size_t bytes, n;
} reasons;

static void binding_refuse(reasons *r, const char *which, const char *why) {
    if (r->s == NULL || r->n + 1 >= r->bytes) return;
    int n = snprintf(r->s + r->n, r->bytes - r->n, "%s%s: %s", r->n > 0 ? "; " : "", which, why);
    if (n > 0) r->n = (size_t)n < r->bytes - r->n ? r->n + (size_t)n : r->bytes - 1;
}

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
        binding_refuse(r, b->op, "serves other versions of the op");
        return false;
    }
    if (b->types != 0 && (t == NC_UNDEFINED || !(b->types & NC_BIT(t)))) {
        binding_refuse(r, b->op, t == NC_UNDEFINED ? "the element type is not known" : nc_dtype_name(t));
        return false;
    }
    const char *why = "refused";
    if (b->fits != NULL && !b->fits(n, &why)) {
        binding_refuse(r, b->op, why);
        return false;
    }
    return true;
}

static bool row_serves(const nc_binding *b, const nc_node *n, reasons *r) {
    if (!row_fits(b, n, elem_of(n), r)) return false;
    if (holds_operands(b, n)) return true;
    binding_refuse(r, b->op, "string");
    return false;
}

typedef struct search {
    const nc_node *n;
    row_index *x;
    reasons why;
    const nc_binding **guarded;
    int n_guarded, max_guarded;
} search;

/* Does b end the search? A row with a guard is only remembered. */
static bool ends(search *s, const nc_binding *b) {
    if (!row_serves(b, s->n, &s->why)) return false;
    if (b->guard == NULL) return true;
    if (s->n_guarded < s->max_guarded) s->guarded[s->n_guarded++] = b;
    return false;
}

static const nc_binding *binding_find(search *s) {
    const nc_card *card = s->n->card;
    if (s->x == &cpu_index && card->rows != NULL) {
        for (const nc_binding *b = card->rows; b->op != NULL; b++)
            if (ends(s, b)) return b;
        return NULL;
    }
    for (const row_link *l = first_row(s->x, card); l != NULL; l = next_row(s->x, l))
        if (ends(s, l->row)) return l->row;
    if (s->x->overflows) binding_refuse(&s->why, "index", "there are more rows than it holds");
    const nc_binding *lane = s->x == &cuda_index ? &nc_lane_cuda : &nc_lane_cpu;
    return card->lane > 0 && lane->op != NULL && row_fits(lane, s->n, elem_of(s->n), &s->why) ? lane : NULL;
}

const nc_binding *nc_binding_find(const nc_node *n, const char *kernels, char *why, size_t bytes_why) {
    search s = {.n = n, .x = index_of(kernels), .why = {.s = bytes_why > 0 ? why : NULL, .bytes = bytes_why}};
    if (s.why.s != NULL) s.why.s[0] = '\0';
    const nc_binding *b = s.x != NULL ? binding_find(&s) : NULL;
    if (b == NULL && s.why.n == 0)
        binding_refuse(&s.why, kernels, s.x != NULL ? "no kernel for this op" : "no such kernels");
    return b;
}

int nc_binding_find_guarded(const nc_node *n, const char *kernels, const nc_binding **rows, int max) {
    search s = {.n = n, .x = index_of(kernels), .guarded = rows, .max_guarded = max};
    return s.x != NULL && binding_find(&s) != NULL ? s.n_guarded : 0;
}

bool nc_binding_exists(const nc_card *card, const char *kernels, nc_dtype elem) {
    row_index *x = index_of(kernels);
    for (const row_link *l = x != NULL ? first_row(x, card) : NULL; l != NULL; l = next_row(x, l))
        if (l->row->types == 0 || (l->row->types & NC_BIT(elem)) != 0) return true;
    return false;
}

nc_blocking nc_channel_blocking(const char *kernels) {
    const row_index *x = index_of(kernels);
    if (x == &cpu_index) return (nc_blocking){.block = nck_channel_block(), .types = NC_BIT(NC_FLOAT)};
    if (x == &cuda_index)
        return (nc_blocking){.block = NC_BLOCK_ALL, .types = NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16)};
    return (nc_blocking){.block = 0};
}

const nc_binding *nc_binding_find_moving(const nc_node *n, nc_dtype as) {
    reasons r = {.s = NULL};
    for (const row_link *l = first_row(&cpu_index, n->card); l != NULL; l = next_row(&cpu_index, l))
        if ((l->row->kind == NC_K_STATIC || l->row->kind == NC_K_VIEW) && row_fits(l->row, n, as, &r)) return l->row;
    return NULL;
}

nc_code nc_binding_prepare(const nc_binding *b, nc_prep *p) {
    p->own = b->own;
    return b->prepare != NULL ? b->prepare(p) : NC_OK;
}

bool nc_call_adds(const nc_call *c, int sum, int overwrite) {
    const nc_tensor *flag = overwrite < c->n_in ? c->in[overwrite] : NULL, *from = c->in[sum], *to = c->out[0];
    if (flag && flag->data && *(const bool *)flag->data) return false;
    size_t bytes = (size_t)nc_tensor_numel(to) * nc_dtype_bytes(to->dtype);
    if (from->data != to->data && bytes > 0) memcpy(to->data, from->data, bytes);
    return true;
}

nc_code nc_call_expect(const nc_call *c, int i, const int64_t *dims, int rank) {
    const nc_tensor *t = c->in[i];
    if (t->rank != rank)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "input %d has %d dims, expected %d", i, t->rank, rank);
    for (int k = 0; k < rank; k++)
        if (t->dims[k] != dims[k])
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "dim %d of input %d is %lld, expected %lld", k, i,
                               (long long)t->dims[k], (long long)dims[k]);
    return NC_OK;
}
