/* Gradient averaging for data-parallel training, overlapped with the backward pass: a client of gimbal.h.
 *
 * A step of training:
 *   1. the backward pass writes each gradient into the memory of gimbal_gradsync_gradient and calls gimbal_gradsync_ready;
 *      buckets of gradients are reduced while it goes on, in one order that all ranks share;
 *   2. gimbal_gradsync_step_end, when the backward pass has ended;
 *   3. gimbal_gradsync_wait before the optimizer reads them.
 *
 * The conventions of gimbal.h hold. A synchronizer and its communicator are used by one thread at a time, and from the first
 * ready of a step to its wait no other operation may be called on the communicator. "Collective" functions are called by all
 * ranks.
 */
#ifndef GIMBAL_GRADSYNC_H_
#define GIMBAL_GRADSYNC_H_

#include "gimbal/gimbal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gimbal_gradsync* gimbal_gradsync_t;

typedef struct {
  const char* name;     /* not empty; unique; copied */
  size_t count;         /* elements; 0 is a parameter that is ready like any other */
  gimbal_dtype_t dtype; /* a floating type */
} gimbal_gradsync_parameter_t;

typedef enum {
  GIMBAL_GRADSYNC_MEAN = 0,         /* sum over ranks / number of ranks */
  GIMBAL_GRADSYNC_SUM = 1,          /* sum over ranks */
  GIMBAL_GRADSYNC_WEIGHTED_MEAN = 2 /* sum of weight * gradient / sum of weights: unequal batches, token counts */
} gimbal_gradsync_reduction_t;

typedef enum {
  GIMBAL_GRADSYNC_MISSING_ERROR = 0, /* step_end names the parameters that got no gradient; the step stays open */
  GIMBAL_GRADSYNC_MISSING_ZERO = 1   /* they contribute zeros */
} gimbal_gradsync_missing_t;

/* As what float32 gradients travel; they are added in float32, and the result has the same bits on every rank. */
typedef enum {
  GIMBAL_GRADSYNC_WIRE_AS_IS = 0,
  GIMBAL_GRADSYNC_WIRE_BFLOAT16 = 1,
  GIMBAL_GRADSYNC_WIRE_FLOAT16 = 2,
  GIMBAL_GRADSYNC_WIRE_INT8 = 3,  /* a scale for 256 elements, error feedback; 16-bit gradients too */
  GIMBAL_GRADSYNC_WIRE_FLOAT8 = 4 /* e4m3, likewise */
} gimbal_gradsync_wire_t;

/* ---- Codecs: float32 gradients in another form, by code of the caller's or by the two that come with the library. ------- */

typedef struct {
  const char* name; /* of the parameter */
  size_t rows;      /* as a matrix, row by row; rows * columns is the parameter's count */
  size_t columns;
  int32_t rank;
  int32_t ranks;
} gimbal_codec_tensor_t;

typedef enum {
  GIMBAL_CODEC_SUM = 0,   /* a message is float32, and the messages of all ranks are added */
  GIMBAL_CODEC_GATHER = 1 /* every rank gets every rank's message */
} gimbal_codec_exchange_t;

/* A step brings, for each tensor and round: encode on every rank, the exchange, decode. Called by a thread of the synchronizer,
 * one call at a time. The same on all ranks must be the name, the sizes of messages, and what decode makes of equal messages.
 */
typedef struct gimbal_codec {
  size_t struct_bytes; /* sizeof(gimbal_codec_t) */
  char name[64];       /* with its settings: ranks compare it */
  double setting;      /* the codec's own, as is context */
  void* context;
  int32_t rounds; /* 1 to 8 */
  gimbal_codec_exchange_t exchange;
  /* The codec's state for a tensor; NULL: the tensor is better off as it is. */
  void* (*open)(const struct gimbal_codec* codec, const gimbal_codec_tensor_t* tensor);
  void (*close)(void* state);
  size_t (*message_bytes)(const void* state, int32_t round);
  /* values: this rank's part of the result (its share of the mean or sum) and what earlier steps have not sent. After the last
   * round's encode they are what this step has not sent. message is aligned to 8 bytes. */
  void (*encode)(void* state, int32_t round, float* values, void* message);
  /* messages: the sum, or rank r's message at r * stride. In the last round result becomes the step's result. */
  void (*decode)(void* state, int32_t round, const void* messages, size_t stride, float* result);
  /* What a checkpoint must have of the state, and its *bytes, the same for the state's life. NULL: nothing. */
  void* (*memory)(void* state, size_t* bytes);
} gimbal_codec_t;

/* Low rank: a matrix travels as two of `rank` columns, begun from the last step's (arXiv 1905.13727). rank: 1 to 64. */
GIMBAL_EXPORT gimbal_status_t gimbal_codec_power_sgd(int32_t rank, gimbal_codec_t* codec);
/* The largest elements, by 16 bits of their magnitude: `ratio` of each tensor, > 0 and < 1. */
GIMBAL_EXPORT gimbal_status_t gimbal_codec_top_k(double ratio, gimbal_codec_t* codec);

/* ---- Synchronizer ---------------------------------------------------------------------------------------------------------
 */

/* Set by `gimbal_gradsync_options_t options = GIMBAL_GRADSYNC_OPTIONS_INIT;`, then the fields that matter. */
typedef struct {
  size_t struct_bytes; /* set by the initializer */
  gimbal_gradsync_reduction_t reduction;
  gimbal_gradsync_missing_t missing;
  size_t bucket_bytes;       /* of a bucket, at most; 0: where this communicator's latency is 2 % of its time, 8 to 128 MiB */
  size_t first_bucket_bytes; /* of the bucket that is started first; 0: 1 MiB */
  int32_t reorder;           /* 1: after the first step buckets are started in the order in which rank 0 completed them */
  int32_t uneven;            /* 1: ranks may make different numbers of steps; see gimbal_gradsync_join */
  gimbal_gradsync_wire_t wire;
  int32_t wire_between_nodes;  /* 1: gradients are in the wire type between nodes only; nodes have equally many ranks then */
  const gimbal_codec_t* codec; /* NULL: none; copied. With wire as is */
  const size_t* rows;          /* [parameter count]: of each as a matrix, for the codec; 0: it has one. NULL: all have one */
  size_t trace_steps;          /* the last so many steps are recorded for gimbal_gradsync_timeline; 0: none */
} gimbal_gradsync_options_t;
#define GIMBAL_GRADSYNC_OPTIONS_INIT                                                                    \
  {                                                                                                     \
    sizeof(gimbal_gradsync_options_t), GIMBAL_GRADSYNC_MEAN, GIMBAL_GRADSYNC_MISSING_ERROR, 0, 0, 1, 0, \
        GIMBAL_GRADSYNC_WIRE_AS_IS, 0, NULL, NULL, 0                                                    \
  }

/* Collective. Parameters in the order of the forward pass, equal on all ranks: what differs is GIMBAL_MISMATCH on every rank
 * with the first difference. options NULL: the defaults. Allocates the gradients' memory. The communicator must outlive it. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_create(gimbal_comm_t comm, const gimbal_gradsync_parameter_t* parameters,
                                                     size_t parameter_count, const gimbal_gradsync_options_t* options,
                                                     gimbal_gradsync_t* sync);
/* Collective: frees the gradients' memory. After an error of the communicator it frees what it can without the peers. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_destroy(gimbal_gradsync_t sync);

/* *memory[count of the parameter]: where its gradient belongs, for as long as the synchronizer lives. Aligned to 64 bytes. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_gradient(gimbal_gradsync_t sync, size_t parameter, void** memory);

/* For GIMBAL_GRADSYNC_WEIGHTED_MEAN, before the first ready of a step: this rank's weight, >= 0, so that buckets can be started
 * at once. Without it they are started by step_end. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_weight(gimbal_gradsync_t sync, double weight);

/* 1: until further notice ready only records that the parameter has a gradient (micro-batches that are added up in its memory);
 * 0: the next ready and step_end reduce. What an earlier micro-batch touched and the last one did not is reduced too. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_accumulate(gimbal_gradsync_t sync, int32_t on);

/* The parameter's gradient is complete; its memory is the synchronizer's until wait. Once a step and parameter. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_ready(gimbal_gradsync_t sync, size_t parameter, gimbal_stream_t stream);

/* The backward pass has ended; starts what is left. weight: of this rank; 1 but for GIMBAL_GRADSYNC_WEIGHTED_MEAN, and there
 * what gimbal_gradsync_weight said, if it did. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_step_end(gimbal_gradsync_t sync, double weight);

#define GIMBAL_GRADSYNC_ALL ((size_t)-1)
/* Blocks until the parameter's gradient is reduced; of all, also ends the step. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_wait(gimbal_gradsync_t sync, size_t parameter);

/* For ranks that have made all their steps while others go on (options.uneven): takes part in the others' steps with weight 0
 * and returns when all have joined. The mean is over the ranks that made the step. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_join(gimbal_gradsync_t sync);

/* Collective, between steps. values[parameter count], each of the parameter's count and type: root's content goes to all. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_broadcast(gimbal_gradsync_t sync, void* const* values, int32_t root);
/* Collective, between steps. GIMBAL_MISMATCH on every rank when values differ in a bit, naming the first such parameter and the
 * ranks that differ from rank 0; the communicator stays usable. values NULL: the gradients. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_check(gimbal_gradsync_t sync, const void* const* values);

/* What is carried from step to step (error feedback of 8-bit wire types and codecs, a codec's memory) belongs into a
 * checkpoint, of each rank its own: restored, training goes on with the same bits. By parameter name, so other buckets may take
 * it up, but not other ranks or, with wire_between_nodes, other bucket sizes. Local, between steps. _save writes what _bytes
 * says; it is small where nothing is carried. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_state_bytes(gimbal_gradsync_t sync, size_t* bytes);
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_state_save(gimbal_gradsync_t sync, void* state, size_t bytes);
/* GIMBAL_INVALID_ARGUMENT, and nothing is changed, when the state is not of this rank and these parameters. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_state_load(gimbal_gradsync_t sync, const void* state, size_t bytes);

typedef struct {
  size_t struct_bytes;     /* set by the initializer */
  uint64_t steps;          /* that have ended */
  uint64_t buckets;        /* of a step */
  uint64_t bytes;          /* of a step's gradients */
  uint64_t exposed_ns;     /* last step: time in wait */
  uint64_t span_ns;        /* last step: from the first bucket's start to the end of wait */
  uint64_t all_exposed_ns; /* sum over steps */
  uint64_t overlap_ns;     /* last step: of span_ns, what was not exposed */
  uint64_t sent_bytes; /* last step: that this rank sent; of an all-reduce, what it takes at least: 2 (n-1)/n of its bytes */
  int32_t late_rank;   /* whose last gradient came last in the step before the last; -1: none, as far as clocks tell */
  uint64_t late_ns;    /* after the last one of the others */
} gimbal_gradsync_stats_t;
#define GIMBAL_GRADSYNC_STATS_INIT \
  { sizeof(gimbal_gradsync_stats_t), 0, 0, 0, 0, 0, 0, 0, 0, -1, 0 }
/* Fills as much of the struct as its struct_bytes says: an older program's shorter one too. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_stats(gimbal_gradsync_t sync, gimbal_gradsync_stats_t* stats);

/* Collective, between steps: what became of each bucket on every rank in the last options.trace_steps steps, on rank 0's clock,
 * as one file for Perfetto or chrome://tracing. Rank 0 writes it; path is ignored elsewhere. See docs/gradsync.md. */
GIMBAL_EXPORT gimbal_status_t gimbal_gradsync_timeline(gimbal_gradsync_t sync, const char* path);

/* ---- Sparse gradients ------------------------------------------------------------------------------------------------------
 */
/* Some rows of a table of float32, as the gradient of an embedding is. */

typedef struct gimbal_sparse* gimbal_sparse_t;

typedef enum {
  GIMBAL_SPARSE_CHEAPER = 0, /* as it travelled, which is what is predicted to be fewer bytes */
  GIMBAL_SPARSE_ROWS = 1,
  GIMBAL_SPARSE_DENSE = 2
} gimbal_sparse_form_t;

typedef struct {
  size_t struct_bytes; /* set by the initializer */
  int32_t is_dense;    /* 1: values[rows * columns] is the whole table, and indices is NULL */
  int32_t travelled_dense;
  size_t count;           /* rows in values */
  const int64_t* indices; /* [count], ascending */
  const float* values;    /* [count * columns] */
  uint64_t rows_bytes;    /* predicted to be sent by a rank with rows, and with the whole table */
  uint64_t dense_bytes;
} gimbal_sparse_result_t;
#define GIMBAL_SPARSE_RESULT_INIT \
  { sizeof(gimbal_sparse_result_t), 0, 0, 0, NULL, NULL, 0, 0 }

/* Local. Of a table with so many rows and columns, equal on all ranks. The communicator must outlive it. */
GIMBAL_EXPORT gimbal_status_t gimbal_sparse_create(gimbal_comm_t comm, size_t rows, size_t columns,
                                                   gimbal_gradsync_reduction_t reduction, gimbal_sparse_t* sparse);
GIMBAL_EXPORT gimbal_status_t gimbal_sparse_destroy(gimbal_sparse_t sparse);

/* Collective. indices[count], in any order, each 0 to rows - 1; values[count * columns]. A row that is there more than once,
 * here or on several ranks, is added up, in the order of the list and then of ranks. weight: this rank's, 1 but for
 * GIMBAL_GRADSYNC_WEIGHTED_MEAN. The result is equal in every bit on all ranks and lives until the next call. form: equal on
 * all ranks; rows of a table that travelled whole are those that are not 0 throughout. */
GIMBAL_EXPORT gimbal_status_t gimbal_sparse_reduce(gimbal_sparse_t sparse, const int64_t* indices, const float* values,
                                                   size_t count, double weight, gimbal_sparse_form_t form,
                                                   gimbal_sparse_result_t* result);

#ifdef __cplusplus
}
#endif

#endif /* GIMBAL_GRADSYNC_H_ */
