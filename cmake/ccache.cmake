# ccache where there is one. Paths below the top folder are hashed as relative ones, so that another copy of the tree (a
# clean clone, a worktree) finds what this one compiled.
find_program(COLLCTL_CCACHE ccache)
if(COLLCTL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=include_file_ctime,include_file_mtime ${COLLCTL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
