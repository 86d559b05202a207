/* tests/cuda/driver_fiber.c: device work runs on fibers: stacks of their own, switched by hand. So the threads of a
 * block can wait for each other, and one that touches what it may not is left where it stands, with a code and a
 * text, while the process goes on. Only the thread that holds the_lock runs device work; faults of others are none of
 * ours. */
#include "tests/cuda/driver.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 128 << 10, SIGNAL_STACK = 64 << 10, N_SIGNALS = 3 };

struct fiber {
    void *sp;
    char *stack,
        *top; /* a forbidden page below it; tops differ, so that not all of them fall into the same cache lines */
    void (*fn)(void *);
    void *arg;
    bool ended;
};

/* Saves the caller's registers and stack at *from and goes on where `to` was saved. */
void standin_switch(void **from, void *to);
#if defined(__x86_64__)
__asm__(".text\n.globl standin_switch\n.hidden standin_switch\n.type standin_switch,@function\nstandin_switch:\n"
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size standin_switch,.-standin_switch\n");
enum { FRAME = 64, RETURN_AT = 48 };
#define PC(c) (c)->uc_mcontext.gregs[REG_RIP]
#define SP(c) (c)->uc_mcontext.gregs[REG_RSP]
#define ENTRY_BIAS 8 /* the stack as a call leaves it */
#elif defined(__aarch64__)
__asm__(".text\n.globl standin_switch\n.hidden standin_switch\n.type standin_switch,%function\nstandin_switch:\n"
        "stp x19, x20, [sp, #-160]!\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n stp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n"
        "stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
        "mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
        "ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n"
        "ldp x29, x30, [sp, #80]\n ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n"
        "ldp d14, d15, [sp, #144]\n ldp x19, x20, [sp], #160\n ret\n"
        ".size standin_switch,.-standin_switch\n");
enum { FRAME = 160, RETURN_AT = 88 };
#define PC(c) (c)->uc_mcontext.pc
#define SP(c) (c)->uc_mcontext.sp
#define ENTRY_BIAS 0
#else
#error "fibers are written for x86-64 and AArch64"
#endif

static const int signals[N_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE};
static struct sigaction before[N_SIGNALS];
static stack_t stack_before;
static _Thread_local bool in_device; /* this thread runs device work */
static fiber *current;
static void *scheduler_sp;
static size_t n_created;
static int fault;
static const char *work = "device work";
static char complaint[256];

void complain(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = snprintf(complaint, sizeof complaint, "%s: ", work);
    vsnprintf(complaint + n, sizeof complaint - (size_t)n, fmt, ap);
    va_end(ap);
    fprintf(stderr, "stand-in GPU: %s\n", complaint);
}

const char *complaint_text(void) { return complaint; }
void device_work(const char *name) { work = name; }

int device_fault(void) {
    int code = fault;
    fault = 0;
    return code;
}

static void leave(void) {
    current->ended = true;
    fiber_yield();
    abort(); /* an ended fiber is not resumed */
}

static void fiber_main(void) {
    current->fn(current->arg);
    leave();
}

void fiber_start(fiber *f, void (*fn)(void *), void *arg) {
    char *top = f->top;
    void *entry = (void *)(uintptr_t)fiber_main;
    f->fn = fn, f->arg = arg, f->ended = false;
    f->sp = memset(top - FRAME, 0, FRAME);
    memcpy((char *)f->sp + RETURN_AT, &entry, sizeof entry);
}

fiber *fiber_create(void (*fn)(void *), void *arg) {
    fiber *f = calloc(1, sizeof *f);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, page + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f == NULL || p == MAP_FAILED || mprotect(p, page, PROT_NONE) != 0) {
        fprintf(stderr, "stand-in GPU: no memory for the stack of a thread\n");
        abort();
    }
    f->stack = p + page;
    f->top = f->stack + STACK - (n_created++ % 16) * 192;
    fiber_start(f, fn, arg);
    return f;
}

void fiber_resume(fiber *f) {
    fiber *outer = current;
    current = f;
    standin_switch(&scheduler_sp, f->sp);
    current = outer;
}

void fiber_yield(void) { standin_switch(&current->sp, scheduler_sp); }
bool fiber_ended(const fiber *f) { return f->ended; }

/* Somebody else's fault: to whom it would have gone without us. */
static void pass_on(int sig, siginfo_t *info, void *context) {
    int i = 0;
    while (i < N_SIGNALS - 1 && signals[i] != sig) i++;
    if (before[i].sa_flags & SA_SIGINFO) {
        before[i].sa_sigaction(sig, info, context);
    } else if (before[i].sa_handler != SIG_DFL && before[i].sa_handler != SIG_IGN) {
        before[i].sa_handler(sig);
    } else {
        signal(sig, SIG_DFL); /* the fault comes again */
    }
}

static void die(int sig, uintptr_t at) {
    if (sig == SIGFPE) {
        complain("an integer divided by zero");
        fault = E_LAUNCH_FAILED;
        return;
    }
    if (at >= (uintptr_t)current->stack - 4096 && at < (uintptr_t)current->stack)
        complain("a thread needs more than %d bytes of stack", STACK);
    else
        complain("touched address %#llx, %s", (unsigned long long)at,
                 memory_in_span(at) ? "where no live block is" : "which is not the device's");
    fault = E_ILLEGAL_ADDRESS;
}

static void on_fault(int sig, siginfo_t *info, void *context) {
    if (!in_device || current == NULL) {
        pass_on(sig, info, context);
        return;
    }
    uintptr_t at = (uintptr_t)info->si_addr;
    if (sig == SIGSEGV && memory_open(at)) return;
    die(sig, at);
    ucontext_t *c = context;
    void (*to)(void) = leave;
    PC(c) = (long long)(uintptr_t)to;
    SP(c) = (long long)((uintptr_t)current->top - ENTRY_BIAS);
}

void device_begin(void) {
    static char *own_stack;
    if (own_stack == NULL) own_stack = malloc(SIGNAL_STACK);
    stack_t s = {.ss_sp = own_stack, .ss_size = SIGNAL_STACK};
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&a.sa_mask);
    sigaltstack(&s, &stack_before);
    in_device = true;
    for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &a, &before[i]);
}

void device_end(void) {
    for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
    in_device = false;
    sigaltstack(&stack_before, NULL);
}

typedef struct guarded {
    void (*fn)(const void *);
    const void *arg;
} guarded;

static void call_guarded(void *p) {
    const guarded *g = p;
    g->fn(g->arg);
}

int run_guarded(void (*fn)(const void *), const void *arg) {
    static fiber *own;
    guarded g = {fn, arg};
    if (own == NULL)
        own = fiber_create(call_guarded, &g);
    else
        fiber_start(own, call_guarded, &g);
    fiber_resume(own);
    return device_fault();
}
