// A driver's shared library that may or may not be on this machine: opened by name at run time, its
// functions looked up one by one. Types and numbers of the drivers' headers are declared in nvml.h,
// cuda.h and verbs.h, only as far as they are used. Libraries are never closed: drivers do not
// survive that. Threads: any.
#pragma once
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <string>

namespace collctl::base::drivers {

class Library {
 public:
  enum class Symbols : uint8_t { local, global };  // seen by libraries that are opened later
  explicit Library(const char* name, Symbols symbols = Symbols::local)
      : handle_(
            ::dlopen(name, RTLD_NOW | (symbols == Symbols::global ? RTLD_GLOBAL : RTLD_LOCAL))) {
    if (handle_ == nullptr) {
      const char* why = ::dlerror();
      error_ = why != nullptr ? why : name;
    }
  }
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }  // why it could not be opened
  // The file as the loader found it; empty: there is none.
  std::string path() const {
    link_map* map = nullptr;
    const bool known = handle_ != nullptr && ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0;
    return known && map != nullptr && map->l_name != nullptr ? map->l_name : "";
  }
  // Null when the library is too old to have it.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = handle_ != nullptr ? reinterpret_cast<Function*>(::dlsym(handle_, name)) : nullptr;
  }
  // The same for data; null: there is none.
  const void* find_data(const std::string& name) const {
    return handle_ != nullptr ? ::dlsym(handle_, name.c_str()) : nullptr;
  }

 private:
  void* handle_ = nullptr;
  std::string error_;
};

// Finds functions and remembers the first that is missing.
class Finder {
 public:
  explicit Finder(const Library& library) : library_(library) {}
  template <class Function>
  Finder& find(Function*& function, const char* name) {
    library_.find(function, name);
    if (function == nullptr && missing_ == nullptr) missing_ = name;
    return *this;
  }
  const char* missing() const { return missing_; }  // null: none

 private:
  const Library& library_;
  const char* missing_ = nullptr;
};

}  // namespace collctl::base::drivers
