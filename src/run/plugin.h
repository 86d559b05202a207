/* run/plugin.h: custom ops from shared libraries (include/nacre/nacre_plugin.h): cards and dynamic bindings made from what a
 * library registers. The libraries stay loaded as long as the environment. */
#ifndef NC_RUN_PLUGIN_H
#define NC_RUN_PLUGIN_H

#include "ops/binding.h"

typedef struct nc_plugin_set nc_plugin_set;

nc_plugin_set *nc_plugin_set_create(void); /* NULL: out of memory */
void nc_plugin_set_destroy(nc_plugin_set *s);
NC_MUST nc_code nc_plugin_load(nc_work *w, nc_plugin_set *s, const char *path);
const nc_registry *nc_plugin_registry(nc_plugin_set *s); /* the plugins' cards over those of ops/ */

#endif
