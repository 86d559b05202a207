/* ir/text.h: the graph as text, for tests and dumps: close to ONNX's own textual syntax; what is printed parses back.
 *
 *   <opset: "" 17, "my.domain" 1>
 *   mlp (float[batch,4] x, bool[] c) => (float[batch,2] y)
 *   <const float[4,2] W = {1, 2, ...}, var float[2] b = {0, 0} -> b_1>  # constants; variables and their newest version
 *   {
 *     h = MatMul(x, W) @stage=1 @recompute @place=1 "first"             # marks and the node's name
 *     t = my.domain.Noise(h, , b) @random=7                             # an absent input; the domain ends at the last
 * dot y = LeakyRelu<alpha = 0.1>(t) b_1 = Update(b, y) z = If<then_branch = { () => (a) { a = Neg(^x) } }, ...>(c) #
 * ^x: captured from outside
 *   }
 * The exact grammar stands in text_parse.c. Big constants print as { ... 4096 bytes } and do not parse back. */
#ifndef NC_IR_TEXT_H
#define NC_IR_TEXT_H

#include "ir/graph.h"

void nc_graph_print(nc_text *out, const nc_model *m);
void nc_graph_print_typed(nc_text *out, const nc_model *m); /* with the type of every value; parses back too */
void nc_node_print(nc_text *out, const nc_node *n);         /* one line, no subgraph bodies */
/* Parses text; *out is a new model. Messages carry line and column. */
NC_MUST nc_code nc_graph_parse(nc_work *w, const char *text, const nc_registry *borrows, nc_model **out);

#endif
