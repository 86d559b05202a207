/* kernels/cpu/rnn/rnn_codes.h: products of a recurrent layer whose weights are 8-bit codes. Private to this folder. */
#ifndef NCK_RNN_CODES_H
#define NCK_RNN_CODES_H

#include "kernels/cpu/rnn/rnn.h"

typedef struct nck_rnn_product {
    int64_t M, N, K;
    const float *x;    /* (M,K) */
    bool by_rows;      /* each row of x has a range of its own, else all of them have one */
    const float *bias; /* (N), NULL: none */
    bool adds;         /* to what c holds; without a bias */
    float *c;          /* (M,N), rows c_rs apart */
    int64_t c_rs;
} nck_rnn_product;

/* Grows with each size. */
size_t nck_rnn_codes_room(int64_t M, int64_t N, int64_t K);
/* x is quantized by its range, multiplied as integers, and scaled back. */
void nck_rnn_codes_multiply(const nck_rnn_codes *w, const nck_rnn_product *p, void *room, nc_pool *pool);

#endif
