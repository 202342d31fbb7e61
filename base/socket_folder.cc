#include "base/socket_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/format.h"
#include "base/host_facts.h"

namespace collctl::base {
namespace {

constexpr const char* kPlaces[] = {"/dev/shm", "/tmp"};  // the best first

std::string name_in(const std::string& place) {
  return format("{}/collctl-{}", place, ::geteuid());
}

bool is_private(const std::string& path) {
  struct stat s {};
  return ::lstat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == ::geteuid() &&
         (s.st_mode & 077) == 0;
}

Status make_private(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return errno_error(ErrorCode::unavailable, "make the folder " + path, errno);
  if (is_private(path)) return {};
  return Error(ErrorCode::unavailable,
               format("{} is not a folder of this user that is closed to others", path));
}

struct Owner {
  unsigned long space = 0, number = 0;
  int pid = 0;
};

// `name`: the last part of a socket_path().
bool read_name(const char* name, Owner& owner) {
  int end = 0;
  return std::sscanf(name, "%lx-%d-%lx%n", &owner.space, &owner.pid, &owner.number, &end) == 3 &&
         name[end] == 0 && owner.pid > 0;
}

// Processes of other PID namespaces are not seen from here.
bool is_gone(const Owner& owner, int ended = 0) {
  if (owner.space != pid_namespace()) return false;
  return owner.pid == ended || (::kill(owner.pid, 0) != 0 && errno == ESRCH);
}

// The first place where it can be; `otherwise`: what else may serve there.
template <class Otherwise>
Result<std::string> first_folder(std::span<const char* const> places, Otherwise otherwise) {
  Error first;
  for (const std::string place : places) {
    std::string path = name_in(place);
    Status made = make_private(path);
    if (made || otherwise(path)) return path;
    if (first.message.empty()) first = std::move(made.error());
  }
  return std::move(first.within("a folder for sockets"));
}

}  // namespace

Result<std::string> known_socket_folder() {
  return first_folder(kPlaces, [](std::string&) { return false; });
}

Result<std::string> socket_folder(std::span<const char* const> places) {
  return first_folder(places.empty() ? std::span(kPlaces) : places, [](std::string& path) {
    path += "-XXXXXX";
    return ::mkdtemp(path.data()) != nullptr;
  });
}

std::string socket_path(const std::string& folder, uint64_t number) {
  return format("{}/{:x}-{}-{:x}", folder, pid_namespace(), ::getpid(), number);
}

std::vector<std::string> socket_paths(uint64_t number) {
  std::vector<std::string> paths;
  for (const char* place : kPlaces) {
    const std::string folder = name_in(place);
    DIR* const listing = is_private(folder) ? ::opendir(folder.c_str()) : nullptr;
    if (listing == nullptr) continue;
    while (const dirent* entry = ::readdir(listing))
      if (Owner owner; read_name(entry->d_name, owner) && owner.number == number && !is_gone(owner))
        paths.push_back(folder + "/" + entry->d_name);
    ::closedir(listing);
  }
  return paths;
}

int socket_owner(const std::string& path) {
  Owner owner;
  return read_name(path.c_str() + path.rfind('/') + 1, owner) ? owner.pid : 0;
}

void tidy_socket_folder(const char* folder, int ended) {
  const int fd = ::open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  alignas(dirent64) char entries[4096];
  long bytes = 0;
  while ((bytes = ::syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0)
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      if (Owner owner; read_name(entry->d_name, owner) && is_gone(owner, ended))
        ::unlinkat(fd, entry->d_name, 0);
    }
  ::close(fd);
  ::rmdir(folder);  // refused while others use it
}

void tidy_socket_folders(int ended) {
  for (const char* place : kPlaces) {
    char folder[64];
    std::snprintf(folder, sizeof folder, "%s/collctl-%u", place, ::geteuid());
    // Another user's folder of that name is not looked into.
    if (struct stat s{}; ::lstat(folder, &s) == 0 && s.st_uid == ::geteuid())
      tidy_socket_folder(folder, ended);
  }
}

}  // namespace collctl::base
