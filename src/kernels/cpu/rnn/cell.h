/* kernels/cpu/rnn/cell.h: the words that cell.c and cell_grad.c write tile programs with. Private to this folder.
 *
 * Registers while a program is made: inputs by number, constants and temporaries marked until their count is known;
 * nck_rnn_prog_finish gives them their places. */
#ifndef NCK_RNN_CELL_H
#define NCK_RNN_CELL_H

#include "kernels/cpu/rnn/rnn.h"

uint16_t nck_rnn_constant(nck_rnn_prog *p, double v);
uint16_t nck_rnn_temp(nck_rnn_prog *p);
void nck_rnn_unary(nck_rnn_prog *p, nck_lane lane, uint16_t dst, uint16_t a, double param);
void nck_rnn_binary(nck_rnn_prog *p, nck_lane lane, uint16_t dst, uint16_t a, uint16_t b);
void nck_rnn_choose(nck_rnn_prog *p, uint16_t dst, uint16_t which, uint16_t yes, uint16_t no);
/* x = a * b + c; t is overwritten. */
void nck_rnn_multiply_add(nck_rnn_prog *p, uint16_t x, uint16_t a, uint16_t b, uint16_t c, uint16_t t);
/* x = the rule's activation i_act of x, clipped before; t is overwritten. */
void nck_rnn_activate(nck_rnn_prog *p, const nck_rnn_rule *rule, int i_act, uint16_t x, uint16_t t);
void nck_rnn_prog_finish(nck_rnn_prog *p);

#endif
