/* base/fpmode.h: how this thread's processor rounds and whether it flushes denormals to zero. On processors that are
 * not known here the word is 0 and flushing cannot be switched on. */
#ifndef NC_BASE_FPMODE_H
#define NC_BASE_FPMODE_H

#include <stdbool.h>
#include <stdint.h>

uint64_t nc_fpmode_get(void); /* without the flags of exceptions that were seen */
void nc_fpmode_set(uint64_t mode);
/* The same mode, with denormal inputs and results of float and double taken as zero. */
uint64_t nc_fpmode_flushing(uint64_t mode);
bool nc_fpmode_can_flush(void);

#endif
