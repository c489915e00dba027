// SPDX-License-Identifier: MIT
//
// A stand-in for the CUDA runtime, linked in its place: errors, devices, and launches of kernels.
// The real headers check the signatures. What a correct program never does is said on stderr, and
// fails.
//
//   RG_SIM_DEVICES=n     how many devices there are; 1 when not set
//   RG_SIM_CAPABILITY=n  their compute capability, 80 for 8.0; 90 when not set
//   CUDA_LAUNCH_BLOCKING=1  a launch waits for its end, as the runtime has it
#include "fakecuda.h"
#include "sim.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

namespace fake
{

enum : size_t { SHARED_DEFAULT = 48 << 10, SHARED_OPTIN = 227 << 10 };

std::mutex mutex;
static thread_local cudaError_t last_error;
static thread_local int device_of_thread;
static cudaError_t sticky;

// Of kernels that may use more, by device. Never destroyed: the program may launch while it exits.
static auto &dynamic_limits = *new std::map<std::pair<int, const void *>, size_t>;

// Which device reaches the memory of which.
static auto &peers = *new std::set<std::pair<int, int>>;

int capability(void)
{
  const char *s = getenv("RG_SIM_CAPABILITY");
  return s ? atoi(s) : 90;
}

cudaError_t error(cudaError_t e)
{
  if (e) last_error = e;
  return e;
}

cudaError_t misuse(cudaError_t e, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  fprintf(stderr, "fakecuda: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, " (%d)\n", static_cast<int>(e));
  va_end(args);
  return error(e);
}

// The first stays, whatever follows from it.
void lose(cudaError_t e)
{
  if (!sticky) sticky = e;
}

void fault(cudaError_t e, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  fprintf(stderr, "fakecuda: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, "; every call fails from now on\n");
  va_end(args);
  lose(e);
}

// Every launch waits for its end, and says how it ended.
static bool launches_block(void)
{
  const char *s = getenv("CUDA_LAUNCH_BLOCKING");
  return s && *s == '1';
}

static size_t counts[RGSIM_COUNTS];

void count(int what)
{
  counts[what]++;
}

int device_count(void)
{
  const char *s = getenv("RG_SIM_DEVICES");
  return s ? atoi(s) : 1;
}

cudaError_t broken(void)
{
  return sticky ? sticky : device_count() < 1 ? cudaErrorNoDevice : cudaSuccess;
}

int current_device(void)
{
  return device_of_thread;
}

// -- Launches ------------------------------------------------------------------------------

static cudaError_t check_launch(const rgsim_job &job)
{
  const dim3 &g = job.grid, &b = job.block;
  const uint64_t threads = static_cast<uint64_t>(b.x) * b.y * b.z;
  if (!g.x || !g.y || !g.z || g.x > 0x7fffffff || g.y > 65535 || g.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  if (!threads || b.x > 1024 || b.y > 1024 || b.z > 64 || threads > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  auto found = dynamic_limits.find({ current_device(), job.kernel });
  size_t limit =
      found == dynamic_limits.end() ? static_cast<size_t>(SHARED_DEFAULT) : found->second;
  return job.smem > limit ? cudaErrorInvalidValue : cudaSuccess;
}

} // namespace fake

using namespace fake;

cudaError_t rgsim_submit(cudaStream_t stream, const rgsim_job *what)
{
  Lock lock;
  auto destroy = [](rgsim_job *j) {
    j->destroy(j->closure);
    delete j;
  };
  std::shared_ptr<rgsim_job> job(new rgsim_job(*what), destroy);
  if (broken()) return error(broken());
  CUstream_st *s = stream_of(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->device != current_device()) {
    return misuse(cudaErrorInvalidResourceHandle, "a kernel for the stream of another device");
  }
  if (cudaError_t e = check_launch(*job)) {
    return misuse(e, "a launch of (%u,%u,%u) blocks of (%u,%u,%u) threads with %zu bytes",
                  job->grid.x, job->grid.y, job->grid.z, job->block.x, job->block.y, job->block.z,
                  job->smem);
  }
  count(s->capture ? RGSIM_CAPTURED : RGSIM_LAUNCHES);
  count_launch(job->kernel, job->grid, job->block, job->smem);
  Work w;
  std::function<void()> run = [job] {
    const cudaError_t e = fault_of(job->kernel);
    e ? lose(e) : rgsim_run(job.get());
  };
  if (!s->capture && is_watched()) {
    run = watched({ RGSIM_ASKED_KERNEL, kernel_symbol(job->kernel), job->grid, job->block,
                    job->smem, 0, cudaMemcpyDefault, s->device, s },
                  run);
  }
  if (cudaError_t e = enqueue(stream, run, &w)) return e;
  if (!s->capture && launches_block()) wait(w);
  return error(broken());
}

extern "C" {

size_t rgsim_counted(int what)
{
  Lock lock;
  return what >= 0 && what < RGSIM_COUNTS ? counts[what] : 0;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
  Lock lock;
  if (broken()) return error(broken());
  switch (attribute) {
  case cudaFuncAttributeMaxDynamicSharedMemorySize:
    if (value < 0 || static_cast<size_t>(value) > SHARED_OPTIN) {
      return misuse(cudaErrorInvalidValue, "%d bytes of dynamic shared memory", value);
    }
    dynamic_limits[{ current_device(), kernel }] = static_cast<size_t>(value);
    count(RGSIM_LIMITS);
    return cudaSuccess;
  case cudaFuncAttributePreferredSharedMemoryCarveout:
    return cudaSuccess;
  default:
    return misuse(cudaErrorInvalidValue, "attribute %d of a kernel is not covered", attribute);
  }
}

// Shared memory of constant size is the simulator's own business: kernels have none of it.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *)
{
  Lock lock;
  if (broken()) return error(broken());
  *out = cudaFuncAttributes();
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
  Lock lock;
  if (broken()) return error(broken());
  if (device < 0 || device >= device_count() || peer < 0 || peer >= device_count()) {
    return error(cudaErrorInvalidDevice);
  }
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
  Lock lock;
  if (broken()) return error(broken());
  if (peer < 0 || peer >= device_count() || peer == current_device()) {
    return error(cudaErrorInvalidDevice);
  }
  if (!peers.insert({ current_device(), peer }).second) {
    return error(cudaErrorPeerAccessAlreadyEnabled);
  }
  count(RGSIM_PEERS);
  return cudaSuccess;
}

// -- Errors ------------------------------------------------------------------------------------

cudaError_t cudaGetLastError(void)
{
  Lock lock;
  cudaError_t e = last_error;
  last_error = sticky;
  return e;
}

cudaError_t cudaPeekAtLastError(void)
{
  return last_error;
}

#define FAKE_ERRORS(X)                                                                            \
  X(cudaSuccess, "no error")                                                                      \
  X(cudaErrorInvalidValue, "invalid argument")                                                    \
  X(cudaErrorMemoryAllocation, "out of memory")                                                   \
  X(cudaErrorInitializationError, "initialization error")                                         \
  X(cudaErrorInvalidConfiguration, "invalid configuration argument")                              \
  X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                         \
  X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")  \
  X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                      \
  X(cudaErrorInvalidDevice, "invalid device ordinal")                                             \
  X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                    \
  X(cudaErrorIllegalState, "the operation cannot be performed in the present state")              \
  X(cudaErrorNotReady, "device not ready")                                                        \
  X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                          \
  X(cudaErrorLaunchFailure, "unspecified launch failure")                                         \
  X(cudaErrorNotSupported, "operation not supported")                                             \
  X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")        \
  X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture") \
  X(cudaErrorStreamCaptureMerge,                                                                  \
    "operation would result in a merge of separate capture sequences")                            \
  X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")      \
  X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                         \
  X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")   \
  X(cudaErrorStreamCaptureImplicit,                                                               \
    "operation would make the legacy stream depend on a capturing blocking stream")               \
  X(cudaErrorCapturedEvent,                                                                       \
    "operation not permitted on an event last recorded in a capturing stream")                    \
  X(cudaErrorStreamCaptureWrongThread,                                                            \
    "attempt to terminate a thread-local capture sequence from another thread")

const char *cudaGetErrorString(cudaError_t e)
{
  switch (e) {
#define X(code, text) \
  case code:          \
    return text;
    FAKE_ERRORS(X)
#undef X
  default:
    return "unrecognized error code";
  }
}

const char *cudaGetErrorName(cudaError_t e)
{
  switch (e) {
#define X(code, text) \
  case code:          \
    return #code;
    FAKE_ERRORS(X)
#undef X
  default:
    return "unrecognized error code";
  }
}

// -- Devices -------------------------------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
  Lock lock;
  *n = device_count();
  return *n < 1 ? error(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
  Lock lock;
  if (broken()) return error(broken());
  if (device < 0 || device >= device_count()) return error(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
  Lock lock;
  if (broken()) return error(broken());
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
  Lock lock;
  if (broken()) return error(broken());
  if (device < 0 || device >= device_count()) return error(cudaErrorInvalidDevice);
  *p = cudaDeviceProp();
  snprintf(p->name, sizeof p->name, "simulated device %d", device);
  p->major = capability() / 10;
  p->minor = capability() % 10;
  p->totalGlobalMem = memory_total();
  p->sharedMemPerBlock = SHARED_DEFAULT;
  p->sharedMemPerBlockOptin = SHARED_OPTIN;
  p->sharedMemPerMultiprocessor = SHARED_OPTIN + 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->multiProcessorCount = 4;
  p->l2CacheSize = 4 << 20;
  p->memoryBusWidth = 64;
  p->unifiedAddressing = p->concurrentKernels = p->asyncEngineCount = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
  cudaDeviceProp p;
  if (cudaError_t e = cudaGetDeviceProperties(&p, device)) return e;
  switch (attribute) {
  case cudaDevAttrComputeCapabilityMajor:
    *value = p.major;
    break;
  case cudaDevAttrComputeCapabilityMinor:
    *value = p.minor;
    break;
  case cudaDevAttrMultiProcessorCount:
    *value = p.multiProcessorCount;
    break;
  case cudaDevAttrWarpSize:
    *value = p.warpSize;
    break;
  case cudaDevAttrMaxThreadsPerBlock:
    *value = p.maxThreadsPerBlock;
    break;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    *value = p.maxThreadsPerMultiProcessor;
    break;
  case cudaDevAttrMaxBlocksPerMultiprocessor:
    *value = p.maxBlocksPerMultiProcessor;
    break;
  case cudaDevAttrMaxRegistersPerBlock:
    *value = p.regsPerBlock;
    break;
  case cudaDevAttrMaxRegistersPerMultiprocessor:
    *value = p.regsPerMultiprocessor;
    break;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    *value = SHARED_DEFAULT;
    break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = SHARED_OPTIN;
    break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    *value = static_cast<int>(p.sharedMemPerMultiprocessor);
    break;
  case cudaDevAttrMaxGridDimX:
    *value = p.maxGridSize[0];
    break;
  case cudaDevAttrMaxGridDimY:
    *value = p.maxGridSize[1];
    break;
  case cudaDevAttrMaxGridDimZ:
    *value = p.maxGridSize[2];
    break;
  case cudaDevAttrMaxBlockDimX:
    *value = p.maxThreadsDim[0];
    break;
  case cudaDevAttrMaxBlockDimY:
    *value = p.maxThreadsDim[1];
    break;
  case cudaDevAttrMaxBlockDimZ:
    *value = p.maxThreadsDim[2];
    break;
  case cudaDevAttrL2CacheSize:
    *value = p.l2CacheSize;
    break;
  case cudaDevAttrGlobalMemoryBusWidth:
    *value = p.memoryBusWidth;
    break;
  case cudaDevAttrClockRate:
    *value = 1000000;
    break; // kHz
  case cudaDevAttrMemoryClockRate:
    *value = 1000000;
    break; // kHz
  case cudaDevAttrUnifiedAddressing:
    *value = p.unifiedAddressing;
    break;
  case cudaDevAttrConcurrentKernels:
    *value = p.concurrentKernels;
    break;
  case cudaDevAttrAsyncEngineCount:
    *value = p.asyncEngineCount;
    break;
  case cudaDevAttrIntegrated:
  case cudaDevAttrManagedMemory:
  case cudaDevAttrMemoryPoolsSupported:
  case cudaDevAttrCooperativeLaunch:
  case cudaDevAttrClusterLaunch:
    *value = 0;
    break;
  default: {
    Lock lock;
    return misuse(cudaErrorInvalidValue, "attribute %d of the device is not covered", attribute);
  }
  }
  return cudaSuccess;
}

size_t rgsim_live_handles(void)
{
  Lock lock;
  return live_streams_and_events() + live_graphs();
}

} // extern "C"
