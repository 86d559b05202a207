/* plan/program.h: what a session runs: instructions over slots, in segments, on streams. Made once, immutable, shared
 * by threads, printable, testable without running. Holds no sizes: those are an instance (plan/instance.h).
 *
 * Places: 0 is the host, the others are devices. Streams: 0 is the host's, done when issued; the others compute at a
 * place or copy to and from it. How many there are is the program's choice. Where several compute at the host itself,
 * the program overlaps: what is issued, also on stream 0, is done when a clock says so, at the latest when the segment
 * ends.
 * A segment is a run of instructions whose sizes are all known when it starts. A symbol is found by the caller's
 * inputs, by the variables, by `sizing` before a segment (a Reshape whose shape is computed), or by an instruction that
 * ends a segment. */
#ifndef NC_PLAN_PROGRAM_H
#define NC_PLAN_PROGRAM_H

#include "ops/binding.h"

typedef enum nc_stream_kind { NC_STREAM_HOST, NC_STREAM_COMPUTE, NC_STREAM_COPY } nc_stream_kind;

typedef struct nc_prog_stream {
    nc_stream_kind kind;
    int place;
} nc_prog_stream;

typedef enum nc_storage {
    NC_S_NONE,   /* never touched: only its dims are used */
    NC_S_ARENA,  /* the frame's memory, at the instance's offset */
    NC_S_CONST,  /* program constant `index` */
    NC_S_INPUT,  /* given by the caller */
    NC_S_OUTPUT, /* the caller's buffer, or allocated for each run */
    NC_S_STATE,  /* a variable's buffer */
    NC_S_VIEW,   /* over the memory of slot `of`; geometry by the view kernel */
    NC_S_ALIAS,  /* the very memory of slot `of` (in place) */
    NC_S_OBJECT  /* a counted object */
} nc_storage;

typedef struct nc_slot {
    const nc_value *value; /* of the lowered graph; NULL for workspace and sizes */
    nc_storage storage;
    int index; /* CONST, INPUT, OUTPUT, STATE */
    int of;    /* VIEW, ALIAS: the slot it stands on */
    int root;  /* the slot at the bottom of that chain */
    int place;
    nc_dtype dtype;
    int rank;
    const int *dims; /* indices into program->dims */
    bool dense;
    /* Between the caller and a device: a slot there that a copy fills from graph input from_input, or that a copy takes
     * to graph output to_output (-1: neither). Where the caller's tensor lies in the device's memory, the slot is that
     * tensor and the copy does nothing. Nobody writes over such slots. */
    int from_input, to_output;
    bool on_device_ok;  /* INPUT, OUTPUT: nothing but such copies touches its bytes */
    bool takes_strides; /* INPUT: every reader takes any strides */
    bool steady;        /* VIEW: by a fixed instruction */
    int seg;            /* where it is made; -1 before the first */
    int block;          /* ARENA: which block of its segment it is */
    int first, last;    /* instructions between which a root's memory is needed */
    int *last_on;       /* of a root: the last instruction of each stream that touches it; -1: none */
} nc_slot;

typedef struct nc_instr {
    const nc_node *node;
    const nc_binding *binding;
    void *state;
    int stream, place;
    int *in, n_in; /* slots, -1 where absent; captures included */
    int *out, n_out;
    int workspace; /* slot, or -1 */
    int sizes;     /* slot of a bounded kernel's true dims, or -1 */
    int first_pack, n_packs;
    bool *moved; /* per operand: the object's last use */
    bool writes_state;
    struct nc_program **subs; /* per subgraph */
    int *wait, n_wait;        /* events to wait for before */
    int n_host_wait;          /* the first of them, for which the host itself waits */
    int record;               /* event to record after, or -1 */
    uint32_t dims_only;       /* operands whose bytes are not read */
    int seg;
    int first_operand; /* of the pointers to its tensors in a frame: inputs, then outputs */
    bool lets_go;      /* an operand is moved */
    bool fixed;        /* a view whose geometry stays while sizes and memory stay */
    int *clock;        /* per stream: its newest instruction known to be done before this one starts */
    int after;         /* the next instruction of its stream; n_instrs: none */
    bool beside;       /* of a program that overlaps: others of its segment may run at the same time */
} nc_instr;

typedef struct nc_segment {
    int first, end;            /* instructions */
    int *sizing, n_sizing;     /* instructions whose outputs' dims are asked of their cards before the segment starts */
    int *syms, n_syms;         /* symbols that its sizes depend on */
    int *blocks, n_blocks;     /* arena slots that it makes, workspace included */
    int *needs, n_needs;       /* slots of graph inputs that it reads */
    int *refilled, n_refilled; /* slots that every run fills anew though sizes stay: outputs, bounded results */
    NC_VEC(const nc_dim *) shrinking; /* sizes that may be smaller at larger values of their symbols */
    bool capturable;                  /* its compute-stream instructions can be recorded and replayed */
    const char *why_not;
    int cap_first, cap_end;
} nc_segment;

typedef struct nc_prog_const {
    const nc_value *value;
    int place;
    bool packed_only; /* no instruction reads the plain bytes */
    bool unaligned;   /* those that do take them at any address */
} nc_prog_const;

typedef struct nc_prog_pack {
    nc_pack pack;
    const nc_value *value;
    const void *state;
    int place;
} nc_prog_pack;

typedef struct nc_prog_cut {
    const char *name;
    int instr; /* stops before this instruction; always a segment's start */
} nc_prog_cut;

typedef struct nc_program {
    nc_arena arena;
    nc_model *model; /* the lowered graph's model; owned by the main program, borrowed by subprograms */
    const nc_graph *graph;
    nc_device *device;  /* borrowed: the session's, place 1 where it is not the host */
    nc_device **places; /* borrowed; places[0] is the host */
    int n_places;
    nc_prog_stream *streams; /* streams[0] is the host's */
    int n_streams;
    bool overlaps; /* streams of the host run beside each other */
    nc_slot *slots;
    int n_slots;
    nc_instr *instrs;
    int n_instrs;
    nc_segment *segs;
    int n_segs;
    nc_prog_const *consts;
    int n_consts;
    nc_prog_pack *packs;
    int n_packs;
    nc_prog_cut *cuts;
    int n_cuts;
    const nc_dim **dims; /* all dim expressions of slots, each once */
    int n_dims;
    int n_syms;
    int n_events;
    int n_operands;        /* of all instructions */
    int *held, n_held;     /* slots that may hold an object: inputs, outputs, objects */
    int *states, n_states; /* slots of variables, all versions */
    int *edges, n_edges;   /* slots with from_input or to_output */
    bool copies_edges;     /* all copies are those of edges, one stream computes, and the host waits for no event: where
                              no edge is copied, no stream has to wait for another */
    int *inputs, n_inputs; /* slots of graph inputs, then of captures */
    int n_captures;
    int *outputs, n_outputs;
    int *vars, n_vars; /* slot of each variable's version 0 */
    int *vars_last;    /* slot of its last version */
    bool vars_fixed;   /* all of their sizes are constants */
    bool writes_state;
    bool inner;             /* its frames run inside of another program's and borrow the streams */
    const bool *input_syms; /* per symbol: bound by inputs or variables */
} nc_program;

#include "base/text.h"
/* "host", "compute", "copy"; with its number behind where there are several of that kind. */
typedef struct nc_stream_name {
    char text[24];
} nc_stream_name;
nc_stream_name nc_stream_name_of(const nc_prog_stream *streams, int n, int stream);
/* The first stream of that kind at the place; 0, the host's, where there is none. */
int nc_program_stream(const nc_program *p, nc_stream_kind kind, int place);
void nc_program_print(nc_text *out, const nc_program *p);
void nc_program_destroy(nc_program *p); /* NULL is fine; subprograms too, the model not */

/* The slot whose memory a slot is, element by element: itself, or what it is a view of; -1: a view of some of it, or in
 * another order. */
int nc_slot_beneath(const nc_program *p, int slot); /* lives.c */

#endif
