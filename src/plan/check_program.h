/* plan/check_program.h: proves of a program and of its instances what the planner promises: nothing is read after it
 * was overwritten, or before it is surely written; nothing lies over what a kernel still reads; no two blocks share
 * bytes while both are needed. Works from the instructions, their streams and events alone, and trusts neither the
 * lives nor the clocks that the planner noted. Debug builds (NC_DEBUG_VERIFY) check all they build; tests call it. */
#ifndef NC_PLAN_CHECK_PROGRAM_H
#define NC_PLAN_CHECK_PROGRAM_H

#include "plan/instance.h"

#ifdef NC_DEBUG_VERIFY
#define NC_CHECKS_PROGRAMS true
#else
#define NC_CHECKS_PROGRAMS false
#endif

/* NC_E_FAIL with the instruction's node where a promise is broken. Subprograms are checked when they are built. */
NC_MUST nc_code nc_program_check(nc_work *w, const nc_program *p);
NC_MUST nc_code nc_instance_check(nc_work *w, const nc_program *p, int i_seg, const nc_instance *x);

#endif
