/* SPDX-License-Identifier: MIT */
/*
** The library of the GPU's kernels as ridge sees it: devices, their memory, and the table of
** kernels.
*/
#include <cublasLt.h>

#include <mutex>

#include "gpu/chain/kept.h"
#include "gpu/dnn/dnn.h"
#include "gpu/kernels.cuh"
#include "gpu/late.cuh"
#include "gpu/nvml.cuh"
#include "gpu/range.cuh"
#include "gpu/stream.cuh"

const rg_gpu_host *rg_gpu;

static rg_gpu_host host;
/* A buffer of a stream, that grows. */
static struct {
  void *data;
  int64_t bytes;
  bool baked; /* a graph may hold its address */
} workspaces[RG_DEVICES][RG_STREAMS][RG_PARTS];

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

bool rg_gpu_captures(int32_t device)
{
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

  return cudaStreamIsCapturing(rg_gpu_stream(device), &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

static void spoil(int32_t device, void *data, int64_t bytes)
{
  if (cudaMemsetAsync(data, 0xff, (size_t)bytes, rg_gpu_stream(device)) != cudaSuccess) {
    (void)cudaGetLastError(); /* it may be what was there: a check is lost, and no result */
  }
}

void rg_gpu_poison(int32_t device, void *data, int64_t bytes)
{
  if (rg_gpu->poison && bytes > 0) {
    spoil(device, data, bytes);
  }
}

void *rg_gpu_workspace_part(int32_t device, int32_t part, int64_t bytes)
{
  bool captures = rg_gpu_captures(device);
  std::lock_guard<std::mutex> held(lock);
  auto &w = workspaces[device][rg_gpu_stream_now(device)][part];

  if (w.bytes < bytes && captures) {
    return NULL;
  }
  if (w.bytes < bytes) {
    int64_t size = w.bytes + w.bytes / 2; /* few growths, however slowly the wishes grow */

    if (!w.baked) { /* else it stays until the process ends */
      (void)cudaStreamSynchronize(rg_gpu_stream(device));
      (void)cudaFree(w.data);
    }
    w = {};
    size = size > bytes ? size : bytes;
    if (cudaMalloc(&w.data, (size_t)size) != cudaSuccess) {
      (void)cudaGetLastError();
      size = bytes;
      if (cudaMalloc(&w.data, (size_t)size) != cudaSuccess) {
        (void)cudaGetLastError();
        w.data = NULL;
        return NULL;
      }
    }
    w.bytes = size;
  }
  w.baked = w.baked || captures;
  rg_gpu_poison(device, w.data, bytes);
  return w.data;
}

void *rg_gpu_workspace(int32_t device, int64_t bytes)
{
  return rg_gpu_workspace_part(device, RG_PART_CALL, bytes);
}

rg_status rg_gpu_no_room(int32_t device, const char *what, int64_t bytes)
{
  if (rg_gpu_captures(device)) {
    return rg_gpu->fail(RG_ENOMEM,
                        "%s: %lld bytes of workspace cannot be allocated while a graph is captured;"
                        " run the call once before",
                        what, (long long)bytes);
  }
  return rg_gpu->fail(RG_ENOMEM, "%s: the GPU has no memory left for %lld bytes of workspace", what,
                      (long long)bytes);
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
  return to_device == RG_CPU && !behind ? rg_late_told(device) : RG_OK;
}

static rg_status wait(int32_t device)
{
  RG_CUDA("wait", cudaSetDevice(device - 1));
  RG_CUDA("wait", cudaDeviceSynchronize());
  return rg_late_told(device);
}

/* "GPU-8c0e4a3c-...", as NVIDIA's tools write it; a simulated device is no GPU. */
static void write_uuid(const cudaDeviceProp &p, int32_t device, char *out, size_t bytes)
{
#ifdef RG_SIM
  (void)p;
  snprintf(out, bytes, "simulated-%d", (int)device - 1);
#else
  const unsigned char *b = (const unsigned char *)p.uuid.bytes;

  (void)device;
  snprintf(out, bytes, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
           b[14], b[15]);
#endif
}

static rg_status facts(int32_t device, rg_device_facts *out)
{
  cudaDeviceProp p;
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  int versions[2] = { 0, 0 };

  RG_CUDA("facts", cudaSetDevice(device - 1));
  RG_CUDA("facts", cudaGetDeviceProperties(&p, device - 1));
  RG_CUDA("facts", cudaMemGetInfo(&free_bytes, &all_bytes));
  *out = rg_device_facts{};
  snprintf(out->name, sizeof(out->name), "%.127s", p.name);
  out->memory_bytes = (int64_t)all_bytes;
  out->free_bytes = (int64_t)free_bytes;
  out->capability = 10 * p.major + p.minor;
  out->units = p.multiProcessorCount;
  out->cache_bytes = p.l2CacheSize;
  (void)cudaDriverGetVersion(&versions[0]);
  (void)cudaRuntimeGetVersion(&versions[1]);
  out->driver = versions[0];
  out->runtime = versions[1];
  write_uuid(p, device, out->uuid, sizeof(out->uuid));
#ifdef RG_SIM
  out->simulated = 1;
#endif
  return RG_OK;
}

static void libraries(int32_t device, bool open, rg_device_libraries *out)
{
  (void)device;
  *out = rg_device_libraries{};
  out->blas = (int32_t)cublasLtGetVersion();
  out->dnn = rg_dnn_version(open);
  if (open && out->dnn == 0) {
    snprintf(out->dnn_why, sizeof(out->dnn_why), "%.159s", rg_dnn_note());
  }
  out->compiler = rg_compiler_version(open);
  if (open) {
    snprintf(out->compiler_why, sizeof(out->compiler_why), "%.159s",
             out->compiler == 0 ? rg_compiler_note() : rg_chain_failure());
  }
}

/* -- What ridge gets --------------------------------------------------------------------------- */

static const rg_driver driver = {
  take,
  give,
  spoil,
  pin,
  unpin,
  copy,
  wait,
  facts,
  rg_gpu_state,
  libraries,
  rg_gpu_named,
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
