// A folder for Unix sockets that only this user can enter, so that no one else can reach them: what
// an abstract socket, which all users of a network namespace see, cannot keep out. In /dev/shm,
// which ranks of a host share anyway, else in /tmp; gone again with its last socket. Threads: any.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::base {

// The folder of this user, made when it is not there; one with a random name where another user
// has taken that name, or where it is open to others. `places`: where it may be, the best first;
// none: those above. Errors (unavailable) name what is wrong with the first place.
Result<std::string> socket_folder(std::span<const char* const> places = {});
// The same, but only where other processes of this user find it by itself.
Result<std::string> known_socket_folder();
// A path in it that says which process it belongs to. `number` tells those of one process apart.
std::string socket_path(const std::string& folder, uint64_t number);
// The paths in known folders that processes which are still there made with this number.
std::vector<std::string> socket_paths(uint64_t number);
// Owner of a path of socket_path(): a pid, 0 when it is no such path.
int socket_owner(const std::string& path);
// Removes what processes that are gone (killed) have left there, and the folder when it is empty.
// `ended`: a pid that has ended also while nobody has reaped it. Allocates nothing.
void tidy_socket_folder(const char* folder, int ended = 0);
// The same for this user's folder, wherever it is: for who has killed ranks, or outlives a
// launcher.
void tidy_socket_folders(int ended = 0);

}  // namespace collctl::base
