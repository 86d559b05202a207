/* ir/precision.h: traits of cards (nc_card.traits) that say how an op bears half precision, for transform/mixed.c; the
 * bits behind those of ir/card.h. */
#ifndef NC_IR_PRECISION_H
#define NC_IR_PRECISION_H

enum {
    NC_NARROWS = 1 << 21, /* sums of products, which gain by operands in half precision: their sums are f32 anyway */
    NC_WIDE = 1 << 22     /* a formula that loses in half precision what matters: exponents, logarithms, powers */
};

#endif
