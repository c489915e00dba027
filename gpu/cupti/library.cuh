/* SPDX-License-Identifier: MIT */
/*
** CUPTI, NVIDIA's library of profilers, as far as it tells what a device did: opened when a profile
** first asks for kernels, and never before.
*/
#ifndef RIDGE_GPU_CUPTI_LIBRARY_CUH
#define RIDGE_GPU_CUPTI_LIBRARY_CUH

#include "gpu/cupti/records.cuh"
#include "gpu/device.cuh"

typedef int rg_cupti_result;

/* How buffers come and go: the library asks for one, and gives it back with what it wrote. */
typedef void rg_cupti_request(uint8_t **buffer, size_t *bytes, size_t *most);
typedef void rg_cupti_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                               size_t valid);
typedef void rg_cupti_callback(void *data, int domain, uint32_t id, const void *what);

/* Every function that is used: result, name without "cupti", arguments. */
#define RG_CUPTI_LIST(X)                                                  \
  X(GetVersion, (uint32_t *))                                             \
  X(GetResultString, (rg_cupti_result, const char **))                    \
  X(Subscribe, (void **, rg_cupti_callback *, void *))                    \
  X(Unsubscribe, (void *))                                                \
  X(GetTimestamp, (uint64_t *))                                           \
  X(ActivityRegisterCallbacks, (rg_cupti_request *, rg_cupti_complete *)) \
  X(ActivityEnable, (int))                                                \
  X(ActivityDisable, (int))                                               \
  X(ActivityFlushAll, (uint32_t))                                         \
  X(ActivityGetNextRecord, (uint8_t *, size_t, const void **))            \
  X(ActivityGetNumDroppedRecords, (void *, uint32_t, size_t *))           \
  X(ActivityPushExternalCorrelationId, (int, uint64_t))                   \
  X(ActivityPopExternalCorrelationId, (int, uint64_t *))

typedef struct rg_cupti_library {
#define RG_CUPTI_LINE(name, arguments) rg_cupti_result(*name) arguments;
  RG_CUPTI_LIST(RG_CUPTI_LINE)
#undef RG_CUPTI_LINE
  uint32_t version; /* 18 is of CUDA 12.0, 130000 of 13.0 */
} rg_cupti_library;

/* RG_OK and the library; RG_EDEVICE and why there is none. */
rg_status rg_cupti_open(const rg_cupti_library **out);

/* RG_OK of 0; else RG_EDEVICE (RG_ENOMEM), what it was asked for and what that means. */
rg_status rg_cupti_status(const rg_cupti_library *library, const char *what, rg_cupti_result code);

#endif
