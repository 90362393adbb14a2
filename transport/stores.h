// The kinds of Store beside the socket client: what open_store() chooses from, and adapters.
#pragma once

#include <memory>
#include <string>

#include "gimbal/gimbal.h"
#include "transport/store.h"

namespace gimbal {

// Threads of one process. Ranks with the same name share a table for as long as one of them holds its Store.
Result<std::unique_ptr<Store>> open_memory_store(const std::string& name, const std::string& job_key);

// Processes that see one folder (transport/file_store.h).
Result<std::unique_ptr<Store>> open_file_store(const std::string& path, Rank rank, const std::string& job_key,
                                               Deadline deadline);

// The caller's own store. The callbacks are copied; their context must outlive the Store.
Result<std::unique_ptr<Store>> make_callback_store(const gimbal_store_t& callbacks);

// The same store with a prefix before every key. `store` must outlive it.
std::unique_ptr<Store> make_prefix_store(Store& store, std::string prefix);

}  // namespace gimbal
