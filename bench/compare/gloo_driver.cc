// All-reduce of Gloo (over TCP) by the method of bench/compare. RANK, WORLD_SIZE, COMPARE_STORE (a folder for first contact)
// and COMPARE_INTERFACE (lo, or that of an emulated host) come from compare.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <exception>
#include <memory>

#include "method.h"

namespace {

std::shared_ptr<gloo::Context> context_of(void* context) {
  return *static_cast<std::shared_ptr<gloo::rendezvous::Context>*>(context);
}

int barrier(void* context) {
  gloo::BarrierOptions options(context_of(context));
  gloo::barrier(options);
  return 0;
}

int all_reduce(void* context, const float* send, float* recv, size_t count) {
  gloo::AllreduceOptions options(context_of(context));
  options.setInput(const_cast<float*>(send), count);
  options.setOutput(recv, count);
  options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
  return 0;
}

int max(void* context, double* values, size_t count) {
  gloo::AllreduceOptions options(context_of(context));
  options.setOutput(values, count);
  options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::max<double>));
  gloo::allreduce(options);
  return 0;
}

int allocate(void*, size_t bytes, float** buffer) { return method_allocate_pages(bytes, buffer); }

int run(const MethodOptions& options) {
  const char* rank_text = getenv("RANK");
  const char* size_text = getenv("WORLD_SIZE");
  const char* store_path = getenv("COMPARE_STORE");
  const char* interface = getenv("COMPARE_INTERFACE");
  if (rank_text == nullptr || size_text == nullptr || store_path == nullptr || interface == nullptr) {
    return method_usage("RANK, WORLD_SIZE, COMPARE_STORE and COMPARE_INTERFACE are not all set");
  }
  gloo::transport::tcp::attr attributes;
  attributes.iface = interface;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(atoi(rank_text), atoi(size_text));
  gloo::rendezvous::FileStore store(store_path);
  context->connectFullMesh(store, device);
  const MethodDriver driver = {&context, context->rank, context->size, barrier, all_reduce, max, allocate};
  const int status = method_run(&driver, &options);
  if (status == 0) barrier(&context);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  MethodOptions options;
  const int status = method_parse(argc, argv, &options);
  if (status != 0) return status;
  try {
    return run(options);
  } catch (const std::exception& error) {
    fprintf(stderr, "gloo: %s\n", error.what());
    return kMethodFailed;
  }
}
