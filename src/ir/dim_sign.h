/* ir/dim_sign.h: signs that files write for dims they do not know: "?", "None". Each such dim is a symbol of its own,
 * tied to no other; the sign is kept for who asks what the file says. */
#ifndef NC_IR_DIM_SIGN_H
#define NC_IR_DIM_SIGN_H

#include "ir/dim.h"

const nc_dim *nc_dim_signed(nc_dims *t, const char *hint, const char *sign); /* as nc_dim_fresh */
const char *nc_dims_sym_sign(const nc_dims *t, int sym);                     /* NULL: it has none */

#endif
