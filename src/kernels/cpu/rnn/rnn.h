/* kernels/cpu/rnn/rnn.h: a recurrent layer in one or both directions, as ONNX RNN, GRU and LSTM define it, f32 or f64.
 *
 * T steps, B rows, I inputs, H hidden units, G gates: 1 (RNN), 3 (GRU: z r h), 4 (LSTM: i o f c). All pointers are
 * dense but where strides are given. Products are kernels/cpu/gemm, the rest of a step is one tile program, so both
 * say how sums are cut. A row ends after lens[b] steps: its state stays, Y is 0 from there on; backwards it starts
 * at its own last step. */
#ifndef NCK_RNN_H
#define NCK_RNN_H

#include "kernels/cpu/tile.h"

typedef enum nck_rnn_kind { NCK_RNN, NCK_GRU, NCK_LSTM } nck_rnn_kind;

/* NAME(id, name, parameters it takes, their defaults) */
#define NCK_RNN_FUNCTIONS(NAME)                      \
    NAME(TANH, "Tanh", 0, 0, 0)                      \
    NAME(SIGMOID, "Sigmoid", 0, 0, 0)                \
    NAME(RELU, "Relu", 0, 0, 0)                      \
    NAME(AFFINE, "Affine", 2, 1, 0)                  \
    NAME(LEAKY_RELU, "LeakyRelu", 1, 0.01f, 0)       \
    NAME(THRESHOLDED, "ThresholdedRelu", 1, 1, 0)    \
    NAME(SCALED_TANH, "ScaledTanh", 2, 1, 1)         \
    NAME(HARD_SIGMOID, "HardSigmoid", 2, 0.2f, 0.5f) \
    NAME(ELU, "Elu", 1, 1, 0)                        \
    NAME(SOFTSIGN, "Softsign", 0, 0, 0)              \
    NAME(SOFTPLUS, "Softplus", 0, 0, 0)

typedef enum nck_rnn_function {
#define NAME(id, name, n, a, b) NCK_RNN_##id,
    NCK_RNN_FUNCTIONS(NAME)
#undef NAME
} nck_rnn_function;

typedef struct nck_rnn_act {
    nck_rnn_function fn;
    double alpha, beta;
} nck_rnn_act;

/* What a layer computes in one step. act: f, g, h as far as the kind has them. */
typedef struct nck_rnn_rule {
    nck_rnn_kind kind;
    nck_rnn_act act[3];
    double clip; /* 0: none. Bounds the input of every activation but h, as ONNX Runtime does */
    bool linear_before_reset, input_forget, peepholes;
} nck_rnn_rule;

enum { NCK_RNN_MAX_OPS = 96, NCK_RNN_MAX_CONSTS = 12, NCK_RNN_MAX_IN = 11, NCK_RNN_MAX_OUT = 5 };

/* A tile program over n_tensors inputs and then the constants k. */
typedef struct nck_rnn_prog {
    nck_tile_op op[NCK_RNN_MAX_OPS];
    int n_op, n_tensors, n_consts, n_temps, n_out;
    double k[NCK_RNN_MAX_CONSTS];
    uint16_t out[NCK_RNN_MAX_OUT];
} nck_rnn_prog;

typedef struct nck_rnn_cell {
    nck_rnn_rule rule;
    nck_rnn_prog reset; /* GRU without linear_before_reset: r * h, before the product of the hidden gate */
    nck_rnn_prog step;
} nck_rnn_cell;

void nck_rnn_cell_init(nck_rnn_cell *c, const nck_rnn_rule *rule);

/* The same backwards: the gradients of the gates' sums and of the state before a step, from those of the state behind
 * it. GRU without linear_before_reset has a product in between: `first` comes before it. */
typedef struct nck_rnn_cell_grad {
    nck_rnn_prog first, step;
} nck_rnn_cell_grad;

void nck_rnn_cell_grad_init(nck_rnn_cell_grad *c, const nck_rnn_rule *rule);
/* in: n_tensors; all tensors f32 or all f64, each (B,H) or broadcast to it. */
void nck_rnn_prog_run(const nck_rnn_prog *p, const nc_tensor *const *in, const nc_tensor *out, nc_pool *pool);

/* Weights (rows,G*H) of one direction as 8-bit codes; scale and zero point are one number or one of each column. */
typedef struct nck_rnn_codes {
    nc_dtype type;      /* NC_UINT8, NC_INT8 */
    const void *codes;  /* read by nck_rnn_ref alone */
    const void *packed; /* the same from nck_igemm_pack_b */
    const float *scale;
    const void *zero; /* of type */
    int64_t scales, zeros;
} nck_rnn_codes;

typedef struct nck_rnn_args {
    const nck_rnn_cell *cell;
    nc_dtype type;
    int64_t T, B, I, H;
    bool batch_first, reverse;
    const void *x;                   /* (T,B,I), batch_first: (B,T,I) */
    const void *w, *r;               /* (G*H,I), (G*H,H) */
    const void *w_packed, *r_packed; /* the same from nck_rnn_pack_w and nck_rnn_pack_r; NULL: packed in each run */
    /* LSTM in f32: of W and of R, which are not looked at then. x is quantized by the range of all of it, the state
     * row by row in every step, both to codes 0 to 255. NULL: w and r are numbers */
    const nck_rnn_codes *codes;
    const void *b;       /* (2*G*H): of w, then of r; NULL: 0 */
    const void *p;       /* LSTM peepholes (3*H): i o f */
    const int32_t *lens; /* (B), each in [0, T]; NULL: all T */
    const void *h0, *c0; /* (B,H) with rows state_rs apart; NULL: 0 */
    void *y_h, *y_c;     /* the same; may be NULL */
    int64_t state_rs;
    void *y; /* (T,B,H) with these strides; may be NULL */
    int64_t y_t, y_b;
    void *kept; /* (T,B,kept*H), what a backward pass needs of every step, not time; may be NULL */
} nck_rnn_args;

int nck_rnn_gates(nck_rnn_kind kind);
/* Values that a step keeps per hidden unit: the gates' sums, GRU's recurrent part of h or LSTM's cell, the state. */
int nck_rnn_kept(nck_rnn_kind kind);
/* The weights of one direction in the form that products read them. */
size_t nck_rnn_packed_w_bytes(nck_rnn_kind kind, nc_dtype type, int64_t I, int64_t H);
size_t nck_rnn_packed_r_bytes(nck_rnn_kind kind, nc_dtype type, int64_t H);
void nck_rnn_pack_w(nck_rnn_kind kind, nc_dtype type, int64_t I, int64_t H, const void *w, void *dst);
void nck_rnn_pack_r(nck_rnn_kind kind, nc_dtype type, int64_t H, const void *r, void *dst);

/* What w and r of all directions are. */
typedef enum nck_rnn_form { NCK_RNN_PLAIN, NCK_RNN_PACKED, NCK_RNN_CODES } nck_rnn_form;

/* Grows with each of T, B, I, H. */
size_t nck_rnn_workspace(nck_rnn_kind kind, nc_dtype type, int n_dirs, int64_t T, int64_t B, int64_t I, int64_t H,
                         nck_rnn_form form);
/* n_dirs (1 or 2) directions of one kind, type and sizes. */
void nck_rnn(const nck_rnn_args *dirs, int n_dirs, void *workspace, nc_pool *pool);

/* The gradients of one direction. `a` as it ran forward, kept filled; y, y_h and y_c are not looked at. dy has the
 * strides of y, dh and dc those of the states; each may be NULL: 0. What is NULL of the results is not computed. */
typedef struct nck_rnn_grad_args {
    const nck_rnn_args *a;
    const nck_rnn_cell_grad *cell;
    const void *dy, *dy_h, *dy_c;
    void *dx; /* as x; added to what is there with `adds`: the other direction's */
    bool adds;
    void *dw, *dr, *db, *dp; /* as w, r, b, p */
    void *dh0, *dc0;         /* as h0, c0 */
} nck_rnn_grad_args;

/* Grows with each of T, B, I, H. */
size_t nck_rnn_grad_workspace(nck_rnn_kind kind, nc_dtype type, int64_t T, int64_t B, int64_t I, int64_t H);
void nck_rnn_grad(const nck_rnn_grad_args *g, void *workspace, nc_pool *pool);

/* Scalar loops in double; state is scratch of 4*H. */
void nck_rnn_ref(const nck_rnn_args *a, double *state);

#endif
