/* SPDX-License-Identifier: MIT */
/*
** The library of the GPU's kernels as ridge sees it: devices, their memory, and the table of
** kernels.
*/
#include <cublasLt.h>

#include <atomic>
#include <mutex>
#include <set>

#include "gpu/cupti/activity.cuh"
#include "gpu/fused/kernel_cache.h"
#include "gpu/dnn/dnn.h"
#include "gpu/kernels.cuh"
#include "gpu/late.cuh"
#include "gpu/nccl/comm.cuh"
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

/* The first error after which nothing runs on a device any more, and who met it; 0: none yet. */
static struct {
  std::atomic<int> error;
  char met_by[64];
} first;
static std::mutex first_lock;

/* Errors that stay: the runtime answers every later call of the process with them. */
static bool stays(cudaError_t error)
{
  switch (error) {
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorLaunchFailure:
  case cudaErrorAssert:
  case cudaErrorContained:
  case cudaErrorTensorMemoryLeak:
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
    return true;
  default:
    return false;
  }
}

/* Keep the first of them; true: this is it. */
static bool keep_first(const char *what, cudaError_t error)
{
  std::lock_guard<std::mutex> held(first_lock);

  if (!stays(error) || first.error != cudaSuccess) {
    return false;
  }
  snprintf(first.met_by, sizeof(first.met_by), "%.63s", what);
  first.error = error;
  return true;
}

static rg_status told(const char *what)
{
  cudaError_t error = (cudaError_t)first.error.load();

  return error == cudaSuccess
             ? RG_OK
             : rg_gpu->fail(RG_EDEVICE, "%s: the device was lost at %s: %s (%s)", what,
                            first.met_by, cudaGetErrorString(error), cudaGetErrorName(error));
}

rg_status rg_gpu_status(const char *what, cudaError_t error)
{
  if (error == cudaSuccess) {
    return RG_OK;
  }
  (void)cudaGetLastError(); /* it is told once */
  if (keep_first(what, error)) {
    return rg_gpu->fail(RG_EDEVICE,
                        "%s: %s (%s), of this call or one before it; nothing runs on the device in "
                        "this process any more",
                        what, cudaGetErrorString(error), cudaGetErrorName(error));
  }
  RG_TRY(told(what));
  if (error == cudaErrorMemoryAllocation) {
    return rg_gpu->fail(RG_ENOMEM, "%s: the GPU has no memory left", what);
  }
  return rg_gpu->fail(RG_EDEVICE, "%s: %s (%s)", what, cudaGetErrorString(error),
                      cudaGetErrorName(error));
}

rg_status rg_gpu_lost(int32_t device, const char *what)
{
  (void)keep_first(what, cudaGetLastError());
  if (first.error == cudaSuccess && !rg_gpu_captures(device)) {
    (void)keep_first(what, cudaStreamQuery(rg_gpu_stream(device))); /* libraries keep theirs */
    (void)cudaGetLastError();
  }
  return told(what);
}

static rg_status lost(int32_t device)
{
  return rg_gpu_lost(device, "memory");
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
  alignas(256) static char nothing;

  if (bytes == 0) {
    return &nothing; /* of what is empty; nobody reads or writes it */
  }
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
  RG_TRY(rg_gpu_lost(device, what));
  if (rg_gpu_captures(device)) {
    return rg_gpu->fail(RG_ENOMEM,
                        "%s: %lld bytes of workspace cannot be allocated while a graph is captured;"
                        " run the call once before",
                        what, (long long)bytes);
  }
  return rg_gpu->fail(RG_ENOMEM, "%s: the GPU has no memory left for %lld bytes of workspace", what,
                      (long long)bytes);
}

/* -- Kernels of a device ----------------------------------------------------------------------- */

int64_t rg_gpu_identity(int32_t device)
{
  cudaDeviceProp p;
  uint64_t h = 14695981039346656037u;

  if (cudaGetDeviceProperties(&p, device - 1) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  for (const char *c = p.name; *c != '\0'; c++) {
    h = (h ^ (uint8_t)*c) * 1099511628211u;
  }
  h = (h ^ (uint64_t)(10 * p.major + p.minor)) * 1099511628211u;
  return (int64_t)((h ^ (uint64_t)p.multiProcessorCount) * 1099511628211u);
}

cudaError_t rg_gpu_most_shared(int32_t device, const void *kernel)
{
  static auto &done = *new std::set<std::pair<int32_t, const void *>>; /* it may run at exit */
  static std::mutex done_lock;
  std::lock_guard<std::mutex> held(done_lock);
  cudaFuncAttributes kernel_has;
  int most = 0;

  if (done.count({ device, kernel }) != 0) {
    return cudaSuccess;
  }
  (void)cudaSetDevice(device - 1);
  cudaError_t error = cudaFuncGetAttributes(&kernel_has, kernel);

  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device - 1);
  }
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 most - (int)kernel_has.sharedSizeBytes);
  }
  if (error == cudaSuccess) {
    done.insert({ device, kernel });
  }
  return error;
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

/* Copies between two GPUs go straight from one to the other where the machine can do that; else,
** and where this is refused, the runtime takes them through the host by itself. */
static void meet(int32_t a, int32_t b)
{
  static bool met[RG_DEVICES][RG_DEVICES];
  static std::mutex met_lock;
  std::lock_guard<std::mutex> held(met_lock);

  for (int i = 0; i < 2 && !met[a][b]; i++) {
    int32_t from = i == 0 ? a : b;
    int32_t to = i == 0 ? b : a;
    int can = 0;

    if (cudaDeviceCanAccessPeer(&can, from - 1, to - 1) == cudaSuccess && can != 0 &&
        cudaSetDevice(from - 1) == cudaSuccess) {
      (void)cudaDeviceEnablePeerAccess(to - 1, 0);
    }
    (void)rg_gpu_lost(from, "copy"); /* that it was enabled before is no error */
  }
  met[a][b] = met[b][a] = true;
}

/* Between two GPUs: each is ordered after the work of the other. */
static rg_status copy_across(int32_t to_device, void *to, int32_t from_device, const void *from,
                             int64_t bytes)
{
  void *mark;
  rg_status status;

  meet(to_device, from_device);
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
  char why[256];

  *out = rg_device_libraries{};
  out->blas = (int32_t)cublasLtGetVersion();
  out->dnn = rg_dnn_version(open);
  if (open && out->dnn == 0) {
    snprintf(out->dnn_why, sizeof(out->dnn_why), "%.159s", rg_dnn_note());
  } else if (open && !rg_dnn_tries(device, why, sizeof(why))) {
    snprintf(out->dnn_why, sizeof(out->dnn_why), "attention cannot be planned: %.120s", why);
  } else if (open) {
    snprintf(out->dnn_why, sizeof(out->dnn_why), "%.159s", rg_dnn_trouble());
  }
  out->compiler = rg_compiler_version(open);
  if (open) {
    snprintf(out->compiler_why, sizeof(out->compiler_why), "%.159s",
             out->compiler == 0 ? rg_compiler_note() : rg_fused_failure());
  }
  out->comms = rg_nccl_version(open);
  if (open && out->comms == 0) {
    snprintf(out->comms_why, sizeof(out->comms_why), "%.159s", rg_nccl_note());
  }
}

/* -- What ridge gets --------------------------------------------------------------------------- */

static const rg_driver driver = {
  take,
  give,
  lost,
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
  &rg_cupti_tracer,
  &rg_nccl_comms,
};
static rg_kernel *kernels[RG_OP_COUNT];
static bool varies[RG_OP_COUNT];
static rg_backend backend;

/* What a library of the vendor's may compute: those read rg_device_modes.deterministic. */
static const int32_t by_library[] = {
  RG_OP_MATMUL,
  RG_OP_LINEAR,
  RG_OP_LINEAR_DROPOUT,
  RG_OP_LOWRANK_LINEAR,
  RG_OP_SKETCHED_LINEAR,
  RG_OP_SKETCHED_LINEAR_BITS,
  RG_OP_SKETCHED_LINEAR_SEED,
  RG_OP_SCALED_LINEAR,
  RG_OP_CONV2D,
  RG_OP_CONV2D_BACK_DATA,
  RG_OP_CONV2D_BACK_WEIGHT,
  RG_OP_ATTENTION,
  RG_OP_ATTENTION_BACK,
};

static void fill_table(void)
{
  for (int32_t op : by_library) {
    varies[op] = true;
  }
#define RG_OP_LINE(NAME, name) kernels[RG_OP_##NAME] = rg_gpu_##name;
  RG_DEVICE_OP_LIST
#undef RG_OP_LINE
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
  backend.varies = varies;
#ifdef RG_SIM
  const char *prefix = "sim";
#else
  const char *prefix = "cuda";
#endif
  *out = rg_gpu_offer{ count, 0, &driver, &backend, prefix };
  return RG_OK;
}
