/* SPDX-License-Identifier: MIT */
/*
** Records of CUPTI's Activity API, as far as they are read: the beginnings of its structures, whose
** fields lie in the same places in each version of them since CUDA 9 (CUpti_ActivityKernel4 to 10,
** Memcpy4 to 6, Memset2 to 4), so that one build reads the libraries of several toolkits. Where the
** toolkit that builds this has CUPTI's headers, records.cu holds each place against theirs.
*/
#ifndef RIDGE_GPU_CUPTI_RECORDS_CUH
#define RIDGE_GPU_CUPTI_RECORDS_CUH

#include <stdint.h>

enum {
  RG_CUPTI_MEMCPY = 1,
  RG_CUPTI_MEMSET = 2,
  RG_CUPTI_DRIVER = 4,
  RG_CUPTI_RUNTIME = 5,
  RG_CUPTI_KERNEL = 10, /* CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: kernels may overlap still */
  RG_CUPTI_MEMCPY_PEER = 22,
  RG_CUPTI_CORRELATION = 39 /* CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION */
};

enum { RG_CUPTI_CUSTOM = 3 }; /* CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0: ids of ridge's */

struct rg_cupti_kernel {
  uint32_t kind;
  uint16_t _config;
  uint16_t registers;
  uint32_t _parts[2];
  uint64_t start; /* 0 with end: it was not timed */
  uint64_t end;
  uint64_t _completed;
  uint32_t device;
  uint32_t _context;
  uint32_t stream;
  int32_t grid[3];
  int32_t block[3];
  int32_t static_bytes;
  int32_t dynamic_bytes;
  uint32_t _local[2];
  uint32_t correlation;
  int64_t _grid_id;
  const char *name;
};

struct rg_cupti_copy {
  uint32_t kind;
  uint8_t direction; /* CUpti_ActivityMemcpyKind */
  uint8_t _kinds[3];
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t _context;
  uint32_t stream;
  uint32_t correlation; /* of a copy between devices it lies elsewhere */
};

struct rg_cupti_peer {
  uint32_t kind;
  uint8_t _kinds[4];
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t _context;
  uint32_t stream;
  uint32_t _devices[4];
  uint32_t correlation;
};

struct rg_cupti_fill {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t _context;
  uint32_t stream;
  uint32_t correlation;
};

struct rg_cupti_correlation {
  uint32_t kind;
  uint32_t whose; /* RG_CUPTI_CUSTOM: ridge's */
  uint64_t id;
  uint32_t correlation;
};

#endif
