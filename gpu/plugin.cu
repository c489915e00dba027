/* SPDX-License-Identifier: MIT */
/*
** The library of the GPU's kernels as ridge sees it: devices, their memory, and the table of
** kernels.
*/
#include <mutex>

#include "gpu/kernels.cuh"
#include "gpu/stream.cuh"

const rg_gpu_host *rg_gpu;

static rg_gpu_host host;
static void *rooms[RG_DEVICES];
static void *workspaces[RG_DEVICES];
static int64_t workspace_bytes[RG_DEVICES];
static std::mutex lock;

/* -- Errors ------------------------------------------------------------------------------------ */

rg_status rg_gpu_status(const char *what, cudaError_t error)
{
  if (error == cudaSuccess) {
    return RG_OK;
  }
  (void)cudaGetLastError(); /* it is told once */
  if (error == cudaErrorMemoryAllocation) {
    return rg_gpu->fail(RG_ENOMEM, "%s: the GPU has no memory left", what);
  }
  return rg_gpu->fail(RG_EDEVICE, "%s: %s (%s)", what, cudaGetErrorString(error),
                      cudaGetErrorName(error));
}

/* -- Room ------------------------------------------------------------------------------------- */

void *rg_gpu_room(int32_t device)
{
  std::lock_guard<std::mutex> held(lock);

  if (rooms[device] == NULL && (cudaSetDevice(device - 1) != cudaSuccess ||
                                cudaMalloc(&rooms[device], 512) != cudaSuccess)) {
    rooms[device] = NULL;
    (void)cudaGetLastError();
  }
  return rooms[device];
}

void *rg_gpu_workspace(int32_t device, int64_t bytes)
{
  std::lock_guard<std::mutex> held(lock);

  (void)cudaSetDevice(device - 1);
  if (workspace_bytes[device] < bytes) {
    (void)cudaDeviceSynchronize();
    (void)cudaFree(workspaces[device]);
    workspaces[device] = NULL;
    workspace_bytes[device] = 0;
    if (cudaMalloc(&workspaces[device], (size_t)bytes) == cudaSuccess) {
      workspace_bytes[device] = bytes;
    } else {
      workspaces[device] = NULL;
      (void)cudaGetLastError();
    }
  }
  return workspaces[device];
}

/* -- Memory ------------------------------------------------------------------------------------ */

static rg_status take(int32_t device, int64_t bytes, void **out)
{
  (void)cudaSetDevice(device - 1);
  return rg_gpu_status("memory", cudaMalloc(out, (size_t)bytes));
}

static void give(int32_t device, void *data)
{
  (void)cudaSetDevice(device - 1);
  (void)cudaFree(data);
}

static rg_status pin(int64_t bytes, void **out)
{
  return rg_gpu_status("pinned memory", cudaMallocHost(out, (size_t)bytes));
}

static void unpin(void *data)
{
  (void)cudaFreeHost(data);
}

/* Between two GPUs: each comes behind what the other was asked for. */
static rg_status copy_across(int32_t to_device, void *to, int32_t from_device, const void *from,
                             int64_t bytes)
{
  void *mark;
  rg_status status;

  RG_TRY(rg_gpu_mark_new(from_device, &mark));
  status = rg_gpu_mark_set(from_device, mark);
  if (status == RG_OK) {
    status = rg_gpu_mark_follow(to_device, mark);
  }
  rg_gpu_mark_free(from_device, mark);
  RG_TRY(status);
  RG_CUDA("copy",
          cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, rg_gpu_stream(to_device)));
  RG_TRY(rg_gpu_mark_new(to_device, &mark));
  status = rg_gpu_mark_set(to_device, mark);
  if (status == RG_OK) {
    status = rg_gpu_mark_follow(from_device, mark);
  }
  rg_gpu_mark_free(to_device, mark);
  return status;
}

/* What is not pinned has been read when the runtime's call returns, and has been written. */
static rg_status copy(int32_t to_device, void *to, int32_t from_device, const void *from,
                      int64_t bytes, bool behind)
{
  int32_t device = to_device != RG_CPU ? to_device : from_device;
  cudaStream_t stream = rg_gpu_stream(device);
  cudaMemcpyKind kind = to_device == RG_CPU     ? cudaMemcpyDeviceToHost
                        : from_device == RG_CPU ? cudaMemcpyHostToDevice
                                                : cudaMemcpyDeviceToDevice;

  if (to_device != RG_CPU && from_device != RG_CPU && to_device != from_device) {
    return copy_across(to_device, to, from_device, from, bytes);
  }
  RG_CUDA("copy", cudaMemcpyAsync(to, from, (size_t)bytes, kind, stream));
  if (kind != cudaMemcpyDeviceToDevice && !behind) {
    RG_CUDA("copy", cudaStreamSynchronize(stream));
  }
  return RG_OK;
}

static rg_status wait(int32_t device)
{
  RG_CUDA("wait", cudaSetDevice(device - 1));
  return rg_gpu_status("wait", cudaDeviceSynchronize());
}

static rg_status facts(int32_t device, rg_device_facts *out)
{
  cudaDeviceProp p;
  size_t free_bytes = 0;
  size_t all_bytes = 0;

  RG_CUDA("facts", cudaSetDevice(device - 1));
  RG_CUDA("facts", cudaGetDeviceProperties(&p, device - 1));
  RG_CUDA("facts", cudaMemGetInfo(&free_bytes, &all_bytes));
  *out = rg_device_facts{};
  snprintf(out->name, sizeof(out->name), "%.127s", p.name);
  out->memory_bytes = (int64_t)all_bytes;
  out->free_bytes = (int64_t)free_bytes;
  out->capability = 10 * p.major + p.minor;
  out->units = p.multiProcessorCount;
  return RG_OK;
}

/* -- What ridge gets --------------------------------------------------------------------------- */

static const rg_driver driver = {
  take,
  give,
  pin,
  unpin,
  copy,
  wait,
  facts,
  rg_gpu_enter,
  rg_gpu_join,
  rg_gpu_mark_new,
  rg_gpu_mark_free,
  rg_gpu_mark_set,
  rg_gpu_mark_follow,
  rg_gpu_mark_wait,
  rg_gpu_mark_between,
  rg_gpu_graph_begin,
  rg_gpu_graph_end,
  rg_gpu_graph_run,
  rg_gpu_graph_free,
};
static rg_kernel *kernels[RG_OP_COUNT];
static rg_backend backend;

static void fill_table(void)
{
#define SET(NAME, name)               kernels[RG_OP_##NAME] = rg_gpu_##name;
#define SET4(NAME, name, help, class) SET(NAME, name)
  RG_UNARY_LIST(SET4)
  RG_BINARY_LIST(SET4)
  RG_GPU_LIST(SET)
#undef SET4
#undef SET
}

extern "C" __attribute__((visibility("default"))) rg_status rg_gpu_plugin(const rg_gpu_host *given,
                                                                          rg_gpu_offer *out)
{
  int count = 0;

  host = *given;
  rg_gpu = &host;
  if (given->abi != RG_GPU_ABI || given->core_abi != RG_ABI || given->n_ops != RG_OP_COUNT) {
    return rg_gpu->fail(RG_EDEVICE, "the GPU's kernels were built for another ridge");
  }
  RG_CUDA("cuda", cudaGetDeviceCount(&count));
  fill_table();
  backend.kernels = kernels;
  backend.chain = rg_gpu_chain;
  *out = rg_gpu_offer{ count, 0, &driver, &backend };
  return RG_OK;
}
