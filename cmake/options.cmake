# Warnings, sanitizers and the helper that makes a layer's target.
find_package(Threads REQUIRED)

add_library(gimbal_options INTERFACE)
target_compile_options(gimbal_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-psabi
  # False positives of GCC 12 in std::string (GCC bug 105651).
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(GIMBAL_SANITIZE STREQUAL "address")
  target_compile_options(gimbal_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(gimbal_options INTERFACE -fsanitize=address,undefined)
elseif(GIMBAL_SANITIZE STREQUAL "thread")
  target_compile_options(gimbal_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer -g)
  target_link_options(gimbal_options INTERFACE -fsanitize=thread)
elseif(NOT GIMBAL_SANITIZE STREQUAL "")
  message(FATAL_ERROR "GIMBAL_SANITIZE is \"${GIMBAL_SANITIZE}\"; allowed: address, thread, empty")
endif()

# gimbal_layer(<name> <layers it may use>...): a static library of all .cc files of the folder.
function(gimbal_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cc)
  add_library(gimbal_${name} STATIC ${sources})
  target_include_directories(gimbal_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(gimbal_${name} PRIVATE gimbal_options)
  foreach(layer IN LISTS ARGN)
    target_link_libraries(gimbal_${name} PUBLIC gimbal_${layer})
  endforeach()
endfunction()
