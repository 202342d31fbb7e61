# What `collctl version` says: the project's version and, when git knows it, the source's revision.
find_package(Git QUIET)
set(COLLCTL_REVISION "")
if(GIT_FOUND AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/.git)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} describe --always --tags --dirty
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    OUTPUT_VARIABLE COLLCTL_REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set_source_files_properties(cmd/version_command.cc PROPERTIES COMPILE_DEFINITIONS
  "COLLCTL_VERSION=\"${PROJECT_VERSION}\";COLLCTL_REVISION=\"${COLLCTL_REVISION}\"")
