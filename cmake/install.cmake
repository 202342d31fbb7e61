# `cmake --install` (or ninja install) and the .deb: the binary, man pages, completions, licence.
include(GNUInstallDirs)
install(TARGETS collctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
file(GLOB man_pages CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES completions/collctl.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME collctl OPTIONAL)
install(FILES completions/_collctl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions OPTIONAL)
install(FILES completions/collctl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

# `./dev package` makes a .deb, a tarball for machines without apt (unpacked anywhere, nothing installed: what is not the
# C library's own is in the binary) and the file from which a container image with it is built.
set(CPACK_GENERATOR DEB TGZ)
string(TOLOWER ${CMAKE_SYSTEM_NAME} system_name)
set(CPACK_PACKAGE_FILE_NAME collctl-${PROJECT_VERSION}-${system_name}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_SOURCE_DIR}/cmake/cpack_tarball.cmake)
configure_file(cmake/Containerfile.in Containerfile @ONLY)
set(CPACK_PACKAGE_NAME collctl)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "the collctl maintainers <collctl@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "launch ranks, run real collectives, judge the result")
set(CPACK_PACKAGE_DESCRIPTION "One binary for the people who bring up and run GPU clusters: it launches ranks, runs
its own collectives between them, checks every byte and says which host or link is at fault.")
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34), libgcc-s1")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
include(CPack)
