#include "launcher/ssh/library.h"

#include <libssh2.h>

namespace collctl::launcher {

std::string ssh_library() {
  const char* version = libssh2_version(0);
  return std::string("libssh2 ") + (version != nullptr ? version : "of unknown version");
}

}  // namespace collctl::launcher
