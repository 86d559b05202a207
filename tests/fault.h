/* tests/fault.h: the sweep of failures. A life is environment, load, session, run, release; in each chosen life one
 * thing fails: an allocation (base/mem.h) or what another source can make fail. It must report that or succeed, leak
 * nothing, and do everything on a second try in the same environment, model and session, with the outputs of a life
 * without failure. Single-threaded. */
#ifndef NC_TESTS_FAULT_H
#define NC_TESTS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nc_fault_source {
    const char *name;            /* of the thing that fails */
    void (*fail_at)(uint64_t n); /* the nth from now, and none other; 0: none */
    bool (*hit)(void);           /* it has happened */
    uint64_t (*count)(void);     /* how many there were so far */
    int code;                    /* that a life may report beside MEMORY */
    const char *(*left)(void);   /* asked after a life: what it should have given back; NULL: nothing */
} nc_fault_source;

typedef struct nc_fault_job {
    const nc_fault_source *source; /* NULL: allocations */
    const char *path;              /* .onnx or .nct */
    const char *data;              /* folder with input_0.pb ...; NULL: inputs are made up from the signature */
    const char *device;            /* NULL: cpu */
    const char *plugin;            /* loaded first; NULL: none */
    const char *save;              /* the optimized model is written there; NULL: not */
    const char *packed_file;       /* where packed weights are kept; NULL: nowhere */
    const char *variables;         /* initializers that are variables, or "*"; NULL: none */
    bool capture;                  /* runs are captured and replayed: three of them */
    const char *loss;              /* every run is a training step on this output, learning rate 0.1; NULL: inference */
    int most;       /* failures to try, spread evenly over the life; 0: every one, 500 for over 200 nodes */
    double seconds; /* stop after so long; 0: never */
} nc_fault_job;

typedef struct nc_fault_result {
    uint64_t n_allocs;   /* of one life; or what else its source makes fail */
    uint64_t n_tried;    /* failures that happened */
    uint64_t n_survived; /* lives that succeeded all the same */
    bool not_run;        /* without any failure it does not run; why is in wrong */
    bool cut;            /* time was up */
    char wrong[1024];    /* empty: all good */
} nc_fault_result;

void nc_fault_sweep(const nc_fault_job *job, nc_fault_result *out);

#endif
