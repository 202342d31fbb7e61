# What `collctl version` says besides base/version.h: the source's revision, when git knows it.
find_package(Git QUIET)
set(revision_header ${CMAKE_BINARY_DIR}/revision/revision.h)
add_custom_target(revision
  COMMAND ${CMAKE_COMMAND} -DGIT=${GIT_EXECUTABLE} -DOUT=${revision_header} -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/revision.cmake
  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} BYPRODUCTS ${revision_header} COMMENT "")
set_source_files_properties(cmd/version_command.cc PROPERTIES
  INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/revision)
file(STRINGS base/version.h version_line REGEX "\"${PROJECT_VERSION}\"")
if(NOT version_line)
  message(FATAL_ERROR "base/version.h does not say ${PROJECT_VERSION}, the project's version")
endif()
