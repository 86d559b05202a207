/* ops/standard.c: which gradient ops have a form of their own for others to run. */
#include "ops/standard.h"

extern const nc_card nc_card_resize_grad, nc_card_rnn_kept, nc_card_gru_kept, nc_card_lstm_kept, nc_card_rnn_grad,
    nc_card_gru_grad, nc_card_lstm_grad, nc_card_gelu_erf, nc_card_gelu_tanh, nc_card_gather_nd_grad;

nc_standard nc_standard_of(const nc_card *card) {
    static const struct {
        const nc_card *card;
        nc_standard form;
    } rows[] = {
        {&nc_card_resize_grad, nc_resize_grad_standard}, {&nc_card_rnn_kept, nc_rnn_kept_standard},
        {&nc_card_gru_kept, nc_rnn_kept_standard},       {&nc_card_lstm_kept, nc_rnn_kept_standard},
        {&nc_card_rnn_grad, nc_rnn_grad_standard},       {&nc_card_gru_grad, nc_rnn_grad_standard},
        {&nc_card_lstm_grad, nc_rnn_grad_standard},      {&nc_card_gelu_erf, nc_gelu_standard},
        {&nc_card_gelu_tanh, nc_gelu_standard},          {&nc_card_gather_nd_grad, nc_gather_nd_grad_standard},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].card == card) return rows[i].form;
    return NULL;
}
