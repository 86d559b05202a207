# The Python package: nacre._core over libnacre.so, CPython's limited API of 3.10, so that one build serves every later
# version. NACRE_PYTHON: ON, OFF, or AUTO (when the headers of a Python are found and the build is for this machine).
# The build tree gets a package that can be imported, ${CMAKE_BINARY_DIR}/python/nacre; `install --component python`
# fills a wheel.
set(NACRE_PYTHON AUTO CACHE STRING "Build the Python extension: ON, OFF, AUTO")
set(want_python ${NACRE_PYTHON})
if(want_python STREQUAL "AUTO" AND (CMAKE_CROSSCOMPILING OR NACRE_SANITIZE))
    set(want_python OFF)
endif()
if(NOT want_python)
    return()
endif()
if(want_python STREQUAL "AUTO")
    find_package(Python3 3.10 QUIET COMPONENTS Development.Module)
else()
    find_package(Python3 3.10 REQUIRED COMPONENTS Development.Module)
endif()
if(NOT Python3_FOUND)
    message(STATUS "Python headers are not here: the Python extension is not built")
    return()
endif()

file(GLOB python_sources CONFIGURE_DEPENDS python/ext/*.c)
add_library(nacre_python MODULE ${python_sources})
target_include_directories(nacre_python SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_compile_definitions(nacre_python PRIVATE Py_LIMITED_API=0x030A0000)
target_compile_options(nacre_python PRIVATE $<$<NOT:$<CONFIG:Debug>>:-Os>)
target_link_libraries(nacre_python PRIVATE nacre_shared)
set(package_dir ${CMAKE_BINARY_DIR}/python/nacre)
set_target_properties(nacre_python PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX .abi3.so
    LIBRARY_OUTPUT_DIRECTORY ${package_dir} BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN;$ORIGIN/../..")

# AArch64 has pages of up to 64 KiB: to have 1 KiB of pointers read-only after relocation, the file would be padded.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND NOT APPLE)
    target_link_options(nacre_python PRIVATE -Wl,-z,norelro -Wl,--build-id=none)
endif()

file(MAKE_DIRECTORY ${package_dir})
file(GLOB package_files CONFIGURE_DEPENDS python/nacre/*)
foreach(source IN LISTS package_files)
    get_filename_component(name ${source} NAME)
    if(NOT name STREQUAL "__pycache__")
        file(CREATE_LINK ${source} ${package_dir}/${name} SYMBOLIC)
    endif()
endforeach()

install(TARGETS nacre_python LIBRARY DESTINATION nacre COMPONENT python)
install(TARGETS nacre_shared LIBRARY DESTINATION nacre COMPONENT python NAMELINK_SKIP)
