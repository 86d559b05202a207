/* ops/rnn/lstm_codes.h: DynamicQuantizeLSTM's row of the CPU (rnn_cpu.c). */
#ifndef NC_OPS_LSTM_CODES_H
#define NC_OPS_LSTM_CODES_H

#include "ops/binding.h"

NC_MUST nc_code nc_lstm_codes_prepare(nc_prep *p);
size_t nc_lstm_codes_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_lstm_codes_run(const nc_call *c);

#endif
