# The cards' tables are pointers: relocations of 24 bytes each were a ninth of the library. Where the linker and the
# target's C library both know the packed form (DT_RELR: glibc 2.36), they take a bit each. A library linked so does not
# load with an older glibc; NACRE_RELR=OFF makes one that does.
option(NACRE_RELR "Pack relative relocations where linker and libc can (needs glibc 2.36 when loaded)" ON)
if(NACRE_RELR AND NOT NACRE_SANITIZE)
    include(CheckCSourceCompiles)
    # --fatal-warnings: a linker that does not know the word for this machine says so and goes on.
    set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs -Wl,--fatal-warnings)
    check_c_source_compiles("
        #include <features.h>
        #if !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 36)
        #error \"the C library may not know DT_RELR\"
        #endif
        int main(void) { return 0; }" NACRE_LINKS_RELR)
    unset(CMAKE_REQUIRED_LINK_OPTIONS)
    if(NACRE_LINKS_RELR)
        target_link_options(nacre_shared PRIVATE -Wl,-z,pack-relative-relocs)
    endif()
endif()
