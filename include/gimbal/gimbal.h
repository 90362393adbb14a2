/* Gimbal: collective communication for data-parallel training. This header is the whole public C API.
 *
 * Conventions, kept by every function:
 *
 * 1. Errors.     A function returns gimbal_status_t; GIMBAL_OK is 0. gimbal_last_error() gives this thread's last error as one
 *                sentence. Codes are grouped by what is lost (see gimbal_status_t): a *call*, an *operation*, a *communicator*.
 *                The library never prints (but for its log, see GIMBAL_LOG), never exits, raises no signal, no exception.
 * 2. Ownership.  What a _create, _split, _start or _alloc function returns is the caller's until the matching _destroy,
 *                _wait or _free. Pointers to data are borrowed for the call, and by _start until the request has completed.
 * 3. Handles.    A destroyed or never valid handle is GIMBAL_INVALID_ARGUMENT, never a crash.
 * 4. Threads.    A communicator is used by one thread at a time; gimbal_comm_abort and gimbal_comm_status may be called from
 *                any thread at any time. Different communicators are independent. Ranks may be processes or threads.
 * 5. Order.      All ranks of a communicator call the same operations in the same order with matching arguments. What does not
 *                match is GIMBAL_MISMATCH on every rank, with both sides' values, and never a wrong result.
 * 6. Counts.     Counts are elements, size_t, and may exceed 4 GiB. Count 0 is a success that touches nothing.
 * 7. Buffers.    send == recv is in place. Any other overlap is GIMBAL_INVALID_ARGUMENT. send is never written unless in place.
 * 8. Streams.    Host memory: the stream is NULL and the call blocks until its own result is complete. Device memory: the call
 *                enqueues on the stream (a cudaStream_t of the buffers' device; NULL is the device's legacy default stream) and
 *                returns; its result is there for what the stream does next. An error that comes later is
 *                gimbal_comm_status's, and the stream goes on. Host and device memory in one call is GIMBAL_INVALID_ARGUMENT.
 *                Ranks that are threads need a stream each. See docs/cuda.md.
 * 9. Fork.       In a child of fork() every call on a parent's communicator is GIMBAL_INVALID_USAGE; the parent is unharmed.
 *
 * Numerics: sums are accumulated in float32 (float64 for float64, wide integers for integer averages) and a value is rounded to
 * its type once. min and max propagate NaN and order -0 below +0. Integer sums wrap; an integer average truncates toward zero.
 * The result is bitwise equal on all ranks. See docs/numerics.md.
 */
#ifndef GIMBAL_GIMBAL_H_
#define GIMBAL_GIMBAL_H_

#include <stddef.h>
#include <stdint.h>

#define GIMBAL_VERSION_MAJOR 0
#define GIMBAL_VERSION_MINOR 1
#define GIMBAL_VERSION_PATCH 0

#if defined(__GNUC__)
#define GIMBAL_EXPORT __attribute__((visibility("default")))
#else
#define GIMBAL_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gimbal_comm* gimbal_comm_t;
typedef struct gimbal_request* gimbal_request_t;
typedef void* gimbal_stream_t; /* cudaStream_t; NULL for host memory, and for a device's default stream */

/* ---- Status ------------------------------------------------------------------------------------------------------------- */

typedef enum {
  GIMBAL_OK = 0,
  /* The call is lost: nothing was started, the communicator is as before. */
  GIMBAL_INVALID_ARGUMENT = 1, /* a value that is wrong by itself */
  GIMBAL_INVALID_USAGE = 2,    /* a right value at a wrong moment: after fork, inside a group, from a second thread */
  GIMBAL_UNSUPPORTED = 3,      /* a sensible request that this build, machine or mode does not serve */
  /* The operation is lost: it did not complete; the communicator cannot be used for more than destroy. */
  GIMBAL_NO_MEMORY = 10,
  GIMBAL_SYSTEM = 11, /* the operating system refused: the sentence has its reason */
  GIMBAL_DEVICE = 12, /* the CUDA driver or device refused */
  /* The communicator is lost on every rank. */
  GIMBAL_REMOTE = 20,   /* a peer died, left or reported an error */
  GIMBAL_TIMEOUT = 21,  /* a deadline passed; the sentence names who was missing */
  GIMBAL_MISMATCH = 22, /* ranks called different things */
  GIMBAL_ABORTED = 23,  /* gimbal_comm_abort, here or on a peer */
  GIMBAL_INTERNAL = 24  /* a bug in Gimbal */
} gimbal_status_t;

/* "GIMBAL_OK", "GIMBAL_TIMEOUT", ...; "GIMBAL_UNKNOWN" for a value that is none. Never NULL. */
GIMBAL_EXPORT const char* gimbal_status_name(gimbal_status_t status);

/* This thread's last error as one sentence without newline, "" when there was none. Valid until this thread's next call. */
GIMBAL_EXPORT const char* gimbal_last_error(void);

GIMBAL_EXPORT gimbal_status_t gimbal_version(int* major, int* minor, int* patch);
GIMBAL_EXPORT const char* gimbal_version_string(void);

/* ---- Types and operations ----------------------------------------------------------------------------------------------- */

typedef enum {
  GIMBAL_INT8 = 0,
  GIMBAL_UINT8 = 1,
  GIMBAL_INT32 = 2,
  GIMBAL_UINT32 = 3,
  GIMBAL_INT64 = 4,
  GIMBAL_UINT64 = 5,
  GIMBAL_FLOAT16 = 6,
  GIMBAL_BFLOAT16 = 7,
  GIMBAL_FLOAT32 = 8,
  GIMBAL_FLOAT64 = 9,
  GIMBAL_FLOAT8_E4M3 = 10, /* OCP 8-bit, finite and NaN (no infinity), saturating */
  GIMBAL_FLOAT8_E5M2 = 11  /* OCP 8-bit with infinity */
} gimbal_dtype_t;

typedef enum {
  GIMBAL_SUM = 0,
  GIMBAL_PROD = 1,
  GIMBAL_MIN = 2,
  GIMBAL_MAX = 3,
  GIMBAL_AVG = 4,
  GIMBAL_BAND = 5, /* integers only */
  GIMBAL_BOR = 6,  /* integers only */
  GIMBAL_BXOR = 7  /* integers only */
} gimbal_op_t;

typedef enum {
  GIMBAL_ALL_REDUCE = 0,
  GIMBAL_REDUCE_SCATTER = 1,
  GIMBAL_ALL_GATHER = 2,
  GIMBAL_BROADCAST = 3,
  GIMBAL_REDUCE = 4,
  GIMBAL_ALL_TO_ALL = 5,
  GIMBAL_GATHER = 6,
  GIMBAL_SCATTER = 7,
  GIMBAL_BARRIER = 8,
  GIMBAL_SEND = 9,
  GIMBAL_RECV = 10,
  GIMBAL_ALL_GATHER_V = 11,
  GIMBAL_ALL_TO_ALL_V = 12
} gimbal_collective_t;

typedef enum { GIMBAL_MEMORY_HOST = 0, GIMBAL_MEMORY_CUDA = 1 } gimbal_memory_t;

/* Bytes of one element; 0 for a value that is no type. */
GIMBAL_EXPORT size_t gimbal_dtype_size(gimbal_dtype_t dtype);

/* ---- Communicator ------------------------------------------------------------------------------------------------------- */

/* First contact by the caller's own key-value store. All callbacks return 0 for success and are called from the thread that
 * creates the communicator. Keys are NUL-terminated; values are bytes.
 *   set   stores a value.
 *   get   waits up to timeout_ms for the key, copies at most *bytes of the value and sets *bytes to the value's full size.
 *   wait  waits up to timeout_ms for the key; non-zero when it did not appear.
 *   add   adds amount to a counter (0 when new) and stores its new value in *result. */
typedef struct {
  int (*set)(void* context, const char* key, const void* value, size_t bytes);
  int (*get)(void* context, const char* key, void* value, size_t* bytes, int64_t timeout_ms);
  int (*wait)(void* context, const char* key, int64_t timeout_ms);
  int (*add)(void* context, const char* key, int64_t amount, int64_t* result);
  void* context;
} gimbal_store_t;

typedef enum { GIMBAL_PROGRESS_THREAD = 0, GIMBAL_PROGRESS_CALLER = 1 } gimbal_progress_t;

/* A line of the log. level: 0 error, 1 warning, 2 info, 3 debug. message has no newline. May be called from any thread. */
typedef void (*gimbal_log_callback_t)(void* context, int level, const char* message);

/* Set by `gimbal_config_t config = GIMBAL_CONFIG_INIT;`, then the fields that matter. A field left at its initial value is
 * taken from the environment (docs/environment.md), else from the default. */
typedef struct {
  size_t struct_bytes;         /* set by the initializer: lets the struct grow */
  uint32_t abi_version;        /* set by the initializer */
  int32_t rank;                /* -1: from the launcher's environment */
  int32_t size;                /* number of ranks; -1: from the launcher's environment */
  int32_t deterministic;       /* -1: environment; 0 or 1. See docs/numerics.md */
  const char* rendezvous;      /* "tcp://host:port", "unix://name", "file:///path", "memory://name"; NULL: environment */
  const gimbal_store_t* store; /* instead of rendezvous: the caller's own store */
  int64_t timeout_ms;          /* deadline of one operation; 0: environment, else 600000 */
  int64_t connect_timeout_ms;  /* deadline of create; 0: environment, else 120000 */
  gimbal_progress_t progress;  /* who drives started requests */
  const char* algorithm;       /* force: "ring" or "all_reduce:ring;all_gather:direct"; NULL: environment, else the tuner */
  const char* transport;       /* "auto", "shm", ...; NULL: environment, else auto */
  const char* name;            /* for messages; NULL: "world" */
  gimbal_log_callback_t log;   /* NULL: standard error at the level of GIMBAL_LOG */
  void* log_context;
} gimbal_config_t;

#define GIMBAL_CONFIG_ABI 1u
#define GIMBAL_CONFIG_INIT                                                                                                    \
  {                                                                                                                           \
    sizeof(gimbal_config_t), GIMBAL_CONFIG_ABI, -1, -1, -1, NULL, NULL, 0, 0, GIMBAL_PROGRESS_THREAD, NULL, NULL, NULL, NULL, \
        NULL                                                                                                                  \
  }

/* Collective over all ranks. config NULL: everything from the environment. Blocks until all ranks are connected or the connect
 * deadline has passed; then the sentence names the ranks that are missing. */
GIMBAL_EXPORT gimbal_status_t gimbal_comm_create(const gimbal_config_t* config, gimbal_comm_t* comm);

/* Frees the communicator and everything it owns; never waits for a peer. Requests that are under way are aborted. */
GIMBAL_EXPORT gimbal_status_t gimbal_comm_destroy(gimbal_comm_t comm);

/* From any thread: every call under way on the communicator, here and on the peers, returns GIMBAL_ABORTED at once. */
GIMBAL_EXPORT gimbal_status_t gimbal_comm_abort(gimbal_comm_t comm);

/* From any thread: GIMBAL_OK, or the first error that made the communicator unusable. */
GIMBAL_EXPORT gimbal_status_t gimbal_comm_status(gimbal_comm_t comm);

GIMBAL_EXPORT gimbal_status_t gimbal_comm_rank(gimbal_comm_t comm, int32_t* rank);
GIMBAL_EXPORT gimbal_status_t gimbal_comm_size(gimbal_comm_t comm, int32_t* size);

/* Collective. Ranks of equal color (>= 0) form a new communicator, ordered by key, then by rank. color -1: *out is NULL;
 * GIMBAL_SPLIT_NODE: the ranks that share this rank's memory, on the ranks that say so. */
#define GIMBAL_SPLIT_NODE INT32_MIN
GIMBAL_EXPORT gimbal_status_t gimbal_comm_split(gimbal_comm_t comm, int32_t color, int32_t key, gimbal_comm_t* out);

/* Collective over the ranks that are left after a failure (GIMBAL_REMOTE, GIMBAL_TIMEOUT, GIMBAL_ABORTED or another that the
 * communicator is lost with): a new communicator of them, with the settings and the name of the old one and ranks that keep
 * their order. Ranks that died, destroyed the old communicator or do not call this within GIMBAL_SHRINK_WAIT are not in it; one
 * that comes later gets GIMBAL_REMOTE. Further deaths meanwhile are ranks that are not in it, or its first failure. Those who
 * go on must be more than half of the ranks not known to be dead (or half, with the lowest), else GIMBAL_TIMEOUT. The old
 * communicator is unusable as before, keeps its memory, and is to be destroyed. GIMBAL_INVALID_USAGE when nothing has failed.
 * See docs/failures.md, also for how a lost rank comes back. */
GIMBAL_EXPORT gimbal_status_t gimbal_comm_shrink(gimbal_comm_t comm, gimbal_comm_t* out);

typedef struct {
  size_t struct_bytes;         /* set by the initializer */
  uint64_t operations;         /* completed */
  uint64_t bytes;              /* of their payloads */
  uint64_t wait_ns;            /* this rank's waiting for peers in blocking calls */
  int32_t last_arrived_rank;   /* the rank that arrived last most often in the recent window; -1: nobody stands out */
  uint64_t last_arrived_ns;    /* how late it was there, mean over the window */
  size_t host_bytes;           /* host memory that this communicator holds */
  uint64_t errors;             /* operations that failed */
  uint64_t window_waits;       /* operations of the recent window that had to wait, when somebody stands out in it */
  uint64_t last_arrived_waits; /* those of them in which last_arrived_rank was the last */
  int64_t clock_offset_ns;     /* to be added to this rank's CLOCK_MONOTONIC for rank 0's */
  int64_t clock_error_ns;      /* how wrong that is at most */
} gimbal_stats_t;
#define GIMBAL_STATS_INIT \
  { sizeof(gimbal_stats_t), 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0 }
/* Fills as much of the struct as its struct_bytes says: an older program's shorter one too. */
GIMBAL_EXPORT gimbal_status_t gimbal_comm_stats(gimbal_comm_t comm, gimbal_stats_t* stats);

/* Writes the recent operations of this rank as JSON to path. The same is written to GIMBAL_FLIGHT_RECORDER when an operation
 * fails. */
GIMBAL_EXPORT gimbal_status_t gimbal_comm_dump(gimbal_comm_t comm, const char* path);

/* ---- Memory ------------------------------------------------------------------------------------------------------------- */

/* Collective: every rank allocates the same number of bytes that all peers of the node map, so that operations on it copy
 * nothing. Aligned to 4096. Any part of it may be passed as send or recv. */
GIMBAL_EXPORT gimbal_status_t gimbal_mem_alloc(gimbal_comm_t comm, gimbal_memory_t memory, size_t bytes, void** pointer);
/* Collective. Memory that was not freed is freed with the communicator. */
GIMBAL_EXPORT gimbal_status_t gimbal_mem_free(gimbal_comm_t comm, void* pointer);
/* Local. Announces memory of the caller's that will be used often (verbs and CUDA gain from it; shared memory does not). */
GIMBAL_EXPORT gimbal_status_t gimbal_register(gimbal_comm_t comm, void* pointer, size_t bytes);
GIMBAL_EXPORT gimbal_status_t gimbal_deregister(gimbal_comm_t comm, void* pointer);

/* ---- Operations --------------------------------------------------------------------------------------------------------- */
/* n = number of ranks. Shapes are in elements. Each blocking call has a _start form that returns a request. */

/* send[count], recv[count]: recv = op over ranks of send. */
GIMBAL_EXPORT gimbal_status_t gimbal_all_reduce(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                gimbal_op_t op, gimbal_comm_t comm, gimbal_stream_t stream);
/* send[n * recv_count], recv[recv_count]: rank r gets elements r*recv_count... of the reduction.
 * In place: recv == send + r*recv_count. */
GIMBAL_EXPORT gimbal_status_t gimbal_reduce_scatter(const void* send, void* recv, size_t recv_count, gimbal_dtype_t dtype,
                                                    gimbal_op_t op, gimbal_comm_t comm, gimbal_stream_t stream);
/* send[send_count], recv[n * send_count]: recv + r*send_count = send of rank r. In place: send == recv + rank*send_count. */
GIMBAL_EXPORT gimbal_status_t gimbal_all_gather(const void* send, void* recv, size_t send_count, gimbal_dtype_t dtype,
                                                gimbal_comm_t comm, gimbal_stream_t stream);
/* buffer[count]: root's content goes to all. */
GIMBAL_EXPORT gimbal_status_t gimbal_broadcast(void* buffer, size_t count, gimbal_dtype_t dtype, int32_t root,
                                               gimbal_comm_t comm, gimbal_stream_t stream);
/* send[count], recv[count] on root (recv is ignored elsewhere and may be NULL). */
GIMBAL_EXPORT gimbal_status_t gimbal_reduce(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op,
                                            int32_t root, gimbal_comm_t comm, gimbal_stream_t stream);
/* send[n * count], recv[n * count]: block r of send goes to rank r, block r of recv comes from rank r. Not in place. */
GIMBAL_EXPORT gimbal_status_t gimbal_all_to_all(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                gimbal_comm_t comm, gimbal_stream_t stream);
/* send[send_count]; recv[n * send_count] on root. */
GIMBAL_EXPORT gimbal_status_t gimbal_gather(const void* send, void* recv, size_t send_count, gimbal_dtype_t dtype, int32_t root,
                                            gimbal_comm_t comm, gimbal_stream_t stream);
/* send[n * recv_count] on root; recv[recv_count]. */
GIMBAL_EXPORT gimbal_status_t gimbal_scatter(const void* send, void* recv, size_t recv_count, gimbal_dtype_t dtype,
                                             int32_t root, gimbal_comm_t comm, gimbal_stream_t stream);
/* send[send_count]; recv: recv_counts[r] elements of rank r at recv + displacements[r]. The arrays have n entries, equal on all
 * ranks but for displacements. displacements NULL: packed. */
GIMBAL_EXPORT gimbal_status_t gimbal_all_gather_v(const void* send, size_t send_count, void* recv, const size_t* recv_counts,
                                                  const size_t* displacements, gimbal_dtype_t dtype, gimbal_comm_t comm,
                                                  gimbal_stream_t stream);
/* Block r (send_counts[r] at send_displacements[r]) goes to rank r; recv_counts[r] of rank r arrive at
 * recv_displacements[r]. */
GIMBAL_EXPORT gimbal_status_t gimbal_all_to_all_v(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                                  void* recv, const size_t* recv_counts, const size_t* recv_displacements,
                                                  gimbal_dtype_t dtype, gimbal_comm_t comm, gimbal_stream_t stream);
/* buffer[count] to or from peer; matched by order per pair of ranks. */
GIMBAL_EXPORT gimbal_status_t gimbal_send(const void* buffer, size_t count, gimbal_dtype_t dtype, int32_t peer,
                                          gimbal_comm_t comm, gimbal_stream_t stream);
GIMBAL_EXPORT gimbal_status_t gimbal_recv(void* buffer, size_t count, gimbal_dtype_t dtype, int32_t peer, gimbal_comm_t comm,
                                          gimbal_stream_t stream);
GIMBAL_EXPORT gimbal_status_t gimbal_barrier(gimbal_comm_t comm, gimbal_stream_t stream);

typedef struct {
  size_t struct_bytes; /* set by the initializer */
  double weight;       /* this rank's: the result is the sum of weight_r * x_r. Only floating types, GIMBAL_SUM */
  int32_t normalize;   /* 1: divided by the sum of the weights; the sum must not be 0 */
  int32_t wire;        /* 0: as is; codecs are reserved */
} gimbal_reduce_options_t;
#define GIMBAL_REDUCE_OPTIONS_INIT \
  { sizeof(gimbal_reduce_options_t), 1.0, 0, 0 }

GIMBAL_EXPORT gimbal_status_t gimbal_all_reduce_options(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                        gimbal_op_t op, const gimbal_reduce_options_t* options,
                                                        gimbal_comm_t comm, gimbal_stream_t stream);

/* ---- Requests ----------------------------------------------------------------------------------------------------------- */
/* Started operations run in the order of the calls, among themselves and with blocking ones, while the caller computes. */

/* Blocks until the request has completed (on device memory: until its stream has passed it), frees it and sets *request to
 * NULL. NULL request: GIMBAL_OK. */
GIMBAL_EXPORT gimbal_status_t gimbal_wait(gimbal_request_t* request);
/* *done = 1 when the request has completed (then it is freed and *request is NULL), else 0. */
GIMBAL_EXPORT gimbal_status_t gimbal_test(gimbal_request_t* request, int* done);

GIMBAL_EXPORT gimbal_status_t gimbal_all_reduce_start(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                      gimbal_op_t op, gimbal_comm_t comm, gimbal_stream_t stream,
                                                      gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_reduce_scatter_start(const void* send, void* recv, size_t recv_count, gimbal_dtype_t dtype,
                                                          gimbal_op_t op, gimbal_comm_t comm, gimbal_stream_t stream,
                                                          gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_all_gather_start(const void* send, void* recv, size_t send_count, gimbal_dtype_t dtype,
                                                      gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_broadcast_start(void* buffer, size_t count, gimbal_dtype_t dtype, int32_t root,
                                                     gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_reduce_start(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                  gimbal_op_t op, int32_t root, gimbal_comm_t comm, gimbal_stream_t stream,
                                                  gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_all_to_all_start(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                      gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_gather_start(const void* send, void* recv, size_t send_count, gimbal_dtype_t dtype,
                                                  int32_t root, gimbal_comm_t comm, gimbal_stream_t stream,
                                                  gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_scatter_start(const void* send, void* recv, size_t recv_count, gimbal_dtype_t dtype,
                                                   int32_t root, gimbal_comm_t comm, gimbal_stream_t stream,
                                                   gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_all_gather_v_start(const void* send, size_t send_count, void* recv,
                                                        const size_t* recv_counts, const size_t* displacements,
                                                        gimbal_dtype_t dtype, gimbal_comm_t comm, gimbal_stream_t stream,
                                                        gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_all_to_all_v_start(const void* send, const size_t* send_counts,
                                                        const size_t* send_displacements, void* recv, const size_t* recv_counts,
                                                        const size_t* recv_displacements, gimbal_dtype_t dtype,
                                                        gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_send_start(const void* buffer, size_t count, gimbal_dtype_t dtype, int32_t peer,
                                                gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_recv_start(void* buffer, size_t count, gimbal_dtype_t dtype, int32_t peer,
                                                gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_barrier_start(gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request);
GIMBAL_EXPORT gimbal_status_t gimbal_all_reduce_options_start(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                              gimbal_op_t op, const gimbal_reduce_options_t* options,
                                                              gimbal_comm_t comm, gimbal_stream_t stream,
                                                              gimbal_request_t* request);

/* ---- Groups ------------------------------------------------------------------------------------------------------------- */
/* Between start and end of this thread, operations are recorded; the end launches them together, over several communicators
 * too, so that their order cannot deadlock, and blocks until those on host memory have completed. Errors of an operation appear
 * at the end. Operations on device memory are enqueued there, before those on host memory begin.
 * Groups nest: the outermost end launches. All-reduces of equal type and operation on one communicator are fused into one. A
 * _start inside a group is launched at the end, which then does not wait for it. */
GIMBAL_EXPORT gimbal_status_t gimbal_group_start(void);
GIMBAL_EXPORT gimbal_status_t gimbal_group_end(void);

/* ---- Insight ------------------------------------------------------------------------------------------------------------ */

/* Writes which algorithm an operation of so many bytes per rank would take, what that is predicted to cost, which one comes
 * next and why, as text of at most size bytes with the closing NUL; GIMBAL_INVALID_ARGUMENT when it does not fit (the text is
 * cut; 1024 bytes are enough). The first call looks the machine over, which takes milliseconds. */
GIMBAL_EXPORT gimbal_status_t gimbal_explain(gimbal_comm_t comm, gimbal_collective_t collective, size_t bytes,
                                             gimbal_dtype_t dtype, char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* GIMBAL_GIMBAL_H_ */
