# `cmake --install BUILD --prefix DIR`: the program, the static libraries, their headers, and what find_package(quantem-gpu) reads.
# tests/install is a project that uses the result; `./run test` builds it.
include(GNUInstallDirs)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/quantem-gpu)
set(areas options core runtime resident io detector dpc display simulate gpu)
foreach(area ${areas})
  set_target_properties(quantem_${area} PROPERTIES EXPORT_NAME ${area})
  list(APPEND targets quantem_${area})
endforeach()
install(TARGETS ${targets} EXPORT quantem-gpu-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT quantem-gpu-targets NAMESPACE quantem:: DESTINATION ${package})
install(DIRECTORY quantem/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quantem FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE)
if(TARGET quantem-gpu)
  install(TARGETS quantem-gpu RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The CUDA runtime is static. It goes along, so that a program without a CUDA compiler links.
if(has_cuda)
  find_library(QUANTEM_CUDART cudart_static REQUIRED
    HINTS ${CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES} ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
  get_filename_component(cudart_name ${QUANTEM_CUDART} NAME)
  install(FILES ${QUANTEM_CUDART} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/quantem-gpu-config.cmake.in ${CMAKE_BINARY_DIR}/quantem-gpu-config.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/quantem-gpu-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/quantem-gpu-config.cmake ${CMAKE_BINARY_DIR}/quantem-gpu-config-version.cmake
  DESTINATION ${package})
