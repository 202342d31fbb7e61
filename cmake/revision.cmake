# At each build: writes what git calls the sources into OUT, when that has changed. cmake -DGIT=... -DOUT=... -P
set(revision "")
if(GIT AND EXISTS .git)
  execute_process(COMMAND ${GIT} describe --always --tags --dirty
                  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define COLLCTL_REVISION \"@revision@\"\n" @ONLY)
