/* ops/rnn/rnn_attrs.c: direction, layout and activations of recurrent nodes. Activations are named per direction, one
 * after another; those that take parameters take them from activation_alpha and activation_beta in turn. */
#include "ops/rnn/rnn.h"

#include <string.h>
#include <strings.h>

typedef struct function {
    const char *name;
    int n_params;
    double alpha, beta;
} function;

static const function functions[] = {
#define NAME(id, name, n, a, b) [NCK_RNN_##id] = {name, n, (double)a, (double)b},
    NCK_RNN_FUNCTIONS(NAME)
#undef NAME
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0] };

nck_rnn_kind nc_rnn_kind_of(const nc_node *n) { return ((const nc_rnn_own *)n->card->own)->kind; }

int nc_rnn_n_in(nck_rnn_kind kind) { return kind == NCK_LSTM ? 8 : 6; }

int nc_rnn_n_out(nck_rnn_kind kind) { return kind == NCK_LSTM ? 3 : 2; }

static int n_acts(nck_rnn_kind kind) { return kind == NCK_RNN ? 1 : kind == NCK_GRU ? 2 : 3; }

static bool listed(const nc_node *n, const char *name) {
    for (const nc_attr_spec *s = n->version->attr; s->name != NULL; s++)
        if (strcmp(s->name, name) == 0) return true;
    return false;
}

static nc_code read_direction(nc_work *w, const nc_node *n, nc_rnn_attrs *a) {
    const char *d = nc_attr_str(n, "direction");
    a->n_dirs = strcmp(d, "bidirectional") == 0 ? 2 : 1;
    a->reverse = strcmp(d, "reverse") == 0;
    /* GRU's first version spells its default without an r. */
    if (a->n_dirs == 1 && !a->reverse && strcmp(d, "forward") != 0 && strcmp(d, "foward") != 0)
        NC_FAIL(w, NC_E_BAD_GRAPH, "direction is '%s', expected forward, reverse or bidirectional", d);
    a->batch_first = listed(n, "layout") && nc_attr_int(n, "layout") != 0;
    return NC_OK;
}

static nc_code find_function(nc_work *w, nc_str name, nck_rnn_act *act) {
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (strlen(functions[i].name) == name.n && strncasecmp(functions[i].name, name.p, name.n) == 0) {
            *act = (nck_rnn_act){(nck_rnn_function)i, functions[i].alpha, functions[i].beta};
            return NC_OK;
        }
    NC_FAIL(w, NC_E_UNSUPPORTED, "there is no activation '%.*s'", (int)name.n, name.p);
}

static nc_code read_activations(nc_work *w, const nc_node *n, nc_rnn_attrs *a) {
    static const nck_rnn_function usual[3][3] = {[NCK_RNN] = {NCK_RNN_TANH},
                                                 [NCK_GRU] = {NCK_RNN_SIGMOID, NCK_RNN_TANH},
                                                 [NCK_LSTM] = {NCK_RNN_SIGMOID, NCK_RNN_TANH, NCK_RNN_TANH}};
    nck_rnn_kind kind = nc_rnn_kind_of(n);
    const nc_attr *names = nc_node_attr(n, "activations"), *alpha = nc_node_attr(n, "activation_alpha"),
                  *beta = nc_node_attr(n, "activation_beta");
    int per = n_acts(kind), i_alpha = 0, i_beta = 0;
    /* onnxruntime writes the default of both directions into nodes of one. */
    if (names != NULL && names->n != per * a->n_dirs && names->n != 2 * per)
        NC_FAIL(w, NC_E_BAD_GRAPH, "there are %d activations, expected %d", names->n, per * a->n_dirs);
    a->more = names != NULL && names->n != per * a->n_dirs;
    for (int i = 0; i < per * a->n_dirs; i++) {
        nck_rnn_act *act = &a->rule[i / per].act[i % per];
        *act = (nck_rnn_act){.fn = usual[kind][i % per]};
        if (names == NULL) continue;
        NC_TRY(find_function(w, names->strings[i], act));
        int n_params = functions[act->fn].n_params;
        if (n_params > 0 && alpha != NULL && i_alpha < alpha->n) act->alpha = (double)alpha->floats[i_alpha++];
        if (n_params > 1 && beta != NULL && i_beta < beta->n) act->beta = (double)beta->floats[i_beta++];
    }
    return NC_OK;
}

nc_code nc_rnn_read_attrs(nc_work *w, const nc_node *n, nc_rnn_attrs *a) {
    *a = (nc_rnn_attrs){0};
    NC_TRY(read_direction(w, n, a));
    NC_TRY(read_activations(w, n, a));
    double clip = nc_attr_has(n, "clip") ? nc_attr_float(n, "clip") : 0;
    if (clip < 0) NC_FAIL(w, NC_E_BAD_GRAPH, "clip is %g, at least 0 is expected", clip);
    for (int d = 0; d < a->n_dirs; d++) {
        nck_rnn_rule *r = &a->rule[d];
        r->kind = nc_rnn_kind_of(n);
        r->clip = clip;
        r->linear_before_reset = listed(n, "linear_before_reset") && nc_attr_int(n, "linear_before_reset") != 0;
        r->input_forget = listed(n, "input_forget") && nc_attr_int(n, "input_forget") != 0;
        r->peepholes = r->kind == NCK_LSTM && n->n_in > NC_RNN_P && n->in[NC_RNN_P] != NULL;
    }
    return NC_OK;
}
