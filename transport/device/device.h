// One GPU as a rank uses it, and its memory: the CUDA driver by dlopen (base/drivers/cuda.h), no
// CUDA headers, so that all of this is in every build and a machine without a driver gets a proper
// error. Used by the GPU's transports, the CUDA executor and the benchmark's buffers.
//
// Errors: unavailable when the machine cannot (no driver, no such GPU, out of memory: how much was
// asked and how much is free), lost when a GPU that worked has stopped responding; every message
// names the GPU ("GPU 2 (0000:4b:00.0)") and the driver's own code (CUDA_ERROR_OUT_OF_MEMORY).
// Threads: any; every call makes the device's context the calling thread's. Ownership: everything
// here keeps its Device alive, everything is given back by its destructor.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "transport/device/fabric.h"
#include "transport/peer.h"

namespace collctl::transport {

struct DeviceFacts {
  int ordinal = 0;
  std::string name;                // "NVIDIA H200"
  std::string bus_id;              // "0000:4b:00.0", lower case
  int64_t bus_number = -1;         // the same as a number: domain, bus, device, function
  std::array<uint8_t, 16> uuid{};  // of the MIG instance where it is one; zero: unknown
  int compute_capability = 0;      // 90 for sm_90
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
  bool fd_handles = false;  // memory can be exported as a file descriptor
  // And to the hosts of this NVLink domain; never with MNNVL_ENABLE=0.
  std::optional<FabricPlace> fabric;
};

// How a rank gets at the GPU memory of another of its host.
enum class MemoryHandle : uint8_t {
  pointer,     // they are one process
  descriptor,  // that the owner pushes
  ipc,         // by name, where GPU or driver has no descriptors
};
MemoryHandle memory_handle(const PeerInfo& self, const PeerInfo& peer, const DeviceFacts& facts);

class Device {
 public:
  // GPUs this process may use (CUDA_VISIBLE_DEVICES applies). Error: no driver, or it does not
  // work. Starts the driver: a process that has called this must not fork ranks that use it.
  static Result<int> count();
  // Retains the primary context. Error: no such ordinal.
  static Result<std::shared_ptr<Device>> open(int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  std::string text() const;     // "GPU 2 (0000:4b:00.0)"
  Status use() const;           // makes its context the calling thread's
  uint64_t free_bytes() const;  // of its memory, now; 0: it does not respond
  // Whether this device's kernels can load and store `other`'s memory: true, or the reason why not
  // as an error (unavailable, names both).
  Result<bool> reaches(const Device& other) const;
  // The same for a peer's. A GPU that this process may not use counts as within reach: only mapping
  // its memory can tell.
  Result<bool> reaches(const PeerInfo& peer) const;
  // The device works: an error of an earlier kernel, or a GPU fallen off the bus, otherwise.
  Status alive() const;

  int handle() const { return handle_; }      // CUdevice
  void* context() const { return context_; }  // CUcontext
  // Memory of this device for other devices (NICs): whole pages of the host. Error unavailable:
  // driver or GPU without DMA-BUF, or pages that cannot be exported.
  struct DmaBuf {
    base::Fd fd;
    uint64_t offset = 0;  // of the memory in it
  };
  Result<DmaBuf> export_dmabuf(const void* address, size_t bytes) const;
  // Zeroes memory of the device and waits for it, beside whatever streams do.
  Status zero(void* at, uint64_t bytes) const;

 private:
  Device() = default;
  static Result<std::shared_ptr<Device>> open_now(int ordinal);
  Status read_facts();
  Status look_for_fabric();
  Result<bool> reaches_handle(int other, const std::string& other_text) const;
  DeviceFacts facts_;
  int handle_ = 0;
  void* context_ = nullptr;
  mutable std::mutex setup_mutex_;
  void* setup_stream_ = nullptr;  // zeroing, under setup_mutex_
};
using DevicePointer = std::shared_ptr<Device>;

// A queue of the device, not ordered with the default one.
class DeviceStream {
 public:
  static Result<DeviceStream> make(DevicePointer device);
  DeviceStream() = default;
  DeviceStream(DeviceStream&&) noexcept;
  DeviceStream& operator=(DeviceStream&&) noexcept;
  ~DeviceStream();
  void* get() const { return stream_; }  // CUstream
  Result<bool> idle() const;             // all that was queued is done
  // Waits until idle, polling: first at once, then with short sleeps. `deadline` in words: "waits
  // for GPU 2".
  Status synchronize(Deadline deadline) const;
  // Copies in stream order. Host memory should be pinned, else the call may wait. Null pointers are
  // fine with 0 bytes.
  Status copy(void* to, const void* from, uint64_t bytes) const;
  Status fill(void* to, uint8_t value, uint64_t bytes) const;
  // Work queued from now on waits for the event of another stream of this process.
  Status wait_for(const class DeviceEvent& event) const;

 private:
  DevicePointer device_;
  void* stream_ = nullptr;
};

class DeviceEvent {
 public:
  static Result<DeviceEvent> make(DevicePointer device, bool timed);
  DeviceEvent() = default;
  DeviceEvent(DeviceEvent&&) noexcept;
  DeviceEvent& operator=(DeviceEvent&&) noexcept;
  ~DeviceEvent();
  Status record(void* stream) const;
  Result<bool> done() const;
  Result<double> us_since(const DeviceEvent& earlier) const;  // both timed and done
  void* get() const { return event_; }

 private:
  DevicePointer device_;
  void* event_ = nullptr;
};

// Work captured from a stream, to be launched repeatedly.
class DeviceGraph {
 public:
  // Everything queued on `stream` by this thread between begin and end is recorded, not run.
  static Status begin(const DevicePointer& device, void* stream);
  static Result<DeviceGraph> end(const DevicePointer& device, void* stream);
  DeviceGraph() = default;
  DeviceGraph(DeviceGraph&&) noexcept;
  DeviceGraph& operator=(DeviceGraph&&) noexcept;
  ~DeviceGraph();
  Status launch(void* stream) const;

 private:
  DevicePointer device_;
  void* executable_ = nullptr;
};

// The name of plain memory for other processes of this host (cudaIpcMemHandle).
struct IpcName {
  uint8_t bytes[64];
};

// Memory of a device, zeroed. `shared`: can be exported as a descriptor and mapped by others
// (cuMem, granularity 2 MiB); needs DeviceFacts::fd_handles. Where the device has a fabric it can
// also be exported to the fabric's other hosts.
class DeviceMemory {
 public:
  static Result<DeviceMemory> make(DevicePointer device, uint64_t bytes, bool shared);
  // Memory of a peer of this host, by the descriptor it exported, as `user`'s kernels see it. The
  // descriptor stays the caller's and may be closed afterwards.
  static Result<DeviceMemory> import(DevicePointer user, int fd, uint64_t bytes);
  // The same of another host of the fabric.
  static Result<DeviceMemory> import_fabric(DevicePointer user, const FabricName& name,
                                            uint64_t bytes);
  // The same by the name of plain memory, of another process.
  static Result<DeviceMemory> import_ipc(DevicePointer user, const IpcName& name, uint64_t bytes);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&&) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) noexcept;
  ~DeviceMemory();
  Result<base::Fd> export_fd() const;  // `shared` memory
  // `shared` memory; error unavailable: it was made without such a name.
  Result<FabricName> export_fabric() const;
  Result<IpcName> export_ipc() const;  // plain memory
  // From now on kernels of `user`, another device of this process, may access data() directly.
  Status allow(const Device& user) const;
  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }  // as asked for
  // Memory taken on the device, in whole pages; 0 for a peer's.
  uint64_t held_bytes() const { return held_; }

 private:
  friend class FlatMemory;
  enum class Kind : uint8_t { none, plain, mapped, ipc };
  static Result<DeviceMemory> import_as(DevicePointer user, const void* passed, int type,
                                        uint64_t bytes);
  Status take_handle(uint64_t handle, uint64_t mapped);
  DevicePointer device_;
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t mapped_ = 0;  // mapped: bytes of address space
  uint64_t held_ = 0;
  uint64_t handle_ = 0;  // mapped: the memory behind it
  Kind kind_ = Kind::none;
  bool fabric_ = false;  // made with a name for other hosts
};

// One address range with the memories of several ranks side by side: part r from data() + r x
// stride() on. A part may hold several memories, each at an offset of whole pages.
class FlatMemory {
 public:
  // stride: rounded up to the granularity.
  static Result<FlatMemory> reserve(DevicePointer user, int parts, uint64_t stride);
  FlatMemory() = default;
  FlatMemory(FlatMemory&&) noexcept;
  FlatMemory& operator=(FlatMemory&&) noexcept;
  ~FlatMemory();
  // Memory of this process, `shared`; a peer's.
  Status map(int part, const DeviceMemory& own, uint64_t offset = 0);
  Status map_fd(int part, int fd, uint64_t bytes, uint64_t offset = 0);
  Status map_fabric(int part, const FabricName& name, uint64_t bytes, uint64_t offset = 0);
  // Unmaps what was mapped there; the caller ensures that no kernel uses it any more.
  Status unmap(int part, uint64_t offset);
  uint8_t* data() const { return data_; }
  uint64_t stride() const { return stride_; }

 private:
  Status map_handle(int part, uint64_t offset, uint64_t handle, uint64_t bytes);
  Status map_imported(int part, uint64_t offset, const void* handle, int type, uint64_t bytes);
  DevicePointer device_;
  uint8_t* data_ = nullptr;
  uint64_t stride_ = 0;
  int parts_ = 0;
  std::map<uint64_t, uint64_t> mapped_;  // from where in the range, how many bytes
};

// Host memory that every device of this process reads and writes at the same address. make() places
// it on the device's NUMA node where there is room.
class PinnedMemory {
 public:
  static Result<PinnedMemory> make(DevicePointer device, uint64_t bytes);  // zeroed
  // Pins memory that the caller owns and that must outlive this (page aligned).
  static Result<PinnedMemory> over(const DevicePointer& device, void* memory, uint64_t bytes);
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&&) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) noexcept;
  ~PinnedMemory();
  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  DevicePointer device_;
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
  bool over_ = false;        // the caller's memory
  bool registered_ = false;  // and pinned by this
};

}  // namespace collctl::transport
