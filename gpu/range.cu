/* SPDX-License-Identifier: MIT */
/*
** Ranges with names for an attached profiler (NVTX 3).  NVTX is headers only: a profiler that
** starts the process names its own library in NVTX_INJECTION64_PATH, and the first range loads it;
** without one each range is a call through an empty pointer that is checked.
*/
#include <nvtx3/nvToolsExt.h>

#include "gpu/range.cuh"

void rg_gpu_named(const char *name)
{
  if (name != NULL) {
    (void)nvtxRangePushA(name);
  } else {
    (void)nvtxRangePop();
  }
}
