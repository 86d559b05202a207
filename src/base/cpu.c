/* base/cpu.c: asks the processor (cpuid) or the kernel (auxiliary vector) once what instructions may be used, and sysfs
 * how large the caches are. Chooses nothing: kernels/ picks its tables by the answer. */
#include "base/cpu.h"

#include "base/machine.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define SYSFS "/sys/devices/system/cpu/cpu0/"

static nc_cpu cpu;
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)

static bool bit(uint32_t word, int i) { return word >> i & 1; }

static uint64_t saved_registers(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux gives AMX tile registers only to processes that ask: ARCH_REQ_XCOMP_PERM, feature 18. */
static bool ask_for_tiles(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static void read_name(void) {
    uint32_t words[12];
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t *at = words + i * 4;
        if (!__get_cpuid(0x80000002u + i, at, at + 1, at + 2, at + 3)) return;
    }
    char text[sizeof words + 1] = {0};
    memcpy(text, words, sizeof words);
    snprintf(cpu.name, sizeof cpu.name, "%s", text + strspn(text, " "));
}

static void read_features(void) {
    uint32_t a, b, c, d;
    read_name();
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) return; /* 27: the system uses xsave, so xgetbv exists */
    uint64_t saved = saved_registers();
    bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xE6) == 0xE6, tiles = (saved & 0x60000) == 0x60000;
    bool fma = bit(c, 12), avx = bit(c, 28), f16c = bit(c, 29);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    cpu.avx2_fma = ymm && avx && fma && bit(b, 5);
    cpu.f16c = ymm && avx && f16c;
    cpu.avx512 = cpu.avx2_fma && zmm && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31); /* F DQ BW VL */
    cpu.avx512_vnni = cpu.avx512 && bit(c, 11);
    cpu.amx = cpu.avx512 && tiles && bit(d, 22) && bit(d, 24) && bit(d, 25) && ask_for_tiles(); /* BF16 TILE INT8 */
    cpu.avx_vnni = cpu.avx2_fma && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && bit(a, 4);
}

#elif defined(__aarch64__)

/* Bits of the kernel's ABI, stated here because older system headers lack some. */
#define CAP_ASIMD (1ul << 1)
#define CAP_ASIMDDP (1ul << 20)
#define CAP2_I8MM (1ul << 13)
#define CAP2_BF16 (1ul << 14)

static unsigned find_number(const char *text, const char *label) {
    const char *at = strstr(text, label), *colon = at ? strchr(at, ':') : NULL;
    return colon ? (unsigned)strtoul(colon + 1, NULL, 0) : 0;
}

static void read_features(void) {
    unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    cpu.neon = (caps & CAP_ASIMD) != 0;
    cpu.dotprod = (caps & CAP_ASIMDDP) != 0;
    cpu.i8mm = (caps2 & CAP2_I8MM) != 0;
    cpu.bf16 = (caps2 & CAP2_BF16) != 0;
    char text[4096];
    if (!nc_machine_read("/proc/cpuinfo", text, sizeof text)) return;
    snprintf(cpu.name, sizeof cpu.name, "AArch64 implementer 0x%02x part 0x%03x", find_number(text, "CPU implementer"),
             find_number(text, "CPU part"));
}

#else

static void read_features(void) {}

#endif

/* Members of a list such as "0-3,8"; 1 when it cannot be read. */
static size_t count_cpus(const char *path) {
    char text[256];
    if (!nc_machine_read(path, text, sizeof text)) return 1;
    size_t n = 0;
    for (char *s = text, *end; *s != '\0'; s = end) {
        unsigned long first = strtoul(s, &end, 10), last = first;
        if (end == s) break;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        n += last >= first ? last - first + 1 : 1;
        if (*end == ',') end++;
    }
    return n ? n : 1;
}

static size_t parse_size(const char *text) {
    char *end;
    size_t n = strtoul(text, &end, 10);
    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

/* A cache shared by several cores counts by the share of one; threads of one core share all of it. */
static void read_caches(void) {
    size_t threads_per_core = count_cpus(SYSFS "topology/thread_siblings_list");
    for (int i = 0; i < 8; i++) {
        char path[96], level[16], type[32], size[32];
        snprintf(path, sizeof path, SYSFS "cache/index%d/level", i);
        if (!nc_machine_read(path, level, sizeof level)) break;
        snprintf(path, sizeof path, SYSFS "cache/index%d/type", i);
        if (!nc_machine_read(path, type, sizeof type) || type[0] == 'I') continue;
        snprintf(path, sizeof path, SYSFS "cache/index%d/size", i);
        if (!nc_machine_read(path, size, sizeof size)) continue;
        snprintf(path, sizeof path, SYSFS "cache/index%d/shared_cpu_list", i);
        size_t cores = count_cpus(path) / threads_per_core, share = parse_size(size) / (cores ? cores : 1);
        if (level[0] == '1' && share > 0) cpu.l1d = share;
        if (level[0] == '2' && share > 0) cpu.l2 = share;
    }
}

static void ask_once(void) {
    cpu.l1d = (size_t)32 << 10;
    cpu.l2 = (size_t)512 << 10;
    snprintf(cpu.name, sizeof cpu.name, "unknown processor");
    read_features();
    read_caches();
}

const nc_cpu *nc_cpu_get(void) {
    pthread_once(&cpu_once, ask_once);
    return &cpu;
}
