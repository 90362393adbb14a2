# CUDA's compiler for kernels/cuda: which toolkit, which devices, which flags. Sets GIMBAL_CUDA_FOUND and GIMBAL_CUDA_TOOLKIT.
#
# No driver is needed: the runtime is linked statically and looks for libcuda.so.1 when it is first used.
set(GIMBAL_CUDA_TOOLKIT "the CUDA toolkit")
set(GIMBAL_CUDA_FOUND OFF)
# Sanitizers see the device code as C++ (tests/support/cuda_sim).
if(GIMBAL_CUDA STREQUAL "OFF" OR GIMBAL_SANITIZE OR GIMBAL_FUZZ)
  return()
endif()
# tools/install_dependencies puts one there where the machine has none.
if(NOT DEFINED CUDAToolkit_ROOT AND EXISTS ${PROJECT_SOURCE_DIR}/build/cuda_toolkit/nvidia/cu13)
  set(CUDAToolkit_ROOT ${PROJECT_SOURCE_DIR}/build/cuda_toolkit/nvidia/cu13)
endif()
find_package(CUDAToolkit 13.0 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart_static)
  return()
endif()
set(GIMBAL_CUDA_FOUND ON)
set(GIMBAL_CUDA_TOOLKIT "toolkit ${CUDAToolkit_VERSION}")

# A100, H100 and H200, B200, RTX PRO 6000 and their families; PTX for what comes later.
set(GIMBAL_CUDA_ARCHITECTURES 80-real 90-real 100-real 120 CACHE STRING "Architectures of the device code")
set(CMAKE_CUDA_ARCHITECTURES ${GIMBAL_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc has it.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
if(NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# gimbal_device_code(<target>): the flags of device code. What ptxas says of registers and spills is kept beside each object, as
# <object>.ptxas, for tools/check_spills.
function(gimbal_device_code target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:
    # Functions of base/ that are constexpr are the device's too.
    --expt-relaxed-constexpr
    # A multiplication and an addition are rounded separately, as on the CPU.
    -fmad=false
    -Xptxas=-v -Xcompiler=-Wall,-Wextra>)
  set_target_properties(${target} PROPERTIES
    CUDA_VISIBILITY_PRESET hidden
    CUDA_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/keep_ptxas_report;${CMAKE_CUDA_COMPILER_LAUNCHER}")
endfunction()
