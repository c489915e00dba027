/* SPDX-License-Identifier: MIT */
/*
** The places of the fields in records.cuh against the headers of the toolkit that builds this, in
** each version of the structures that they have. (Not on the simulator, whose words for those of a
** device are in the way of these headers: its stand-in for the library writes what they say.)
*/
#include "gpu/cupti/records.cuh"

#if defined(__has_include) && !defined(RG_SIM)
#if __has_include(<cupti.h>) && __has_include(<cupti_activity_deprecated.h>)
#define RG_HAS_CUPTI 1
#endif
#endif

#ifdef RG_HAS_CUPTI
#include <stddef.h>

#include <cupti.h>

#include <cupti_activity_deprecated.h>

#define SAME(theirs, field, ours, mine)                                                    \
  static_assert(offsetof(theirs, field) == offsetof(ours, mine) &&                         \
                    sizeof(((theirs *)nullptr)->field) == sizeof(((ours *)nullptr)->mine), \
                #theirs "." #field " lies elsewhere, or is of another size")

#define KERNEL(version)                                               \
  SAME(version, registersPerThread, rg_cupti_kernel, registers);      \
  SAME(version, start, rg_cupti_kernel, start);                       \
  SAME(version, end, rg_cupti_kernel, end);                           \
  SAME(version, deviceId, rg_cupti_kernel, device);                   \
  SAME(version, streamId, rg_cupti_kernel, stream);                   \
  SAME(version, gridX, rg_cupti_kernel, grid[0]);                     \
  SAME(version, gridZ, rg_cupti_kernel, grid[2]);                     \
  SAME(version, blockX, rg_cupti_kernel, block[0]);                   \
  SAME(version, blockZ, rg_cupti_kernel, block[2]);                   \
  SAME(version, staticSharedMemory, rg_cupti_kernel, static_bytes);   \
  SAME(version, dynamicSharedMemory, rg_cupti_kernel, dynamic_bytes); \
  SAME(version, correlationId, rg_cupti_kernel, correlation);         \
  SAME(version, name, rg_cupti_kernel, name)

#define MOVED(version, ours)             \
  SAME(version, bytes, ours, bytes);     \
  SAME(version, start, ours, start);     \
  SAME(version, end, ours, end);         \
  SAME(version, deviceId, ours, device); \
  SAME(version, streamId, ours, stream); \
  SAME(version, correlationId, ours, correlation)

KERNEL(CUpti_ActivityKernel4);
KERNEL(CUpti_ActivityKernel5);
KERNEL(CUpti_ActivityKernel6);
KERNEL(CUpti_ActivityKernel7);
KERNEL(CUpti_ActivityKernel8);
KERNEL(CUpti_ActivityKernel9);
MOVED(CUpti_ActivityMemcpy4, rg_cupti_copy);
MOVED(CUpti_ActivityMemcpy5, rg_cupti_copy);
MOVED(CUpti_ActivityMemcpyPtoP3, rg_cupti_peer);
MOVED(CUpti_ActivityMemcpyPtoP4, rg_cupti_peer);
MOVED(CUpti_ActivityMemset2, rg_cupti_fill);
MOVED(CUpti_ActivityMemset3, rg_cupti_fill);
#if CUPTI_API_VERSION >= 130000
KERNEL(CUpti_ActivityKernel10);
MOVED(CUpti_ActivityMemcpy6, rg_cupti_copy);
MOVED(CUpti_ActivityMemset4, rg_cupti_fill);
SAME(CUpti_ActivityMemcpy6, copyKind, rg_cupti_copy, direction);
#endif
SAME(CUpti_ActivityExternalCorrelation, externalKind, rg_cupti_correlation, whose);
SAME(CUpti_ActivityExternalCorrelation, externalId, rg_cupti_correlation, id);
SAME(CUpti_ActivityExternalCorrelation, correlationId, rg_cupti_correlation, correlation);

#define NUMBER(theirs, ours) static_assert((int)(theirs) == (int)(ours), #theirs)
NUMBER(CUPTI_ACTIVITY_KIND_MEMCPY, RG_CUPTI_MEMCPY);
NUMBER(CUPTI_ACTIVITY_KIND_MEMSET, RG_CUPTI_MEMSET);
NUMBER(CUPTI_ACTIVITY_KIND_DRIVER, RG_CUPTI_DRIVER);
NUMBER(CUPTI_ACTIVITY_KIND_RUNTIME, RG_CUPTI_RUNTIME);
NUMBER(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, RG_CUPTI_KERNEL);
NUMBER(CUPTI_ACTIVITY_KIND_MEMCPY2, RG_CUPTI_MEMCPY_PEER);
NUMBER(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, RG_CUPTI_CORRELATION);
NUMBER(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, RG_CUPTI_CUSTOM);
NUMBER(CUPTI_ERROR_OUT_OF_MEMORY, 8);
NUMBER(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, 35);
NUMBER(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, 39);
#endif
