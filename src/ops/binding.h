/* ops/binding.h: how a device does an op: rows of <family>_cpu.c and <family>_cuda.c.
 *
 * prepare, once per session: reads attributes, asks for packed constants, says which strides it takes. workspace, per
 * instance. run: pointers, sizes, strides; allocates nothing and reads no attribute. Tiles that touch the bits are a
 * function of the actual dims alone, so an instance with room for larger dims gives the same bits. */
#ifndef NC_OPS_BINDING_H
#define NC_OPS_BINDING_H

#include "device/device.h"
#include "ir/card.h"

typedef enum nc_kernel_kind {
    NC_K_STATIC,  /* sizes known before; fails only on data */
    NC_K_BOUNDED, /* memory for an upper bound; true dims written to call->sizes */
    NC_K_DYNAMIC, /* host only: makes its outputs while running; control flow, sequences, strings, plugins */
    NC_K_VIEW     /* no work: geometry of outputs over input 0's memory */
} nc_kernel_kind;

#define NC_MAX_PACKS 3
#define NC_MAX_OVER 4 /* outputs that may lie on an input: the first ones */

/* A constant input wanted in another form. Filled once, on first use, into the environment's store. */
typedef struct nc_pack {
    int input;
    const nc_value *of; /* the constant behind the input, which `fill` reads; NULL: the input itself is one */
    const nc_node *by;  /* first makes numbers of `of`, done once for the pack; NULL: they lie there */
    const char *form;   /* kernel, version, ISA and layout: "gemm_b/1/neon/f32" */
    size_t bytes;
    nc_code (*fill)(const void *state, const nc_tensor *src, void *dst); /* src may be unaligned; dst is host memory */
} nc_pack;

/* The constant that a pack of v is filled from; its dims are v's. Where it is not v itself, k->of and k->by are set.
 * NULL: there is none. */
const nc_literal *nc_pack_source(const nc_value *v, nc_pack *k);
nc_tensor nc_literal_tensor(const nc_literal *l); /* dense, over its bytes */
/* What k->by makes; *held, the caller's, holds the bytes. */
NC_MUST nc_code nc_pack_decode(nc_work *w, const nc_node *by, nc_tensor *out, nc_buffer **held);

typedef struct nc_prep {
    nc_work *w;
    nc_arena *arena; /* lives as long as the program */
    const nc_node *node;
    nc_device *device;
    bool no_packs;    /* the session packs nothing: ask for no pack */
    bool no_winograd; /* the session wants the sums of convolutions as they are defined */
    bool tune;        /* what a library offers several ways for is tried, and the fastest kept */
    bool tf32;        /* products of f32 on a GPU may round their operands to 10 bits */
    bool dnn_draws;   /* attention's dropout may draw cuDNN's numbers, not those of the CPU */
    const void *own;  /* of the row that is prepared */
    /* to be filled */
    void *state;
    uint32_t strided_in,
        strided_out;       /* bit i: any strides are fine; else the planner makes it dense by a visible copy */
    uint32_t unaligned_in; /* bit i: read byte by byte, so a constant may stay where the file has it */
    /* over[o] bit i: output o may be written over input i (same dims and element size, the input dies here): what the
     * kernel still reads of input i when it writes an element lies at or behind that element. */
    uint32_t over[NC_MAX_OVER];
    nc_pack pack[NC_MAX_PACKS];
    int n_packs;
} nc_prep;

/* A dynamic kernel's world. Inputs that are tensors stand in call->in; objects in in[]. */
typedef struct nc_dyn {
    const nc_call *call; /* out[i]: no data; type, rank and dims as far as known before, -1 where not */
    nc_object **in;      /* per operand: strings, sequences, optionals, tapes (tensors: NULL). in[i] is the kernel's own
                            reference if      moved[i] (its last use): take it by setting in[i] = NULL. Else borrowed */
    const bool *moved;
    nc_object **out; /* per output: gives a reference; tensors too */
    int n_operands;
    /* Input i as a counted object: a new reference, or a copy when it lies in the frame's arena. NULL: out of memory.
     */
    nc_object *(*object)(struct nc_dyn *d, int i);
    /* A new dense tensor on the device that output i is placed on; fills *t. */
    nc_code (*alloc)(struct nc_dyn *d, int i, nc_dtype type, int rank, const int64_t *dims, nc_tensor *t);
    /* Control flow: runs subgraph i. in: one object per input of the subgraph (references are taken); captures are
     * passed by the executor. out: new references. */
    nc_code (*run_sub)(struct nc_dyn *d, int i_sub, nc_object **in, int n_in, nc_object **out, int n_out);
    /* Stacks n tensor objects of equal shape along a new leading axis, wherever they lie. */
    nc_object *(*stack)(struct nc_dyn *d, int i_out, nc_object **items, int64_t n);
    bool (*cancelled)(struct nc_dyn *d);
} nc_dyn;

/* Several rows may fit a node. The first without a guard serves every call; rows with a guard that stand before it are
 * its variants: each takes the calls that its guard holds for. They share kind, strides, aliases and packs, so that a
 * new shape never means planning again, and may book workspace where it does. */
typedef struct nc_binding {
    const char *op, *domain; /* domain NULL: ai.onnx */
    int16_t since, until;    /* first and last opset version of the op it serves; 0: all, no end */
    uint8_t kind;            /* nc_kernel_kind */
    bool sized : 1;          /* DYNAMIC: the card tells the sizes before it runs, as for the static ones */
    /* Input 0 and output 0 may both be of one half type, as below: what it adds up is f32 nevertheless. */
    bool half_through : 1;
    /* Bit i: input or output i may be f16 or bf16 in a node whose operands are f32 by its card, so that no Cast has to
     * stand beside it (plan/lower_casts.c). */
    uint8_t half_in, half_out;
    nc_types types; /* element types of input 0 (of output 0 for ops without inputs); 0: any */
    /* A further condition; a refusal says why in a few words, for `nacre explain`. NULL: none. */
    bool (*fits)(const nc_node *n, const char **why);
    const void *own; /* what tells this row from the others that prepare serves; of the type that prepare expects */
    nc_code (*prepare)(nc_prep *p); /* NULL: dense in and out, no state */
    /* dims and strides filled, data NULL; called with the largest dims an instance serves; must grow with them. NULL:
     * none. */
    size_t (*workspace)(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
    nc_code (*run)(const nc_call *c);  /* STATIC, BOUNDED */
    nc_code (*view)(const nc_call *c); /* VIEW: sets out[i].data and strides; dims are set */
    nc_code (*dynamic)(nc_dyn *d);     /* DYNAMIC */
    /* By dims, strides and alignment of the call; the bytes of its tensors are not read. NULL: always. */
    bool (*guard)(const void *state, const nc_call *c);
    const char *when; /* with guard: for which calls, in a few words */
    /* How its last run went where it has several ways, and why not by the others, in a few words. NULL: one way. */
    void (*tell)(const void *state, char *text, size_t bytes);
} nc_binding;

/* The row without a guard for node n among those of `kernels` ("cpu", "cuda"); NULL when none fits, with the reasons in
 * why. */
const nc_binding *nc_binding_find(const nc_node *n, const char *kernels, char *why, size_t bytes_why);

/* The rows with a guard that fit n and stand before the one that nc_binding_find gives: how many, at most max. */
int nc_binding_find_guarded(const nc_node *n, const char *kernels, const nc_binding **rows, int max);

/* Is there a row for the card's op on elements of that type among those of `kernels`? */
bool nc_binding_exists(const nc_card *card, const char *kernels, nc_dtype elem);

/* What the channel-blocked layout is among `kernels`: as many channels in a block as the instruction set in use wants,
 * of floats, on the CPU; all of them, of half types, on CUDA. block 0: they know no such layout. */
nc_blocking nc_channel_blocking(const char *kernels);

/* The CPU's static or view row that would serve n if its elements were of type `as`; NULL: none. For kernels that move
 * stand-ins of what cannot be moved as bytes. */
const nc_binding *nc_binding_find_moving(const nc_node *n, nc_dtype as);

/* Lets row b prepare, once p says for what node, device and arena. */
NC_MUST nc_code nc_binding_prepare(const nc_binding *b, nc_prep *p);

/* SHAPE unless input i of the call has these dims: open ones are known only in the run. */
NC_MUST nc_code nc_call_expect(const nc_call *c, int i, const int64_t *dims, int rank);

/* Of kernels that add to input `sum` unless input `overwrite`, which may be missing, is true: puts the sum where the
 * result goes, which may be its own place, and says whether there is one to add to. */
bool nc_call_adds(const nc_call *c, int sum, int overwrite);

/* The registry of cards (ops.list) and its lookup. */
const nc_registry *nc_ops_registry(void);

#endif
