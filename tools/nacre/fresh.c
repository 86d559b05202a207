/* tools/nacre/fresh.c: parameters drawn anew, for training from scratch. What a parameter is, its rank and its first
 * reader tell. */
#include "train.h"

#include "nacre/nacre_graph.h"

#include <math.h>
#include <string.h>

/* splitmix64 */
uint64_t fresh_bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Box and Muller's. */
static double normal(uint64_t *state) {
    double u = ((double)(fresh_bits(state) >> 11) + 0.5) / 9007199254740992.0;
    double v = (double)(fresh_bits(state) >> 11) / 9007199254740992.0;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

typedef enum role { ROLE_BIAS, ROLE_SCALE, ROLE_FACTOR } role;

/* Of a parameter with one dim at most: the scale of a normalization is its second operand; what multiplies is a factor
 * of the model's own making, and stays. */
static role role_of(const nacre_graph *g, const char *name) {
    for (const nacre_node *n = nacre_graph_first(g); n; n = nacre_node_next(n))
        for (size_t i = 0; i < nacre_node_n_inputs(n); i++) {
            const nacre_graph_value *v = nacre_node_input(n, i);
            const char *op = nacre_node_op(n);
            if (!v || strcmp(nacre_graph_value_name(v), name) != 0) continue;
            if (strstr(op, "Norm")) return i == 1 ? ROLE_SCALE : ROLE_BIAS;
            return strcmp(op, "Mul") == 0 || strcmp(op, "Div") == 0 ? ROLE_FACTOR : ROLE_BIAS;
        }
    return ROLE_FACTOR;
}

static void draw(float *p, int rank, const int64_t *dims, int64_t n, role is, uint64_t *state) {
    double fans = rank > 1 ? (double)(dims[0] + dims[1]) : 1;
    for (int d = 2; d < rank; d++) fans *= (double)dims[d];
    double width = sqrt(2 / fans);
    if (rank < 2 && is == ROLE_FACTOR) return;
    for (int64_t i = 0; i < n; i++) p[i] = rank > 1 ? (float)(width * normal(state)) : is == ROLE_SCALE ? 1 : 0;
}

int fresh_parameters(const nacre_model *m, nacre_training *t, const nacre_checkpoint *c, uint64_t seed) {
    nacre_error err;
    uint64_t state = seed ^ 0x6e61637265u;
    for (size_t i = 0; i < nacre_checkpoint_n(c); i++) {
        nacre_type type;
        int trainable;
        const char *name = nacre_checkpoint_name(c, i, &type, &trainable);
        if (!trainable) continue;
        if (type != NACRE_FLOAT)
            return cli_fail("--fresh: parameter '%s' is of %s, expected float", name, nacre_type_name(type));
        nacre_value *v = nacre_checkpoint_value(c, i);
        draw(nacre_value_data(v), nacre_value_rank(v), nacre_value_dims(v), nacre_value_count(v),
             role_of(nacre_model_graph(m), name), &state);
        nacre_code code = nacre_training_set_parameter(t, name, v, &err);
        nacre_value_release(v);
        if (code != NACRE_OK) return cli_error(&err);
    }
    return EXIT_DONE;
}
