/* ir/card.h: what an operator is. ops/ fills one nc_card per operator; every stage asks the card and names no op.
 *
 * Hooks get a small context and never see a session, a device or a file. A hook that is NULL has the default said
 * beside it. */
#ifndef NC_IR_CARD_H
#define NC_IR_CARD_H

#include "ir/graph.h"

/* Element types a parameter takes: one bit per ONNX number, plus kinds of value. */
typedef uint64_t nc_types;
#define NC_BIT(dtype) ((nc_types)1 << (dtype))
#define NC_TYPES_SEQUENCE ((nc_types)1 << 40)
#define NC_TYPES_OPTIONAL ((nc_types)1 << 41)
#define NC_TYPES_MAP ((nc_types)1 << 42)
#define NC_TYPES_TAPE ((nc_types)1 << 43)
#define NC_TYPES_ANYTHING (((nc_types)1 << 48) - 1)

enum {
    NC_P_OPTIONAL = 1,
    NC_P_VARIADIC = 2,
    NC_P_HETEROGENEOUS = 4, /* variadic with differing types */
    NC_P_ONE = 8 /* holds one element, as a scalar or with dims of 1: others are refused before a kernel reads it */
};

/* There are thousands of them: 16 bytes each. */
typedef struct nc_param {
    const char *name;
    nc_types types : 48; /* 0: the same element type as input `same` */
    signed char same;    /* index of the input whose type this one has */
    unsigned char flags;
} nc_param;

enum { NC_ATTR_REQUIRED = 1, NC_ATTR_HAS_DEFAULT = 2 };

typedef struct nc_attr_spec {
    const char *name;
    nc_attr_kind kind;
    int flags;
    union {
        int64_t i;
        float f;
        const char *s;
    };
} nc_attr_spec;

/* One row per opset version; rows are ordered newest first and end with since = 0. Lists end with a NULL name. */
struct nc_op_version {
    int since;
    const nc_param *in, *out;
    const nc_attr_spec *attr;
    bool removed; /* the op ended with this version */
    bool foreign; /* ONNX Runtime's, not ONNX's: read from files that have it, never made by a pass */
};

enum {
    NC_ELEMENTWISE = 1 << 0, /* each output element depends on the input elements of the same (broadcast) place */
    NC_IN_PLACE = 1 << 2,    /* output i is the new version of input i for i < n_updates: it must take its memory */
    NC_VIEW_DENSE = 1 << 3, /* may be a view of input 0; a dense input gives a dense output, others need a copy first */
    NC_VIEW_STRIDED = 1 << 4, /* may be a view of input 0 with other strides; with NC_VIEW_DENSE: takes any strides and
                                 keeps them, so that the output is dense exactly when the input is */
    NC_RANDOM = 1 << 5,       /* draws numbers: gets a random_id at load */
    NC_CONTROL = 1 << 6,      /* has subgraphs that the executor runs */
    NC_IDENTITY = 1 << 7,     /* output 0 is input 0 */
    NC_GROWS = 1 << 8,        /* output 0 may extend input 0 in place along an axis, when memory was left for it */
    NC_HOST_OBJECTS = 1 << 9, /* works on sequences, optionals, strings or tapes: runs on the host */
    NC_COMMUTES = 1 << 10,
    NC_TYPES_GIVEN = 1 << 11, /* who makes the node sets the types of its outputs; inference keeps them */
    NC_COPIES = 1 << 12,      /* output 0 is input 0 in memory of its own, at the place of the output */
    NC_LOOPS = 1 << 13,       /* NC_CONTROL: its body runs many times and gets the iteration as input 0 */
    NC_BRANCHES = 1 << 14,    /* NC_CONTROL: one of its subgraphs runs, once */
    NC_BLOCKS = 1 << 15,      /* input 0 in channel-blocked layout */
    NC_UNBLOCKS = 1 << 16,    /* input 0, channel-blocked, in plain layout */
    NC_ENCODES = 1 << 17, /* output 0 holds codes of the numbers of input 0, in whatever type: their gradient is a float
                             tensor, in units of input 0, and comes from what decodes them; another use is an error */
    NC_DECODES = 1 << 18, /* makes numbers of the codes of input 0 */
    NC_FREE_RANK = 1 << 19, /* where inference finds no rank it may be another in every run, whatever is declared */
    NC_DIFFERENTIATES = 1 << 20, /* its outputs are gradients of a value that it names; autodiff/ puts them there */
    /* How it bears half precision, for transform/mixed.c: */
    NC_NARROWS = 1 << 21,   /* sums of products, which gain by operands in half precision: their sums are f32 anyway */
    NC_WIDE = 1 << 22,      /* a formula that loses in half precision what matters: exponents, logarithms, powers */
    NC_PASSES_ON = 1 << 23, /* its floats are elements of its operands, or those times one number of about 1 */
    NC_NORMS = 1 << 25,     /* a norm of rows, which it computes in f32 whatever their type */
    NC_LOWERED = 1 << 24    /* lowering makes it and nothing else: a file that has it is refused */
};

/* ---- inference ---- */

typedef struct nc_infer_val {
    const nc_type *type;        /* NULL: unknown (or an absent optional input: see present) */
    const nc_literal *lit;      /* constant value, or NULL */
    const nc_dim *const *elems; /* known elements of a small integer tensor, or NULL */
    int n_elems;
    bool present;
} nc_infer_val;

typedef struct nc_infer {
    nc_work *w;
    nc_dims *dims;
    nc_arena *arena;
    const nc_node *node; /* attributes, version, subgraphs, counts */
    nc_infer_val *in;    /* node->n_in */
    nc_infer_val *out;   /* node->n_out, to be filled */
    /* Infers subgraph i given the types of its inputs (n_in of them); types of its outputs are then on graph->outputs.
     */
    nc_code (*infer_sub)(struct nc_infer *c, int i_sub, const nc_infer_val *in, int n_in);
    bool *open;            /* set where something was expected of dims that only the run knows; NULL: nobody asks */
    nc_assumption assumes; /* what the card took for granted of a node that is not as ONNX wants it; N: nothing */
} nc_infer;

/* ---- gradient and decomposition ---- */

typedef struct nc_builder nc_builder; /* ops/build.h */

/* One subgraph of a control-flow node, walked backwards into a new subgraph of a node in nc_grad.b's graph.
 * touched, dx and ctx are filled by nc_grad.walk_sub, the rest by who asks. */
typedef struct nc_grad_sub {
    int i_sub;          /* which subgraph of the forward node */
    nc_builder *b;      /* emits into the new subgraph */
    nc_node *pop;       /* nacre.TapePop there: gets one more output for every forward value that is touched */
    nc_value **dy;      /* per output of the forward subgraph: its gradient in b's graph, or NULL */
    const bool *wants;  /* per input, then per capture of the forward subgraph */
    nc_value **dx;      /* the same order: NULL where no gradient arises */
    nc_value **touched; /* forward values of the subgraph that pop's outputs 1, 2, ... stand for */
    int n_touched;
    void *ctx;
} nc_grad_sub;

typedef struct nc_grad {
    nc_builder *b;     /* emits into the gradient's graph */
    nc_node *node;     /* the forward node; only control flow changes it */
    nc_value **dy;     /* per output: its gradient, or NULL when none arrives */
    nc_value **dx;     /* per operand: to be filled where asked */
    const bool *wants; /* per operand */
    /* Forward values as seen from the gradient's graph; asking for one is what keeps it. */
    nc_value *(*forward)(struct nc_grad *g, nc_value *v);
    /* Control flow. Differentiable ways through subgraph i: `in` is per input, then per capture; `out` per output.
     * Fills out from the marks of in, or with `backward` in from the marks of out. */
    nc_code (*flow)(struct nc_grad *g, int i_sub, bool *in, bool *out, bool backward);
    nc_code (*walk_sub)(struct nc_grad *g, nc_grad_sub *s);
    /* After walk_sub: a further forward value of the subgraph, as seen from s->b's graph. */
    nc_value *(*forward_sub)(nc_grad_sub *s, nc_value *v);
    void *ctx;
} nc_grad;

/* ---- the channel-blocked layout ---- */

#define NC_BLOCK_ALL ((int64_t)-1) /* as nc_blocking.block: one block holds all channels (channels last) */

typedef struct nc_blocking {
    int64_t block;    /* channels of a block, as the kernels of the node's place want it; or NC_BLOCK_ALL */
    nc_types types;   /* the elements that those kernels take in blocks */
    unsigned in;      /* to be filled: bit i: input i is taken blocked */
    bool plain_data;  /* to be filled: input 0 is taken as it is although the output is blocked */
    bool rest_plain;  /* to be filled: outputs behind 0 come in plain layout; else there may be none */
    nc_axes dropped;  /* to be filled: bit i: axis i of the blocked output is 1 and the plain one lacks it */
    double gain;      /* to be filled: what the node saves by the layout, counted in elements moved between layouts */
    const char *why;  /* to be filled where the answer is no */
} nc_blocking;

/* The block of a value with that many channels. */
static inline int64_t nc_block_of(const nc_blocking *k, int64_t channels) {
    return k->block == NC_BLOCK_ALL ? channels : k->block;
}

struct nc_binding; /* ops/binding.h */

struct nc_card {
    const char *name, *domain; /* domain NULL: ai.onnx */
    const char *doc;
    const nc_op_version *versions;
    unsigned traits;
    int n_updates; /* with NC_IN_PLACE */
    /* Attributes (a string or strings) that name values of the node's graph, ended by NULL: those values are inputs
     * too, behind the ones that a file gives, in this order. Files have the names alone, the text form both. */
    const char *const *names_values;
    const void *own; /* what tells this card from the others that its hooks serve; of the type that the hooks expect */
    const char *lane_params[2];
    unsigned host_in; /* bit i: input i is a shape, an axis, a condition: small, wanted where the host can read it */
    int16_t lane; /* NCK_LANE_x + 1; 0: not a lane. Lane parameters are the attributes named in lane_params, in order */
    uint16_t apart_in; /* bit i: input i keeps its type where the others become narrow (a mask; transform/mixed.h) */
    uint8_t host_sub_in, host_sub_out; /* NC_CONTROL: the same of the subgraphs (counter, condition) */
    int8_t epilogue_in;                /* of with_body */
    bool zero_grad;                    /* the gradient is zero everywhere (Floor, comparisons, Shape): stop silently */
    unsigned
        dims_only_in; /* bit i: only the dims of input i are looked at (Shape): its bytes are neither kept nor copied */
    unsigned no_grad_in;  /* bit i: input i never has a gradient (indices, shapes, masks) */
    unsigned settings_in; /* bit i: input i is no weight, though it may have a gradient (class weights, running
                             statistics, tables of angles): it trains only when it is named */
    bool (*is_identity)(
        const nc_node *n); /* output 0 is input 0 for this node, its constants known; NULL: by NC_IDENTITY */
    /* n puts the axes of input 0, of `rank` dims, in another order and does nothing else: axis k of output 0 is
     * axis perm[k]. NULL: it does not. */
    bool (*permutes)(const nc_node *n, int rank, int64_t *perm);
    /* The channel-blocked layout (plan/lower_layout.c). blocks: can n work on it, given its types in plain layout?
     * blocked: emits what does n's work on inputs `in`, those that k names blocked, and gives output 0, blocked. NULL:
     * lanes have theirs; others keep to the plain layout. */
    bool (*blocks)(const nc_node *n, nc_blocking *k);
    nc_value *(*blocked)(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in);
    /* The form of it whose kernels do element formulas to output 0 (subgraph `body`, its input 0 is that output): the
     * same attributes and inputs, from its epilogue_in on further ones for the body. NULL: there is none. */
    const struct nc_card *with_body;
    const struct nc_card *group; /* its nodes that share input 0 as one: input 1 of each behind it, an output each */
    bool (*is_random)(
        const nc_node *n); /* NC_RANDOM: this node draws numbers, as far as constants tell; NULL: unless is_identity */
    const char *random_form; /* NC_RANDOM: the op of domain nacre with the same inputs and, last, the random state */
    const char *seeded_form; /* NC_RANDOM: random_form without the state, for a `seed` that only infers; or NULL */

    nc_code (*infer)(nc_infer *c); /* NULL: lanes broadcast; others: error at creation */
    nc_code (*fold)(nc_infer *c);  /* fills out[i].elems from in[i].elems; NULL: nothing is known */
    nc_code (*grad)(nc_grad *g); /* NULL: lanes have theirs; others: not differentiable, gradients stop with an error */
    const char *grad_form; /* without grad: the op of domain nacre with the same inputs, attributes and outputs, and one
                              output more, what its gradient needs of the forward pass; or NULL */
    const char *no_grad;   /* why numbers that go through have no gradient: asking for one is an error that says so */
    nc_code (*decompose)(nc_builder *b, const nc_node *n,
                         nc_value **out); /* into simpler, differentiable ops; fills out */
    const struct nc_binding *rows; /* the host's kernels of a card that is in no table of ops/ (custom ops), ended by
                                      a row without an op; NULL: the tables have them */
    double (*cost)(const nc_node *n,
                   const int64_t *const *in_dims); /* floating-point operations; NULL: elements of the output */
};

/* The row of `card` valid at `opset`; NULL when the op is newer or ended. */
const nc_op_version *nc_card_version(const nc_card *card, int64_t opset);

/* Attributes through the card's defaults. The attribute must be in the version's list (checked at load). */
int64_t nc_attr_int(const nc_node *n, const char *name);
double nc_attr_float(const nc_node *n, const char *name);
const char *nc_attr_str(const nc_node *n, const char *name);                 /* NULL: absent and no default */
const int64_t *nc_attr_ints(const nc_node *n, const char *name, int *n_out); /* NULL: absent */
bool nc_attr_has(const nc_node *n, const char *name);                        /* written on the node */
int nc_attr_n_strings(const nc_node *n, const char *name);                   /* of a STRING 1; absent or other kind 0 */
const nc_str *nc_attr_strings(const nc_attr *a, int *n);                     /* of STRING or STRINGS; NULL: neither */
int nc_node_n_named(const nc_node *n); /* how many of its last inputs are named by attributes (card->names_values) */
bool nc_value_is_setting(const nc_value *v); /* all its uses are settings (card->settings_in) */
/* Does a parameter of these types take one of type t (a single bit)? */
bool nc_types_take(nc_types types, nc_types t);
/* Checks counts of inputs and outputs, attribute names and kinds against the version; fills nothing. */
NC_MUST nc_code nc_node_check(nc_work *w, const nc_node *n);
/* Checks the kinds and element types of inputs and outputs that have a type. */
NC_MUST nc_code nc_node_check_types(nc_work *w, const nc_node *n);

#endif
