# The cards' tables are pointers: relocations of 24 bytes each were an eighth of the library. Where a linker and the
# target's C library both know the packed form (DT_RELR: glibc 2.36), they take a bit each. A library linked so says
# that it needs such a glibc, and does not load with an older one; NACRE_RELR=OFF makes one that does.
# The system's linker is asked first. GNU ld knows the form for AArch64 since 2.43; before that lld (15 or newer) links.
option(NACRE_RELR "Pack relative relocations where linker and libc can (needs glibc 2.36 when loaded)" ON)

# nacre_links_relr(FOUND FLAGS...): whether the compiler's driver links so with these flags.
include(CheckCSourceCompiles)
function(nacre_links_relr found)
    set(CMAKE_REQUIRED_LINK_OPTIONS ${ARGN} -Wl,-z,pack-relative-relocs)
    # A linker that does not know the word for this machine says so and goes on.
    check_c_source_compiles("
        #include <features.h>
        #if !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 36)
        #error \"the C library may not know DT_RELR\"
        #endif
        int main(void) { return 0; }" ${found} FAIL_REGEX "ignored|unknown")
endfunction()

set(relr_flags)
if(NACRE_RELR AND NOT NACRE_SANITIZE)
    nacre_links_relr(NACRE_LINKS_RELR)
    find_program(NACRE_LLD NAMES ld.lld-21 ld.lld-20 ld.lld-19 ld.lld-18 ld.lld-17 ld.lld-16 ld.lld-15 ld.lld)
    if(NACRE_LINKS_RELR)
        set(relr_flags -Wl,-z,pack-relative-relocs)
    elseif(NACRE_LLD)
        # The driver looks for a linker of the bare name, in this folder first.
        file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lld)
        file(CREATE_LINK ${NACRE_LLD} ${CMAKE_BINARY_DIR}/lld/ld.lld SYMBOLIC)
        nacre_links_relr(NACRE_LLD_LINKS_RELR -B${CMAKE_BINARY_DIR}/lld -fuse-ld=lld)
        if(NACRE_LLD_LINKS_RELR)
            set(relr_flags -B${CMAKE_BINARY_DIR}/lld -fuse-ld=lld -Wl,-z,pack-relative-relocs)
        endif()
    endif()
endif()
target_link_options(nacre_shared PRIVATE ${relr_flags})

# AArch64 has pages of up to 64 KiB: where pointers are read-only after relocation, the file is padded by up to that.
# Where relocations are packed there is room for it.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND NOT APPLE AND NOT relr_flags)
    target_link_options(nacre_shared PRIVATE -Wl,-z,norelro)
endif()
