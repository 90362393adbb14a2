# Warnings, sanitizers and the helper that makes a layer's target.
find_package(Threads REQUIRED)

add_library(gimbal_options INTERFACE)
target_compile_options(gimbal_options INTERFACE -Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual> -Wno-psabi
  # False positives of GCC 12 in std::string (GCC bug 105651).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)

# The sanitizers' flags; they go to every target that links gimbal_options, and so to the whole program.
set(sanitizer_flags "")
if(GIMBAL_FUZZ)
  set(sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(gimbal_options INTERFACE -fsanitize=fuzzer-no-link)
elseif(GIMBAL_SANITIZE STREQUAL "address")
  set(sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(GIMBAL_SANITIZE STREQUAL "thread")
  # -Wno-tsan: GCC warns that ThreadSanitizer does not model std::atomic_thread_fence. The fences here order atomics among each
  # other; what they publish is also published by a release store that it does see.
  set(sanitizer_flags -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
elseif(NOT GIMBAL_SANITIZE STREQUAL "")
  message(FATAL_ERROR "GIMBAL_SANITIZE is \"${GIMBAL_SANITIZE}\"; allowed: address, thread, empty")
endif()
target_compile_options(gimbal_options INTERFACE ${sanitizer_flags})
target_link_options(gimbal_options INTERFACE ${sanitizer_flags})

# gimbal_runs_once(<sources>...): sources of this folder that run once in a program, command lines and files, and are mostly
# templates of CLI11 or nlohmann::json: optimising these takes more time than they ever will (gimbal_run/main.cc: 7.3 s at -O3,
# 4.5 s at -O1; with the address sanitizer 12.9 s at -O1, 6.4 s at -O0).
function(gimbal_runs_once)
  if(GIMBAL_FUZZ)
    return()  # there they run a million times
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS $<IF:$<CONFIG:Debug>,-O0,-O1>)
endfunction()

# gimbal_layer(<name> <layers it may use>...): a static library of all .cc files of the folder, but for those of its cuda/, which
# need CUDA's headers.
#
# Under the address sanitizer without optimisation, but for the layers whose loops the tests run by the million: its checks make
# code that GCC optimises for long (runtime/communicator_create.cc: 8.5 s of CPU at -O1, 4.7 s at -O0, 1.9 s of them to read it).
function(gimbal_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cc)
  list(FILTER sources EXCLUDE REGEX "/${name}/cuda/")
  add_library(gimbal_${name} STATIC ${sources})
  target_include_directories(gimbal_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(gimbal_${name} PRIVATE gimbal_options)
  if(GIMBAL_SANITIZE STREQUAL "address" AND NOT name MATCHES "^(kernels|collectives)$")
    target_compile_options(gimbal_${name} PRIVATE -O0)
  endif()
  foreach(layer IN LISTS ARGN)
    target_link_libraries(gimbal_${name} PUBLIC gimbal_${layer})
  endforeach()
endfunction()
