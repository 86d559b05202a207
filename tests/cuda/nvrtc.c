/* tests/cuda/nvrtc.c: libnvrtc.so.13 of the stand-ins: kernel text to a shared object, by the host's C++ compiler over
 * device.cuh. What C++ does not have is rewritten first: asm statements of one PTX instruction become calls, dynamic
 * shared memory a pointer; kernels are listed in a table behind the text. Objects are kept in a folder by the hash of
 * all they depend on: $NACRE_STANDIN_CACHE, or the build's. */
#include "tests/cuda/standin.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    SUCCESS,
    OUT_OF_MEMORY,
    CREATION_FAILURE,
    INVALID_INPUT,
    INVALID_PROGRAM,
    INVALID_OPTION,
    COMPILATION,
    BUILTIN_FAILURE,
    N_RESULTS,
    MAX_PATH = 1024
};

typedef struct text {
    char *s;
    size_t n, cap;
} text;

struct _nvrtcProgram {
    char *source;
    text log, code;
};

#define X(library, returns, name, arguments) X_##library(returns, name, arguments)
#define X_nvrtc(returns, name, arguments) __attribute__((visibility("default"))) returns name arguments;
#define X_cuda(returns, name, arguments)
#define X_lt(returns, name, arguments)
#define X_dnn(returns, name, arguments)
#define X_change(returns, name, arguments)
#define X_boxes(returns, name, arguments)
#include "device/cuda_api.list"
#undef X

static void add_n(text *t, const char *s, size_t n) {
    if (t->n + n + 1 > t->cap) {
        t->cap = 2 * (t->n + n + 1);
        if ((t->s = realloc(t->s, t->cap)) == NULL) abort();
    }
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = '\0';
}

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *fmt, ...) {
    char line[MAX_PATH * 2];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    add_n(t, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

static bool add_file(text *t, const char *path) {
    char bytes[1 << 16];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (f == NULL) return false;
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0) add_n(t, bytes, n);
    fclose(f);
    return true;
}

/* A call that is ordered to fail, where the driver's stand-in is loaded too. */
static nvrtcResult entered(const char *name) {
    const standin_control *c = standin_find();
    return c ? c->enter(name) : SUCCESS;
}

/* ---- rewriting ---- */

static bool is_word(int c) { return isalnum(c) || c == '_'; }
static const char *blanks(const char *s) {
    while (isspace((unsigned char)*s)) s++;
    return s;
}

/* s begins with the word, and it ends there. */
static bool has_word(const char *s, const char *word) {
    size_t n = strlen(word);
    return strncmp(s, word, n) == 0 && !is_word((unsigned char)s[n]);
}

/* Behind a comment or a literal that starts at s; s itself: neither. */
static const char *behind_quiet(const char *s) {
    if (s[0] == '/' && s[1] == '*') {
        const char *e = strstr(s + 2, "*/");
        return e ? e + 2 : s + strlen(s);
    }
    if (s[0] == '/' && s[1] == '/') return s + strcspn(s, "\n");
    if (*s != '"' && *s != '\'') return s;
    const char *e = s + 1;
    while (*e != '\0' && *e != *s) e += *e == '\\' && e[1] ? 2 : 1;
    return *e ? e + 1 : e;
}

/* "=f"(y), "h"(x): adds the expressions. Returns what follows the list. */
static const char *add_operands(text *out, const char *s, bool *first) {
    for (s = blanks(s); *s == '"' || *s == ','; s = blanks(s)) {
        if (*s == ',') {
            s++;
            continue;
        }
        s = blanks(behind_quiet(s));
        if (*s != '(') continue; /* what the statement writes over */
        const char *from = ++s;
        for (int depth = 1; *s != '\0' && depth > 0; s++) depth += (*s == '(') - (*s == ')');
        if (!*first) add_n(out, ", ", 2);
        add_n(out, from, (size_t)(s - 1 - from));
        *first = false;
    }
    return s;
}

/* asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)) as standin_ptx_cvt_f32_f16(y, x). NULL: of another form. */
static const char *add_asm(text *out, const char *s) {
    s = blanks(s + strlen("asm"));
    if (has_word(s, "volatile")) s = blanks(s + strlen("volatile"));
    if (*s != '(' || *(s = blanks(s + 1)) != '"') return NULL;
    const char *op = s + 1, *e = op + strcspn(op, " \"");
    add_n(out, "standin_ptx_", 12);
    for (const char *c = op; c < e; c++) add_n(out, is_word((unsigned char)*c) ? c : "_", 1);
    add_n(out, "(", 1);
    bool first = true;
    s = blanks(behind_quiet(s));
    while (*s == ':') s = add_operands(out, s + 1, &first);
    return *s == ')' ? s : NULL;
}

/* extern __shared__ T name[]; as a pointer. NULL: not of that form. */
static const char *add_dynamic(text *out, const char *s) {
    const char *t = blanks(s + strlen("extern"));
    if (!has_word(t, "__shared__")) return NULL;
    t = blanks(t + strlen("__shared__"));
    const char *bracket = strpbrk(t, "[;"), *e = bracket;
    if (bracket == NULL || *bracket != '[') return NULL;
    while (e > t && isspace((unsigned char)e[-1])) e--;
    const char *name = e;
    while (name > t && is_word((unsigned char)name[-1])) name--;
    add(out, "%.*s *const %.*s = (%.*s *)standin_at->dynamic_shared", (int)(name - t), t, (int)(e - name), name,
        (int)(name - t), t);
    return bracket + strcspn(bracket, ";");
}

/* After extern "C" __global__: the kernel's row. */
static void list_kernel(text *table, const char *s) {
    int bound = 0;
    for (; *s != '\0' && !has_word(s, "void"); s++)
        if (has_word(s, "__launch_bounds__")) bound = atoi(blanks(s + strlen("__launch_bounds__")) + 1);
    s = *s ? blanks(s + strlen("void")) : s;
    size_t n = 0;
    while (is_word((unsigned char)s[n])) n++;
    if (n > 0) add(table, "STANDIN_KERNEL(%.*s, %d)\n", (int)n, s, bound);
}

static void rewrite(text *out, text *table, const char *s) {
    bool in_word = false, c_linkage = false;
    while (*s != '\0') {
        const char *next = behind_quiet(s);
        if (next != s) {
            if (*s == '"') c_linkage = strncmp(s, "\"C\"", 3) == 0;
            add_n(out, s, (size_t)(next - s));
            s = next, in_word = false;
            continue;
        }
        next = NULL;
        if (!in_word && has_word(s, "__global__") && c_linkage) list_kernel(table, s);
        if (!in_word && has_word(s, "asm")) next = add_asm(out, s);
        if (!in_word && has_word(s, "extern")) next = add_dynamic(out, s);
        if (*s == '(' || *s == ';' || *s == '}') c_linkage = false;
        in_word = is_word((unsigned char)*s);
        if (next == NULL) add_n(out, s, 1);
        s = next ? next : s + 1;
    }
}

/* ---- compiling ---- */

static uint64_t hash_of(const char *s, uint64_t h) {
    for (; *s != '\0'; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static const char *compiler(void) {
    const char *own = getenv("NACRE_STANDIN_CXX");
    return own ? own : STANDIN_CXX;
}

static const char *cache_folder(void) {
    const char *own = getenv("NACRE_STANDIN_CACHE");
    const char *folder = own && *own ? own : STANDIN_CACHE;
    return mkdir(folder, 0755) == 0 || errno == EEXIST ? folder : "/tmp";
}

static text header; /* device.cuh */
static void read_header(void) { add_file(&header, STANDIN_HEADER); }

/* Where the object of a source is kept: by all that it depends on. False: device.cuh cannot be read. */
static bool find_place(const char *source, char *kept, size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_header);
    if (header.n == 0) return false;
    uint64_t h = hash_of(header.s, hash_of(compiler(), hash_of(STANDIN_OPTIMIZE, 14695981039346656037u)));
    snprintf(kept, bytes, "%s/%016llx%016llx", cache_folder(), (unsigned long long)hash_of(source, h),
             (unsigned long long)hash_of(source, ~h));
    return true;
}

static int run_compiler(const char *source, const char *object, const char *log) {
    char *args[] = {(char *)(uintptr_t)compiler(),
                    "-x",
                    "c++",
                    "-std=c++17",
                    STANDIN_OPTIMIZE,
                    "-w",
                    "-fPIC",
                    "-shared",
                    "-fno-exceptions",
                    "-fno-rtti",
                    "-fno-math-errno",
                    "-ffp-contract=off",
                    "-fno-strict-aliasing",
                    "-fno-stack-protector",
                    "-fvisibility=hidden",
                    "-nostdlib",
                    "-o",
                    (char *)(uintptr_t)object,
                    (char *)(uintptr_t)source,
                    "-lm",
                    "-lc",
                    "-lgcc", /* counts of bits, where the processor is not said to have them */
                    NULL};
    posix_spawn_file_actions_t to_log;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&to_log);
    posix_spawn_file_actions_addopen(&to_log, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&to_log, 1, 2);
    bool began = posix_spawnp(&pid, args[0], &to_log, NULL, args, environ) == 0;
    posix_spawn_file_actions_destroy(&to_log);
    while (began && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return began ? status : -1;
}

static bool write_file(const char *path, const text *t) {
    FILE *f = fopen(path, "wb");
    if (f == NULL) return false;
    bool ok = fwrite(t->s, 1, t->n, f) == t->n;
    return fclose(f) == 0 && ok;
}

/* What the compiler gets. */
static void add_whole(text *out, const char *source) {
    text table = {0};
    add_n(out, header.s, header.n);
    add(out, "#line 1 \"nacre.cu\"\n");
    rewrite(out, &table, source);
    add(out, "\nextern \"C\" STANDIN_EXPORT const standin_kernel standin_kernels[] = {\n");
    add_n(out, table.s ? table.s : "", table.n);
    add(out, "{0, 0, 0, 0, 0}};\n");
    free(table.s);
}

/* The object goes to its place unless another process was there first: all see the same bytes from then on. */
static void put(const char *object, const char *kept) {
    if (link(object, kept) != 0 && errno != EEXIST) rename(object, kept);
}

/* Compiles under names of its own, which the object holds: several processes may come. */
static nvrtcResult compile(nvrtcProgram p, const char *kept) {
    static _Atomic int counter;
    char source[MAX_PATH], object[MAX_PATH], log[MAX_PATH];
    int n = counter++;
    text whole = {0};
    add_whole(&whole, p->source);
    snprintf(source, sizeof source, "%s.%d.%d.cu", kept, (int)getpid(), n);
    snprintf(object, sizeof object, "%s.%d.%d.so", kept, (int)getpid(), n);
    snprintf(log, sizeof log, "%s.%d.%d.log", kept, (int)getpid(), n);
    int status = write_file(source, &whole) ? run_compiler(source, object, log) : -1;
    if (status == 0) put(object, kept);
    nvrtcResult r = status == 0 && add_file(&p->code, kept) ? SUCCESS : COMPILATION;
    if (!add_file(&p->log, log) || (r != SUCCESS && p->log.n == 0))
        add(&p->log, "stand-in NVRTC: %s did not run, or nothing can be written to %s", compiler(), kept);
    unlink(source), unlink(object), unlink(log);
    free(whole.s);
    return r;
}

static bool known_option(const char *s) {
    return strncmp(s, "--gpu-architecture=sm_", 22) == 0 || strcmp(s, "--std=c++17") == 0 ||
           strcmp(s, "--fmad=false") == 0;
}

nvrtcResult nvrtcVersion(int *major, int *minor) {
    *major = 13, *minor = 0;
    return SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult r) {
    static const char *const texts[N_RESULTS] = {"NVRTC_SUCCESS",
                                                 "NVRTC_ERROR_OUT_OF_MEMORY",
                                                 "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                                 "NVRTC_ERROR_INVALID_INPUT",
                                                 "NVRTC_ERROR_INVALID_PROGRAM",
                                                 "NVRTC_ERROR_INVALID_OPTION",
                                                 "NVRTC_ERROR_COMPILATION",
                                                 "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
    return r >= 0 && r < N_RESULTS ? texts[r] : "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *p, const char *source, const char *name, int n_headers,
                               const char *const *headers, const char *const *header_names) {
    nvrtcResult r = entered(__func__);
    (void)name, (void)headers, (void)header_names;
    if (r != SUCCESS) return r;
    if (source == NULL || n_headers != 0) return INVALID_INPUT;
    *p = calloc(1, sizeof **p);
    if (*p == NULL || ((*p)->source = strdup(source)) == NULL) abort();
    return SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p) {
    nvrtcResult r = entered(__func__);
    if (p == NULL || *p == NULL) return INVALID_PROGRAM;
    free((*p)->source);
    free((*p)->log.s);
    free((*p)->code.s);
    free(*p);
    *p = NULL;
    return r;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n_options, const char *const *options) {
    nvrtcResult r = entered(__func__);
    if (r != SUCCESS) return r;
    for (int i = 0; i < n_options; i++)
        if (!known_option(options[i])) return INVALID_OPTION;
    char kept[MAX_PATH - 64];
    if (!find_place(p->source, kept, sizeof kept)) return BUILTIN_FAILURE;
    return add_file(&p->code, kept) ? SUCCESS : compile(p, kept);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes) {
    nvrtcResult r = entered(__func__);
    *bytes = p->code.n;
    return r;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *cubin) {
    nvrtcResult r = entered(__func__);
    if (r == SUCCESS) memcpy(cubin, p->code.s, p->code.n);
    return r;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes) {
    nvrtcResult r = entered(__func__);
    *bytes = p->log.n + 1;
    return r;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) {
    nvrtcResult r = entered(__func__);
    if (r == SUCCESS) memcpy(log, p->log.s ? p->log.s : "", p->log.n + 1);
    return r;
}
