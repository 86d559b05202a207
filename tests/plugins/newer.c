/* tests/plugins/newer.c: a library that needs a later version of nacre_plugin.h than this host has. */
#include "add.h"

NACRE_API extern const int nacre_plugin_version;
const int nacre_plugin_version = NACRE_PLUGIN_VERSION + 1;

nacre_code nacre_plugin_register(nacre_plugin_host *host) {
    (void)host;
    return NACRE_OK;
}
