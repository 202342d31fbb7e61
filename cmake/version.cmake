# What `collctl version` says besides base/version.h: the source's revision, when git knows it.
find_package(Git QUIET)
set(COLLCTL_REVISION "")
if(GIT_FOUND AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.git)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} describe --always --tags --dirty
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    OUTPUT_VARIABLE COLLCTL_REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set_source_files_properties(cmd/version_command.cc PROPERTIES COMPILE_DEFINITIONS
  "COLLCTL_REVISION=\"${COLLCTL_REVISION}\"")
file(STRINGS base/version.h version_line REGEX "\"${PROJECT_VERSION}\"")
if(NOT version_line)
  message(FATAL_ERROR "base/version.h does not say ${PROJECT_VERSION}, the project's version")
endif()
