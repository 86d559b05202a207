/* base/mem.h: every heap byte of the library comes from here, so that tests can count and fail allocations.
 * All blocks but pages are freed with nc_free. NULL means out of memory; nothing aborts. */
#ifndef NC_BASE_MEM_H
#define NC_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *nc_alloc(size_t bytes);                       /* at least 1 byte; uninitialised */
void *nc_alloc_zero(size_t n, size_t size);         /* n*size checked */
void *nc_alloc_aligned(size_t bytes, size_t align); /* align: power of two */
void *nc_realloc(void *p, size_t bytes);            /* p stays valid on failure */
void nc_free(void *p);
/* Pages of their own, zero, huge ones where the system has them: zeros that cost nothing beyond what the system does to
 * a fresh page anyway. Given back to it with the same `bytes`. */
void *nc_alloc_pages(size_t bytes);
void nc_free_pages(void *p, size_t bytes);

/* Allocations that failed on this thread so far. A stage in which NULL also means "unknown" compares before and
 * after. */
uint64_t nc_mem_failures(void);

/* Test hooks, process wide. fail_at(n): the n-th allocation from now (1-based) and none other fails; 0 switches off. */
void nc_mem_fail_at(uint64_t n);
bool nc_mem_fail_hit(void);  /* has the armed failure happened? */
uint64_t nc_mem_count(void); /* allocations since process start */
uint64_t nc_mem_live(void);  /* blocks not freed yet */
uint64_t nc_mem_bytes(void); /* asked for since process start, freed or not: no stage ever held more */

#endif
