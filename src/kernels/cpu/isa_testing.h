/* cpu/isa_testing.h: for tests of kernels, the choices of isa.h one after the other. A choice that takes a table from
 * the same row as the one before would run the same code again, which under emulation takes minutes:
 *     for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, gemm)) */
#ifndef NCK_ISA_TESTING_H
#define NCK_ISA_TESTING_H

#include "kernels/cpu/isa.h"

#include <stddef.h>
#include <string.h>

/* The choice behind i that has another table of that name. */
#define NEXT_ISA(i, table) isa_after(i, offsetof(nck_isa, table))

static inline int isa_after(int i, size_t table) {
    const char *now = (const char *)nck_isa_at(i) + table, *next;
    do {
        i++;
        next = (const char *)nck_isa_at(i);
    } while (next != NULL && memcmp(now, next + table, sizeof(void *)) == 0);
    return i;
}

#endif
