# The optional parts: what was asked for (AUTO, ON, OFF), what this machine has, and the summary that says both.
#
# No driver is linked: libcuda and libibverbs are found at run time. CUDA's runtime is linked statically.

# gimbal_feature(<name> <found> <what was found> <what follows>): sets GIMBAL_SUMMARY_<name>; ON and not found is an error.
function(gimbal_feature name found description consequence)
  set(choice "${GIMBAL_${name}}")
  if(NOT choice MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "GIMBAL_${name} is \"${choice}\"; allowed: AUTO, ON, OFF")
  endif()
  if(choice STREQUAL "OFF")
    set(text "off")
  elseif(found)
    set(text "${description} found (${consequence})")
  elseif(choice STREQUAL "ON")
    message(FATAL_ERROR "GIMBAL_${name} is ON, but ${description} was not found; install it, or choose AUTO or OFF")
  else()
    set(text "${description} not found")
  endif()
  set(GIMBAL_SUMMARY_${name} "${choice}: ${text}" PARENT_SCOPE)
endfunction()

gimbal_feature(CUDA "${GIMBAL_CUDA_FOUND}" "${GIMBAL_CUDA_TOOLKIT}" "device memory is served")

if(NOT GIMBAL_VERBS STREQUAL "OFF")
  find_path(GIMBAL_VERBS_INCLUDE_DIR infiniband/verbs.h)
  mark_as_advanced(GIMBAL_VERBS_INCLUDE_DIR)
endif()
gimbal_feature(VERBS "${GIMBAL_VERBS_INCLUDE_DIR}" "infiniband/verbs.h" "the verbs transport is built")

message(STATUS "Gimbal ${PROJECT_VERSION}")
message(STATUS "  build    ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
if(GIMBAL_SANITIZE)
  message(STATUS "  checked  by the ${GIMBAL_SANITIZE} sanitizer")
endif()
message(STATUS "  CUDA     ${GIMBAL_SUMMARY_CUDA}")
message(STATUS "  verbs    ${GIMBAL_SUMMARY_VERBS}")
message(STATUS "  parts    tests ${GIMBAL_BUILD_TESTS}, benchmarks ${GIMBAL_BUILD_BENCH}, examples ${GIMBAL_BUILD_EXAMPLES}")
