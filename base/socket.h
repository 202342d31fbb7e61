// TCP and Unix stream sockets with deadlines: addresses, listen, connect, exact reads and writes.
// All descriptors are non-blocking and close-on-exec; the blocking calls below wait through
// base/wait. Threads: one thread per socket at a time. Errors carry the address.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/wait.h"

namespace collctl::base {

// An IPv4 or IPv6 address with port, as plain bytes that can travel in blobs.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_loopback() const;
  bool is_link_local() const;
  ByteView host_bytes() const;  // without the port: 4 or 16; none of another family
  std::string text() const;     // "10.0.0.7:41000", "[fe80::1%eth0]:41000"
  std::string host_text() const;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  void write(ByteWriter& w) const;
  static Address read(ByteReader& r);  // family 0 when malformed
};

// Whether two addresses agree in their first `prefix_bits` bits; 0, or two families: no.
bool in_one_subnet(const Address& a, const Address& b, int prefix_bits);

// The address that differs in its last bit: some other of the subnet.
Address neighbour_of(const Address& a);

// "<ipv4>:<port>", "[<ipv6>]:<port>" or "<hostname>:<port>"; anything else: usage error showing the
// three forms. The first address of a name (base/name_lookup.h), looked up until the deadline.
Result<Address> parse_address(const std::string& text,
                              Deadline look_up_until = Deadline::after_seconds(10));

// Listens at `at` (port 0: any) with a backlog of 16384 (the kernel caps it).
Result<Fd> listen_tcp(const Address& at, bool reuse_port = false);
Result<Address> local_address(int fd);
// A port that is free on this host at this moment; for programs told to use it.
Result<uint16_t> free_port();
Result<Address> peer_address(int fd);
// One accept without waiting; an empty Fd when nobody is there.
Result<Fd> accept_now(int listener);
// Connects; refused, unreachable and timed-out connects are tried again with growing pauses until
// the deadline when `retry`, else returned. Error code: lost.
Result<Fd> connect_tcp(const Address& to, Deadline deadline, bool retry);
Status set_no_delay(int fd);
// Where both ends are one address no network is to be spared: plain congestion control, whatever
// the host's for others is (BBR's pauses take a third of a large message's time). Else nothing.
void spare_congestion_control(int fd);
Status set_non_blocking(int fd);  // of any kind
// Whether the peer's kernel has acknowledged all data, or the connection is over. Before close(2):
// bytes that arrive for a closed socket make the kernel reset the connection and drop what it still
// has to send.
bool all_acknowledged(int fd);
// Acknowledges what has arrived without the usual delay; for a peer that waits for that.
void acknowledge_now(int fd);

// Exactly size bytes, or an error: deadline (code deadline) or closed/reset (code lost).
Status read_exact(int fd, void* to, size_t size, Deadline deadline);
Status write_exact(int fd, const void* from, size_t size, Deadline deadline);
// Moves what can be moved now: bytes moved, 0 when it would block; closed or reset is an error with
// code lost.
Result<size_t> read_some(int fd, void* to, size_t size);
Result<size_t> write_some(int fd, const void* from, size_t size);
// The same, scattered or gathered.
Result<size_t> read_some(int fd, std::span<iovec> to);
Result<size_t> write_some(int fd, std::span<iovec> from);

}  // namespace collctl::base

namespace collctl {
using base::Address;
using base::Fd;
}  // namespace collctl
