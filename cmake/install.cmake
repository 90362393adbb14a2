# The installed tree: library, header, find_package(gimbal), pkg-config gimbal. Tools install themselves (component tools).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gimbal)
install(TARGETS gimbal EXPORT gimbal-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/gimbal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT gimbal-targets NAMESPACE gimbal:: DESTINATION ${package_dir})

configure_package_config_file(cmake/gimbal-config.cmake.in ${PROJECT_BINARY_DIR}/gimbal-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gimbal-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gimbal-config.cmake ${PROJECT_BINARY_DIR}/gimbal-config-version.cmake
  DESTINATION ${package_dir})

# Relative to the file itself, so that the tree can be moved.
file(RELATIVE_PATH GIMBAL_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/gimbal.pc.in ${PROJECT_BINARY_DIR}/gimbal.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gimbal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
