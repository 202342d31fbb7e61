# Data that the binary holds: sets OUT to a source with the text of FILE as the constant NAME of collctl::cmd.
function(held_text out name file)
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${file} text)
  set(source ${CMAKE_BINARY_DIR}/held/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "namespace collctl::cmd {
extern const char ${name}[];
const char ${name}[] = R\"held(${text})held\";
}  // namespace collctl::cmd
" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set(${out} ${source} PARENT_SCOPE)
endfunction()
