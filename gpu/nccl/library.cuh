/* SPDX-License-Identifier: MIT */
/*
** NCCL's functions by name, as nccl.h of 2.14 and later declares them; the few that are used.
*/
#ifndef RIDGE_GPU_NCCL_LIBRARY_CUH
#define RIDGE_GPU_NCCL_LIBRARY_CUH

#include <cuda_runtime.h>

#include "gpu/device.cuh"

/* What its functions answer; others are errors, which GetErrorString names. */
enum { RG_NCCL_SUCCESS = 0, RG_NCCL_IN_PROGRESS = 7 };
typedef int rg_nccl_result;

/* Element types. */
enum {
  RG_NCCL_I8 = 0,
  RG_NCCL_U8 = 1,
  RG_NCCL_I32 = 2,
  RG_NCCL_I64 = 4,
  RG_NCCL_F16 = 6,
  RG_NCCL_F32 = 7,
  RG_NCCL_F64 = 8,
  RG_NCCL_BF16 = 9
};

enum { RG_NCCL_SUM = 0, RG_NCCL_PROD = 1, RG_NCCL_MAX = 2, RG_NCCL_MIN = 3, RG_NCCL_AVG = 4 };

typedef struct rg_nccl_comm rg_nccl_comm;

/* Passed by value. */
typedef struct rg_nccl_id {
  char bytes[128];
} rg_nccl_id;

/* ncclConfig_t of 2.14: a later library takes what it has behind these for left out. */
typedef struct rg_nccl_config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking; /* 0: functions that could wait for others answer that they are in progress */
  int _pad;
} rg_nccl_config;
enum { RG_NCCL_MAGIC = (int)0xcafebeef, RG_NCCL_OLDEST = 21400 };

/* F(name, arguments) */
/* clang-format off */
#define RG_NCCL_LIST(F)                                                                           \
  F(GetVersion, (int *version))                                                                   \
  F(GetUniqueId, (rg_nccl_id *id))                                                                \
  F(CommInitRankConfig, (rg_nccl_comm **comm, int size, rg_nccl_id id, int rank,                  \
                         rg_nccl_config *config))                                                 \
  F(CommGetAsyncError, (rg_nccl_comm *comm, rg_nccl_result *error))                               \
  F(CommFinalize, (rg_nccl_comm *comm))                                                           \
  F(CommDestroy, (rg_nccl_comm *comm))                                                            \
  F(CommAbort, (rg_nccl_comm *comm))                                                              \
  F(AllReduce, (const void *from, void *to, size_t count, int dtype, int op, rg_nccl_comm *comm,  \
                cudaStream_t stream))                                                             \
  F(Reduce, (const void *from, void *to, size_t count, int dtype, int op, int root,               \
             rg_nccl_comm *comm, cudaStream_t stream))                                            \
  F(ReduceScatter, (const void *from, void *to, size_t count_each, int dtype, int op,             \
                    rg_nccl_comm *comm, cudaStream_t stream))                                     \
  F(AllGather, (const void *from, void *to, size_t count_each, int dtype, rg_nccl_comm *comm,     \
                cudaStream_t stream))                                                             \
  F(Broadcast, (const void *from, void *to, size_t count, int dtype, int root,                    \
                rg_nccl_comm *comm, cudaStream_t stream))                                         \
  F(GroupStart, (void))                                                                           \
  F(GroupEnd, (void))
/* clang-format on */

typedef struct rg_nccl_library {
#define RG_NCCL_FIELD(name, arguments) rg_nccl_result(*name) arguments;
  RG_NCCL_LIST(RG_NCCL_FIELD)
#undef RG_NCCL_FIELD
  const char *(*GetErrorString)(rg_nccl_result result);
  const char *(*GetLastError)(rg_nccl_comm *comm);
  int version; /* 22809 of 2.28.9 */
} rg_nccl_library;

/* NULL where it cannot be used; opened at the first call. */
const rg_nccl_library *rg_nccl_open(void);

/* Why not, in a sentence. */
const char *rg_nccl_note(void);

#endif
