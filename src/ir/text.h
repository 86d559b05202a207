/* ir/text.h: the graph as text, for tests and dumps: close to ONNX's own textual syntax; what is printed parses back.
 *
 *   <opset: "" 17, "my.domain" 1>
 *   mlp (float[batch,4] x) => (float[batch,2] y)
 *   <const float[4,2] W = {1, 2, ...}, var float[2] b = {0, 0}>        # constants and variables
 *   {
 *     h = MatMul(x, W)
 *     t, @stage=1 @recompute @random=7
 *     y = LeakyRelu<alpha = 0.1>(t)
 *     b_1 = SGD<inplace...>(b, g, lr)                                   # versions of a variable:  var b -> b_1  after the outputs
 *     z = If(c)<then_branch = { () => (a) { a = Neg(^x) } }, ...>       # ^x : captured from outside
 *   }
 * The exact grammar stands in text.c. Big constants print as { ... 4096 bytes } and do not parse back. */
#ifndef NC_IR_TEXT_H
#define NC_IR_TEXT_H

#include "ir/graph.h"

void nc_graph_print(nc_text *out, const nc_model *m);
void nc_node_print(nc_text *out, const nc_node *n); /* one line, no subgraph bodies */
/* Parses text; *out is a new model. Messages carry line and column. */
NC_MUST nc_code nc_graph_parse(nc_work *w, const char *text, const nc_registry *borrows, nc_model **out);

#endif
