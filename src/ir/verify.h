/* ir/verify.h: is the graph what graph.h promises? Names the first node that breaks a rule. Run after every stage in
 * tests and debug builds: order, uses in both directions, captures, types where both sides have one, variable chains.
 */
#ifndef NC_IR_VERIFY_H
#define NC_IR_VERIFY_H

#include "ir/graph.h"

NC_MUST nc_code nc_verify(nc_work *w, const nc_model *m);

#endif
