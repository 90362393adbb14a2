#include "transport/verbs/library.h"

#include <dlfcn.h>

#include "base/environment.h"

namespace gimbal {
namespace {

constexpr const char* kUsualName = "libibverbs.so.1";

class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}

  template <typename Function>
  Symbols& find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
    return *this;
  }
  template <typename Function>
  Symbols& find_optional(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle_, name));
    return *this;
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void* const handle_;
  std::string missing_;
};

}  // namespace

Result<std::shared_ptr<const VerbsLibrary>> VerbsLibrary::load() {
  const std::string path = read_environment("GIMBAL_IBV_SO").value_or(kUsualName);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status(Code::kUnsupported, std::string("no libibverbs: ") + dlerror());
  auto library = std::make_shared<VerbsLibrary>();
  Symbols symbols(handle);
  symbols.find("ibv_get_device_list", library->get_device_list)
      .find("ibv_free_device_list", library->free_device_list)
      .find("ibv_get_device_name", library->get_device_name)
      .find("ibv_open_device", library->open_device)
      .find("ibv_close_device", library->close_device)
      .find("ibv_query_device", library->query_device)
      .find("ibv_query_port", library->query_port)
      .find("_ibv_query_gid_ex", library->query_gid_ex)
      .find("ibv_alloc_pd", library->alloc_pd)
      .find("ibv_dealloc_pd", library->dealloc_pd)
      .find("ibv_reg_mr_iova2", library->reg_mr_iova2)
      .find("ibv_dereg_mr", library->dereg_mr)
      .find("ibv_create_comp_channel", library->create_comp_channel)
      .find("ibv_destroy_comp_channel", library->destroy_comp_channel)
      .find("ibv_create_cq", library->create_cq)
      .find("ibv_destroy_cq", library->destroy_cq)
      .find("ibv_get_cq_event", library->get_cq_event)
      .find("ibv_ack_cq_events", library->ack_cq_events)
      .find("ibv_create_qp", library->create_qp)
      .find("ibv_modify_qp", library->modify_qp)
      .find("ibv_destroy_qp", library->destroy_qp)
      .find("ibv_get_async_event", library->get_async_event)
      .find("ibv_ack_async_event", library->ack_async_event)
      .find("ibv_wc_status_str", library->wc_status_str)
      .find_optional("ibv_reg_dmabuf_mr", library->reg_dmabuf_mr);
  if (!symbols.missing().empty()) {
    return Status(Code::kUnsupported,
                  path + " lacks " + symbols.missing() + ": it is no libibverbs, or one older than rdma-core 33");
  }
  return std::shared_ptr<const VerbsLibrary>(std::move(library));
}

}  // namespace gimbal
