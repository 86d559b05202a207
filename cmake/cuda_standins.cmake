# tests/cuda as shared objects named like NVIDIA's, in the folder cuda/ of the build: NACRE_CUDA_PATH names it, and
# Nacre runs its CUDA device on them (tests/cuda/README.md). Never with sanitizers: they switch stacks by hand. Kernel
# text is compiled while the tests run, by the C++ compiler that is found here.
if(architecture STREQUAL OTHER)
    return()
endif()
find_program(NACRE_STANDIN_CXX NAMES g++ c++ clang++ DOC "Compiles kernel text for the stand-ins of CUDA")

# cuda_standin(LIBRARY VERSION SOURCES...)
function(cuda_standin library version)
    add_library(standin_${library} SHARED ${ARGN})
    set_target_properties(standin_${library} PROPERTIES OUTPUT_NAME ${library} VERSION ${version} SOVERSION ${version}
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
    target_include_directories(standin_${library} PRIVATE ${private_includes} ${CMAKE_SOURCE_DIR})
    target_compile_definitions(standin_${library} PRIVATE STANDIN_HEADER="${CMAKE_SOURCE_DIR}/tests/cuda/device.cuh"
        STANDIN_CACHE="${CMAKE_BINARY_DIR}/cuda/kernels" STANDIN_CXX="${NACRE_STANDIN_CXX}" STANDIN_OPTIMIZE="-O0")
    if(NACRE_SANITIZE OR NACRE_FUZZ)
        target_compile_options(standin_${library} PRIVATE -fno-sanitize=all)
        target_link_options(standin_${library} PRIVATE -fno-sanitize=all)
    endif()
    add_dependencies(nacre_tests standin_${library})
endfunction()

file(GLOB driver_sources CONFIGURE_DEPENDS tests/cuda/driver*.c)
cuda_standin(cuda 1 ${driver_sources})
cuda_standin(nvrtc 13 tests/cuda/nvrtc.c)
cuda_standin(cublasLt 13 tests/cuda/lt.c)
cuda_standin(cudnn 9 tests/cuda/dnn.c tests/cuda/dnn_steps.c)
