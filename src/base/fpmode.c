/* base/fpmode.c: MXCSR of x86-64 and FPCR of AArch64. */
#include "base/fpmode.h"

#if defined(__x86_64__)
enum { SEEN = 0x3F, FLUSH_RESULTS = 1 << 15, INPUTS_ARE_ZERO = 1 << 6 };

uint64_t nc_fpmode_get(void) { return __builtin_ia32_stmxcsr() & ~(unsigned)SEEN; }
void nc_fpmode_set(uint64_t mode) { __builtin_ia32_ldmxcsr((unsigned)mode); }
uint64_t nc_fpmode_flushing(uint64_t mode) { return mode | FLUSH_RESULTS | INPUTS_ARE_ZERO; }
bool nc_fpmode_can_flush(void) { return true; }

#elif defined(__aarch64__)
enum { FLUSH = 1 << 24 };

uint64_t nc_fpmode_get(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

void nc_fpmode_set(uint64_t mode) { __asm__ volatile("msr fpcr, %0" ::"r"(mode)); }
uint64_t nc_fpmode_flushing(uint64_t mode) { return mode | FLUSH; }
bool nc_fpmode_can_flush(void) { return true; }

#else
uint64_t nc_fpmode_get(void) { return 0; }
void nc_fpmode_set(uint64_t mode) { (void)mode; }
uint64_t nc_fpmode_flushing(uint64_t mode) { return mode; }
bool nc_fpmode_can_flush(void) { return false; }
#endif
