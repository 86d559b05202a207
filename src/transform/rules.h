/* transform/rules.h: patterns that users write, as text:
 *
 *   // Swish, before the opset has it
 *   swish: Mul(x, Sigmoid(x)) => my.domain.Swish(x)
 *   leaky: Max(x, Mul(x, $a)) => LeakyRelu<alpha = $a>(x)
 *   rows:  Softmax<axis = 3>(Add(s, mask)) => my.domain.MaskedSoftmax<kind = "rows">(s, mask)
 *
 * A rule is a name, what is found, in the words of pattern.h and with attributes of nodes that must be so, and the node
 * that takes its place: an op of any domain, attributes that are written out or are the constant that was found, and
 * inputs by name (a name that the choice taken does not bind: an input or attribute that is left out). Comments go from
 * two slashes to the end of the line. A rule is tried where no gradient follows; its op must be there in the model's
 * opset; types are inferred again afterwards, so that a rule that changes them is an error that names the node. */
#ifndef NC_TRANSFORM_RULES_H
#define NC_TRANSFORM_RULES_H

#include "transform/pattern.h"

typedef struct nc_rules {
    nc_pattern *rows;
    int n;
} nc_rules;

/* Reads rules into the arena. ARGUMENT with line and column where the text is none. */
NC_MUST nc_code nc_rules_parse(nc_work *w, nc_arena *arena, const char *text, nc_rules *out);
/* ARGUMENT unless the ops that rules make are known to the model's registry and have the attributes they are given. */
NC_MUST nc_code nc_rules_check(nc_work *w, const nc_model *m, const nc_rules *r);

#endif
