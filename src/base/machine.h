/* base/machine.h: small questions to the system, shared by threads, cpu and mem. nc_machine_threads is in threads.h. */
#ifndef NC_BASE_MACHINE_H
#define NC_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a small text file of /proc or /sys, NUL-terminated, cut to fit; false when there is none or it is empty. */
bool nc_machine_read(const char *path, char *buf, size_t bytes);
/* Threads that the CPU quota of this process's control group pays for, rounded up; 0: no quota. `root` is put before
 * every path: "" but in tests. */
int nc_machine_quota(const char *root);
/* Bytes of memory and swap that this process can ever have: the machine's, or less where its control group says so.
 * 0: not known. */
uint64_t nc_machine_memory(const char *root);

#endif
