#include "runtime/pmix.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/environment.h"
#include "base/process_registry.h"

namespace gimbal {
namespace {

// The part of the PMIx standard's C interface, versions 2 to 5, that is used here: names and numbers are those of
// pmix_common.h.
constexpr size_t kNamespaceBytes = 256;  // PMIX_MAX_NSLEN + 1
constexpr size_t kKeyBytes = 512;        // PMIX_MAX_KEYLEN + 1
constexpr uint32_t kEveryRank = UINT32_MAX - 1;
constexpr uint16_t kString = 3;
constexpr uint16_t kInt = 6;
constexpr uint16_t kUint32 = 14;
constexpr uint8_t kGlobal = 3;

struct PmixProcess {
  char job[kNamespaceBytes];
  uint32_t rank;
};
struct PmixValue {
  uint16_t type;
  union {
    char* text;
    int integer;
    uint32_t number;
    char largest[24];  // pmix_envar_t: two pointers and a character
  } data;
};
struct PmixInfo {
  char key[kKeyBytes];
  uint32_t flags;
  PmixValue value;
};

struct Functions {
  int (*init)(PmixProcess*, PmixInfo*, size_t);
  int (*finalize)(const PmixInfo*, size_t);
  int (*put)(uint8_t scope, const char* key, PmixValue*);
  int (*commit)();
  int (*get)(const PmixProcess*, const char* key, const PmixInfo*, size_t, PmixValue**);
  const char* (*error_text)(int);
};

// In this process already, where the loader looks, or beside the launcher that says where it lies.
Result<void*> load_library() {
  std::string places[] = {"libpmix.so.2", "", ""};
  if (const auto prefix = read_environment("PMIX_PREFIX")) {
    places[1] = *prefix + "/lib/libpmix.so.2";
    places[2] = *prefix + "/lib/openmpi/libpmix.so.2";
  }
  for (const std::string& place : places) {
    if (place.empty()) continue;
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  const char* why = dlerror();
  return Status(Code::kUnsupported, std::string("libpmix.so.2 cannot be loaded (") + (why == nullptr ? "?" : why) + ")");
}

// Stays loaded: its threads may outlive a session.
Result<Functions> load_functions() {
  ASSIGN_OR_RETURN(void* const library, load_library());
  Functions functions = {};
  bool all = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all = all && function != nullptr;
  };
  find(functions.init, "PMIx_Init");
  find(functions.finalize, "PMIx_Finalize");
  find(functions.put, "PMIx_Put");
  find(functions.commit, "PMIx_Commit");
  find(functions.get, "PMIx_Get");
  find(functions.error_text, "PMIx_Error_string");
  if (!all) return Status(Code::kUnsupported, "libpmix.so.2 lacks functions of the PMIx standard");
  return functions;
}

class LoadedSession : public PmixSession {
 public:
  LoadedSession(const Functions& functions, const PmixProcess& self) : functions_(functions), self_(self) {}

  void finalize() const { functions_.finalize(nullptr, 0); }

  [[nodiscard]] std::string job() const override { return self_.job; }

  Result<Rank> job_size() override {
    ASSIGN_OR_RETURN(const ValuePointer value, find(kEveryRank, "pmix.job.size", Deadline::never()));
    if (value->type != kUint32) return Status(Code::kInternal, "PMIx gives the job's size in another type than the standard's");
    return static_cast<Rank>(value->data.number);
  }

  Status put(const std::string& key, const std::string& value) override {
    std::string text = value;
    PmixValue packed = {.type = kString, .data = {.text = text.data()}};
    RETURN_IF_ERROR(check(functions_.put(kGlobal, key.c_str(), &packed), "PMIx_Put"));
    return check(functions_.commit(), "PMIx_Commit");
  }

  Result<std::string> get(Rank rank, const std::string& key, Deadline deadline) override {
    ASSIGN_OR_RETURN(const ValuePointer value, find(static_cast<uint32_t>(rank), key, deadline));
    if (value->type != kString || value->data.text == nullptr) {
      return Status(Code::kInternal, "PMIx holds no text under \"" + key + "\" of rank " + std::to_string(rank));
    }
    return std::string(value->data.text);
  }

 private:
  struct FreeValue {
    void operator()(PmixValue* value) const {
      if (value->type == kString) std::free(value->data.text);
      std::free(value);
    }
  };
  using ValuePointer = std::unique_ptr<PmixValue, FreeValue>;

  Status check(int result, const std::string& function) const {
    if (result == 0) return {};
    return {Code::kInternal, function + ": " + functions_.error_text(result)};
  }

  Result<ValuePointer> find(uint32_t rank, const std::string& key, Deadline deadline) {
    PmixProcess owner = self_;
    owner.rank = rank;
    // In whole seconds; 0 would be never.
    PmixInfo timeout = {};
    std::strcpy(timeout.key, "pmix.timeout");
    timeout.value.type = kInt;
    timeout.value.data.integer = std::max(1, deadline.remaining_ms() / 1000);
    PmixValue* value = nullptr;
    RETURN_IF_ERROR(check(functions_.get(&owner, key.c_str(), &timeout, 1, &value), "PMIx_Get of \"" + key + "\""));
    return ValuePointer(value);
  }

  const Functions functions_;
  const PmixProcess self_;
};

struct ProcessSession {
  std::mutex mutex;
  std::shared_ptr<LoadedSession> session;
  pid_t pid = 0;
};

ProcessSession& process_session() { return ProcessRegistry::instance().permanent<ProcessSession>("PMIx session"); }

// A forked child has no say in its parent's session.
void finalize_process_session() {
  if (process_session().pid == getpid()) process_session().session->finalize();
}

}  // namespace

Result<std::shared_ptr<PmixSession>> PmixSession::of_this_process() {
  ProcessSession& process = process_session();
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (process.session == nullptr) {
    ASSIGN_OR_RETURN(const Functions functions, load_functions());
    PmixProcess self = {};
    const int result = functions.init(&self, nullptr, 0);
    if (result != 0) return Status(Code::kSystem, std::string("PMIx_Init: ") + functions.error_text(result));
    process.session = std::make_shared<LoadedSession>(functions, self);
    process.pid = getpid();
    std::atexit(finalize_process_session);
  }
  return std::shared_ptr<PmixSession>(process.session);
}

}  // namespace gimbal
