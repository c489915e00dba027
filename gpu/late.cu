/* SPDX-License-Identifier: MIT */
/*
** Errors that kernels report, and their messages.
*/
#include <mutex>

#include "gpu/late.cuh"
#include "gpu/nccl/comm.cuh"

extern "C" {
#include "op/list.h"
}

static rg_late *records[RG_DEVICES];
static std::mutex lock;

#define RG_OP_LINE(NAME, name) #name,
static const char *const names[] = { RG_OP_LIST };
#undef RG_OP_LINE

rg_late *rg_late_of(int32_t device)
{
  std::lock_guard<std::mutex> held(lock);
  void *room = NULL;

  if (records[device] == NULL && cudaSetDevice(device - 1) == cudaSuccess &&
      cudaMallocHost(&room, sizeof(rg_late)) == cudaSuccess) {
    records[device] = (rg_late *)room;
    *records[device] = rg_late{};
  }
  if (records[device] == NULL) {
    (void)cudaGetLastError();
  }
  return records[device];
}

rg_status rg_late_begin(const rg_call *call, rg_late_for *out)
{
  *out = rg_late_for{ rg_late_of(call->device), call->op->id, 0 };
  if (out->to == NULL) {
    RG_TRY(rg_gpu_lost(call->device, call->op->name));
  }
  return out->to != NULL ? RG_OK
                         : rg_gpu->fail(RG_ENOMEM, "%s: no pinned memory left", call->op->name);
}

/* Whoever waits puts his own name in the place of "device". */
static rg_status sentence(const rg_late &c)
{
  const char *op = names[c.op - 1];
  const char *what =
      c.op - 1 == RG_OP_CROSS_ENTROPY || c.op - 1 == RG_OP_CROSS_ENTROPY_BACK ? "label" : "index";
  long long value = (long long)c.value;
  long long limit = (long long)c.limit;

  switch (c.kind) {
  case RG_LATE_WINDOW:
    return rg_gpu->fail(RG_EARG, "%s, asked of the device earlier: index %lld is not in its window",
                        op, value);
  case RG_LATE_FINITE:
    return rg_gpu->fail(RG_EARG, "%s, asked of the device earlier: nan or infinity in x", op);
  case RG_LATE_SWEEPS:
    return rg_gpu->fail(RG_EARG, "%s, asked of the device earlier: not through after %lld sweeps",
                        op, limit);
  default:
    return rg_gpu->fail(RG_EARG, "%s, asked of the device earlier: %s %lld is outside 0 .. %lld",
                        op, what, value, limit - 1);
  }
}

rg_status rg_late_told(int32_t device)
{
  RG_TRY(rg_nccl_told(device));
  std::lock_guard<std::mutex> held(lock);
  rg_late *at = records[device];

  if (at == NULL || *(volatile int32_t *)&at->op == 0) {
    return RG_OK;
  }
  rg_late c = *at;

  *at = rg_late{};
  return sentence(c);
}
