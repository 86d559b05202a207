/* transform/common/neutral.c: arithmetic with a constant that leaves every bit of the other operand: x * 1, x / 1,
 * x - 0, x + (-0), and for integers and bools x + 0, x and true, x or false. (x + 0 turns -0 into 0: it stays for
 * floats.) Where whose condition is the same everywhere is one of its operands. The constant must not widen x; floats
 * count only where no gradient will make them a variable. */
#include "transform/rewrite.h"
#include "transform/transform.h"

static const struct {
    const char *op;
    double value;
    bool negative_zero; /* of a float constant 0 */
} rows[] = {
    {"Mul", 1, false}, {"Div", 1, false}, {"Pow", 1, false}, {"Sub", 0, false},
    {"Add", 0, true},  {"And", 1, false}, {"Or", 0, false},  {"Xor", 0, false},
};

/* x surely broadcasts to y: where only a run tells its sizes, the run has to check them. */
static bool spreads(const nc_value *x, const nc_value *y) {
    int64_t size;
    if (!nc_rewrite_tensor(x) || !nc_rewrite_tensor(y) || x->type->rank > y->type->rank) return false;
    const nc_dim *const *behind = y->type->dims + (y->type->rank - x->type->rank);
    for (int i = 0; i < x->type->rank; i++)
        if (x->type->dims[i] != behind[i] && !(nc_dim_is_const(x->type->dims[i], &size) && size == 1)) return false;
    return true;
}

static int chosen_operand(const nc_node *n) {
    const nc_value *c = n->in[0];
    if (!nc_rewrite_fixed(c) || c->lit->n == 0) return -1;
    int k = nc_rewrite_all(c->lit, 1, false) ? 1 : nc_rewrite_all(c->lit, 0, false) ? 2 : -1;
    return k > 0 && spreads(n->in[3 - k], n->out[0]) ? k : -1;
}

/* The operand that n gives back; -1: none. */
static int kept_operand(const nc_node *n) {
    if (nc_rewrite_is(n, "Where")) return chosen_operand(n);
    if (n->n_in != 2 || n->in[1] == NULL) return -1;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (!nc_rewrite_is(n, rows[r].op)) continue;
        int sides = (n->card->traits & NC_COMMUTES) ? 2 : 1;
        for (int k = 0; k < sides; k++) {
            const nc_value *c = n->in[1 - k];
            if (nc_rewrite_fixed(c) && c->lit->n > 0 && nc_rewrite_all(c->lit, rows[r].value, rows[r].negative_zero))
                return k;
        }
    }
    return -1;
}

nc_code nc_pass_neutral(nc_work *w, nc_graph *g, int *n_changes) {
    (void)w;
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        if (!(n->card->traits & NC_ELEMENTWISE) || !nc_rewrite_free(n)) continue;
        int k = kept_operand(n);
        if (k < 0 || !nc_rewrite_can_skip(n, n->in[k])) continue;
        nc_rewrite_skip(n, n->in[k]);
        ++*n_changes;
    }
    return NC_OK;
}
