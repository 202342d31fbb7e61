// Starts the process of a group (reducer.h) as the child of whoever is its first member.
#pragma once
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <string>

#include "tests/fake_plugins/reducer.h"

namespace fake_plugin {

// Beside this library.
inline std::string process_path() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&process_path), &info) == 0) return "";
  const std::string file = info.dli_fname;
  return file.substr(0, file.rfind('/') + 1) + "fake_reducer";
}

inline pid_t start_process(int listener, int members) {
  const std::string path = process_path(), count = std::to_string(members);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // dup2 onto itself keeps the flag that closes it at exec, so through another number.
  const int plain = ::fcntl(listener, F_DUPFD_CLOEXEC, 64);
  ::posix_spawn_file_actions_adddup2(&actions, plain, kListenerFd);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, kListenerFd + 1);
  char* const arguments[] = {const_cast<char*>(path.c_str()), const_cast<char*>(count.c_str()),
                             nullptr};
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, path.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(plain);
  return failed == 0 ? pid : -1;
}

}  // namespace fake_plugin
