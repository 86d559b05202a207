/* transform/pattern.h: small graphs found by their text.
 *
 *   Mul(x, Sigmoid(x))          a name is any value, twice the same name the same value
 *   Div(d=Sub(x, m), Abs(d))    d= names what follows
 *   Add(x, 0.5)                 a constant all of whose elements are 0.5, as well as its type can say it
 *   Add(x, #c)                  any constant
 *   Mul(x, $c)                  a constant of one element
 *   [Mul(x, $c) | x]            the first of these that it is
 *   ReduceMean(x, ..)           and further inputs, or none
 *   Softmax<axis = -1>(x)       with that attribute: a number, "text" or [1, 2], given or by default
 *
 * Ops are those of ai.onnx unless a domain and a point stand before them (com.microsoft.Gelu); inputs of ops that
 * commute (NC_COMMUTES) match in either order. A match is whole: what its inner nodes give is used inside it alone, so
 * that they go when the root is replaced. Constants count only when fixed (nc_rewrite_fixed). */
#ifndef NC_TRANSFORM_PATTERN_H
#define NC_TRANSFORM_PATTERN_H

#include "transform/rewrite.h"

enum { NC_PATTERN_NAMES = 16, NC_PATTERN_NODES = 16, NC_PATTERN_ATTRS = 8, NC_PATTERN_INPUTS = 8 };

typedef struct nc_match {
    nc_node *root;
    const struct nc_pattern *row; /* NULL: a text alone was matched */
    struct nc_pattern_ends *ends; /* of the matcher's own; NULL: none */
    bool draws;                   /* as the row says */
    struct {
        const char *name; /* in the pattern's text */
        size_t n;
        nc_value *v;
    } bound[NC_PATTERN_NAMES];
    int n_bound;
    const nc_node *nodes[NC_PATTERN_NODES]; /* root among them */
    int n_nodes;
} nc_match;

/* What takes the place of a match. `where` may refuse it, fills attributes, and may change the inputs, which come in
 * order of `inputs`. */
typedef struct nc_made {
    nc_value *in[NC_PATTERN_INPUTS];
    int n_in;
    nc_attr attrs[NC_PATTERN_ATTRS];
    int n_attrs;
    const char *domain, *op; /* "": ai.onnx; the row's op, unless `where` names another */
    int64_t random_id;       /* of an op that draws */
    const nc_match *inner;   /* the match and more, whose nodes go too; NULL: `where` matched no more */
} nc_made;

typedef struct nc_pattern {
    const char *text;
    const char *op, *inputs; /* the op that takes the place; its inputs as names, with spaces between */
    nc_code (*where)(nc_work *w, const nc_match *m, nc_made *made, bool *fits); /* NULL: always fits */
    const void *own;                                                            /* of `where` */
    bool draws; /* nodes that draw numbers match too, and `where` keeps their random ids */
} nc_pattern;

/* Does the graph that ends in n look like the text? */
bool nc_pattern_match(const char *text, nc_node *n, nc_match *out);
double nc_pattern_number(const char *s);                       /* as texts write them: 12, -0.5, 1e-6 */
nc_value *nc_match_value(const nc_match *m, const char *name); /* NULL: the pattern has no such name */
/* All rows over one graph, from its last node on; the first row that fits a node wins. The root's type must be the
 * type of the made op's first input unless the row has a `where` of its own. */
NC_MUST nc_code nc_pattern_apply(nc_work *w, nc_graph *g, const nc_pattern *rows, int n_rows, int *n_changes);
/* The same with ops that may be newer than the model's opset: made as their first version has them. */
NC_MUST nc_code nc_pattern_apply_newer(nc_work *w, nc_graph *g, const nc_pattern *rows, int n_rows, int *n_changes);

#endif
