/* SPDX-License-Identifier: MIT */
/*
** The library of the GPU's kernels as ridge sees it: devices, their memory, their streams, and the
** table of kernels.
**
** All work of a device is on one stream, in the order in which it was asked for; so memory that was
** given back may be used by the next call, as on the CPU.
*/
#include <mutex>

#include "gpu/kernels.cuh"

const rg_gpu_host *rg_gpu;

static rg_gpu_host host;
static cudaStream_t streams[RG_DEVICES];
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

/* -- Streams ----------------------------------------------------------------------------------- */

cudaStream_t rg_gpu_stream(int32_t device)
{
  (void)cudaSetDevice(device - 1);
  if (streams[device] == NULL) {
    std::lock_guard<std::mutex> held(lock);

    if (streams[device] == NULL &&
        cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking) != cudaSuccess) {
      streams[device] = NULL; /* the default one works as well, only slower beside others */
    }
  }
  return streams[device];
}

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
    (void)cudaStreamSynchronize(streams[device]);
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

static rg_status copy(int32_t to_device, void *to, int32_t from_device, const void *from,
                      int64_t bytes)
{
  int32_t device = to_device != RG_CPU ? to_device : from_device;
  cudaStream_t stream = rg_gpu_stream(device);
  cudaMemcpyKind kind = to_device == RG_CPU     ? cudaMemcpyDeviceToHost
                        : from_device == RG_CPU ? cudaMemcpyHostToDevice
                                                : cudaMemcpyDeviceToDevice;

  if (to_device != RG_CPU && from_device != RG_CPU && to_device != from_device) {
    RG_CUDA("copy", cudaStreamSynchronize(rg_gpu_stream(from_device)));
    (void)rg_gpu_stream(device);
  }
  RG_CUDA("copy", cudaMemcpyAsync(to, from, (size_t)bytes, kind, stream));
  if (kind != cudaMemcpyDeviceToDevice || to_device != from_device) {
    RG_CUDA("copy", cudaStreamSynchronize(stream));
  }
  return RG_OK;
}

static rg_status wait(int32_t device)
{
  return rg_gpu_status("wait", cudaStreamSynchronize(rg_gpu_stream(device)));
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

static const rg_driver driver = { take, give, copy, wait, facts };
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
  *out = rg_gpu_offer{ count, 0, &driver, &backend };
  return RG_OK;
}
